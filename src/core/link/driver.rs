//! The events and steps that pass between the machine of a connection and its driver.

use std::fmt;

use super::super::base::{Mechanism, Time};
use super::job::Job;
use super::late::Via;

/// One call of a script, with the caller that waits for its answer.
pub(crate) trait Request {
    /// The name of a script.
    type Script: Copy + PartialEq + fmt::Debug;
    /// The answer of a script.
    type Value;
    type Fault: Fault;
    /// The caller that waits for the answer.
    type Caller;

    fn script(&self) -> Self::Script;

    /// Returns the script that makes several calls of this one, and of others, in one step.
    fn batch(&self) -> Option<Self::Script>;

    /// Returns true if the request goes behind all others of one write.
    fn goes_last(&self) -> bool;

    /// Returns the lock that the request is about, in any form. Requests about different locks may run in any order.
    fn lock(&self) -> &[u8];

    /// Returns the meaning of `answer` to the connection.
    fn meaning(&self, answer: &Self::Value) -> Meaning;

    /// Announces that a copy is about to be written over that connection. Returns false if the caller does not want the request
    /// any more. The caller must not want it once it has submitted the release for it: a copy that goes out again might run
    /// behind the release.
    fn sending(&self, via: Via, now: Time) -> bool;

    /// Notes that the copy that was written last has certainly not run, and never will.
    fn unsent(&self);

    /// Takes out the caller: nobody waits for the answer from now on.
    fn take_caller(&mut self) -> Option<Self::Caller>;

    /// Notes that the node has answered the request.
    fn is_told(&mut self);
}

/// The fault of a node, or of the way to it.
pub(crate) trait Fault: Clone {
    /// Returns the way in which the node rejects us, if it does.
    fn rejection(&self) -> Rejection;

    /// Returns true if the server refused the request because of its user's permissions, before it did anything.
    fn lacks_permission(&self) -> bool;
}

/// The way in which a node rejects a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    Not,
    /// For now: somebody is changing the node.
    ForNow,
    /// Until somebody changes something.
    ForGood,
}

/// The meaning of an answer to the connection. The script that is answered states it; the connection looks into no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The lock is granted. The grant counts if the node's clock is where it must be, and once the node's replicas have the key.
    Granted,
    /// The node's mark is not the one under which it was asked.
    NotAdmitted,
    /// The holder's key is there.
    Kept,
    /// The holder's key is there. The answer counts once the node's replicas have the key.
    Confirmed,
    /// The holder's key was gone, and is set again on a node that grants nothing to newcomers.
    RepairedInQuarantine,
    /// Nothing that concerns the connection. A holder may get this answer because the node's clock was set.
    Other,
}

/// The reason why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing was sent to the node: it is disconnected, or the vote was over before the request's turn.
    NotSent,
    /// At least one copy was sent, and its effect on the node is unknown. It is never a refusal: the command may have run, or may
    /// still run later.
    Unknown,
    /// It was sent, and the node answered with an error, such as "out of memory". So the node was reached. Nobody knows what it
    /// did before the error, and what it knows.
    Error,
    /// The node rejects us until somebody changes the node or our permissions on it: it refuses the login, or lacks something
    /// that a lock needs. So it was reached, and may know of another holder.
    Rejected,
    /// The node may have forgotten locks, and grants nothing to newcomers for now. So the request was not
    /// sent, or its grant does not count.
    NotAdmitted,
}

/// The verdict of a reading of a node's clock on the locks that the node has granted along with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockVerdict {
    /// The locks count.
    Fits,
    /// The locks do not count: the clock may have been set by more than the tolerance. A faster reading could tell.
    Doubtful,
    /// The locks do not count: the clock was set, or must first be compared with the others.
    Moved,
}

/// A request without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Undelivered<F> {
    pub(crate) failure: Failure,
    pub(crate) fault: F,
}

