use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::core::base::Allowance;
use crate::core::hold::Terms;
use crate::embedded::{Node, Nodes};
use crate::ident::{Name, Names};
use crate::kinds::contract::kind::Kind;
use crate::runtime::claim::Wanted;
use crate::{LossReason, OptionalGuard as _, Quorlock, Renewal};

mod hand_over;
mod semaphore;
mod shared;

/// A limit that no test reaches.
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);
/// For locks whose end, or renewal, the test waits for.
const SHORT_TTL: Duration = Duration::from_secs(3);
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

const NAME: &str = "orders/42";
const KEY: &[u8] = b"quorlock:orders/42";

fn nodes(n: usize) -> Nodes {
    Nodes::start(n).expect("ports are free")
}

/// A client that is connected to all nodes.
fn client(nodes: &Nodes) -> Quorlock {
    let builder = Quorlock::builder()
        .restart_quarantine(false)
        .max_ttl(Duration::from_secs(600))
        .nodes(nodes.urls())
        .ttl(TTL)
        .node_timeout(NODE_TIMEOUT);
    let locks = builder.build().expect("valid settings");
    wait_until(|| locks.node_stats().iter().all(|node| node.connected));
    locks
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

fn wait_no_keys(nodes: &Nodes) {
    wait_until(|| nodes.iter().all(|node| !node.keys().iter().any(|key| key == KEY)));
}

fn requests(locks: &Quorlock) -> u64 {
    locks.node_stats().iter().map(|node| node.scripts).sum()
}

/// Returns the number of callers in line behind others.
fn in_line(locks: &Quorlock) -> usize {
    let queues = locks.coordinator().queues().state.lock();
    queues.waiters().filter(|waiter| waiter.wake.is_some()).count()
}

/// Spawns a thread that gets in line in `wait`, and returns once it is there.
fn waits<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    locks: &Quorlock,
    wait: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let before = in_line(locks);
    let thread = scope.spawn(wait);
    wait_until(|| in_line(locks) > before);
    thread
}

/// Deletes all keys until the holder is told that its lock is lost. Once may not be enough: a node whose answer to a renewal
/// comes late sets the key again, and counts at the next renewal.
fn flush_until_lost(nodes: &Nodes, lost: &Receiver<LossReason>) {
    let tries = (0..30).map(|_| {
        nodes.iter().for_each(Node::flush);
        lost.recv_timeout(NODE_TIMEOUT)
    });
    let told = tries.filter_map(Result::ok).next();
    assert_eq!(told, Some(LossReason::KeysGone));
}

/// Returns a request for that lock on `TTL`, as a call makes it.
fn wanted(kind: &'static Kind, renewed: bool) -> Wanted {
    let allowance = Allowance { clock_tolerance: Duration::from_millis(100) };
    let terms = Terms { renewed, ..Terms::renewed(TTL, allowance) };
    let names = Names::new(1, [Name::new(b"quorlock:", NAME.as_bytes())]).expect("a name");
    Wanted { kind, names, terms, permits: None, label: None, figures: None }
}

#[test]
fn a_queue_ends_with_its_last_holder_and_waiter() {
    let (locks, _nodes) = Quorlock::embedded(1).expect("ports are free");
    let queues = || locks.coordinator().queues().len();
    let guards: Vec<_> =
        (0..10).map(|i| locks.lock(format!("orders/{i}")).expect("the node is healthy")).collect();
    assert_eq!(queues(), 10);
    assert!(locks.try_lock("orders/0").optional().expect("held is no error").is_none());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock("orders/0"));
        while locks.coordinator().queues().state.lock().last_ticket() < 12 {
            thread::yield_now();
        }
        drop(guards);
        drop(waiting.join().expect("no panic").expect("the node is healthy"));
    });
    assert_eq!(queues(), 0);
    // A leaked hold leaves when its lock is lost.
    let ttl = Duration::from_millis(400);
    let mutex = locks.mutex("orders/42").ttl(ttl).renewal(Renewal::Manual);
    let guard = mutex.lock().expect("the node is healthy");
    let lost = guard.lost().clone();
    std::mem::forget(guard);
    assert_eq!(queues(), 1);
    lost.recv().expect("it is told");
    drop(locks.lock("orders/42").expect("the node is healthy"));
    assert_eq!(queues(), 0);
}
