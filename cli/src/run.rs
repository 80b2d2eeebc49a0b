//! `quorlock run`: a command under a lock.

mod elect;
mod ending;
mod give_back;
mod group;
mod keeper;
mod lookup;
mod members;
mod news;
mod orphans;
mod program;
mod waiting;
mod watchdog;
mod why;

use std::time::Duration;

use quorlock::{Handle, LockKind, Quorlock, RwLock, Semaphore, Wait};

use crate::exit::{End, Failure};
use crate::options::{Kind, OnAsked, Run};
use crate::set::{Configured, bytes, with_passwords};
use crate::signals;
use crate::tell::{quoted_names, write_by_a_thread};
use give_back::GivesBack;
use keeper::{Job, grace_within, warned_before};
use waiting::Waiting;

/// Difference between the TTL of a lock and its validity, in addition to the drift, if no setting changes it.
const TOLERANCE: Duration = Duration::from_millis(100);

pub(crate) use elect::elect;
pub(crate) use group::exec;
pub(crate) use watchdog::watchdog;

/// Waits for the lock, runs the command, and returns its end.
pub(crate) fn run(options: &Run) -> Result<End, Failure> {
    let Run { name, keeping, on_lost, free_failed, .. } = options;
    check(options)?;
    let command = &options.command();
    program::find(command)?;
    // Set up before any thread starts, since each thread would get signals.
    let signals = signals::listen()?;
    write_by_a_thread().map_err(Failure::own)?;
    let configured = options.set.configured()?;
    let ttl = options.ttl.unwrap_or(configured.ttl());
    let keeps = options.min_hold.is_some() || configured.has_min_hold;
    if options.free_failed && !keeps {
        return Err(Failure::own("--free-failed needs --min-hold, or min_hold in the file"));
    }
    let password = configured.asked_password.clone();
    let validity = ttl.saturating_sub(ttl / 50 + TOLERANCE);
    let grace = grace_within(keeping.grace, *on_lost, validity);
    let margin = grace.as_ref().ok().and_then(|grace| warned_before(*grace, validity));
    let client = client(configured, options, margin)?;
    // Checked before a lock is taken that `--min-hold` would keep. The keeper checks it again, with the validity of the lock.
    grace?;
    let shown = &quoted_names(options.names());
    let any_kind = &client.multi_mutex(options.names().map(bytes));
    let job = Job {
        client: &client,
        command,
        name,
        shown,
        any_kind,
        grace: keeping.grace,
        on_lost: *on_lost,
        on_asked: keeping.on_asked.unwrap_or(OnAsked::Tell),
        frees_failed: *free_failed,
        secrets: if keeping.pass_passwords { Vec::new() } else { with_passwords() },
        // After the keeper is killed, nobody knows if the command has failed, so a minimum stands.
        gives_back: (!keeps || *free_failed).then(|| GivesBack {
            set: options.set.clone(),
            password,
            names: options.names().map(|name| bytes(name).to_vec()).collect(),
        }),
        is_elected: false,
    };
    let waiting = Waiting {
        client: &client,
        signals: &signals,
        tries_once: options.no_wait,
        wait: match (options.no_wait, options.wait) {
            (true, _) => Wait::up_to(Duration::ZERO),
            (false, Some(wait)) => Wait::up_to(wait),
            (false, None) => Wait::forever(),
        },
        held_code: options.conflict_exit_code,
        any_kind,
        shown,
        permits: options.permits,
        verbose: keeping.verbose,
    };
    let name = bytes(name);
    let rw_lock = || rw_lock(client.rw_lock(name), options);
    match options.kind() {
        Kind::Mutex if options.also.is_empty() => {
            job.run(waiting.lock(&lock(client.mutex(name), options))?, &signals)
        }
        Kind::Mutex => job.run(waiting.lock(&lock(any_kind.clone(), options))?, &signals),
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

/// Checks that the options fit together.
fn check(options: &Run) -> Result<(), Failure> {
    let wrong = if let Some(refused) = options.flock.refused() {
        refused
    } else if options.kind() == Kind::Read && options.min_hold.is_some() {
        "--min-hold is for locks with one holder at a time, and not for readers"
    } else if options.kind() != Kind::Semaphore && options.permits.is_some() {
        "--permits is for --kind semaphore"
    } else if options.kind() != Kind::Mutex && !options.also.is_empty() {
        "--also is for --kind mutex: locks of the other kinds have one name"
    } else {
        return Ok(());
    };
    Err(Failure::own(wrong))
}

fn client(
    configured: Configured,
    options: &Run,
    margin: Option<Duration>,
) -> Result<Quorlock, Failure> {
    let has_no_quorum_timeout = configured.has_no_quorum_timeout;
    let margin = margin.filter(|_| !configured.has_risk_margin);
    // A call that waits for the lock waits for the command as well.
    let passwords = configured.passwords.clone().filter(|_| options.no_wait);
    let mut builder = configured.with_ttl();
    if !has_no_quorum_timeout {
        // Only `--wait` limits the wait, for whatever reason the lock is not granted.
        builder = builder.no_quorum_timeout(Duration::MAX);
    }
    if let Some(ttl) = options.ttl {
        builder = builder.ttl(ttl);
    }
    if let Some(margin) = margin {
        builder = builder.risk_margin(margin);
    }
    if let Some(max_hold) = options.max_hold {
        builder = builder.max_hold(max_hold);
    }
    let client = builder.build()?;
    if let Some(passwords) = passwords {
        passwords.wait(&client);
    }
    Ok(client)
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
