//! The events and steps that pass between the machine of a connection and its driver.

use std::fmt;

use super::super::base::Time;
use super::job::Job;
use super::late::Via;

/// One call of a script, with the caller that waits for its answer.
pub(crate) trait Request {
    /// Names a script.
    type Script: Copy + PartialEq + fmt::Debug;
    /// The answer of a script.
    type Value;
    type Fault: Fault;
    /// Waits for the answer.
    type Caller;

    fn script(&self) -> Self::Script;

    /// Returns the script that makes several calls of this one's, and of others, in one step.
    fn batch(&self) -> Option<Self::Script>;

    /// Returns true if it goes behind all other requests of one write.
    fn goes_last(&self) -> bool;

    /// Returns what an answer to it means to the connection.
    fn meaning(&self, answer: &Self::Value) -> Meaning;

    /// A copy is about to be written, over that connection. `false`: the caller does not want it any more. It wants none from the time
    /// on at which it submits the release for it: else a copy that goes out again might run behind the release.
    fn sending(&self, via: Via, now: Time) -> bool;

    /// The copy that was written last has certainly not run, nor will it.
    fn unsent(&self);

    /// Takes out the caller: nobody waits for the answer from now on.
    fn take_caller(&mut self) -> Option<Self::Caller>;

    /// The node has answered it.
    fn is_told(&mut self);
}

/// Why the node, or the way to it, fails.
pub(crate) trait Fault: Clone {
    /// Returns how the node rejects us, if it does.
    fn rejection(&self) -> Rejection;

    /// Returns true if the server refused it for its user's permissions, before it did anything.
    fn lacks_permission(&self) -> bool;
}

/// The way in which a node rejects a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    Not,
    /// Somebody is changing the node, and that passes.
    ForNow,
    /// Until somebody changes something.
    ForGood,
}

/// The meaning of an answer to the connection. The script that is answered states it; the connection looks into no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The lock is granted. It counts if the node's clock is where it has to be, and once its replicas have the key.
    Granted,
    /// The node's mark is another one than that under which it was asked.
    NotAdmitted,
    /// The holder's key is there.
    Kept,
    /// The same, and it counts once the node's replicas have it.
    Confirmed,
    /// The holder's key was gone, and is set again on a node that grants nothing to newcomers.
    RepairedInQuarantine,
    /// Nothing that concerns the connection. Said to a holder, it may be so because the node's clock was set.
    Other,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing was sent to the node: it is disconnected, or the ballot was over before its turn.
    NotSent,
    /// At least one copy was sent, and what the node did with it is unknown. Never a refusal: the
    /// command may have run, or may still run later.
    Unknown,
    /// It was sent, and the node answered with an error, such as "out of memory". So the node was
    /// reached; what it did before that, and what it knows, is unknown.
    Error,
    /// The node rejects us, and will until somebody changes what it is or what it lets us do: it refuses
    /// the login, or lacks what a lock needs. So it was reached; it may know of another holder.
    Rejected,
    /// The node may have forgotten locks, and grants nothing to newcomers for now. So the request was not
    /// sent, or its grant does not count.
    NotAdmitted,
}

/// The verdict of a reading of a node's clock on the locks that the node has granted along with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockVerdict {
    /// They count.
    Fits,
    /// They do not: the clock may have been set by more than the tolerance, and one that was read
    /// faster could tell.
    Doubtful,
    /// They do not: the clock was set, or has to be compared with the others first.
    Moved,
}

/// A request without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Undelivered<F> {
    pub(crate) failure: Failure,
    pub(crate) fault: F,
}

impl<F: Fault> Undelivered<F> {
    /// A request for a lock that nobody holds (`takes`) is lost for good where the node rejects us for good. Where it does so
    /// for now, it can be reached, and others may have their locks there.
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
    /// A question about the node: a probe, or a check.
    type Question;
    /// A reading of the node's clock.
    type Clock: Copy;

    /// Returns a random number in `0.0..1.0`.
    fn random(&mut self) -> f64;

    /// Returns until when nothing has to be asked about the node, if that is known.
    fn settled_until(&mut self) -> Option<Time>;

    /// Returns what to ask about the node now, or until when there is nothing to ask.
    fn next_question(&mut self, now: Time) -> NextQuestion<Self::Question>;

    /// Returns the script of such a question.
    fn script(&self, question: &Self::Question) -> R::Script;

    /// The server refuses such a question.
    fn question_refused(&mut self, fault: &R::Fault);

    /// Returns the mark under which the node grants locks now; empty if no mark is compared.
    fn mark(&mut self) -> Result<String, Undelivered<R::Fault>>;

    /// Returns why the node's word does not count for locks that are held, if it does not.
    fn not_serving(&mut self) -> Option<R::Fault>;

    /// The node's clock was read behind answers of scripts.
    fn read_clock(&mut self, clock: Self::Clock) -> ClockVerdict;

    /// Returns when the node's clock was last found to be set forward.
    fn ahead_at(&mut self) -> Option<Time>;

    /// The node's mark is not the one under which it was asked.
    fn doubt(&mut self, mark: Option<&str>);

