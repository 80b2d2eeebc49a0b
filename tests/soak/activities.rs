//! The activities of the clients. Each is a line in the list, and a function that does it once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::bounded;
use quorlock::{Builder, Error, ErrorKind, Guard, OptionalGuard as _, Quorlock, Renewal};

use crate::figures::Done;
use crate::leak::{self, Leak};

/// Work that threads repeat.
pub(crate) struct Activity {
    pub(crate) name: &'static str,
    pub(crate) threads: u64,
    /// The pause of a thread between two turns.
    pub(crate) pause: Duration,
    pub(crate) turn: fn(&Clients, u64),
}

/// All activities. Together they take about half a processor, including the masters.
pub(crate) const ALL: [Activity; 7] = [
    Activity { name: "use once", threads: 2, pause: ms(4), turn: use_once },
    Activity { name: "wait in vain", threads: 3, pause: ms(100), turn: wait_in_vain },
    Activity { name: "wait", threads: 1, pause: ms(100), turn: wait },
    Activity { name: "hold", threads: 4, pause: ms(50), turn: hold },
    Activity { name: "lose", threads: 1, pause: ms(300), turn: lose },
    Activity { name: "share", threads: 3, pause: ms(20), turn: share },
    Activity { name: "visit", threads: 1, pause: ms(400), turn: visit },
];

/// Short, so that a master is used again soon after its restart.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// The TTL of locks that are renewed several times while they are held.
const SHORT_TTL: Duration = ms(800);
const HELD: Duration = ms(2_000);

/// The time after which a waiter gives up.
const PATIENCE: Duration = ms(25);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The clients that stay, and the counts of all work.
pub(crate) struct Clients {
    pub(crate) locks: Quorlock,
    /// Another client that competes with the first one.
    pub(crate) rival: Quorlock,
    leak: Option<Leak>,
    done: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    names: AtomicU64,
    grants: AtomicU64,
    clients: AtomicU64,
    gave_up: AtomicU64,
    lost: AtomicU64,
    failed: AtomicU64,
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

/// A client of the masters that the environment names.
pub(crate) fn client() -> Quorlock {
    let builder = Builder::from_env().expect("the nodes are named").ttl(TTL).max_ttl(TTL);
    builder.build().expect("valid settings")
}

impl Clients {
    pub(crate) fn start(leak: Option<Leak>) -> Self {
        Self { locks: client(), rival: client(), leak, done: Arc::default() }
    }

    pub(crate) fn done(&self) -> Done {
        let Counters { names, grants, clients, gave_up, lost, failed } = &*self.done;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Done {
            names: read(names),
            grants: read(grants),
            clients: read(clients),
            gave_up: read(gave_up),
            lost: read(lost),
            failed: read(failed),
        }
    }

    /// A name that was never used before. All names have one length, since the heap must keep its size.
    pub(crate) fn fresh_name(&self) -> String {
        let name = format!("orders/{:010}", count(&self.done.names));
        leak::name(self.leak, &name);
        name
    }

