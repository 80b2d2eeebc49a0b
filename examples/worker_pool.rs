//! Two worker pools do the same jobs, and each job is done exactly once.
//!
//! A dispatcher takes the exclusive lock of a job, and sends the job *with the guard* through a
//! bounded queue to any free worker. A guard owns all that it needs: it moves to another thread like
//! any other value, and is renewed even while it waits in the queue. The two pools know nothing of
//! one another, as if they were two processes on two machines. All that they share is the masters,
//! and the ledger of finished jobs.
//!
//! ```text
//! cargo run --example worker_pool
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if each job
//! was done exactly once.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use masters::{Failure, Masters};
use parking_lot::Mutex;
use quorlock::{Error, ErrorKind, Guard, OptionalGuard as _, Quorlock};

#[path = "common/masters.rs"]
mod masters;

const JOBS: usize = 60;
const POOLS: [&str; 2] = ["A", "B"];
const WORKERS: usize = 3;

/// The room in a pool's queue, in jobs. Each job in it is locked, so that nobody else can do it: a
/// pool should not take much more than it can do soon.
const QUEUE: usize = 2;

/// Time after which a dispatcher checks again the jobs that others were doing.
const PAUSE: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("worker_pool: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{JOBS} jobs for {} pools with {WORKERS} workers each", POOLS.len());
    println!("{}\n", masters.describe());

    let ledger = Ledger::new(JOBS);
    thread::scope(|scope| {
        let start_pool = |name| {
            let (masters, ledger) = (&masters, &ledger);
            scope.spawn(move || run_pool(&masters.builder()?.build()?, ledger, name))
        };
        let pools: Vec<_> = POOLS.into_iter().map(start_pool).collect();
        for pool in pools {
            pool.join().map_err(|_| "a pool panicked")??;
        }
        Ok::<_, Failure>(())
    })?;
    judge(&ledger)
}

/// One pool, like a process of its own. It ends when all jobs are done, by either pool.
fn run_pool(locks: &Quorlock, ledger: &Ledger, pool: &'static str) -> Result<(), Failure> {
    let (queue, tasks) = bounded(QUEUE);
    thread::scope(|scope| {
        let start_worker = |_| {
            let tasks = tasks.clone();
            scope.spawn(move || work(&tasks, ledger, pool))
        };
        let workers: Vec<_> = (0..WORKERS).map(start_worker).collect();
        drop(tasks); // The workers have theirs: the queue ends if all of them have failed.

        let dispatched = dispatch(locks, ledger, &queue);
        drop(queue); // No more tasks: the workers end with the last one.
        for worker in workers {
            worker.join().map_err(|_| "a worker panicked")??;
        }
        let found_held = dispatched?;
        println!("pool {pool}: {found_held} times a job was found locked");
        Ok(())
    })
}

/// A job together with the right to do it.
struct Task {
    job: usize,
    guard: Guard,
}

/// Locks jobs and queues them until all are done. Returns the number of times that one was found
/// locked.
///
/// A locked job is left to the pool that has it. It is checked again later, since that pool may die
/// before the job is done; its lock then ends with the TTL.
fn dispatch(locks: &Quorlock, ledger: &Ledger, queue: &Sender<Task>) -> Result<usize, Failure> {
    let mut found_held = 0;
    loop {
        let pending = ledger.pending();
        if pending.is_empty() {
            return Ok(found_held);
        }
        for job in pending {
            let Some(guard) = locks.try_lock(format!("jobs/{job}")).optional()? else {
                found_held += 1;
                continue;
            };
            // Another pool may have done the job between our check of the ledger and the lock. While
            // we hold the lock, nobody does.
            if !ledger.is_done(job) {
                // Waits while the queue is full. The guard goes along, and is renewed meanwhile.
                queue.send(Task { job, guard }).map_err(|_| "all workers have ended")?;
            }
        }
        thread::sleep(PAUSE);
    }
}

/// The life of a worker: one task after another, until the queue ends.
fn work(tasks: &Receiver<Task>, ledger: &Ledger, pool: &'static str) -> Result<(), Error> {
    for Task { job, guard } in tasks {
        prepare(job);
        match guard.check() {
            Ok(()) => ledger.record(job, pool),
            // The job is not ours any more: it stays pending, for the pool that locks it next.
            Err(lost) => println!("pool {pool}: job {job} is left undone: {lost}"),
        }
        give_back(guard)?;
    }
    Ok(())
}

/// Gives the lock back and waits until that is certain. Dropping the guard would neither wait nor
/// report an error.
fn give_back(guard: Guard) -> Result<(), Error> {
    match guard.unlock() {
        // Lost: for a job that was left undone, that is known already. No quorum: the lock was ours
        // to the end, and at worst it stays taken until its TTL is over.
        Err(error) if matches!(error.kind(), ErrorKind::Lost | ErrorKind::NoQuorum) => Ok(()),
        result => result,
    }
}

/// The part of a job that is harmless if it is done twice. It takes some milliseconds.
fn prepare(job: usize) {
    thread::sleep(Duration::from_millis(5 + job as u64 % 7));
}

/// Checks that each job was done once, and by one pool only.
fn judge(ledger: &Ledger) -> Result<(), Failure> {
    let entries = ledger.entries();
    for pool in POOLS {
        let done = entries.iter().flatten().filter(|by| **by == pool).count();
        println!("pool {pool} did {done} jobs");
    }
    match entries.iter().position(|by| by.len() != 1) {
        None => {
            println!("\nEach of the {JOBS} jobs was done exactly once.");
            Ok(())
        }
        Some(job) => Err(format!("job {job} was done {} times", entries[job].len()).into()),
    }
}

/// The place to which both pools write, for example a database: for each job, the pools that have
/// done it. Nothing in it prevents a second entry.
struct Ledger {
    entries: Mutex<Vec<Vec<&'static str>>>,
}

impl Ledger {
    fn new(jobs: usize) -> Self {
        Self { entries: Mutex::new(vec![Vec::new(); jobs]) }
    }

    fn entries(&self) -> Vec<Vec<&'static str>> {
        self.entries.lock().clone()
    }

    fn pending(&self) -> Vec<usize> {
        let entries = self.entries.lock();
        (0..entries.len()).filter(|job| entries[*job].is_empty()).collect()
    }

    fn is_done(&self, job: usize) -> bool {
        !self.entries.lock()[job].is_empty()
    }

    fn record(&self, job: usize, pool: &'static str) {
        self.entries.lock()[job].push(pool);
    }
}
