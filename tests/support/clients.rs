//! Clients whose nodes are ready before a test goes on.

use std::time::{Duration, Instant};

use quorlock::{Builder, Guard, OptionalGuard as _, Quorlock, Renewal};

use super::{Server, Servers, holds_within, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

/// Settings of a client of fresh servers: they have forgotten nothing, so their quarantine is switched off.
pub fn fresh(nodes: impl IntoIterator<Item: AsRef<str>>) -> Builder {
    Quorlock::builder().restart_quarantine(false).nodes(nodes)
}

/// A client that is connected to all nodes.
#[track_caller]
pub fn connected(builder: Builder) -> Quorlock {
    let locks = builder.build().expect("the settings are valid");
    wait_connected(&locks);
    locks
}

/// A client with a TTL and time limits that are enough for a busy machine.
#[track_caller]
pub fn patient(servers: &Servers, ttl: Duration) -> Quorlock {
    patient_on(servers.urls(), ttl)
}

/// [`patient`], on the servers with the given addresses.
#[track_caller]
pub fn patient_on(nodes: impl IntoIterator<Item: AsRef<str>>, ttl: Duration) -> Quorlock {
    let builder = fresh(nodes).ttl(ttl).max_ttl(ttl);
    connected(builder.node_timeout(Duration::from_secs(5)))
}

#[track_caller]
pub fn wait_connected(locks: &Quorlock) {
    wait_until("all nodes are connected", LIMIT, || {
        locks.node_stats().iter().all(|node| node.connected)
    });
}

/// A client of a set that is declared fit for use, so that no test waits for a quarantine.
#[track_caller]
pub fn admitted(builder: Builder) -> Quorlock {
    let locks = builder.build().expect("the settings are valid");
    let mut refused = None;
    let is_admitted = holds_within(LIMIT, || {
        refused = locks.admit().and_then(|_| locks.try_lock("any").optional()).err();
        refused.is_none()
    });
    assert!(is_admitted, "not all nodes are admitted: {refused:?}");
    locks
}

/// Waits until each of the locks is renewed that many times from now on.
#[track_caller]
pub fn wait_renewed<'a>(guards: impl IntoIterator<Item = &'a Guard>, times: usize) {
    let mut seen: Vec<_> = guards.into_iter().map(|guard| (guard, guard.remaining(), 0)).collect();
    wait_until("each lock has been renewed", LIMIT, || {
        for (guard, left, renewed) in &mut seen {
            // The remaining time of a lease grows only by a renewal.
            let now = guard.remaining();
            *renewed += usize::from(now > *left);
            *left = now;
        }
        seen.iter().all(|(_, _, renewed)| *renewed >= times)
    });
}

/// The number of requests that the client has made, to all nodes.
pub fn requests(locks: &Quorlock) -> u64 {
    locks.node_stats().iter().map(|node| node.scripts).sum()
}

/// A lock on the first two of three masters, a bare majority. It is not renewed.
#[track_caller]
pub fn bare_majority(name: &str, locks: &Quorlock, servers: &mut Servers) -> Guard {
    let mutex = locks.mutex(name).renewal(Renewal::Manual);
    let key = format!("quorlock:{name}");
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        servers[2].pause();
        let guard = mutex.lock().expect("a majority is healthy");
        servers[2].resume();
        let mut is_deleted = false;
        wait_until("the last one to run what it was sent, or the end of the lock", LIMIT, || {
            is_deleted |= servers[2].command(&["DEL", &key]) == redis::Value::Int(1);
            is_deleted || guard.check().is_err()
        });
        if is_deleted {
            return guard;
        }
    }
    panic!("each lock was over before the last one had run what it was sent");
}

/// A server that runs an endless script, which ends when this is dropped.
pub struct Busy<'a>(pub &'a Server);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let _ = self.0.try_command(&[b"SCRIPT", b"KILL"]);
    }
}