    /// The node has forgotten what it knew, whatever is known of it.
    fn has_forgotten(&mut self);

    /// The connection is gone: another server may answer next, or the same one without what it knew.
    fn lost(&mut self);

    /// The connection is there, and the node may be used.
    fn set_up(&mut self);

    /// The node cannot be used, and requests fail at once.
    fn set_down(&mut self, fault: &R::Fault);

    /// A script of ours, named by its hash, was answered with something other than an error.
    fn serves(&mut self);

    /// Returns the fault of a refused request, as it is told: what was allowed before may be so again.
    fn refusal(&mut self, fault: R::Fault) -> R::Fault;

    /// The fault of a grant at a node whose clock was set.
    fn clock_was_set(&mut self) -> R::Fault;

    /// The fault of a grant at a node whose clock may have been set.
    fn clock_in_doubt(&mut self, clock: Self::Clock) -> R::Fault;

    /// The fault of a server that does not know a script that was sent with its source.
    fn forgets_sources(&mut self) -> R::Fault;
}

/// The next question about a node.
#[derive(Debug)]
pub(crate) enum NextQuestion<Q> {
    Ask(Q),
    Wait(Time),
}

/// A connection that is there: the login is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The run of the server; empty if it does not say.
    pub(crate) run: String,
    /// Its number by the server's count, if we may know it. A number is never given to another connection.
    pub(crate) id: Option<u64>,
}

/// The next step of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Connect and log in: [`handle_opened`](super::Link::handle_opened), or [`handle_not_opened`](super::Link::handle_not_opened).
    Connect,
    /// Write what [`show_write`](super::Link::show_write) shows: [`handle_written`](super::Link::handle_written).
    Write,
    /// Read one answer, of the kind that is named, until then.
    Read(Awaited, Time),
    /// Nothing, until then or until something is submitted or has changed.
    Wait(Time),
    /// Write the [`final_releases`](super::Link::final_releases), as far as that goes at once, and close the connection:
    /// [`handle_closed`](super::Link::handle_closed).
    Close,
    /// Nothing will ever be done again.
    End,
}

/// The answer that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// To the end of an old connection: [`handle_ended`](super::Link::handle_ended).
    Ended,
    /// To a question about the node: [`handle_question`](super::Link::handle_question).
    Question,
    /// To a call that makes so many requests: [`handle_answer`](super::Link::handle_answer).
    Call { requests: usize },
    /// The node's clock: [`handle_clock`](super::Link::handle_clock).
    Clock,
}

/// One command of a write.
pub(crate) enum Command<'a, R: Request, Q> {
    /// Ends an old connection, by the server's count.
    End(u64),
    /// The question, whose script is named in that form.
    Question(&'a Q, Form),
    /// One call, which makes those requests. Given if it makes several: the script that does so.
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
    /// To one request.
    Value(V),
    /// To each request of a batch.
    Batch(Answers<V>),
    /// The server does not know the script; it did nothing.
    NoScript,
    /// The server answered with an error, and the connection is as good as before.
    Error(F),
}

/// The answers of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answers<V> {
    /// No call was made, for the node's mark is another one.
    NothingDone,
    /// To each call; `None`: it failed, in whatever state, and has to go out by itself.
    Each(Vec<Option<V>>),
}

/// The reply to a question about the node.
pub(crate) enum Told<F> {
    /// It was understood, and handed in.
    Answered,
    /// The server does not know the script.
    NoScript,
    /// The server refuses it.
    Refused(F),
}

/// The connection cannot be used any more.
#[derive(Clone, Debug)]
pub(crate) struct Broken<F> {
    pub(crate) fault: F,
    /// The other side closed it, rather than being silent.
    pub(crate) closed: bool,
    /// Whole requests were written, and whole answers read: what is written now is understood.
    pub(crate) in_step: bool,
}

/// Something for others, which the driver hands out in this order.
pub(crate) enum Event<R: Request> {
    Answered(Answered<R>),
    /// The caller of a request that was dropped without an answer, since it does not want it any more.
    Unwanted(R::Caller),
    /// The server has refused a release, which is kept, for the first time.
    ReleaseRefused(R::Fault),
    /// There is no more room for a release.
    ReleaseDropped,
}

/// The answer to a request, for its caller.
pub(crate) struct Answered<R: Request> {
    pub(crate) caller: R::Caller,
    pub(crate) meaning: Meaning,
    /// The time at which the node's clock was seen not to be where it had to be. The caller hears of that first.
    pub(crate) clock_moved: Option<Time>,
    pub(crate) answer: Result<R::Value, Undelivered<R::Fault>>,
}

impl<R: Request> Answered<R> {
    /// The end of a request without an answer; `None`: nobody waits for it.
    pub(super) fn failed(job: &mut Job<R>, undelivered: Undelivered<R::Fault>) -> Option<Event<R>> {
        let caller = job.request.take_caller()?;
        let (meaning, clock_moved) = (Meaning::Other, None);
        Some(Event::Answered(Self { caller, meaning, clock_moved, answer: Err(undelivered) }))
    }
}
