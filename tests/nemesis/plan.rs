//! The faults and their times: a pure function of a seed, or a script.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use crate::links::Conditions;

/// A disturbance of masters, workers or the network, which is undone later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The master is killed, and comes back empty or with its data on disk.
    KillMaster {
        master: usize,
        empty: bool,
    },
    StopMaster {
        master: usize,
    },
    Flush {
        master: usize,
    },
    /// The master's wall clock is this many milliseconds ahead of ours.
    SetClock {
        master: usize,
        ahead_ms: i64,
    },
    StopWorker {
        worker: usize,
    },
    KillWorker {
        worker: usize,
    },
    /// A disturbance of the links from one worker, or from all, to some of the masters.
    Network {
        worker: Option<usize>,
        masters: BTreeSet<usize>,
        conditions: Conditions,
    },
}

/// A fault, its time since the beginning of the run, and its duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) fault: Fault,
}

/// The limits of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) seed: u64,
    /// The time by which all faults are healed.
    pub(crate) until: Duration,
    pub(crate) masters: usize,
    pub(crate) workers: usize,
    pub(crate) max_ttl: Duration,
    /// True if the clocks of masters can be set.
    pub(crate) clocks: bool,
    /// Faults come one after the other. Each begins when the one before has no effect any more.
    pub(crate) apart: bool,
    /// The plan exceeds the guarantees.
    pub(crate) beyond: bool,
}

/// A fault in the list that a plan draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    KillEmpty,
    KillWithData,
    StopMaster,
    Flush,
    SmallStep,
    Forward,
    Back,
    StopWorkerShortly,
    StopWorkerLong,
    KillWorker,
    Minority,
    RequestsLost,
    AnswersLost,
    Refused,
    Delayed,
    HeldBack,
    MasterCutOff,
}

/// Draws for masters and links. The clocks have periods of their own, since no other fault is allowed during them.
const MASTERS_AND_LINKS: [Draw; 11] = [
    Draw::KillEmpty,
    Draw::KillWithData,
    Draw::StopMaster,
    Draw::Flush,
    Draw::Minority,
    Draw::RequestsLost,
    Draw::AnswersLost,
    Draw::Refused,
    Draw::Delayed,
    Draw::HeldBack,
    Draw::MasterCutOff,
];
const CLOCKS: [Draw; 3] = [Draw::SmallStep, Draw::Forward, Draw::Back];
const WORKERS: [Draw; 3] = [Draw::StopWorkerShortly, Draw::StopWorkerLong, Draw::KillWorker];

/// Duration of the other faults between two clock faults.
const BETWEEN_CLOCKS: Duration = Duration::from_secs(10);

/// Time within which clients find a master that is back.
pub(crate) const RECONNECT: Duration = Duration::from_secs(2);

/// Steps below the clock tolerance, which is 100 ms.
const SMALL_STEPS_MS: [i64; 4] = [60, 80, -60, -80];
const LARGE_STEPS_MS: [i64; 4] = [400, 2_500, 30_000, 3_600_000];

/// Random faults. At any time at most a minority of the masters is impaired: down, hung, cut off from all, or
/// still in quarantine. While a clock is wrong, no master or network has another fault, since the
/// guarantees exclude that. `beyond` ignores these rules.
pub(crate) fn random(extent: Extent) -> Vec<Planned> {
    let mut planner = Planner {
        extent,
        chance: StdRng::seed_from_u64(extent.seed),
        masters: vec![Duration::ZERO; extent.masters],
        workers: vec![Duration::ZERO; extent.workers],
        networks: vec![Duration::ZERO; extent.workers],
        clock: Duration::ZERO,
    };
    if extent.apart {
        return one_by_one(&mut planner);
    }
    let mut plan = Vec::new();
    let (mut others, mut clocks) = (Deck::of(&MASTERS_AND_LINKS), Deck::of(&CLOCKS));
    let mut clock_due = Duration::ZERO;
    let mut at = BEGIN;
    while at < extent.until {
        let is_due = extent.clocks && at >= clock_due;
        if let Some(planned) = if is_due { &mut clocks } else { &mut others }.draw(&mut planner, at)
        {
            if is_due {
                clock_due = planner.clock + BETWEEN_CLOCKS;
            }
            plan.push(planned);
        }
        at += planner.millis(150, 700);
    }
    let mut workers = Deck::of(&WORKERS);
    let mut at = BEGIN;
    while at < extent.until {
        plan.extend(workers.draw(&mut planner, at));
        at += planner.millis(500, 2_000);
    }
    plan.sort_by_key(|planned| planned.at);
    plan
}

/// Two faults are separated by a quarantine and time to recover.
fn one_by_one(planner: &mut Planner) -> Vec<Planned> {
    let mut all = Deck::of(&[&MASTERS_AND_LINKS[..], &WORKERS, &CLOCKS].concat());
    let mut plan = Vec::new();
    let mut at = BEGIN;
    while let Some(planned) = all.draw(planner, at) {
        at += planned.lasts + planner.extent.max_ttl + RECONNECT * 2;
        plan.push(planned);
    }
    plan
}

