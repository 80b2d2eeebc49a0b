//! A partner's API that allows five calls at a time, from all machines of a company together.
//!
//! Two processes, in this example two clients, call it from eight threads each. Each call is made under a permit of one
//! semaphore, so that the partner never sees a sixth call at a time. Without the permits it sees more, and refuses them.
//!
//! ```text
//! cargo run --example partner_api
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if the partner refused none of the calls
//! that were made under a permit.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::fmt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use masters::{Failure, Masters};
use quorlock::{Error, Quorlock};

#[path = "common/masters.rs"]
mod masters;

/// Number of calls at a time that the partner allows.
const ALLOWED: u32 = 5;
const THREADS: usize = 8;
/// Number of calls of each thread.
const CALLS: usize = 6;
/// Time that the partner needs for a call.
const LATENCY: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("partner_api: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The partner's side, which has no part in the locks.
#[derive(Default)]
struct Partner {
    inside: AtomicUsize,
    most: AtomicUsize,
    served: AtomicUsize,
    refused: AtomicUsize,
}

impl Partner {
    fn call(&self) -> Result<(), CallError> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        thread::sleep(LATENCY);
        self.inside.fetch_sub(1, Ordering::SeqCst);
        if inside > ALLOWED as usize {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(CallError::TooManyCalls);
        }
        self.served.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl fmt::Display for Partner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [most, served, refused] =
            [&self.most, &self.served, &self.refused].map(|count| count.load(Ordering::SeqCst));
        write!(f, "{served} calls served, {refused} refused, {most} at a time at most")
    }
}

/// The reason for which a call failed.
#[derive(Debug)]
enum CallError {
    /// The partner's answer.
    TooManyCalls,
    /// There was no permit, or it was lost.
    Permit(Error),
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::Permit(error)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyCalls => f.write_str("too many calls at a time"),
            Self::Permit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

fn run() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("2 clients with {THREADS} threads each; the partner allows {ALLOWED} calls at a time");
    println!("{}", masters.describe());
    let clients = [masters.builder()?.build()?, masters.builder()?.build()?];
    // Masters that you name may be new, and in quarantine at first.
    for locks in &clients {
        drop(locks.lock("partner-api/ready")?);
    }

    let partner = Partner::default();
    in_all_threads(&clients, |_| {
        // The partner counts the refused ones.
        let _ = partner.call();
        Ok(())
    })?;
    println!("without permits: {partner}");

    let (partner, started) = (Partner::default(), Instant::now());
    in_all_threads(&clients, |locks| {
        let semaphore = locks.semaphore("partner-api", ALLOWED);
        semaphore.with_permit_fallible(|_| partner.call())
    })?;
    println!("with permits:    {partner}, in {} ms", started.elapsed().as_millis());
    Ok(())
}

/// Runs the calls of all threads of all clients. Returns the first failure.
fn in_all_threads(
    clients: &[Quorlock],
    call: impl Fn(&Quorlock) -> Result<(), CallError> + Sync,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for locks in clients {
            for _ in 0..THREADS {
                threads.push(scope.spawn(|| (0..CALLS).try_for_each(|_| call(locks))));
            }
        }
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome.map_err(Failure::from),
            Err(_) => Err("a panic".into()),
        })
    })
}
