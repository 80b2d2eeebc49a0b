//! Scripted runs. Each scenario is a mixture of troubles that are the reason for one certain rule, and too rare to
//! come up by chance. It is run many times with different delays, and again with the rule switched off.

mod admitted;
mod clocks;
mod configurations;
mod connections;
mod contention;
mod fair;
mod fallback;
mod fences;
mod flushes;
mod forced;
mod jobs;
mod jumps;
mod late;
mod leases;
mod long_locks;
mod numbers;
mod promotions;
mod reentry;
mod replicas;
mod rwlock;
mod semaphore;
mod several;
mod shared_holds;
mod short_lives;
mod skews;
mod starving;
mod steps;
mod steps_back;
mod subscribers;
mod suspensions;
mod turns;
mod waiting;

use std::time::Duration;

use super::chance::Chance;
use super::checkers::Violation;
use super::faults::{Fault, Scheduled};
use super::is_long;
use super::plan::{FAULTS_END, Plan};
use super::setup::{BACKOFF, Habit, Loop, NO_QUORUM, Setup};
use super::switches::Switches;
use super::world::{self, Run};
use crate::core::base::Mechanism;

struct Scenario {
    /// Number of its runs if tests may take long; otherwise a quarter of these runs is made.
    runs: u64,
    plan: fn(u64) -> Plan,
    /// Returns true if the scenario's event has happened, in a run without a violation.
    happened: fn(&Run) -> bool,
}

impl Scenario {
    fn seeds(&self) -> std::ops::Range<u64> {
        0..if is_long() { self.runs } else { self.runs.div_ceil(4) }
    }

    /// Checks that no run has a violation with all rules in force, and that the scenario's event happens in at least
    /// one of `one_in` runs.
    #[track_caller]
    fn holds(&self, one_in: u64) {
        let (happened, runs) = self.happens();
        assert!(happened * one_in >= runs, "it happened in {happened} of {runs} runs only");
    }