/// Time by which the contenders are at work.
const BEGIN: Duration = Duration::from_millis(500);

/// Draws in random order. Each comes as often as the others.
struct Deck {
    all: Vec<Draw>,
    left: Vec<Draw>,
}

impl Deck {
    fn of(all: &[Draw]) -> Self {
        Self { all: all.to_vec(), left: Vec::new() }
    }

    /// The draw that has waited longest and fits now. If none fits, one will when another fault is over.
    fn draw(&mut self, planner: &mut Planner, at: Duration) -> Option<Planned> {
        if self.left.len() <= self.all.len() / 2 {
            let mut more = self.all.clone();
            more.shuffle(&mut planner.chance);
            self.left.splice(0..0, more);
        }
        let mut fits =
            (0..self.left.len()).rev().filter_map(|i| Some((i, planner.place(self.left[i], at)?)));
        let (i, planned) = fits.next()?;
        self.left.remove(i);
        Some(planned)
    }
}

/// The impaired masters, workers and networks, with the end of each impairment.
struct Planner {
    extent: Extent,
    chance: StdRng,
    masters: Vec<Duration>,
    workers: Vec<Duration>,
    networks: Vec<Duration>,
    clock: Duration,
}

impl Planner {
    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.chance.random_range(from..=to))
    }

    /// A random time in per cent of the longest TTL.
    fn ttls(&mut self, from: u32, to: u32) -> Duration {
        self.extent.max_ttl * self.chance.random_range(from..=to) / 100
    }

    fn place(&mut self, draw: Draw, at: Duration) -> Option<Planned> {
        let quarantine = self.extent.max_ttl + RECONNECT;
        let (lasts, fault) = match draw {
            Draw::KillEmpty | Draw::KillWithData => {
                let lasts = self.ttls(3, 100);
                let master = self.master(at, at + lasts + quarantine)?;
                (lasts, Fault::KillMaster { master, empty: draw == Draw::KillEmpty })
            }
            Draw::StopMaster => {
                let lasts = self.ttls(10, 150);
                (lasts, Fault::StopMaster { master: self.master(at, at + lasts + RECONNECT)? })
            }
            Draw::Flush => {
                (Duration::ZERO, Fault::Flush { master: self.master(at, at + quarantine)? })
            }
            Draw::SmallStep => self.clock(at, &SMALL_STEPS_MS, 1)?,
            Draw::Forward => self.clock(at, &LARGE_STEPS_MS, 1)?,
            Draw::Back => self.clock(at, &LARGE_STEPS_MS, -1)?,
            Draw::StopWorkerShortly => {
                let lasts = self.ttls(5, 50);
                (lasts, Fault::StopWorker { worker: self.worker(at, lasts)? })
            }
            Draw::StopWorkerLong => {
                let lasts = self.ttls(110, 180);
                (lasts, Fault::StopWorker { worker: self.worker(at, lasts)? })
            }
            Draw::KillWorker => {
                let lasts = self.ttls(1, 40);
                (lasts, Fault::KillWorker { worker: self.worker(at, lasts)? })
            }
            Draw::MasterCutOff => {
                // A link has one set of conditions at a time.
                if self.networks.iter().any(|until| *until > at) {
                    return None;
                }
                let lasts = self.ttls(10, 120);
                let master = self.master(at, at + lasts + RECONNECT)?;
                self.networks.fill(at + lasts);
                let answers_lost = self.chance.random();
                let conditions =
                    Conditions { requests_lost: true, answers_lost, ..Conditions::default() };
                (lasts, Fault::Network { worker: None, masters: [master].into(), conditions })
            }
            _ => self.network(draw, at)?,
        };
        (at + lasts <= self.extent.until).then_some(Planned { at, lasts, fault })
    }

    /// A random master that may be impaired from `at` until `until`.
    fn master(&mut self, at: Duration, until: Duration) -> Option<usize> {
        let impaired = self.masters.iter().filter(|until| **until > at).count();
        let may =
            self.extent.beyond || (impaired < (self.extent.masters - 1) / 2 && self.clock <= at);
        let free: Vec<_> = (0..self.masters.len()).filter(|it| self.masters[*it] <= at).collect();
        let master = *free.choose(&mut self.chance).filter(|_| may)?;
        self.masters[master] = until;
        Some(master)
    }

    fn clock(&mut self, at: Duration, steps: &[i64], sign: i64) -> Option<(Duration, Fault)> {
        let others = self.masters.iter().chain(&self.networks).any(|until| *until > at);
        if !self.extent.clocks || (others && !self.extent.beyond) {
            return None;
        }
        // All clients read each clock once a second; a step that is undone before a reading is not noticed.
        let lasts = Duration::from_millis(1_500) + self.ttls(10, 60);
        let is_small = steps == SMALL_STEPS_MS;
        let quarantine = if is_small { Duration::ZERO } else { self.extent.max_ttl };
        let until = at + lasts + quarantine + RECONNECT;
        let master = self.master(at, until)?;
        self.clock = until;
        let ahead_ms = sign * steps.choose(&mut self.chance)?;
        Some((lasts, Fault::SetClock { master, ahead_ms }))
    }

    /// A random worker. Some workers run at any time.
    fn worker(&mut self, at: Duration, lasts: Duration) -> Option<usize> {
        let free: Vec<_> = (0..self.workers.len()).filter(|it| self.workers[*it] <= at).collect();
        if free.len() <= self.workers.len() / 2 {
            return None;
        }
        let worker = *free.choose(&mut self.chance)?;
        self.workers[worker] = at + lasts;
        Some(worker)
    }

    fn network(&mut self, draw: Draw, at: Duration) -> Option<(Duration, Fault)> {
        let (n, max_ttl) = (self.extent.masters, self.extent.max_ttl);
        let free: Vec<_> = (0..self.networks.len()).filter(|it| self.networks[*it] <= at).collect();
        if self.clock > at && !self.extent.beyond {
            return None;
        }
        let worker = *free.choose(&mut self.chance)?;
        let mut conditions = Conditions::default();
        let (mut concerned, mut lasts) = (self.chance.random_range(1..=n), self.ttls(10, 130));
        match draw {
            Draw::RequestsLost => conditions.requests_lost = true,
            Draw::AnswersLost => conditions.answers_lost = true,
            Draw::Refused => conditions.refused = true,
            // Both ways together may exceed the node timeout, which is 200 ms.
            Draw::Delayed => conditions.delay = self.millis(5, 130),
            Draw::HeldBack => {
                conditions.requests_held = true;
                lasts = max_ttl + self.ttls(10, 40);
            }
            _ => {
                (conditions.requests_lost, conditions.answers_lost) = (true, true);
                concerned = n / 2 + 1;
            }
        }
        self.networks[worker] = at + lasts;
        let mut masters: Vec<_> = (0..n).collect();
        masters.shuffle(&mut self.chance);
        let masters = masters.into_iter().take(concerned).collect();
        Some((lasts, Fault::Network { worker: Some(worker), masters, conditions }))
    }
}

