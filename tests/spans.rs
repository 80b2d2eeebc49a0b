//! The spans of calls and holds, as a `tracing` subscriber sees them.

mod support;

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::Quorlock;
use support::Servers;
use support::clients::{connected, fresh};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);

/// The time of a hold that is to end. Calls wait for the nodes for longer.
const SHORT: Duration = Duration::from_secs(2);

/// A span with its fields.
#[derive(Clone, Debug)]
struct Seen {
    thread: ThreadId,
    text: String,
    is_closed: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.text, " {field}={value:?}").expect("a string takes everything");
    }
}

/// The spans of all threads.
static SPANS: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

thread_local! {
    /// The call of the subscriber that panics on this thread.
    static PANICS: Cell<Option<Panics>> = const { Cell::new(None) };
}

/// Collects all spans. It is the subscriber of the whole program: one for each thread would race with the others,
/// since `tracing` remembers for each place in the code whether anybody wants it.
struct Collector;

/// The call in which a collector panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panics {
    Enter,
    Exit,
    Close,
    Hold,
    Record,
}

impl Panics {
    /// Panics here if this thread wants that.
    fn here(self) {
        let is_wanted = PANICS.get() == Some(self) && !thread::panicking();
        assert!(!is_wanted, "{self:?}, as the test wants it");
    }
}

fn with(id: &Id, f: impl FnOnce(&mut Seen)) {
    let index = usize::try_from(id.into_u64()).expect("few") - 1;
    f(&mut SPANS.lock()[index]);
}

/// The spans that this thread has made whose names begin so.
fn spans(name: &str) -> Vec<Seen> {
    let mine = |span: &&Seen| span.thread == thread::current().id() && span.text.starts_with(name);
    SPANS.lock().iter().filter(mine).cloned().collect()
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        if attributes.metadata().name() == "quorlock.held" {
            Panics::Hold.here();
        }
        let text = attributes.metadata().name().to_owned();
        let mut span = Seen { thread: thread::current().id(), text, is_closed: false };
        attributes.record(&mut span);
        let mut spans = SPANS.lock();
        spans.push(span);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        with(id, |span| values.record(span));
        Panics::Record.here();
    }

    fn try_close(&self, id: Id) -> bool {
        with(&id, |span| span.is_closed = true);
        Panics::Close.here();
        true
    }

    fn event(&self, _: &Event<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {
        Panics::Enter.here();
    }

    fn exit(&self, _: &Id) {
        Panics::Exit.here();
    }
}

/// A client of three servers, and a subscriber of spans.
fn client(servers: &Servers) -> Quorlock {
    // The first test sets it.
    let _ = tracing::subscriber::set_global_default(Collector);
    let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL);
    connected(builder.node_timeout(SHORT))
}

#[track_caller]
fn assert_has(span: &Seen, words: &[&str]) {
    for word in words {
        assert!(span.text.contains(word), "{word} in {span:?}");
    }
}

#[test]
fn a_call_and_its_hold_have_a_span_each() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let guard = locks.lock("orders/42").expect("it is free");
    let [call] = &spans("quorlock.lock")[..] else { panic!("one call: {:?}", spans("")) };
    assert_has(call, &["kind=\"mutex\"", "orders/42", "outcome=\"acquired\"", "waited="]);
    assert!(call.is_closed, "{call:?}");
    let [held] = &spans("quorlock.held")[..] else { panic!("one hold: {:?}", spans("")) };
    assert_has(held, &["kind=\"mutex\"", "orders/42", "owner="]);
    assert!(!held.is_closed && !held.text.contains("lost"), "{held:?}");
    guard.unlock().expect("it is ours");
    let [held] = &spans("quorlock.held")[..] else { panic!("one hold: {:?}", spans("")) };
    assert_has(held, &["lost=false"]);
    assert!(held.is_closed, "{held:?}");
}

#[test]
fn a_call_without_a_lock_has_its_outcome_and_no_hold() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let other = locks.clone();
    let guard = thread::spawn(move || other.lock("orders/42")).join().expect("no panic");
    let _guard = guard.expect("it is free");
    assert!(locks.try_lock("orders/42").expect_err("it is held").is_held());
    let [call] = &spans("quorlock.lock")[..] else { panic!("one call: {:?}", spans("")) };
    assert_has(call, &["outcome=\"held\""]);
    assert_eq!(spans("quorlock.held").len(), 0);
}

#[test]
fn a_hold_that_was_lost_says_so_and_names_are_escaped() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let mutex = locks.mutex("two\nlines").max_hold(SHORT);
    let guard = mutex.lock().expect("it is free");
    guard.lost().recv_timeout(TTL).expect("it ends");
    drop(guard);
    let [held] = &spans("quorlock.held")[..] else { panic!("one hold: {:?}", spans("")) };
    assert_has(held, &["lost=true"]);
    assert!(!held.text.contains('\n'), "{held:?}");
}

#[test]
fn a_subscriber_that_panics_leaves_no_lock_behind() {
    let servers = Servers::start(3);
    for panics in [Panics::Enter, Panics::Exit, Panics::Record, Panics::Close, Panics::Hold] {
        let locks = client(&servers);
        PANICS.set(Some(panics));
        let caught = catch_unwind(AssertUnwindSafe(|| locks.lock("orders/42").map(drop)));
        PANICS.set(None);
        assert!(caught.is_err(), "{panics:?}");
        let stats = locks.stats();
        assert_eq!((stats.waiting, stats.holding), (0, 0), "{panics:?}");
        let acquired: u64 = stats.kinds.iter().map(|kind| kind.calls.acquired).sum();
        // A hold whose own span panics has begun.
        let expected = u64::from(panics == Panics::Hold);
        assert_eq!((acquired, stats.holds.count()), (expected, expected), "{panics:?}");
        servers.wait_no_keys();
    }
}
