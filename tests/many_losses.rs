//! Locks that are lost together. Alone in its program, since it listens to the whole process.

mod support;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::{Guard, LossReason, Renewal};
use support::clients::fresh;
use support::events::Listener;
use support::{Server, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
const LOCKS: usize = 20;
/// The first lock ends so long before the others that they are never noticed together.
const FIRST: Duration = Duration::from_secs(2);
const OTHERS: Duration = Duration::from_secs(6);
/// A third of it before the first one ends, so that there are renewal threads by then.
const TTL: Duration = Duration::from_secs(3);

static OTHER_GUARDS: Mutex<Vec<Arc<Guard>>> = Mutex::new(Vec::new());
/// How many of the other locks' holders had their message, at each report of such a loss.
static TOLD: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Whoever hears of the first loss holds up the thread that notices losses, until all the others are
/// to be noticed at once.
fn heard(event: &str) {
    if !event.contains("was lost") {
        return;
    }
    let others = OTHER_GUARDS.lock().clone();
    if event.contains("first") {
        wait_until("all the others have ended", LIMIT, || {
            others.iter().all(|guard| guard.remaining().is_zero())
        });
    } else {
        let told = others.iter().filter(|guard| !guard.lost().is_empty()).count();
        TOLD.lock().push(told);
    }
}

/// With a thousand of them it takes as long to give back what they have left as to tell them, and a
/// holder that still works is what cannot wait; be they renewed or not.
#[test]
fn all_holders_are_told_before_anything_is_given_back() {
    let listener = Listener(|event: String| heard(&event));
    tracing::subscriber::set_global_default(listener).expect("nobody else listens");
    let server = Server::start();
    let locks =
        fresh([server.url()]).max_ttl(Duration::from_secs(600)).build().expect("valid settings");
    let hold = |name: String, max_hold, renewal| {
        // Those that are not renewed live as long as they may be held, and longer.
        let ttl = if renewal == Renewal::Auto { TTL } else { max_hold * 2 };
        let mutex = locks.mutex(name).ttl(ttl).max_hold(max_hold).renewal(renewal);
        mutex.lock().expect("one of one")
    };
    let first = hold("first".to_owned(), FIRST, Renewal::Manual);
    for i in 0..LOCKS {
        let renewal = if i % 2 == 0 { Renewal::Auto } else { Renewal::Manual };
        OTHER_GUARDS.lock().push(Arc::new(hold(format!("other-{i}"), OTHERS, renewal)));
    }
    assert!(!first.remaining().is_zero(), "taking the locks took too long for this test");
    wait_until("each loss is reported", LIMIT, || TOLD.lock().len() == LOCKS);
    assert_eq!(*TOLD.lock(), [LOCKS; LOCKS]);
    assert_eq!(first.lost().try_recv(), Ok(LossReason::MaxHold));
    for guard in OTHER_GUARDS.lock().drain(..) {
        assert_eq!(guard.lost().try_recv(), Ok(LossReason::MaxHold));
    }
    // Long before their time; and this includes the locks whose guards are still there.
    server.wait_no_keys_in(0);
}
