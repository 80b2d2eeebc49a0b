//! A function that takes a lock calls another one that takes the same lock.
//!
//! `ship` takes an order out of the list, and `bill` writes its invoice. Each of them may be called by itself, so each takes
//! the order's lock. But `ship` also calls `bill`. With a plain lock the thread would wait for itself. A reentrant lock
//! belongs to the thread: the inner call takes it again at once, without asking a master, and does not give it back. Other
//! threads and other processes wait until the outer call is done.
//!
//! ```text
//! cargo run --example nested_call
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if each step behaves as described.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use masters::{Failure, Masters};
use quorlock::{Error, OptionalGuard as _, Quorlock, ReentrantMutex};

#[path = "common/masters.rs"]
mod masters;

const ORDER: &str = "nested-call/order-42";

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("nested_call: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{}", masters.describe());
    let (ours, theirs) = (masters.builder()?.build()?, masters.builder()?.build()?);

    println!("\nWith a plain lock");
    let guard = ours.lock(ORDER)?;
    let inner = ours.try_lock_for(ORDER, Duration::from_millis(500)).optional()?;
    println!("  ship has the lock; bill, called by it, waits for half a second, and gives up");
    if inner.is_some() {
        return Err("a plain lock was granted twice".into());
    }
    guard.unlock()?;

    println!("\nWith a reentrant lock");
    let order = ours.reentrant_mutex(ORDER);
    ship(&order, &theirs)?;
    bill(&order)?; // by itself, too
    println!("  bill is called by itself");
    // The lock is free only after the last guard of that thread is given back.
    theirs.reentrant_mutex(ORDER).lock()?.unlock()?;
    println!("  and another process has the lock now");
    Ok(())
}

fn ship(order: &ReentrantMutex, another_process: &Quorlock) -> Result<(), Failure> {
    let guard = order.lock()?;
    println!("  ship has the lock, with token {}", token(guard.token()));
    bill(order)?;
    // The inner call has given back its own guard, but not the lock.
    guard.check()?;
    if !order.is_owned_by_current_thread() || order.hold_count() != 1 {
        return Err("the inner call has given the lock away".into());
    }
    let theirs = thread::scope(|scope| {
        let tries =
            || another_process.reentrant_mutex(ORDER).try_lock().optional().map(|it| it.is_some());
        scope.spawn(tries).join().expect("it does not panic")
    })?;
    if theirs {
        return Err("another process has the lock as well".into());
    }
    println!("  ship has it still, and nobody else");
    Ok(guard.unlock()?)
}

fn bill(order: &ReentrantMutex) -> Result<(), Error> {
    order.with_lock_fallible(|guard| {
        guard.check()?;
        println!(
            "  bill is guard {} of this thread, with token {}",
            order.hold_count(),
            token(guard.token())
        );
        Ok(())
    })
}

fn token(token: Option<quorlock::FencingToken>) -> String {
    token.map_or_else(|| "none".to_owned(), |token| token.to_string())
}
