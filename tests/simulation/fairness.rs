//! What a client knows of other processes that want its locks, and how it hears of them. The rules are the
//! shipped ones, in `core/fairness.rs`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::client::Note;
use super::fan_out::{Asker, value};
use super::shared::Shared;
use super::subscriptions::channel;
use crate::core::{Failure, Fairness, Time, Via};
use crate::embedded::Reply;
use crate::runtime::reply;

/// By name; one that nobody else waits for is not in here.
#[derive(Default)]
pub(super) struct FairnessByName {
    by_name: BTreeMap<usize, FairnessEntry>,
}

pub(super) struct FairnessEntry {
    pub(super) fairness: Fairness,
    /// Who had the lock here last: what is told of that release is no news here.
    pub(super) last_owner: Option<u128>,
}

impl FairnessByName {
    /// A node has told so many `others` of a release of that lock; or (0) there is somebody.
    pub(super) fn heard(&mut self, name: usize, others: u32, now: Time) {
        let new = || FairnessEntry { fairness: Fairness::new(), last_owner: None };
        self.by_name.entry(name).or_insert_with(new).fairness.heard(others, now);
    }

    pub(super) fn of(&mut self, name: usize) -> Option<&mut FairnessEntry> {
        self.by_name.get_mut(&name)
    }

    /// How many others wait for that lock, as far as is known.
    pub(super) fn others(&self, name: usize, now: Time) -> u32 {
        self.by_name.get(&name).map_or(0, |entry| entry.fairness.others(now))
    }

    /// Whether others wait for that lock, as far as is known.
    pub(super) fn others_wait(&self, name: usize, now: Time) -> bool {
        self.by_name.get(&name).is_some_and(|entry| entry.fairness.others_wait(now))
    }
}

/// Passes the answers to a release on to whoever waits for them, if anybody does.
pub(super) struct ContentionSink {
    pub(super) shared: Rc<Shared>,
    pub(super) name: usize,
    pub(super) inner: Option<Rc<dyn Asker>>,
}

impl Asker for ContentionSink {
    fn sending(&self, node: usize, via: Via, now: Time) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.sending(node, via, now))
    }

    fn unsent(&self, node: usize) {
        if let Some(inner) = &self.inner {
            inner.unsent(node);
        }
    }

    fn answer(&self, node: usize, answer: Result<&Reply, Failure>, now: Time) -> Option<Note> {
        let told = answer.map_or(0, |reply| reply::told(&value(reply)));
        let others = self.shared.channels.borrow().others_told(node, &channel(self.name), told);
        if others > 0 {
            self.shared.fairness.borrow_mut().heard(self.name, others, now);
        }
        self.inner.as_ref().and_then(|inner| inner.answer(node, answer, now))
    }
}
