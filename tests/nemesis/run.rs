//! One run: masters, links, workers and the witness, the faults of a plan, and the verdict.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::judge::calls::{CallResult, calls};
use crate::judge::waits::WaitRules;
use crate::judge::{Rules, Verdict, faults, recovery};
use crate::kinds::KINDS;
use crate::links::{Conditions, Link};
use crate::plan::{Fault, Planned, RECONNECT, worker_name};
use crate::probes::Probes;
use crate::processes::Process;
use crate::support::Servers;
use crate::support::reaper::Folder;
use crate::witness::{Client, Event, History, Phase};
use crate::worker::{Failure, Settings, clients};

/// The set-up of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) client: String,
    pub(crate) seed: u64,
    pub(crate) masters: usize,
    pub(crate) workers: usize,
    pub(crate) threads: usize,
    pub(crate) names: usize,
    pub(crate) max_ttl: Duration,
    /// Each contender holds its locks for the longest TTL, and does not renew them. For scripts: they are over
    /// before there are many grants, and before every contender can have got a lock again.
    pub(crate) long_holds: bool,
}

impl Options {
    pub(crate) fn rules(&self, tokens: bool) -> Rules {
        // Twice the longest TTL, and a quarantine, which is as long.
        let recovery = (!self.long_holds).then_some(self.max_ttl * 3);
        let (kinds, grants_a_second) = if self.long_holds { (0, 0.0) } else { (KINDS.len(), 2.0) };
        let (masters, max_ttl) = (self.masters, self.max_ttl);
        let waits = Some(WaitRules { masters, max_ttl, reconnect: RECONNECT });
        let (aftermath, share_hit) = (self.max_ttl, 0.75);
        let (elections, figures) = (!self.long_holds, true);
        Rules {
            recovery,
            waits,
            tokens,
            kinds,
            elections,
            figures,
            aftermath,
            grants_a_second,
            share_hit,
        }
    }
}

/// All running parts. They end when this is dropped.
struct World {
    masters: Servers,
    /// The links, by worker and master.
    links: Vec<Vec<Link>>,
    workers: Vec<Process>,
    settings: Vec<Settings>,
    driver: Client,
    /// The probes end before the masters and the witness.
    probes: Option<Probes>,
    folder: Folder,
    _witness: Process,
}

/// Time limit for the admission of new masters.
const ADMISSION: Duration = Duration::from_secs(30);

/// Makes the faults of the plan in a new world, and judges the history. If it shows a violation by the right client,
/// the history is kept, and `progress` gets its path.
pub(crate) fn run(
    options: &Options,
    plan: &[Planned],
    mut progress: impl FnMut(Duration, &str),
) -> Result<Verdict, Failure> {
    let mut world = World::start(options)?;
    let began = Instant::now();
    for (at, id, begins) in steps(plan) {
        thread::sleep(at.saturating_sub(began.elapsed()));
        let fault = &plan[id].fault;
        if begins {
            progress(began.elapsed(), &format!("{} ({})", fault.kind(), fault.target()));
            let (kind, target, forgets) = (fault.kind(), fault.target(), fault.forgets());
            world.driver.tell(&Event::Fault { id: id as u64, kind, target, forgets })?;
            world.begin(fault)?;
        } else {
            world.heal(fault)?;
            world.driver.tell(&Event::Healed { id: id as u64 })?;
        }
    }
    progress(began.elapsed(), "all faults are healed");
    let is_right = clients::named(&options.client)?.right;
    let rules = options.rules(is_right);
    world.recover(&rules)?;
    let folder = world.end()?;
    let verdict = Verdict::of(&history(&folder)?, &rules);
    if !verdict.violations.is_empty() && is_right {
        let kept = format!("nemesis-{}-{:016x}.history", options.client, options.seed);
        let kept = std::env::temp_dir().join(kept);
        fs::copy(folder.join(HISTORY), &kept)?;
        progress(began.elapsed(), &format!("the history is kept in {}", kept.display()));
    }
    Ok(verdict)
}

/// The beginnings and ends of all faults, by time.
fn steps(plan: &[Planned]) -> Vec<(Duration, usize, bool)> {
    let both = plan.iter().enumerate().flat_map(|(id, planned)| {
        [(planned.at, id, true), (planned.at + planned.lasts, id, false)]
    });
    let mut steps: Vec<_> = both.collect();
    // A fault without length still begins before it ends.
    steps.sort_by_key(|(at, id, begins)| (*at, *id, !begins));
    steps
}

