//! `quorlock run`: a command under a lock.

mod ending;
mod group;
mod keeper;
mod program;
mod waiting;
mod watchdog;

use std::time::Duration;

use quorlock::{Builder, Handle, LockKind, Quorlock, RwLock, Semaphore};

use crate::exit::{End, Failure};
use crate::options::{Kind, Run};
use crate::set::bytes;
use crate::signals;
use crate::tell::write_by_a_thread;
use keeper::Job;
use waiting::{Patience, Waiting};

/// What the library takes where nothing else is said: the TTL, and by how much less than it a lock is valid.
const TTL: Duration = Duration::from_secs(10);
const TOLERANCE: Duration = Duration::from_millis(100);

pub(crate) use group::exec;
pub(crate) use watchdog::watchdog;

/// Waits for the lock, runs the command, and returns how it has ended.
pub(crate) fn run(options: &Run) -> Result<End, Failure> {
    let Run { command, name, grace, on_lost, .. } = options;
    let program = command.first().map(std::ffi::OsString::as_os_str);
    program::find(program.unwrap_or_default())?;
    if options.kind == Kind::Read && options.min_hold.is_some() {
        return Err(Failure::own(
            "--min-hold is for locks that have one holder at a time; readers are many",
        ));
    }
    if options.kind != Kind::Semaphore && options.permits.is_some() {
        return Err(Failure::own("--permits is for --kind semaphore"));
    }
    // Before any thread is there: each would get signals.
    let signals = signals::listen()?;
    write_by_a_thread().map_err(Failure::own)?;
    let job = Job { command, name, grace: *grace, on_lost: *on_lost };
    let (builder, ttl) = options.set.builder_and_ttl()?;
    let ttl = options.ttl.or(ttl).unwrap_or(TTL);
    let client = client(builder, options)?;
    // Before a lock is taken that `--min-hold` would keep. For how long it is valid is known only then.
    job.grace_within(ttl.saturating_sub(ttl / 50 + TOLERANCE))?;
    let waiting = Waiting {
        client: &client,
        signals: &signals,
        patience: match (options.no_wait, options.wait) {
            (true, _) => Patience::Once,
            (false, Some(wait)) => Patience::For(wait),
            (false, None) => Patience::Forever,
        },
        held_code: options.conflict_exit_code,
    };
    let name = bytes(name);
    let rw_lock = || rw_lock(client.rw_lock(name), options);
    match options.kind {
        Kind::Mutex => job.run(waiting.lock(&lock(client.mutex(name), options))?, &signals),
        Kind::Fair => job.run(waiting.lock(&lock(client.fair_mutex(name), options))?, &signals),
        Kind::Read => job.run(waiting.read(&rw_lock())?, &signals),
        Kind::Write => job.run(waiting.write(&rw_lock())?, &signals),
        Kind::Semaphore => {
            let permits = options.permits.unwrap_or_default();
            let semaphore = semaphore(client.semaphore(name, permits), options);
            job.run(waiting.acquire(&semaphore)?, &signals)
        }
    }
}

fn client(mut builder: Builder, options: &Run) -> Result<Quorlock, Failure> {
    if let Some(ttl) = options.ttl {
        builder = builder.ttl(ttl);
    }
    if let Some(max_hold) = options.max_hold {
        builder = builder.max_hold(max_hold);
    }
    Ok(builder.build()?)
}

fn lock<K: LockKind>(handle: Handle<K>, options: &Run) -> Handle<K> {
    match options.min_hold {
        Some(min_hold) => handle.min_hold(min_hold),
        None => handle,
    }
}

fn rw_lock(lock: RwLock, options: &Run) -> RwLock {
    match options.min_hold {
        Some(min_hold) => lock.min_hold(min_hold),
        None => lock,
    }
}

fn semaphore(semaphore: Semaphore, options: &Run) -> Semaphore {
    match options.min_hold {
        Some(min_hold) => semaphore.min_hold(min_hold),
        None => semaphore,
    }
}
