//! The interface that all votes over the nodes have in common.

use std::time::Duration;

use super::super::base::Time;
use super::super::link::Via;
use super::Failure;

/// Time after its start for which a ballot stays open for the nodes that its verdict did not need. So they are
/// repaired, or their faults reported. A refused connection is refused within this time.
pub(crate) const HEAR_OUT: Duration = Duration::from_millis(10);

/// One request put to all nodes at once. A transport carries it: it asks `sending` before each copy that it writes,
/// and hands in one vote or one failure per node.
pub(crate) trait Ballot: Send {
    /// The answer of a node.
    type Vote;

    /// Asks for permission to write a copy to `node`, over that connection. `false`: do not send it, the ballot is over.
    fn sending(&mut self, node: usize, via: Via, now: Time) -> bool;

    /// The last copy that was sent to `node` has certainly not run, and never will.
    fn unsent(&mut self, node: usize);

    /// The clock of `node` was seen off its expected time at `seen_at`: right behind the answer that comes next, or
    /// earlier. The clock may have been set, so that keys on that node have ended early.
    fn clock_moved(&mut self, _node: usize, _seen_at: Time) {}

    /// `node` answered.
    fn vote(&mut self, node: usize, vote: Self::Vote);

    /// `node` will not answer any more.
    fn fail(&mut self, node: usize, failure: Failure);

    /// No further vote changes the verdict, so the caller that waits for it may go on.
    fn decided(&self) -> bool;
}

/// A ballot that the driver shares with the threads that receive the nodes' answers.
pub(crate) trait Shared<B> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R;
}

#[cfg(test)]
impl<B> Shared<B> for std::rc::Rc<std::cell::RefCell<B>> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        f(&mut self.borrow_mut())
    }
}
