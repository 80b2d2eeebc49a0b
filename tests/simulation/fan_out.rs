//! A request to all nodes and the count of its answers, as `src/runtime/fan_out.rs` does it, without threads.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use super::client::Note;
use crate::core::base::Time;
use crate::core::link::Via;
use crate::core::vote::{Ballot, Failure, Round, Shared};
use crate::embedded::Reply;
use crate::kinds::contract::reply::Unexpected;
use crate::node::Value;

/// The part of a client that has asked the nodes something.
pub(super) trait Asker {
    fn sending(&self, node: usize, via: Via, now: Time) -> bool;

    /// Notes that this copy of the request has certainly not run.
    fn unsent(&self, node: usize);

    /// Notes that the node's clock was off its expected value at that time.
    fn clock_moved(&self, _node: usize, _seen_at: Time) {}

    /// Takes the one answer of a node. Returns the waiter, if that must be woken.
    fn answer(&self, node: usize, answer: Result<Value, Failure>, now: Time) -> Option<Note>;
}

pub(super) struct FanOut<B: Ballot> {
    round: RefCell<Round<B>>,
    read: fn(&Value) -> Result<B::Vote, Unexpected>,
    waiter: Note,
    /// True once the first node has answered, even with an error, or is known to grant nothing.
    pub(super) reached_first: Cell<bool>,
}

impl<B: Ballot> FanOut<B> {
    pub(super) fn new(
        ballot: B,
        read: fn(&Value) -> Result<B::Vote, Unexpected>,
        waiter: Note,
    ) -> Self {
        Self {
            round: RefCell::new(Round::new(ballot)),
            read,
            waiter,
            reached_first: Cell::new(false),
        }
    }

    pub(super) fn reopen(&self, f: impl FnOnce(&mut B) -> bool) -> bool {
        self.round.borrow_mut().reopen(f)
    }

    /// The waiter is woken for each answer from now on.
    pub(super) fn hear_out(&self) {
        self.round.borrow_mut().hear_out();
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
        self.round.borrow_mut().answer(node, vote).then_some(self.waiter)
    }
}

impl<B: Ballot> Shared<B> for FanOut<B> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        f(self.round.borrow_mut().ballot())
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

/// Converts a reply to the value that `node/` makes of a node's answer.
pub(super) fn value(reply: &Reply) -> Value {
    match reply {
        Reply::Int(number) => Value::Int(*number),
        Reply::Bulk(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        Reply::Status(text) => Value::Text(text.clone()),
        Reply::List(replies) => Value::List(replies.iter().map(value).collect()),
        Reply::Nil | Reply::Error(_) => Value::Strange(format!("{reply:?}")),
    }
}
