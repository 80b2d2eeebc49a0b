//! Histories for tests, written as stories: who tells what at which millisecond.

use std::time::Duration;

use crate::witness::{Event, History, Outcome, Record, Store};

pub(crate) const NAME: &str = "a";

/// A history that is being written.
#[derive(Default)]
pub(crate) struct Story(History);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Story {
    pub(crate) fn tell(mut self, at_ms: u64, who: &str, event: Event) -> Self {
        let record =
            Record { stamp: ms(at_ms), who: who.to_owned(), event, outcome: Outcome::None };
        self.0.0.push(record);
        self
    }

    /// The guard is there at that time with that token, and proves to be valid for `r` ms more.
    pub(crate) fn valid(self, at_ms: u64, who: &str, token: u64, r: u64) -> Self {
        self.inside(at_ms, who, token).proves(at_ms, who, r)
    }

    pub(crate) fn inside(self, at_ms: u64, who: &str, token: u64) -> Self {
        let (name, token) = (NAME.to_owned(), Some(token));
        self.tell(at_ms, who, Event::Inside { guard: 1, name, token })
    }

    pub(crate) fn proves(self, at_ms: u64, who: &str, r: u64) -> Self {
        self.tell(at_ms + 1, who, Event::Valid { guard: 1, at: ms(at_ms), r: ms(r) })
    }

    pub(crate) fn leaves(self, at_ms: u64, who: &str) -> Self {
        self.tell(at_ms, who, Event::Leaving { guard: 1 })
    }

    pub(crate) fn loses(self, at_ms: u64, who: &str, in_time: bool) -> Self {
        self.tell(at_ms, who, Event::Lost { guard: 1, in_time, why: "why".to_owned() })
    }

    pub(crate) fn wants(self, at_ms: u64, who: &str) -> Self {
        self.tell(at_ms, who, Event::Wants { name: NAME.to_owned(), call: "lock".to_owned() })
    }

    /// Writes `version`, made of `base`.
    pub(crate) fn writes(self, who: &str, store: Store, base: u64, version: u64) -> Self {
        let at_ms = self.0.0.len() as u64;
        let (name, token) = (NAME.to_owned(), Some(1));
        let mut story = self.tell(at_ms, who, Event::Write { guard: 1, name, store, token, base });
        if let Some(record) = story.0.0.last_mut() {
            record.outcome = Outcome::Version(version);
        }
        story
    }

    pub(crate) fn confirms(self, who: &str, version: u64) -> Self {
        let at_ms = self.0.0.len() as u64;
        self.tell(at_ms, who, Event::Confirms { name: NAME.to_owned(), store: Store::Set, version })
    }

    pub(crate) fn fault(self, at_ms: u64, id: u64, target: &str) -> Self {
        let (kind, target) = ("fault".to_owned(), target.to_owned());
        self.tell(at_ms, "nemesis", Event::Fault { id, kind, target })
    }

    pub(crate) fn healed(self, at_ms: u64, id: u64) -> Self {
        self.tell(at_ms, "nemesis", Event::Healed { id })
    }

    pub(crate) fn end(self) -> History {
        self.0
    }
}
