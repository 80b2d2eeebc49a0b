//! The hosts' start times for the job, and the faults of masters and hosts: a pure function of a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::host::Order;

pub(crate) const HOSTS: usize = 10;
pub(crate) const MASTERS: usize = 3;
const MAJORITY: usize = MASTERS / 2 + 1;

/// The difference between the hosts' clocks.
const SPREAD: Duration = Duration::from_secs(1);

/// Time between the starts of two rounds. It is less than the spread, so rounds overlap.
const EVERY: Duration = Duration::from_millis(800);

/// Time between two faults. A master is away and in quarantine for less than this.
const FAULT_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Plan {
    /// For each round, true if the host that does the job is killed.
    pub(crate) rounds: Vec<bool>,
    /// The starts, by time.
    pub(crate) starts: Vec<Start>,
    /// The faults, by time.
    pub(crate) faults: Vec<Fault>,
}

/// The start of a round for one host, whose clock has come to the minute.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) at: Duration,
    pub(crate) host: usize,
    pub(crate) order: Order,
}

/// The loss of some masters, which come back later.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) masters: Vec<usize>,
    pub(crate) away: Duration,
    pub(crate) keep_data: bool,
}

/// The number of masters in a fault, and true if they keep their data.
const FAULTS: [(usize, bool); 8] = [
    (1, false),
    (1, false),
    (1, false),
    (1, true),
    (1, true),
    (1, true),
    (MAJORITY, false),
    (MAJORITY, true),
];

impl Plan {
    /// All faults in random order, one after the other. In one of five rounds the host that does the job is
    /// killed.
    pub(crate) fn random(seed: u64, rounds: usize) -> Self {
        Self::with(seed, rounds, SPREAD, &FAULTS)
    }

    /// The hosts' clocks agree, and one master at a time is killed.
    pub(crate) fn at_one_instant(seed: u64, rounds: usize) -> Self {
        let minor: Vec<_> = FAULTS.into_iter().filter(|(masters, _)| *masters < MAJORITY).collect();
        Self::with(seed, rounds, Duration::ZERO, &minor)
    }

    fn with(seed: u64, rounds: usize, spread: Duration, faults: &[(usize, bool)]) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let mut killed: Vec<_> = (0..rounds).map(|round| round % 5 == 0).collect();
        killed.shuffle(&mut chance);
        let starts = starts(&killed, spread, &mut chance);
        let length = EVERY * rounds as u32;
        let mut kinds = faults.to_vec();
        kinds.shuffle(&mut chance);
        let faults = (0_u32..)
            .zip(kinds.into_iter().cycle())
            .map(|(i, (masters, keep_data))| {
                let at = FAULT_EVERY * i + within(Duration::from_secs(1), &mut chance);
                let away = within(Duration::from_millis(600), &mut chance);
                Fault { at, masters: some_of(masters, &mut chance), away, keep_data }
            })
            .take_while(|fault| fault.at < length)
            .collect();
        Self { rounds: killed, starts, faults }
    }

    /// In every third round a majority of the masters forgets everything, after the job is done and before the last
    /// hosts start it.
    pub(crate) fn forgetful(seed: u64, rounds: usize) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let killed = vec![false; rounds];
        let starts = starts(&killed, SPREAD, &mut chance);
        let faults = (0..rounds as u32).step_by(3).map(|round| Fault {
            at: EVERY * round + SPREAD * 3 / 10,
            masters: some_of(MAJORITY, &mut chance),
            away: Duration::ZERO,
            keep_data: false,
        });
        let faults = faults.collect();
        Self { rounds: killed, starts, faults }
    }
}

/// The start times: in each round the hosts have another order. With a spread, no two hosts start at the same instant. While
/// a master is away, each of two such hosts would get one vote, and neither would do the job.
fn starts(killed: &[bool], spread: Duration, chance: &mut StdRng) -> Vec<Start> {
    let mut starts = Vec::new();
    for (round, is_killed) in killed.iter().copied().enumerate() {
        let mut hosts: Vec<_> = (0..HOSTS).collect();
        hosts.shuffle(chance);
        let apart = spread / HOSTS as u32;
        for (place, host) in (0_u32..).zip(hosts) {
            let at = EVERY * round as u32 + apart * place + within(apart / 2, chance);
            starts.push(Start { at, host, order: Order { round, is_killed } });
        }
    }
    starts.sort_by_key(|start| start.at);
    starts
}

fn some_of(masters: usize, chance: &mut StdRng) -> Vec<usize> {
    let mut all: Vec<_> = (0..MASTERS).collect();
    all.shuffle(chance);
    all.truncate(masters);
    all
}

fn within(longest: Duration, chance: &mut StdRng) -> Duration {
    longest.mul_f64(chance.random())
}
