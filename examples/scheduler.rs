//! Two hosts run a scheduler. The leader does the work, and a storage refuses the late work of a leader that was paused.
//!
//! Each host stands for election. The leader does one piece of work after the other, until it is told to leave. Then the leader's
//! process is suspended in the middle of its work, as a virtual machine is while it is moved. Its term ends, and the other host
//! leads. When the first host runs again, it finishes its piece: it has checked before the pause that it leads, and not since. The
//! storage compares the numbers of the terms, and refuses the piece.
//!
//! ```text
//! cargo run --example scheduler
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some, and two more processes of itself as the hosts. The exit status is
//! 0 if both hosts have led, one after the other, and the storage has no late work.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::time::Duration;
use std::{env, thread};

use copy::Copy;
use crossbeam_channel::bounded;
use masters::{Failure, Masters};
use quorlock::Leadership;
use rustix::process::{Signal, kill_process};

#[path = "common/copy.rs"]
mod copy;
#[path = "common/masters.rs"]
mod masters;

/// The time that one piece of work takes.
const PIECE: Duration = Duration::from_millis(200);
/// The number of pieces that a host does before the next event.
const PIECES: usize = 5;

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("scheduler: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.as_slice() {
        [] => demonstrate(),
        [role, election, host] if role == HOST => be_a_host(election, host),
        _ => Err("usage: scheduler".into()),
    }
}

fn demonstrate() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{}", masters.describe());
    // Masters that you name may be new, and in quarantine at first.
    drop(masters.builder()?.build()?.lock("scheduler/ready")?);
    let election = format!("scheduler/{:016x}", rand::random::<u64>());
    let start = |host: &str| Copy::start(&masters, [HOST, &election, host]);

    let mut storage = Storage::default();
    let first = start("first host")?;
    storage.take(&first, PIECES)?;
    let second = start("second host")?;
    println!("the first host is suspended, in the middle of a piece of work");
    kill_process(first.pid(), Signal::STOP)?;
    storage.take(&second, PIECES)?;
    println!("the first host runs again");
    kill_process(first.pid(), Signal::CONT)?;
    storage.take(&first, 1)?;
    storage.take(&second, PIECES)?;
    for mut host in [first, second] {
        host.go()?;
        host.finish()?;
    }
    let (accepted, refused) = (storage.accepted, storage.refused);
    println!("The storage has {accepted} pieces of work, and has refused {refused}.");
    match (accepted, refused) {
        (15.., 1) => Ok(()),
        _ => Err("the late piece of work is to be refused, and no other one".into()),
    }
}

/// A storage that keeps the largest term that it has seen. A database does that in the transaction that it protects: see the
/// example `fencing`.
#[derive(Default)]
struct Storage {
    largest_term: u64,
    accepted: usize,
    refused: usize,
}

impl Storage {
    /// Takes that number of results of the host.
    fn take(&mut self, host: &Copy, results: usize) -> Result<(), Failure> {
        for _ in 0..results {
            let line = host.hear()?;
            let (term, what) = line.split_once(' ').ok_or("a result without a term")?;
            let term = term.parse()?;
            if term < self.largest_term {
                self.refused += 1;
                println!("  REFUSED, for there is a later term: {what}");
            } else {
                self.largest_term = term;
                self.accepted += 1;
                println!("  {what}");
            }
        }
        Ok(())
    }
}

const HOST: &str = "--host";

/// The life of a host, until it is told to end.
fn be_a_host(election: &str, host: &str) -> Result<(), Failure> {
    let locks = Masters::find(0)?.builder()?.build()?;
    let (stop, stopped) = bounded(0);
    thread::spawn(move || {
        // An error means that the process that started this one has ended, and stops the host as well.
        let _ = copy::wait_for_go();
        drop(stop);
    });
    locks.election(election).value(host).run(&stopped, |leadership| lead(leadership, host))?;
    Ok(())
}

/// Does one piece of work after the other, until the leader has to leave.
fn lead(leadership: &Leadership, host: &str) {
    for piece in 1.. {
        if !leadership.leaving().is_empty() || !leadership.is_leader() {
            return;
        }
        thread::sleep(PIECE); // the work
        // Each result goes to the storage with the term in which it was begun.
        println!("{} the {host} has done piece {piece} of its term", leadership.term());
    }
}