impl<F: Fault> Undelivered<F> {
    /// Returns a failed request. One for a lock that nobody holds (`takes`) is lost for good where the node rejects us for good.
    /// Where the node rejects us for now, it can be reached, and other clients may have their locks there.
    pub(crate) fn new(failure: Failure, fault: F, takes: bool) -> Self {
        let failure = match fault.rejection() {
            Rejection::ForNow if takes => Failure::Error,
            Rejection::ForGood if takes => Failure::Rejected,
            _ => failure,
        };
        Self { failure, fault }
    }
}

/// The client of a connection: its knowledge of this node and of the others, which the connection looks up and adds to.
pub(crate) trait Surroundings<R: Request> {
    /// A question about the node.
    type Question;
    /// A reading of the node's clock.
    type Clock: Copy;

    /// Returns a random number in `0.0..1.0`.
    fn random(&mut self) -> f64;

    /// Returns true if requests wait that were not submitted yet.
    fn has_waiting(&mut self) -> bool;

    /// Returns the time until which no question about the node is needed, if that is known.
    fn settled_until(&mut self) -> Option<Time>;

    /// Returns the next question about the node, or the time until which there is none.
    fn next_question(&mut self, now: Time) -> NextQuestion<Self::Question>;

    /// Returns the script of such a question.
    fn script(&self, question: &Self::Question) -> R::Script;

    /// Notes that the server refuses such a question.
    fn question_refused(&mut self, fault: &R::Fault);

    /// Returns the mark under which the node grants locks now; empty if no mark is compared.
    fn mark(&mut self) -> Result<String, Undelivered<R::Fault>>;

    /// Returns the reason why the node's answers do not count for locks that are held, if they do not.
    fn not_serving(&mut self) -> Option<R::Fault>;

    /// Takes in a reading of the node's clock, made behind answers of scripts.
    fn read_clock(&mut self, clock: Self::Clock) -> ClockVerdict;

    /// Returns the time at which the node's clock was last found to be set forward.
    fn ahead_at(&mut self) -> Option<Time>;

    /// Notes that the node's mark is not the one under which it was asked.
    fn doubt(&mut self, mark: Option<&str>);

    /// Notes that the node has forgotten what it knew, whatever else is known of it.
    fn has_forgotten(&mut self);

    /// Notes that the connection is gone: another server may answer next, or the same one without what it knew.
    fn lost(&mut self);

    /// Notes that the connection is there, and the node may be used.
    fn set_up(&mut self);

    /// Notes that the node cannot be used, and that requests fail at once.
    fn set_down(&mut self, fault: &R::Fault);

    /// Notes that a script of ours, named by its hash, was answered with something other than an error.
    fn serves(&mut self);

    /// Returns the fault of a refused request as it is reported: a call that was allowed before may be allowed again.
    fn refusal(&mut self, fault: R::Fault) -> R::Fault;

    /// Returns the fault of a grant by a node whose clock was set.
    fn clock_was_set(&mut self) -> R::Fault;

    /// Returns the fault of a grant by a node whose clock may have been set.
    fn clock_in_doubt(&mut self, clock: Self::Clock) -> R::Fault;

    /// Returns the fault of a server that does not know a script that was sent with its source.
    fn forgets_sources(&mut self) -> R::Fault;
}

/// The next question about a node.
#[derive(Debug)]
pub(crate) enum NextQuestion<Q> {
    Ask(Q),
    Wait(Time),
}

/// An open connection: the login is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The run of the server; empty if it does not say.
    pub(crate) run: String,
    /// The connection's number by the server's count, if we may know it. A number is never given to another connection.
    pub(crate) id: Option<u64>,
    /// True if the connection may lead through a proxy that keeps it open when another server takes over.
    pub(crate) is_relayed: bool,
}

impl Opened {
    /// Returns the run with which all requests end that are written over the connection. It is empty if there is none: a proxy may
    /// deliver them to the next run.
    pub(super) fn run_of_requests(&self) -> &str {
        let may_follow = self.is_relayed && Mechanism::RelayedRequestsMayFollow.is_on();
        if may_follow { "" } else { &self.run }
    }
}

