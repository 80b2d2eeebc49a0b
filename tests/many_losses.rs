//! A slow subscriber to losses delays nothing else. Alone in its program, since it subscribes to the whole process.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use quorlock::LossReason;
use support::clients::{connected, fresh, wait_renewed};
use support::events::Listener;
use support::{Server, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const LOCKS: usize = 20;
const FIRST: &str = "first";

/// A subscriber that remembers losses. It blocks at the first one until `goes_on` closes.
struct Slow {
    goes_on: Receiver<()>,
    told: Mutex<Vec<String>>,
}

impl Slow {
    fn hear(&self, event: String) {
        if !event.contains("was lost") {
            return;
        }
        let is_first = event.contains(FIRST);
        self.told.lock().push(event);
        if is_first {
            assert!(self.goes_on.recv_timeout(LIMIT * 4).is_err(), "it ends without a message");
        }
    }
}

fn slow_subscriber() -> (Arc<Slow>, Sender<()>) {
    let (let_go, goes_on) = bounded(0);
    let slow = Arc::new(Slow { goes_on, told: Mutex::default() });
    let theirs = slow.clone();
    let listener = Listener(move |event| theirs.hear(event));
    tracing::subscriber::set_global_default(listener).expect("nobody else listens");
    (slow, let_go)
}

/// Other locks are still renewed, lost, reported and given back. In the end the subscriber gets all losses.
#[test]
fn a_subscriber_that_blocks_over_a_loss_holds_up_no_other_lock() {
    let (slow, let_go) = slow_subscriber();
    let server = Server::start();
    let locks = connected(fresh([server.url()]).node_timeout(Duration::from_secs(1)));
    let lose = |name: &str| {
        let guard = locks.mutex(name).max_hold(Duration::from_secs(1)).lock().expect("one of one");
        wait_until("the message", LIMIT, || !guard.lost().is_empty());
        guard
    };
    let renewed = locks.lock("renewed").expect("one of one");
    let first = lose(FIRST);
    wait_until("the event", LIMIT, || slow.told.lock().len() == 1);

    let called = Arc::new(AtomicUsize::new(0));
    let others: Vec<_> = (0..LOCKS)
        .map(|i| {
            // Lost in the middle of its lease, but late enough to take all locks before.
            let mutex = locks.mutex(format!("other-{i}")).max_hold(Duration::from_secs(3));
            let guard = mutex.lock().expect("one of one");
            let called = called.clone();
            guard.on_lost(move |_| {
                called.fetch_add(1, Ordering::SeqCst);
            });
            guard
        })
        .collect();
    for guard in &others {
        assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::MaxHold));
    }
    wait_until("the callbacks", LIMIT, || called.load(Ordering::SeqCst) == LOCKS);
    wait_until("the releases", LIMIT, || {
        (0..LOCKS).all(|i| server.get(&format!("quorlock:other-{i}")).is_none())
    });
    wait_renewed([&renewed], 1);
    assert_eq!(slow.told.lock().len(), 1, "it has not gone on so far");

    drop(let_go);
    wait_until("all the events", LIMIT, || slow.told.lock().len() == 1 + LOCKS);
    drop((first, others));
    renewed.unlock().expect("one of one");
    server.wait_no_keys_in(0);
}
