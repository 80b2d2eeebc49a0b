//! What all votes over the nodes have in common.

use std::time::Duration;

use super::super::base::Time;
use super::super::link::Via;
use super::Failure;

/// How long after its start a ballot is kept open for the nodes that its verdict did not need, so that they are
/// repaired, or their faults told. A connection that is refused is refused within this time.
pub(crate) const HEAR_OUT: Duration = Duration::from_millis(10);

/// One question put to all nodes at once. A transport carries it: it asks `sending` before each
/// copy that it writes, and hands in one vote or one failure a node.
pub(crate) trait Ballot: Send {
    /// What a node that answered says.
    type Vote;

    /// A copy is about to be written to `node`, over that connection. `false`: do not send it, the
    /// ballot is over.
    fn sending(&mut self, node: usize, via: Via, now: Time) -> bool;

    /// The last copy that was sent to `node` has certainly not run, nor will it.
    fn unsent(&mut self, node: usize);

    /// The clock of `node` was seen not to be where it had to be, at that time: right behind the answer that
    /// comes next, or before. It may have been set, so that keys have ended there before their time.
    fn clock_moved(&mut self, _node: usize, _seen_at: Time) {}

    /// `node` answered.
    fn vote(&mut self, node: usize, vote: Self::Vote);

    /// `node` will not answer any more.
    fn fail(&mut self, node: usize, failure: Failure);

    /// No further vote changes the verdict, so the caller that waits for it may go on.
    fn decided(&self) -> bool;
}

/// A ballot that the driver shares with the threads that hear the nodes' answers.
pub(crate) trait Shared<B> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R;
}

#[cfg(test)]
impl<B> Shared<B> for std::rc::Rc<std::cell::RefCell<B>> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        f(&mut self.borrow_mut())
    }
}