impl Fault {
    /// The name of the fault in the report.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::KillMaster { empty: true, .. } => "master killed, back empty".to_owned(),
            Self::KillMaster { empty: false, .. } => "master killed, back with its data".to_owned(),
            Self::StopMaster { .. } => "master stopped".to_owned(),
            Self::Flush { .. } => "master flushed".to_owned(),
            Self::SetClock { ahead_ms, .. } => match ahead_ms {
                -100..100 => "clock of a master set by less than 100 ms".to_owned(),
                100.. => "clock of a master set forward".to_owned(),
                _ => "clock of a master set back".to_owned(),
            },
            Self::StopWorker { .. } => "worker stopped".to_owned(),
            Self::KillWorker { .. } => "worker killed".to_owned(),
            Self::Network { worker, conditions, .. } => {
                let what = match conditions {
                    Conditions { refused: true, .. } => "connections refused",
                    Conditions { requests_held: true, .. } => "requests held back, delivered late",
                    Conditions { requests_lost: true, answers_lost: true, .. } => "cut both ways",
                    Conditions { requests_lost: true, .. } => "requests lost",
                    Conditions { answers_lost: true, .. } => "answers lost",
                    _ => "delayed",
                };
                let whose = if worker.is_some() { "one worker" } else { "all workers" };
                format!("links of {whose}: {what}")
            }
        }
    }

    /// Returns true if the fault may make a master forget locks, or its clock suggests it. Such a master is in quarantine
    /// afterwards.
    pub(crate) fn forgets(&self) -> bool {
        match self {
            Self::KillMaster { .. } | Self::Flush { .. } => true,
            Self::SetClock { ahead_ms, .. } => !SMALL_STEPS_MS.contains(ahead_ms),
            _ => false,
        }
    }

    /// The target of the fault, in words that the judge reads.
    pub(crate) fn target(&self) -> String {
        match self {
            Self::KillMaster { master, .. }
            | Self::StopMaster { master }
            | Self::Flush { master }
            | Self::SetClock { master, .. } => format!("master {master}"),
            Self::StopWorker { worker } | Self::KillWorker { worker } => {
                format!("worker {}", worker_name(*worker))
            }
            Self::Network { worker: None, masters, .. } => format!("links to {}", listed(masters)),
            Self::Network { worker: Some(worker), masters, .. } => {
                format!("worker {} to masters {}", worker_name(*worker), listed(masters))
            }
        }
    }
}

/// The name of a worker in the history.
pub(crate) fn worker_name(worker: usize) -> String {
    format!("w{worker}")
}

fn listed(masters: &BTreeSet<usize>) -> String {
    masters.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}
