//! Carries out a plan on real masters and host processes, and collects the hosts' reports.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use quorlock::Quorlock;

use crate::host::{Answer, Host, Line, Told};
use crate::judge::Figures;
use crate::plan::{Fault, HOSTS, MASTERS, Plan};
use crate::settings::Settings;
use crate::support::Servers;
use crate::support::clients::{admitted, connected};

pub(crate) fn run(plan: &Plan, settings: Settings) -> Figures {
    let mut servers = Servers::start_with(MASTERS, &["--appendonly", "yes"]);
    let urls = servers.urls();
    let builder = settings.apply(Quorlock::builder().nodes(&urls));
    drop(if settings.quarantine { admitted(builder) } else { connected(builder) });
    let mut crowd = Crowd::start(plan, settings, urls);
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| plan.faults.iter().for_each(|fault| make(fault, &mut servers, began)));
        crowd.attend(began);
    });
    let killed_masters = plan.faults.iter().map(|fault| fault.masters.len()).sum();
    let (told, killed_hosts) = crowd.end();
    Figures::new(told, killed_hosts, killed_masters)
}

fn make(fault: &Fault, servers: &mut Servers, began: Instant) {
    sleep_until(began + fault.at);
    fault.masters.iter().for_each(|master| servers[*master].kill());
    thread::sleep(fault.away);
    for master in &fault.masters {
        match fault.keep_data {
            true => servers[*master].restart_with_data(),
            false => servers[*master].restart_empty(),
        }
    }
}

/// Sleeps until the given time of the plan.
fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// The hosts and their reports.
struct Crowd<'a> {
    plan: &'a Plan,
    settings: Settings,
    urls: Vec<String>,
    hosts: Vec<Host>,
    /// By round and host.
    told: Vec<BTreeMap<usize, Told>>,
    killed: usize,
}

impl<'a> Crowd<'a> {
    fn start(plan: &'a Plan, settings: Settings, urls: Vec<String>) -> Self {
        let hosts: Vec<_> = (0..HOSTS).map(|_| Host::start(settings, &urls)).collect();
        hosts.iter().for_each(Host::wait_ready);
        let told = vec![BTreeMap::new(); plan.rounds.len()];
        Self { plan, settings, urls, hosts, told, killed: 0 }
    }

    /// Makes the hosts start the rounds of the plan.
    fn attend(&mut self, began: Instant) {
        for start in &self.plan.starts {
            sleep_until(began + start.at);
            self.hear();
            // The host may have been killed just now.
            let _ = self.hosts[start.host].order(start.order);
        }
    }

    /// Collects the hosts' reports, and replaces hosts that were killed.
    fn hear(&mut self) {
        for i in 0..self.hosts.len() {
            let told = self.hosts[i].told();
            if self.note(i, told) {
                self.hosts[i] = Host::start(self.settings, &self.urls);
            }
        }
    }

    /// Notes the lines of a host. Returns true if that host was killed in one of them.
    fn note(&mut self, host: usize, lines: Vec<(usize, Line)>) -> bool {
        let mut was_killed = false;
        for (round, line) in lines {
            match line {
                Line::Told(told) => {
                    was_killed |= self.plan.rounds[round] && told.answer == Answer::Inside;
                    self.told[round].insert(host, told);
                }
                Line::Settled(at) => {
                    self.told[round].get_mut(&host).expect("it has reported").settled = Some(at);
                }
            }
        }
        self.killed += usize::from(was_killed);
        was_killed
    }

    /// The reports by round, and the number of killed hosts.
    fn end(mut self) -> (Vec<Vec<Told>>, usize) {
        for (i, mut host) in std::mem::take(&mut self.hosts).into_iter().enumerate() {
            let told = host.hear_out();
            if !self.note(i, told) {
                host.finish();
            }
        }
        let told = self.told.into_iter().map(|told| told.into_values().collect()).collect();
        (told, self.killed)
    }
}
