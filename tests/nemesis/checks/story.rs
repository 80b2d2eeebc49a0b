//! Histories for tests, written as stories: events by contender and millisecond.

use std::time::Duration;

use crate::judge::Rules;
use crate::witness::{Class, Event, History, Kind, Outcome, Record, Store};

pub(crate) const NAME: &str = "a";

/// Rules that every run with at least one fault fulfils.
pub(crate) const RULES: Rules = Rules {
    recovery: None,
    waits: None,
    tokens: false,
    kinds: 0,
    elections: false,
    figures: false,
    aftermath: Duration::ZERO,
    grants_a_second: 0.0,
    share_hit: 0.0,
};

/// A history that is being written.
#[derive(Clone)]
pub(crate) struct Story {
    history: History,
    /// The kind of the locks that follow.
    kind: Kind,
    names: Vec<String>,
}

impl Default for Story {
    fn default() -> Self {
        let kind = Kind { label: "mutex".to_owned(), class: Class::Exclusive };
        Self { history: History::default(), kind, names: vec![NAME.to_owned()] }
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Story {
    pub(crate) fn tell(mut self, at_ms: u64, who: &str, event: Event) -> Self {
        let record =
            Record { stamp: ms(at_ms), who: who.to_owned(), event, outcome: Outcome::None };
        self.history.0.push(record);
        self
    }

    /// Sets the kind of the locks that follow.
    pub(crate) fn kind(mut self, label: &str, class: Class) -> Self {
        self.kind = Kind { label: label.to_owned(), class };
        self
    }

    /// Sets the names of the locks that follow.
    pub(crate) fn of(mut self, names: &[&str]) -> Self {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// One millisecond after the last event.
    fn next_ms(&self) -> u64 {
        let last = self.history.0.last().map_or(Duration::ZERO, |record| record.stamp);
        u64::try_from(last.as_millis()).expect("a short story") + 1
    }

    /// The guard exists at that time with that token, and is proven valid for `r` ms more.
    pub(crate) fn valid(self, at_ms: u64, who: &str, token: u64, r: u64) -> Self {
        self.inside(at_ms, who, token).proves(at_ms, who, r)
    }

    pub(crate) fn inside(self, at_ms: u64, who: &str, token: u64) -> Self {
        let (kind, names) = (self.kind.clone(), self.names.clone());
        let token = kind.class.has_tokens().then_some(token);
        self.tell(at_ms, who, Event::Inside { guard: 1, kind, names, token })
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
        let (names, kind) = (self.names.clone(), Some(self.kind.clone()));
        self.tell(at_ms, who, Event::Wants { names, call: "lock".to_owned(), kind })
    }

    pub(crate) fn without(self, at_ms: u64, who: &str) -> Self {
        self.tell(at_ms, who, Event::Without { why: "held by another".to_owned() })
    }

    /// Writes `version`, made of `base`.
    pub(crate) fn writes(self, who: &str, store: Store, base: u64, version: u64) -> Self {
        let (name, token) = (NAME.to_owned(), Some(1));
        self.answered(who, Event::Write { guard: 1, name, store, token, base }, version)
    }

    /// Reads `version`.
    pub(crate) fn reads(self, who: &str, store: Store, version: u64) -> Self {
        let (name, token) = (NAME.to_owned(), Some(1));
        self.answered(who, Event::Read { guard: 1, name, store, token }, version)
    }

    fn answered(self, who: &str, event: Event, version: u64) -> Self {
        let at_ms = self.next_ms();
        let mut story = self.tell(at_ms, who, event);
        if let Some(record) = story.history.0.last_mut() {
            record.outcome = Outcome::Version(version);
        }
        story
    }

    pub(crate) fn confirms(self, who: &str, version: u64) -> Self {
        let at_ms = self.next_ms();
        self.tell(at_ms, who, Event::Confirms { name: NAME.to_owned(), store: Store::Set, version })
    }

    pub(crate) fn fault(self, at_ms: u64, id: u64, target: &str) -> Self {
        self.a_fault(at_ms, id, target, false)
    }

    /// A fault by which the masters forget locks.
    pub(crate) fn forgets(self, at_ms: u64, id: u64, target: &str) -> Self {
        self.a_fault(at_ms, id, target, true)
    }

    fn a_fault(self, at_ms: u64, id: u64, target: &str, forgets: bool) -> Self {
        let (kind, target) = ("fault".to_owned(), target.to_owned());
        self.tell(at_ms, "nemesis", Event::Fault { id, kind, target, forgets })
    }

    pub(crate) fn healed(self, at_ms: u64, id: u64) -> Self {
        self.tell(at_ms, "nemesis", Event::Healed { id })
    }

    pub(crate) fn end(self) -> History {
        self.history
    }
}
