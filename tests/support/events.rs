//! The events of the library, each as one line of text. A listener gets the events of all tests in its program.

use std::fmt::Write as _;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Passes every event to that function.
pub struct Listener<F>(pub F);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").expect("a string takes everything");
    }
}

impl<F: Fn(String) + Send + Sync + 'static> Subscriber for Listener<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Remembers every event from now on.
pub fn remember() {
    // The tests of a program share one listener. The first call sets it.
    let _ = tracing::subscriber::set_global_default(Listener(|line| EVENTS.lock().push(line)));
}

/// The number of events that contain all those words.
pub fn told(words: &[&str]) -> usize {
    let events = EVENTS.lock();
    events.iter().filter(|event| words.iter().all(|word| event.contains(word))).count()
}

/// All events so far.
pub fn all() -> Vec<String> {
    EVENTS.lock().clone()
}