/// The next step of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Connect and log in: [`handle_opened`](super::Link::handle_opened), or [`handle_not_opened`](super::Link::handle_not_opened).
    Connect,
    /// Write what [`show_write`](super::Link::show_write) shows: [`handle_written`](super::Link::handle_written).
    Write,
    /// Read one answer, of that kind, until that time.
    Read(Awaited, Time),
    /// Do nothing until that time, or until something is submitted or has changed.
    Wait(Time),
    /// Write the [`final_releases`](super::Link::final_releases), as far as that goes at once, and close the connection:
    /// [`handle_closed`](super::Link::handle_closed).
    Close,
    /// Stop: nothing will ever be done again.
    End,
}

/// The answer that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The answer to the end of an old connection: [`handle_ended`](super::Link::handle_ended).
    Ended,
    /// The answer to a question about the node: [`handle_question`](super::Link::handle_question).
    Question,
    /// The answer to a call that makes so many requests: [`handle_answer`](super::Link::handle_answer).
    Call { requests: usize },
    /// The node's clock: [`handle_clock`](super::Link::handle_clock).
    Clock,
}

/// One command of a write.
pub(crate) enum Command<'a, R: Request, Q> {
    /// Ends an old connection, by the server's count.
    End(u64),
    /// The question, with the form in which its script is named.
    Question(&'a Q, Form),
    /// One call, which makes all of `jobs`. `batch` is the script that makes several requests, if there are several.
    Call { jobs: &'a [Job<R>], batch: Option<R::Script>, form: Form, mark: &'a str },
    /// Reads the node's clock.
    Clock,
}

/// The form in which a script is named to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its hash: short, and refused with NOSCRIPT by a server that has not seen it.
    Sha,
    /// With its source, which the server remembers until it restarts or is told to forget.
    Source,
}

/// The reply to one call.
pub(crate) enum Reply<V, F> {
    /// The answer to one request.
    Value(V),
    /// The answers to the requests of a batch.
    Batch(Answers<V>),
    /// The server does not know the script; it did nothing.
    NoScript,
    /// The server answered with an error, and the connection is as good as before.
    Error(F),
}

/// The answers of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answers<V> {
    /// No call was made, since the node's mark is another one.
    NothingDone,
    /// The answer to each call; `None` if the call failed, in an unknown state, and must go out by itself.
    Each(Vec<Option<V>>),
}

/// The reply to a question about the node.
pub(crate) enum Told<F> {
    /// The answer was understood, and handed in.
    Answered,
    /// The server does not know the script.
    NoScript,
    /// The server refuses the question.
    Refused(F),
}

/// A connection that cannot be used any more, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Broken<F> {
    pub(crate) fault: F,
    /// True if the other side closed it, rather than being silent.
    pub(crate) closed: bool,
    /// True if whole requests were written and whole answers read, so that the server understands what is written now.
    pub(crate) in_step: bool,
}

/// An event for others. The driver hands events out in order.
pub(crate) enum Event<R: Request> {
    Answered(Answered<R>),
    /// The caller of a request that was dropped without an answer, since the caller did not want it any more.
    Unwanted(R::Caller),
    /// The server has refused a release, which is kept, for the first time.
    ReleaseRefused(R::Fault),
    /// A release was dropped, since there was no more room.
    ReleaseDropped,
}

/// The answer to a request, for its caller.
pub(crate) struct Answered<R: Request> {
    pub(crate) caller: R::Caller,
    pub(crate) meaning: Meaning,
    /// The time at which the node's clock was seen to be wrong. The caller hears of that before the answer.
    pub(crate) clock_moved: Option<Time>,
    pub(crate) answer: Result<R::Value, Undelivered<R::Fault>>,
}

impl<R: Request> Answered<R> {
    /// Returns the event for a request that ended without an answer; `None` if nobody waits for it.
    pub(super) fn failed(job: &mut Job<R>, undelivered: Undelivered<R::Fault>) -> Option<Event<R>> {
        let caller = job.request.take_caller()?;
        let (meaning, clock_moved) = (Meaning::Other, None);
        Some(Event::Answered(Self { caller, meaning, clock_moved, answer: Err(undelivered) }))
    }
}
