//! A pool of workers reads a configuration that another process rewrites, and never reads half of it.
//!
//! The configuration is two files that belong together: a currency, and the rate for it. Many threads of a `rayon` pool
//! price orders by them. Each takes the lock to read, so they read side by side: threads of one client share one hold on
//! the masters, and most of them ask no master at all. At intervals another process replaces both files. It takes the lock
//! to write, and nobody reads meanwhile. It does not depend on a moment without readers: while it waits, new readers queue
//! behind it. Then it downgrades the lock, and reads its own files, together with the pool, before anybody can write the
//! next ones.
//!
//! ```text
//! cargo run --example shared_configuration
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some, and one more process of itself as the writer. The exit
//! status is 0 if every order was priced by two files that belong together, while all configurations were written.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use copy::Copy;
use directory::Directory;
use masters::{Failure, Masters};
use quorlock::RwLock;
use rayon::prelude::*;

#[path = "common/copy.rs"]
mod copy;
#[path = "common/directory.rs"]
mod directory;
#[path = "common/masters.rs"]
mod masters;

const NAME: &str = "shared-configuration/prices";

/// Number of times that the other process replaces the configuration.
const VERSIONS: u32 = 10;

/// Time for which it leaves each configuration to the readers.
const PAUSE: Duration = Duration::from_millis(50);

const THREADS: usize = 16;

/// Number of orders that each task of the pool prices.
const BATCH: usize = 64;

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("shared_configuration: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.as_slice() {
        [] => demonstrate(),
        [role, folder] if role == WRITES => rewrite(&Configuration::in_folder(folder.into())),
        _ => Err("usage: shared_configuration".into()),
    }
}

/// Two files with the same version in them; half of a configuration if the versions differ.
struct Configuration {
    currency: PathBuf,
    rate: PathBuf,
}

impl Configuration {
    fn in_folder(folder: PathBuf) -> Self {
        Self { currency: folder.join("currency"), rate: folder.join("rate") }
    }

    /// Replaces one file after the other, as slowly as a disk may be.
    fn write(&self, version: u32) -> Result<(), Failure> {
        fs::write(&self.currency, version.to_string())?;
        thread::sleep(Duration::from_millis(5));
        Ok(fs::write(&self.rate, version.to_string())?)
    }

    /// Returns the versions of the two files.
    fn read(&self) -> Result<(u32, u32), Failure> {
        let version = |file: &Path| Ok::<_, Failure>(fs::read_to_string(file)?.trim().parse()?);
        Ok((version(&self.currency)?, version(&self.rate)?))
    }
}

/// The life of the process that writes.
fn rewrite(configuration: &Configuration) -> Result<(), Failure> {
    let locks = Masters::find(0)?.builder()?.build()?;
    let lock = locks.rw_lock(NAME);
    for version in 2..=VERSIONS {
        thread::sleep(PAUSE);
        let guard = lock.write()?;
        guard.check()?;
        configuration.write(version)?;
        let guard = guard.downgrade();
        let seen = configuration.read()?;
        guard.unlock()?;
        println!("version {version} is written; read back: {} and {}", seen.0, seen.1);
    }
    Ok(())
}

const WRITES: &str = "--write";

fn demonstrate() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    let locks = masters.builder()?.build()?;
    println!("{}; {THREADS} threads read", masters.describe());
    let directory = Directory::create("configuration")?;
    let configuration = Configuration::in_folder(directory.file("."));
    configuration.write(1)?;

    let lock = locks.rw_lock(NAME);
    let asked_before = asked(&locks);
    let writer = Copy::start(&masters, [WRITES.as_ref(), directory.file(".").as_os_str()])?;
    let done = AtomicBool::new(false);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build()?;
    let prices = thread::scope(|scope| {
        let prices = scope.spawn(|| pool.install(|| price_until(&done, &lock, &configuration)));
        let heard = (2..=VERSIONS).try_for_each(|_| {
            println!("  {}", writer.hear()?);
            Ok::<_, Failure>(())
        });
        done.store(true, Ordering::Relaxed);
        let prices = prices.join().map_err(|_| "a worker panicked")?;
        heard.and(prices)
    })?;
    writer.finish()?;

    let versions: BTreeSet<_> = prices.iter().map(|(currency, _)| *currency).collect();
    let torn = prices.iter().filter(|(currency, rate)| currency != rate).count();
    let (orders, asked) = (prices.len(), asked(&locks) - asked_before);
    println!("{orders} orders were priced by {} of {VERSIONS} configurations", versions.len());
    println!("{torn} of them by half of a configuration; the masters ran {asked} scripts for them");
    match torn {
        0 => Ok(()),
        _ => Err("some orders were priced by half of a configuration".into()),
    }
}

/// Prices orders until it is `done`. Returns the two versions by which each of them was priced.
fn price_until(
    done: &AtomicBool,
    lock: &RwLock,
    configuration: &Configuration,
) -> Result<Vec<(u32, u32)>, Failure> {
    let mut prices = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let batch = (0..BATCH).into_par_iter().map(|_| {
            let guard = lock.read()?;
            let price = configuration.read();
            guard.check()?; // Nobody has written meanwhile.
            price
        });
        prices.extend(batch.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(prices)
}

/// The number of scripts that the masters have run for this client.
fn asked(locks: &quorlock::Quorlock) -> u64 {
    locks.node_stats().iter().map(|node| node.scripts).sum()
}
