//! Makes faults for a given time, reports each to the witness, and heals them all.
//!
//! Two series of faults run side by side: one impairs masters, the other one impairs a worker alone. At any time at
//! most a minority of the masters is impaired, which is the condition of quorlock's guarantees. A master that may
//! have forgotten locks is impaired until its quarantine is over, so the next fault of masters waits for that.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use crate::Failure;
use crate::fault::{Fault, Kind, OF_MASTERS, OF_WORKERS};
use crate::hosts::{Host, Hosts};
use crate::witness::{Client, Event};

/// The pause between two faults of a series, in per cent of the longest TTL: enough for some locks without a fault.
const PAUSE_PERCENT: Range<u32> = 15..80;

/// Time that a healed master needs besides its quarantine, for its start and for its clients to notice.
const NOTICED: Duration = Duration::from_secs(1);

/// The faults of one run.
pub(crate) struct Nemesis<'a> {
    hosts: &'a Hosts,
    /// The address of the witness, as seen from the host.
    witness: &'a str,
    masters: Vec<Host>,
    /// The workers without a fault at present.
    free: Mutex<Vec<Host>>,
    /// True if the first master has a part in each fault of masters, for clients that rely on it more than on the
    /// others.
    first: bool,
    /// The longest TTL of the workers' locks, which is also the length of a quarantine.
    max_ttl: Duration,
    began: Instant,
    ids: AtomicU64,
    failed: AtomicBool,
}

impl<'a> Nemesis<'a> {
    pub(crate) fn new(
        hosts: &'a Hosts,
        witness: &'a str,
        first: bool,
        max_ttl: Duration,
    ) -> Result<Self, Failure> {
        let (masters, workers) = (hosts.of_kind("master"), hosts.of_kind("worker"));
        if masters.len() < 3 || workers.len() < 2 {
            return Err(
                "there have to be 3 masters and 2 workers at least: master1, .., worker1, .."
                    .into(),
            );
        }
        Ok(Self {
            hosts,
            witness,
            masters,
            free: Mutex::new(workers),
            first,
            max_ttl,
            began: Instant::now(),
            ids: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Makes faults until `end`. When it returns, all of them are healed, and all quarantines are over.
    pub(crate) fn run(&self, end: Instant, seed: u64) -> Result<(), Failure> {
        let of_masters = Series::new(self, &OF_MASTERS, seed)?;
        let of_workers = Series::new(self, &OF_WORKERS, seed.wrapping_add(1))?;
        thread::scope(|scope| {
            let of_workers = scope.spawn(|| of_workers.run(end));
            let of_masters = of_masters.run(end);
            of_masters
                .and(of_workers.join().map_err(|_| "the thread of the workers' faults panicked")?)
        })
    }

    fn minority(&self, chance: &mut StdRng) -> Vec<Host> {
        let count = chance.random_range(1..=(self.masters.len() - 1) / 2);
        let (first, others) = self.masters.split_at(usize::from(self.first));
        let others = others.sample(chance, count - first.len());
        first.iter().chain(others).cloned().collect()
    }

    fn free(&self) -> MutexGuard<'_, Vec<Host>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A series of faults, one after the other.
struct Series<'a> {
    nemesis: &'a Nemesis<'a>,
    witness: Client,
    chance: StdRng,
    kinds: &'static [Kind],
    /// The kinds that are left in this cycle. Each kind has one fault before any has its second.
    left: Vec<Kind>,
}

impl<'a> Series<'a> {
    fn new(nemesis: &'a Nemesis<'a>, kinds: &'static [Kind], seed: u64) -> Result<Self, Failure> {
        let witness = Client::connect(nemesis.witness, "nemesis")?;
        Ok(Self { nemesis, witness, chance: StdRng::seed_from_u64(seed), kinds, left: Vec::new() })
    }

    /// Makes faults until `end`. If one series fails, the other one ends as well, after its present fault.
    fn run(mut self, end: Instant) -> Result<(), Failure> {
        let failed = &self.nemesis.failed;
        while Instant::now() < end && !failed.load(Ordering::Relaxed) {
            self.one_more().inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn one_more(&mut self) -> Result<(), Failure> {
        let fault = self.next();
        self.make(&fault)?;
        if fault.kind.forgets() {
            thread::sleep(self.nemesis.max_ttl + NOTICED);
        }
        self.nemesis.free().extend(fault.worker);
        self.sleep(PAUSE_PERCENT);
        Ok(())
    }

    fn next(&mut self) -> Fault {
        if self.left.is_empty() {
            self.left.extend(self.kinds);
            self.left.shuffle(&mut self.chance);
        }
        let kind = self.left.pop().unwrap_or(self.kinds[0]);
        let worker = kind.concerns_worker().then(|| {
            // The other series uses one of the workers at most.
            let mut free = self.nemesis.free();
            let chosen = self.chance.random_range(0..free.len());
            free.swap_remove(chosen)
        });
        let masters = match kind.concerns_masters() {
            true => self.nemesis.minority(&mut self.chance),
            false => Vec::new(),
        };
        Fault { kind, worker, masters }
    }

    /// Makes a fault and heals it. The witness hears of it before it begins, and after it is healed.
    fn make(&mut self, fault: &Fault) -> Result<(), Failure> {
        let (what, targets) = (fault.kind.describe(), fault.targets());
        let mut ids = Vec::new();
        for target in &targets {
            let id = self.nemesis.ids.fetch_add(1, Ordering::Relaxed);
            self.witness.tell(&Event::Fault {
                id,
                kind: what.to_owned(),
                target: target.clone(),
                forgets: fault.kind.forgets(),
            })?;
            ids.push(id);
        }
        let target = targets.join(", ");
        self.say(&format!("{target}: {what}"));
        fault.begin(self.nemesis.hosts)?;
        self.sleep(fault.kind.lasts_percent());
        fault.heal(self.nemesis.hosts)?;
        for id in ids {
            self.witness.tell(&Event::Healed { id })?;
        }
        self.say(&format!("{target}: healed"));
        Ok(())
    }

    fn sleep(&mut self, percent: Range<u32>) {
        thread::sleep(self.nemesis.max_ttl * self.chance.random_range(percent) / 100);
    }

    fn say(&self, what: &str) {
        println!("{:7.1} s  {what}", self.nemesis.began.elapsed().as_secs_f64());
    }
}
