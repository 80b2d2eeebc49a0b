//! A service on tokio takes locks. The blocking calls run on tokio's threads for such calls, and a cancelled request stops
//! waiting.
//!
//! quorlock has no async interface, and needs none for this. `spawn_blocking` moves the call to a thread on which it may wait.
//! Dropping a task, because of a timeout or because the client of the service has gone, does not stop that thread. So the task
//! keeps the sender of a channel, and the call takes the receiver. Dropping the task drops the sender, and the wait ends with
//! `Cancelled`. Work that has begun under the lock goes on to its end, and gives the lock back.
//!
//! ```text
//! cargo run --example async_neighbour
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if each step behaves as described.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::time::Duration;

use masters::{Failure, Masters};
use quorlock::crossbeam_channel::{Sender, bounded};
use quorlock::{Error, ErrorKind, Guard, Quorlock};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

#[path = "../common/masters.rs"]
mod masters;

const ORDER: &str = "async-neighbour/order-42";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("async_neighbour: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `work` under the lock, on a thread where it may wait. Dropping the future ends the wait for the lock.
async fn under_lock<R: Send + 'static>(
    locks: &Quorlock,
    name: &'static str,
    work: impl FnOnce(&Guard) -> R + Send + 'static,
    over: Sender<Result<(), Error>>,
) -> Result<R, Failure> {
    let (stays, cancel) = bounded::<()>(0);
    let locks = locks.clone();
    let call = spawn_blocking(move || {
        let guard = locks.lock_within(name, &cancel);
        // Only for this demonstration: the result of the wait, even if no task awaits it any more.
        let _ = over.send(guard.as_ref().map(|_| ()).map_err(Clone::clone));
        let guard = guard?;
        let result = work(&guard);
        guard.unlock()?;
        Ok::<R, Error>(result)
    });
    let result = call.await?;
    drop(stays);
    Ok(result?)
}

async fn run() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{}", masters.describe());
    let (locks, other) = (masters.builder()?.build()?, masters.builder()?.build()?);
    let (over, waits) = bounded(1);

    let work = |guard: &Guard| guard.token();
    let token = under_lock(&locks, ORDER, work, over.clone()).await?;
    waits.recv()??;
    println!("a request had the lock, with token {}", token.ok_or("it has one")?);

    let held = spawn_blocking(move || other.lock(ORDER)).await??;
    let patience = Duration::from_millis(300);
    let given_up = timeout(patience, under_lock(&locks, ORDER, work, over.clone())).await;
    if given_up.is_ok() {
        return Err("two had the lock".into());
    }
    // The runtime's thread has not waited, and the blocking thread has stopped waiting.
    match spawn_blocking({
        let waits = waits.clone();
        move || waits.recv_timeout(Duration::from_secs(5))
    })
    .await??
    {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            println!("a request that was given up after {patience:?} waits no longer: {error}");
        }
        other => return Err(format!("the wait went on: {other:?}").into()),
    }

    spawn_blocking(move || held.unlock()).await??;
    under_lock(&locks, ORDER, work, over).await?;
    waits.recv()??;
    println!("the next request had the lock");
    Ok(())
}
