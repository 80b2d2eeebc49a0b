//! What the threads of a client know together: which nodes may grant, and what their clocks say.

use std::cell::RefCell;

use super::setup::Setup;
use crate::quorum::admission::Admission;
use crate::quorum::mark::Configuration;
use crate::quorum::set_time::{ClockRange, SetTime};
use crate::quorum::{Mechanisms, Offset, Time};

pub(super) struct Shared {
    pub(super) admission: RefCell<Admission>,
    clocks: RefCell<Vec<Option<Reading>>>,
}

/// What a node's clock said, to a question asked at `sent` whose answer came at `received`.
#[derive(Clone, Copy, Debug)]
struct Reading {
    us: u64,
    sent: Time,
    received: Time,
}

pub(super) fn configuration(setup: Setup, quarantine: bool) -> Configuration {
    Configuration {
        set_name: "default".to_owned(),
        nodes: setup.nodes,
        max_ttl: setup.max_ttl,
        quarantine,
        index: None,
    }
}

impl Shared {
    pub(super) fn new(configuration: &Configuration, mechanisms: Mechanisms) -> Self {
        Self {
            admission: RefCell::new(Admission::new(configuration, false, mechanisms)),
            clocks: RefCell::new(vec![None; configuration.nodes]),
        }
    }

    pub(super) fn saw_clock(&self, node: usize, us: u64, sent: Time, received: Time) {
        self.clocks.borrow_mut()[node] = Some(Reading { us, sent, received });
    }

    pub(super) fn offset(&self, node: usize) -> Option<Offset> {
        let Reading { us, sent, received } = self.clocks.borrow()[node]?;
        Some(Offset::new(us as i64, sent, received))
    }

    pub(super) fn offsets(&self) -> Vec<Option<Offset>> {
        (0..self.clocks.borrow().len()).map(|node| self.offset(node)).collect()
    }

    /// The set's time, as far as it is known.
    pub(super) fn set_time(&self, now: Time) -> Option<SetTime> {
        let range = |reading: &Reading| {
            let age = now.since(reading.received).as_micros() as u64;
            let drift = age / 100 + 1_000;
            let most = now.since(reading.sent).as_micros() as u64;
            ClockRange {
                least_ms: (reading.us + age - drift.min(age)) / 1_000,
                most_ms: (reading.us + most + drift) / 1_000,
            }
        };
        let clocks = self.clocks.borrow();
        let ranges: Vec<_> = clocks.iter().map(|reading| reading.as_ref().map(range)).collect();
        SetTime::of(&ranges)
    }
}
