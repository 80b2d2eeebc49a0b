//! The client of a connection: its knowledge of the node, which the connection looks up and adds to.

use std::sync::Arc;

use super::job::{Asked, Undelivered};
use super::question::Question;
use super::request::Script;
use super::set::NodeSet;
use super::status::Status;
use crate::core::admission::{NextProbe, Offset};
use crate::core::base::{Time, exact, rounded};
use crate::core::link::{ClockVerdict, NextQuestion, Surroundings};
use crate::error::NodeFault;
use crate::random::random;
use crate::terms::CLOCK_TOLERANCE;

/// One node, as its client knows it.
pub(super) struct Around<'a> {
    pub(super) node: usize,
    pub(super) set: &'a Arc<NodeSet>,
    pub(super) status: &'a Status,
}

impl Around<'_> {
    fn fault(&self, what: impl Into<String>) -> NodeFault {
        NodeFault::new(self.status.node(), what)
    }
}

impl Surroundings<Asked> for Around<'_> {
    type Question = Question;
    type Clock = Offset;

    fn random(&mut self) -> f64 {
        random()
    }

    fn has_waiting(&mut self) -> bool {
        self.set.mailbox(self.node).len() > 0
    }

    fn settled_until(&mut self) -> Option<Time> {
        self.set.settled_until(self.node)
    }

    fn next_question(&mut self, now: Time) -> NextQuestion<Question> {
        let key = self.set.mark_key();
        match self.set.next(self.node, now) {
            NextProbe::Wait(until) => NextQuestion::Wait(until),
            NextProbe::Ask(change) => NextQuestion::Ask(Question::new(key, change.as_ref())),
        }
    }

    fn script(&self, question: &Question) -> &'static Script {
        question.request.script()
    }

    fn question_refused(&mut self, fault: &NodeFault) {
        self.set.refused(self.node, fault.clone());
    }

    fn mark(&mut self) -> Result<String, Undelivered> {
        self.set.mark(self.node)
    }

    fn not_serving(&mut self) -> Option<NodeFault> {
        self.set.not_serving(self.node)
    }

    fn read_clock(&mut self, clock: Offset) -> ClockVerdict {
        self.set.read_clock(self.node, clock)
    }

    fn ahead_at(&mut self) -> Option<Time> {
        self.set.ahead_at(self.node)
    }

    fn doubt(&mut self, mark: Option<&str>) {
        self.set.doubt(self.node, mark);
    }

    fn has_forgotten(&mut self) {
        self.set.has_forgotten(self.node);
    }

    fn lost(&mut self) {
        self.set.lost(self.node);
    }

    fn set_up(&mut self) {
        self.status.set_up();
    }

    fn set_down(&mut self, fault: &NodeFault) {
        self.status.set_down(fault.clone());
        self.set.tell_first_heard();
    }

    fn serves(&mut self) {
        self.status.serves();
    }

    fn refusal(&mut self, fault: NodeFault) -> NodeFault {
        self.status.refused(fault)
    }

    fn clock_was_set(&mut self) -> NodeFault {
        self.fault("its clock shows an unexpected time, so locks may have ended too early on it")
    }

    fn clock_in_doubt(&mut self, clock: Offset) -> NodeFault {
        let (took, tolerance) = (clock.round_trip(), self.set.clock_tolerance());
        self.fault(format!(
            "it granted the lock, but its clock may have been set forward by more than the \
             {CLOCK_TOLERANCE} of {}: reading it took {}; find out why the server or the network is \
             slow, or raise {CLOCK_TOLERANCE} for all clients of the set",
            exact(tolerance),
            rounded(took)
        ))
    }

    fn forgets_sources(&mut self) -> NodeFault {
        self.fault("the server does not know a script that was sent with its source")
    }
}