    /// The value of a successful call. Counts a failure that a master's fault explains, and panics at others.
    pub(crate) fn counted<T>(&self, result: Result<T, Error>) -> Option<T> {
        use ErrorKind::{Lost, NoQuorum, Quarantined};
        match result {
            Ok(value) => Some(value),
            Err(error) if matches!(error.kind(), NoQuorum | Quarantined { .. } | Lost) => {
                count(&self.done.failed);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn granted(&self, result: Result<Guard, Error>) -> Option<Guard> {
        let guard = self.counted(result)?;
        count(&self.done.grants);
        Some(guard)
    }

    fn unlock(&self, guard: Guard) {
        self.counted(guard.unlock());
    }

    /// Judges the result of a call for a lock that `holder` has.
    fn gave_up(&self, result: Result<Option<Guard>, Error>, holder: &Guard) {
        match result {
            Ok(None) => {
                count(&self.done.gave_up);
            }
            Ok(Some(guard)) => {
                // This is right only if a master's fault made the holder lose its lock.
                assert!(guard.check().is_err() || holder.check().is_err(), "two hold one lock");
            }
            Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Closed) => {
                count(&self.done.gave_up);
            }
            Err(error) => {
                self.counted::<()>(Err(error));
            }
        }
    }
}

/// One of the clients uses a name once and never again.
fn use_once(clients: &Clients, turn: u64) {
    let locks = if turn % 4 < 2 { &clients.locks } else { &clients.rival };
    let name = clients.fresh_name();
    let result = match turn % 3 {
        0 => locks.lock(name),
        1 => locks.mutex(name).ttl(SHORT_TTL).lock(),
        _ => locks.try_lock(name),
    };
    let Some(guard) = clients.granted(result) else { return };
    let Some(guard) = leak::guard(clients.leak, guard, turn) else { return };
    if turn.is_multiple_of(2) { clients.unlock(guard) } else { drop(guard) }
}

/// A waiter gives up: its time is over, or it is cancelled. The lock's holder is another client or its own.
fn wait_in_vain(clients: &Clients, turn: u64) {
    let Clients { locks, rival, .. } = clients;
    let name = clients.fresh_name();
    let waiter = if turn.is_multiple_of(2) { rival } else { locks };
    let Some(guard) = clients.granted(locks.lock(&name)) else { return };
    let result = match turn % 3 {
        0 => waiter.try_lock(&name),
        1 => waiter.try_lock_for(&name, PATIENCE),
        _ => thread::scope(|scope| {
            let (cancel, cancelled) = bounded(1);
            let name = &name;
            let call = scope.spawn(move || waiter.lock_within(name, &cancelled));
            thread::sleep(PATIENCE);
            cancel.send(()).expect("there is room for it");
            call.join().expect("no panic")
        }),
    };
    clients.gave_up(result.optional(), &guard);
    clients.unlock(guard);
}

/// A waiter gets the lock when the holder gives it back.
fn wait(clients: &Clients, turn: u64) {
    let Clients { locks, rival, .. } = clients;
    let name = clients.fresh_name();
    let waiter = if turn.is_multiple_of(2) { rival } else { locks };
    let Some(guard) = clients.granted(locks.lock(&name)) else { return };
    let result = thread::scope(|scope| {
        let call = scope.spawn(|| waiter.lock(&name));
        thread::sleep(PATIENCE);
        drop(guard);
        call.join().expect("no panic")
    });
    if let Some(guard) = clients.granted(result) {
        clients.unlock(guard);
    }
}

/// A lock is held for several renewals.
fn hold(clients: &Clients, _turn: u64) {
    let mutex = clients.locks.mutex(clients.fresh_name()).ttl(SHORT_TTL);
    let Some(guard) = clients.granted(mutex.lock()) else { return };
    thread::sleep(HELD);
    clients.unlock(guard);
}

/// A lock is extended once, and ends with its TTL.
fn lose(clients: &Clients, _turn: u64) {
    let mutex = clients.locks.mutex(clients.fresh_name());
    let mutex = mutex.ttl(ms(500)).renewal(Renewal::Manual);
    let Some(guard) = clients.granted(mutex.lock()) else { return };
    let done = clients.done.clone();
    guard.on_lost(move |_| {
        count(&done.lost);
    });
    clients.counted(guard.extend(SHORT_TTL));
    guard.lost().recv_timeout(Duration::from_secs(10)).expect("the end is told");
}

/// Threads of both clients hand a lock to each other.
fn share(clients: &Clients, turn: u64) {
    const TURNS: u64 = 50;
    let locks = if turn.is_multiple_of(3) { &clients.rival } else { &clients.locks };
    let name = format!("shared/{}", turn / TURNS);
    if let Some(guard) = clients.granted(locks.lock(name)) {
        thread::sleep(ms(1));
        drop(guard);
    }
}

/// A client comes, and goes in one of several ways.
fn visit(clients: &Clients, turn: u64) {
    const CLOSES: Duration = Duration::from_secs(2);
    let locks = client();
    count(&clients.done.clients);
    leak::client(clients.leak, &locks);
    let name = clients.fresh_name();
    let Some(guard) = clients.granted(locks.lock(&name)) else { return };
    match turn % 4 {
        0 => {
            clients.unlock(guard);
            clients.counted(locks.close(CLOSES));
        }
        1 => drop(guard),
        2 => {
            // The guard outlives its client.
            drop(locks);
            clients.unlock(guard);
        }
        _ => thread::scope(|scope| {
            let (waiter, name) = (locks.clone(), &name);
            let call = scope.spawn(move || waiter.lock(name));
            thread::sleep(PATIENCE);
            clients.counted(locks.close(CLOSES));
            clients.gave_up(call.join().expect("no panic").map(Some), &guard);
            drop(guard);
        }),
    }
}