    /// As `holds`, but only the findings of these checkers count, and the scenario's event happens in each run.
    #[track_caller]
    fn holds_under(&self, checkers: &'static [&'static str]) {
        let switches = Switches { checkers, ..Switches::ALL_ON };
        for seed in self.seeds() {
            let plan = (self.plan)(seed);
            let run = world::run(&plan, switches, true);
            assert!(run.violation.is_none(), "{}", super::failed(&plan, switches));
            assert!((self.happened)(&run), "it has not happened with seed {seed}");
        }
    }

    /// As `holds`, but the scenario's event must happen in at least nine of ten runs. It needs some luck even with the rules.
    #[track_caller]
    fn nearly_always_holds(&self) {
        let (happened, runs) = self.happens();
        assert!(happened * 10 >= runs * 9, "it happened in {happened} of {runs} runs only");
    }

    /// Returns the number of runs in which the scenario's event has happened, and of all runs. No run may have a violation.
    #[track_caller]
    fn happens(&self) -> (u64, u64) {
        let mut happened = 0;
        for seed in self.seeds() {
            let plan = (self.plan)(seed);
            let run = world::run(&plan, Switches::ALL_ON, true);
            assert!(run.violation.is_none(), "{}", super::failed(&plan, Switches::ALL_ON));
            happened += u64::from((self.happened)(&run));
        }
        let runs = self.seeds().end;
        println!("it happened in {happened} of {runs} runs");
        (happened, runs)
    }

    /// Checks that one of `checkers` finds something without a rule. This may need some luck, and so more runs, which
    /// end at the first finding.
    #[track_caller]
    fn breaks(&self, off: &'static [Mechanism], checkers: &'static [&'static str]) {
        self.breaks_under(Switches { off, checkers, ..Switches::ALL_ON });
    }

    /// As `breaks`, for anything else that can be switched off.
    #[track_caller]
    fn breaks_under(&self, switches: Switches) {
        assert!(switches.is_real(), "no script has that piece any more");
        let found =
            (0..self.runs * 10).find_map(|seed| Some((seed, self.violation(seed, switches)?)));
        let (seed, violation) = found.expect("nothing is found without it");
        println!("seed {seed}: {violation}");
    }

    /// Checks that one of `checkers` finds something without a rule, in at least half of the runs. With other random
    /// draws some runs miss it, but never most of them.
    #[track_caller]
    fn mostly_breaks(&self, off: &'static [Mechanism], checkers: &'static [&'static str]) {
        let switches = Switches { off, checkers, ..Switches::ALL_ON };
        let found = self.seeds().filter_map(|seed| self.violation(seed, switches));
        let found: Vec<_> = found.collect();
        let (broken, runs) = (found.len() as u64, self.seeds().end);
        println!("something is found in {broken} of {runs} runs, first {:?}", found.first());
        assert!(broken * 2 >= runs, "something is found in {broken} of {runs} runs only");
    }

    /// Checks that the scenario's event does not happen without a rule, in at least half of the runs.
    #[track_caller]
    fn fails(&self, off: &'static [Mechanism]) {
        self.fails_under(Switches { off, ..Switches::ALL_ON });
    }

    /// As `fails`, for anything else that can be switched off. The named checkers must find nothing.
    #[track_caller]
    fn fails_under(&self, switches: Switches) {
        assert!(switches.is_real(), "no script has that piece any more");
        let happens = |seed: &u64| {
            let run = world::run(&(self.plan)(*seed), switches, true);
            // Otherwise the event would be missing because the run ends early.
            let found = run.violation.as_ref().filter(|_| !switches.checkers.is_empty());
            assert!(found.is_none(), "{found:?}");
            (self.happened)(&run)
        };
        let happened = self.seeds().filter(happens).count() as u64;
        println!("it happens without it in {happened} runs");
        assert!(happened * 2 <= self.seeds().end, "it happens without it in {happened} runs");
    }

    fn violation(&self, seed: u64, switches: Switches) -> Option<Violation> {
        world::run(&(self.plan)(seed), switches, false).violation
    }
}

/// A plan with a set of nodes in use, and those clients, each with one thread. Nothing goes wrong, and clocks are
/// nearly right.
pub(super) fn calm(seed: u64, nodes: usize, setups: &[Setup]) -> Plan {
    let mut chance = Chance::new(seed);
    let clients = setups.len();
    Plan {
        seed,
        nodes,
        callers: vec![1; clients],
        names: 1,
        ttl: setups[0].ttl,
        clock_tolerance: setups[0].clock_tolerance,
        node_timeout: setups[0].node_timeout,
        rates_ppm: (0..clients + nodes).map(|_| chance.number(-4_500..4_501)).collect(),
        wall_offsets: (0..nodes).map(|_| chance.number(0..100) as u64).collect(),
        walls_agree: true,
        local_queues: false,
        together: false,
        kind: None,
        permits: 2,
        fencing: true,
        unfenced: Vec::new(),
        quarantine: true,
        new_set: false,
        wrong_rates: false,
        rolling: false,
        blips: false,
        relayed: false,
        unnoticed_proxy: false,
        pair: false,
        deleting: false,
        latency_ms: 2,
        stragglers: 50,
        flaky: 0,
        sleepy: 0,
        faults: Vec::new(),
        lasts: FAULTS_END,
        outlasts_fences: false,
        time_goes_on: false,
        turns: None,
        longest_wait: None,
        order: None,
        may_end: vec![true; clients],
        fall_back_after: None,
        setups: setups.to_vec(),
        explored: false,
        replicated: false,
    }
}

/// A client of three nodes.
pub(super) const fn client(ttl: Duration, habit: Habit) -> Setup {
    Setup {
        nodes: 3,
        ttl,
        max_ttl: seconds(20),
        clock_tolerance: ms(100),
        node_timeout: ms(200),
        no_quorum_timeout: NO_QUORUM,
        fall_back_after: None,
        backoff: BACKOFF,
        permits: 2,
        habit,
    }
}

/// A fault between those times.
fn fault(from: Duration, until: Duration, fault: Fault) -> Scheduled {
    Scheduled { at: from, lasts: until - from, fault }
}

/// A fault that lasts for a moment.
fn at(at: Duration, fault: Fault) -> Scheduled {
    Scheduled { at, lasts: ms(10), fault }
}

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the time at which `client` was first granted a lock from `since` on.
fn first_grant(run: &Run, client: usize, since: Duration) -> Option<Duration> {
    let mut grants = run.grants.iter().filter(|grant| grant.client == client);
    grants.find_map(|grant| (grant.at >= since).then_some(grant.at))
}

/// Number of lines of the story between these times that have both texts.
fn told_within(run: &Run, from: Duration, until: Duration, who: &str, what: &str) -> usize {
    let lines = run.story.iter().filter(|line| line.contains(who) && line.contains(what));
    let time = |line: &String| line.split_whitespace().next()?.parse().ok();
    let times = lines.filter_map(time).map(Duration::from_secs_f64);
    times.filter(|at| (from..until).contains(at)).count()
}

/// Returns true if the story has a line with both texts.
fn tells(run: &Run, who: &str, what: &str) -> bool {
    run.story.iter().any(|line| line.contains(who) && line.contains(what))
}
