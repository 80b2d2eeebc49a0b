//! A ballot on its way, as `src/runtime/fan_out.rs` carries it, without threads.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use super::client::Note;
use crate::core::base::Time;
use crate::core::link::Via;
use crate::core::vote::{Ballot, Failure, Shared};
use crate::embedded::Reply;
use crate::kinds::contract::reply::Unexpected;
use crate::node::Value;

/// Whoever asked the nodes something.
pub(super) trait Asker {
    fn sending(&self, node: usize, via: Via, now: Time) -> bool;

    /// That copy has certainly not run.
    fn unsent(&self, node: usize);

    /// The node's clock was seen not to be where it had to be, at that time.
    fn clock_moved(&self, _node: usize, _seen_at: Time) {}

    /// The one answer of a node; whom to wake, if that decided it.
    fn answer(&self, node: usize, answer: Result<Value, Failure>, now: Time) -> Option<Note>;
}

pub(super) struct FanOut<B: Ballot> {
    ballot: RefCell<B>,
    read: fn(&Value) -> Result<B::Vote, Unexpected>,
    waiter: Note,
    told: Cell<bool>,
    /// The waiter is told of each answer.
    pub(super) hears_out: Cell<bool>,
    /// The first node has answered, be it with an error, or is known to grant nothing.
    pub(super) reached_first: Cell<bool>,
}

impl<B: Ballot> FanOut<B> {
    pub(super) fn new(
        ballot: B,
        read: fn(&Value) -> Result<B::Vote, Unexpected>,
        waiter: Note,
    ) -> Self {
        Self {
            ballot: RefCell::new(ballot),
            read,
            waiter,
            told: Cell::new(false),
            hears_out: Cell::new(false),
            reached_first: Cell::new(false),
        }
    }

    /// Has a ballot that was decided go on, if it wants to; the next verdict is told anew.
    pub(super) fn reopen(&self, f: impl FnOnce(&mut B) -> bool) -> bool {
        let goes_on = self.with(f);
        self.told.set(self.told.get() && !goes_on);
        self.hears_out.set(self.hears_out.get() && !goes_on);
        goes_on
    }
}

impl<B: Ballot> Asker for FanOut<B> {
    fn sending(&self, node: usize, via: Via, now: Time) -> bool {
        self.with(|ballot| ballot.sending(node, via, now))
    }

    fn unsent(&self, node: usize) {
        self.with(|ballot| ballot.unsent(node));
    }

    fn clock_moved(&self, node: usize, seen_at: Time) {
        self.with(|ballot| ballot.clock_moved(node, seen_at));
    }

    fn answer(&self, node: usize, answer: Result<Value, Failure>, _now: Time) -> Option<Note> {
        let vote = answer.and_then(|it| (self.read)(&it).map_err(|Unexpected| Failure::Unknown));
        if node == 0 && !matches!(vote, Err(Failure::NotSent | Failure::Unknown)) {
            self.reached_first.set(true);
        }
        self.with(|ballot| match vote {
            Ok(vote) => ballot.vote(node, vote),
            Err(failure) => ballot.fail(node, failure),
        });
        let decided = !self.told.get() && self.with(|ballot| ballot.decided());
        self.told.set(self.told.get() || decided);
        (decided || self.hears_out.get()).then_some(self.waiter)
    }
}

impl<B: Ballot> Shared<B> for FanOut<B> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        f(&mut self.ballot.borrow_mut())
    }
}

impl<B: Ballot> Shared<B> for Rc<FanOut<B>> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        (**self).with(f)
    }
}

impl<B: Ballot> fmt::Debug for FanOut<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").finish_non_exhaustive()
    }
}

/// As a node's answer comes out of `node/`.
pub(super) fn value(reply: &Reply) -> Value {
    match reply {
        Reply::Int(number) => Value::Int(*number),
        Reply::Bulk(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        Reply::Status(text) => Value::Text(text.clone()),
        Reply::List(replies) => Value::List(replies.iter().map(value).collect()),
        Reply::Nil | Reply::Error(_) => Value::Strange(format!("{reply:?}")),
    }
}
