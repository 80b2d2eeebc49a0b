//! The spans of calls and holds, as a `tracing` subscriber sees them.

mod support;

use std::fmt::Write as _;
use std::sync::Arc;
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
const SHORT: Duration = Duration::from_millis(500);

/// A span with its fields.
#[derive(Clone, Debug, Default)]
struct Seen {
    text: String,
    is_closed: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.text, " {field}={value:?}").expect("a string takes everything");
    }
}

/// Collects the spans of one test's thread.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Seen>>>, Option<Panics>);

/// The call in which a collector panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panics {
    Enter,
    Exit,
    Close,
    Hold,
}

impl Panics {
    /// The test panics here if that is wanted, once.
    fn here(self, wanted: Option<Self>) {
        assert!(wanted != Some(self) || std::thread::panicking(), "{self:?}, as the test wants it");
    }
}

impl Collector {
    /// The spans so far whose names begin so.
    fn of(&self, name: &str) -> Vec<Seen> {
        self.0.lock().iter().filter(|span| span.text.starts_with(name)).cloned().collect()
    }

    fn with(&self, id: &Id, f: impl FnOnce(&mut Seen)) {
        let index = usize::try_from(id.into_u64()).expect("few") - 1;
        f(&mut self.0.lock()[index]);
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        if attributes.metadata().name() == "quorlock.held" {
            Panics::Hold.here(self.1);
        }
        let mut span = Seen { text: attributes.metadata().name().to_owned(), is_closed: false };
        attributes.record(&mut span);
        let mut spans = self.0.lock();
        spans.push(span);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.with(id, |span| values.record(span));
    }

    fn try_close(&self, id: Id) -> bool {
        self.with(&id, |span| span.is_closed = true);
        Panics::Close.here(self.1);
        true
    }

    fn event(&self, _: &Event<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {
        Panics::Enter.here(self.1);
    }

    fn exit(&self, _: &Id) {
        Panics::Exit.here(self.1);
    }
}

/// Runs `f` with a client of three servers, and returns the spans that it made.
fn spans_of(f: impl FnOnce(&Quorlock, &Collector)) -> Collector {
    let servers = Servers::start(3);
    let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL);
    let locks = connected(builder.node_timeout(SHORT));
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), || f(&locks, &collector));
    collector
}

#[track_caller]
fn assert_has(span: &Seen, words: &[&str]) {
    for word in words {
        assert!(span.text.contains(word), "{word} in {span:?}");
    }
}

#[test]
fn a_call_and_its_hold_have_a_span_each() {
    let collector = spans_of(|locks, collector| {
        let guard = locks.lock("orders/42").expect("it is free");
        let [call] = &collector.of("quorlock.lock")[..] else { panic!("one call") };
        let words = ["kind=\"mutex\"", "orders/42", "outcome=\"acquired\"", "waited="];
        assert_has(call, &words);
        assert!(call.is_closed, "{call:?}");
        let [held] = &collector.of("quorlock.held")[..] else { panic!("one hold") };
        assert_has(held, &["kind=\"mutex\"", "orders/42", "owner="]);
        assert!(!held.is_closed && !held.text.contains("lost"), "{held:?}");
        guard.unlock().expect("it is ours");
    });
    let [held] = &collector.of("quorlock.held")[..] else { panic!("one hold") };
    assert_has(held, &["lost=false"]);
    assert!(held.is_closed, "{held:?}");
}

#[test]
fn a_call_without_a_lock_has_its_outcome_and_no_hold() {
    let collector = spans_of(|locks, _| {
        let other = locks.clone();
        let guard = std::thread::spawn(move || other.lock("orders/42")).join().expect("no panic");
        let _guard = guard.expect("it is free");
        assert!(locks.try_lock("orders/42").expect_err("it is held").is_held());
    });
    let [call] = &collector.of("quorlock.lock")[..] else { panic!("one call") };
    assert_has(call, &["outcome=\"held\""]);
    assert_eq!(collector.of("quorlock.held").len(), 0);
}

#[test]
fn a_hold_that_was_lost_says_so_and_names_are_escaped() {
    let collector = spans_of(|locks, _| {
        let mutex = locks.mutex("two\nlines").max_hold(SHORT);
        let guard = mutex.lock().expect("it is free");
        guard.lost().recv_timeout(TTL).expect("it ends");
        drop(guard);
    });
    let [held] = &collector.of("quorlock.held")[..] else { panic!("one hold") };
    assert_has(held, &["lost=true"]);
    assert!(!held.text.contains('\n'), "{held:?}");
}

#[test]
fn a_subscriber_that_panics_leaves_no_lock_behind() {
    let servers = Servers::start(3);
    for panics in [Panics::Enter, Panics::Exit, Panics::Close, Panics::Hold] {
        let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL);
        let locks = connected(builder.node_timeout(SHORT));
        let collector = Collector(Arc::default(), Some(panics));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tracing::subscriber::with_default(collector, || locks.lock("orders/42").map(drop))
        }));
        assert!(caught.is_err(), "{panics:?}");
        let stats = locks.stats();
        assert_eq!((stats.waiting, stats.holding), (0, 0), "{panics:?}");
        servers.wait_no_keys();
    }
}