impl World {
    fn start(options: &Options) -> Result<Self, Failure> {
        let folder = Folder::create("quorlock-nemesis")?;
        // A grant is on disk before its answer is sent, so that a restart with data loses none.
        let to_disk = ["--appendonly", "yes", "--appendfsync", "always"];
        let masters = Servers::start_with_clocks_and(options.masters, &to_disk)
            .unwrap_or_else(|| Servers::start_with(options.masters, &to_disk));
        let (witness, address) = Process::witness(&folder)?;
        let driver = Client::connect(&address, "nemesis")?;
        let mut world = Self {
            masters,
            links: Vec::new(),
            workers: Vec::new(),
            settings: Vec::new(),
            driver,
            probes: None,
            folder,
            _witness: witness,
        };
        for worker in 0..options.workers {
            let links = world.masters.iter().map(|master| Link::to(master.port()));
            let links = links.collect::<Result<Vec<_>, _>>()?;
            world.settings.push(Settings {
                worker: worker_name(worker),
                witness: address.clone(),
                nodes: links.iter().map(Link::url).collect(),
                client: options.client.clone(),
                seed: options.seed,
                threads: options.threads,
                names: options.names,
                max_ttl: options.max_ttl,
                long_holds: options.long_holds,
            });
            world.links.push(links);
        }
        clients::admit(&world.settings[0], ADMISSION)?;
        let ports: Vec<_> = world.masters.iter().map(|master| master.port()).collect();
        world.probes = Some(Probes::start(&ports, &address)?);
        for settings in &world.settings {
            world.workers.push(Process::worker(settings)?);
        }
        Ok(world)
    }

    fn begin(&mut self, fault: &Fault) -> Result<(), Failure> {
        match fault {
            Fault::KillMaster { master, .. } => self.masters[*master].kill(),
            Fault::StopMaster { master } => self.masters[*master].pause(),
            Fault::Flush { master } => drop(self.masters[*master].command(&["FLUSHALL"])),
            Fault::SetClock { master, ahead_ms } => self.masters[*master].set_clock_ms(*ahead_ms),
            Fault::StopWorker { worker } => {
                self.workers[*worker].expect_running()?;
                self.workers[*worker].stop()?;
            }
            Fault::KillWorker { worker } => {
                self.workers[*worker].expect_running()?;
                self.workers[*worker].kill()?;
            }
            Fault::Network { .. } => self.set_network(fault, true),
        }
        Ok(())
    }

    fn heal(&mut self, fault: &Fault) -> Result<(), Failure> {
        match fault {
            Fault::KillMaster { master, empty: true } => self.masters[*master].restart_empty(),
            Fault::KillMaster { master, empty: false } => self.masters[*master].restart_with_data(),
            Fault::StopMaster { master } => self.masters[*master].resume(),
            Fault::Flush { .. } => {}
            Fault::SetClock { master, .. } => self.masters[*master].set_clock_ms(0),
            Fault::StopWorker { worker } => self.workers[*worker].wake()?,
            Fault::KillWorker { worker } => {
                self.workers[*worker] = Process::worker(&self.settings[*worker])?;
            }
            Fault::Network { .. } => self.set_network(fault, false),
        }
        Ok(())
    }

    fn set_network(&self, fault: &Fault, begins: bool) {
        let Fault::Network { worker, masters, conditions } = fault else { return };
        let concerned = |i: usize| worker.is_none_or(|worker| worker == i);
        for (_, links) in self.links.iter().enumerate().filter(|(i, _)| concerned(*i)) {
            for master in masters {
                links[*master].set(if begins { *conditions } else { Conditions::default() });
            }
        }
    }

    /// Waits until each contender has got a lock, if the rules demand that, or until the limit is over.
    fn recover(&mut self, rules: &Rules) -> Result<(), Failure> {
        let Some(limit) = rules.recovery else { return Ok(()) };
        let began = Instant::now();
        while began.elapsed() < limit {
            // The event also makes the witness flush its file.
            self.driver.tell(&Event::Enter { phase: Phase::Recover })?;
            let history = history(&self.folder)?;
            let faults = faults::faults(&history, &[], &[]);
            if recovery::not_recovered(&history, &faults, limit).is_empty() {
                break;
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends the run. Returns the folder of the complete history.
    fn end(mut self) -> Result<Folder, Failure> {
        self.workers.iter_mut().try_for_each(Process::expect_running)?;
        drop(self.probes.take());
        self.driver.tell(&Event::Enter { phase: Phase::End })?;
        // A master that is down cannot prevent a worker from ending.
        let ended: Result<(), Failure> = self.workers.into_iter().try_for_each(Process::finish);
        ended.map_err(|error| format!("{error}; {}", pending(&self.folder)))?;
        // After this event the file has all that the contenders reported until their ends.
        self.driver.tell(&Event::Enter { phase: Phase::End })?;
        Ok(self.folder)
    }
}

const LOOK: Duration = Duration::from_millis(500);

/// The calls without an end, as far as the witness has written them down.
fn pending(folder: &Folder) -> String {
    let calls = match history(folder) {
        Ok(history) => calls(&history),
        Err(error) => return format!("the history cannot be read: {error}"),
    };
    let last = calls.iter().map(|call| call.end).max();
    let pending =
        calls.iter().filter(|call| call.result == CallResult::Unknown && Some(call.end) == last);
    let waits: Vec<_> = pending
        .map(|call| {
            format!("{} has waited for {} for {:.1?}", call.who, call.names.join(", "), call.took())
        })
        .collect();
    if waits.is_empty() { "no call is pending".to_owned() } else { waits.join("; ") }
}

/// The history in the witness's folder.
fn history(folder: &Folder) -> std::io::Result<History> {
    History::read(&folder.join(HISTORY))
}

/// The name of the witness's file.
const HISTORY: &str = "history";
