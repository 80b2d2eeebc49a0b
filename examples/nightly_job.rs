//! Ten hosts start the same job at midnight, and it is done once.
//!
//! Each host starts it by its own clock, and the clocks differ by up to one second. The job takes 50 ms. With a plain
//! lock the first host has finished, and has given the lock back, before it is midnight for the next host. So the next
//! host does the job again. With `min_hold` the masters keep the lock for a while from its grant, although it was given
//! back. Every later host finds it taken.
//!
//! A host waits for the lock for one second, instead of one `try_lock`. Hosts whose clocks agree ask at one instant, and
//! the masters' votes may be split among them. `try_lock` tries again a few times; a host that waits tries for longer.
//!
//! The `min_hold` is longer than the difference of the clocks and the wait of the hosts together. It is shorter than the
//! time until the job is due again: some minutes, for a nightly job. The TTL is also longer than the difference of the
//! clocks and the wait, since a host that crashes in the middle of the job leaves the lock for that long. Then nobody
//! does the job until the next night, so set up an alert.
//!
//! ```text
//! cargo run --example nightly_job
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some, and ten more processes of itself as the hosts. The
//! exit status is 0 if the job was done several times with a plain lock, and once with `min_hold`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, thread};

use copy::Copy;
use directory::Directory;
use masters::{Failure, Masters};
use quorlock::{OptionalGuard as _, Quorlock};

#[path = "common/copy.rs"]
mod copy;
#[path = "common/directory.rs"]
mod directory;
#[path = "common/masters.rs"]
mod masters;

const HOSTS: u32 = 10;

/// Largest difference of the hosts' clocks.
const SPREAD: Duration = Duration::from_secs(1);

/// Time to write the report.
const JOB: Duration = Duration::from_millis(50);

/// Short, since your own masters keep the lock as long. Some minutes suit a nightly job.
const MIN_HOLD: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("nightly_job: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.as_slice() {
        [] => demonstrate(),
        [role, behind_ms, min_hold_ms, job, report] if role == HOST => {
            let behind = Duration::from_millis(behind_ms.parse()?);
            let min_hold = Duration::from_millis(min_hold_ms.parse()?);
            be_a_host(behind, min_hold, job, Path::new(report))
        }
        _ => Err("usage: nightly_job".into()),
    }
}

fn demonstrate() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!(
        "{HOSTS} hosts write the same report at midnight, by clocks that differ by up to {SPREAD:?}; it takes {JOB:?}"
    );
    println!("{}", masters.describe());
    // Masters that you name may be new, and in quarantine at first.
    drop(masters.builder()?.build()?.lock("nightly-job/ready")?);

    println!("\nWith a plain lock");
    let plain = midnight(&masters, Duration::ZERO)?;
    println!("\nWith min_hold({MIN_HOLD:?})");
    let kept = midnight(&masters, MIN_HOLD)?;

    println!("\nThe report was written {plain} times with a plain lock, and {kept} with min_hold.");
    match (plain, kept) {
        (2.., 1) => Ok(()),
        (_, 1) => Err("with a plain lock it was written once, so this run proves nothing".into()),
        _ => Err("with min_hold it is to be written once".into()),
    }
}

/// Lets midnight come for all hosts. Returns the number of times that the report was written.
fn midnight(masters: &Masters, min_hold: Duration) -> Result<usize, Failure> {
    let directory = Directory::create("report")?;
    let report = directory.file("report");
    File::create(&report)?;
    // Another name each time, since your own masters may still keep the lock of the last run.
    let job = format!("nightly-job/{:016x}", rand::random::<u64>());
    let mut hosts = Vec::new();
    for host in 0..HOSTS {
        let behind = SPREAD * host / (HOSTS - 1);
        let args = [
            HOST.to_owned(),
            behind.as_millis().to_string(),
            min_hold.as_millis().to_string(),
            job.clone(),
            report.display().to_string(),
        ];
        hosts.push((behind, Copy::start(masters, args)?));
    }
    for (_, host) in &hosts {
        host.hear()?;
    }
    for (_, host) in &mut hosts {
        host.go()?;
    }
    for (behind, host) in hosts {
        println!("  the host whose clock is {:>4} ms behind {}", behind.as_millis(), host.hear()?);
        host.finish()?;
    }
    Ok(fs::read_to_string(&report)?.lines().count())
}

/// Time for which a host waits for the lock.
const WAIT: Duration = Duration::from_secs(1);

const HOST: &str = "--host";

/// The life of a host. Its clock is behind, so midnight comes later for it.
fn be_a_host(
    behind: Duration,
    min_hold: Duration,
    job: &str,
    report: &Path,
) -> Result<(), Failure> {
    let locks = Masters::find(0)?.builder()?.build()?;
    println!("ready");
    copy::wait_for_go()?;
    thread::sleep(behind);
    println!("{}", do_once(&locks, min_hold, job, report)?);
    Ok(())
}

/// Writes the report, unless another host has written it.
fn do_once(
    locks: &Quorlock,
    min_hold: Duration,
    job: &str,
    report: &Path,
) -> Result<&'static str, Failure> {
    let job = locks.mutex(job).min_hold(min_hold);
    let Some(guard) = job.try_lock_for(WAIT).optional()? else {
        return Ok("leaves it to another one");
    };
    write(report)?;
    // The lock is given back. The masters keep it until its `min_hold` is over.
    guard.unlock()?;
    Ok("WRITES THE REPORT")
}

/// The job. Nothing in it prevents a second run.
fn write(report: &Path) -> Result<(), Failure> {
    thread::sleep(JOB);
    let mut file = File::options().append(true).open(report)?;
    Ok(writeln!(file, "all is well")?)
}
