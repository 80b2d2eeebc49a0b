//! A lock that is held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::core::base::Basis;
use crate::core::hold::LossReason;
use crate::core::vote::FencingToken;
use crate::error::Error;
use crate::ident::{Name, NameText, write_with_names};
use crate::process::Process;
use crate::release_request::ReleaseRequest;
use crate::risk::Risk;
use crate::runtime::held::Held;
use crate::runtime::hold::Hold;
use crate::runtime::holder::{self, HoldState};

/// A lock that is held until the guard is dropped or the lock's validity ends.
///
/// A guard owns all it needs, so it can be stored, returned and sent to another thread, and it may outlive the
/// [`Quorlock`](crate::Quorlock) that returned it. Dropping it, also by a panic, gives the lock back without waiting on the
/// network; [`unlock`](Self::unlock) waits and reports errors.
///
/// If the process is killed, aborts (`panic = "abort"`), or calls [`std::process::exit`] while the guard exists, the lock
/// ends with its TTL. So does the lock of a guard in a `static`, which is never dropped. A guard that is leaked with
/// [`std::mem::forget`] holds its lock for as long as the process lives, if the lock is renewed.
///
/// The lock is renewed while it is held, unless [`Renewal::Manual`](crate::Renewal) turns that off.
///
/// **A lease is not a mutex in memory.** A process that is paused for longer than [`remaining`](Self::remaining) does not
/// notice that another caller took the lock meanwhile: call [`check`](Self::check) before each step that must be protected.
///
/// **A guard needs a name.** `let _ = locks.lock("a")?;` drops it at once, without a warning. `let _guard = ..` keeps it to
/// the end of the block. If the guard of a call is not used at all, the compiler warns:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn job(locks: &quorlock::Quorlock) -> Result<(), quorlock::Error> {
/// locks.try_lock("job")?; // unused `Guard` that must be used: the lock is given back as soon as the guard is dropped
/// # Ok(())
/// # }
/// ```
///
/// ```
/// # #![deny(unused_must_use)]
/// # fn job(locks: &quorlock::Quorlock) -> Result<(), quorlock::Error> {
/// let _guard = locks.try_lock("job")?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is given back as soon as the guard is dropped"]
pub struct Guard {
    hold: Hold,
}

/// The basis of a lock: the nodes that back it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A majority of several masters.
    Quorum,
    /// The only configured master.
    SingleNode,
    /// The first of several masters, while a majority could not be reached: see [`Fallback`](crate::Fallback). Changes to
    /// `Quorum` when a majority has the lock.
    Fallback,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Quorum => "quorum",
            Self::SingleNode => "single node",
            Self::Fallback => "fallback",
        })
    }
}

impl Guard {
    pub(crate) const fn of(hold: Hold) -> Self {
        Self { hold }
    }

    /// The same guard, which shares the lock from now on. Does nothing in a forked child: the lock is the parent's.
    pub(crate) fn downgrade(self) -> Self {
        if !self.process().is_this() {
            return self;
        }
        Self { hold: self.hold.downgrade() }
    }

    fn held(&self) -> &Arc<Held> {
        self.hold.held()
    }

    /// The lock's record of its holder, which outlives the guard.
    pub(crate) fn hold_state(&self) -> &Arc<HoldState> {
        self.hold.hold_state()
    }

    /// The process that holds the lock. In a forked child, that is the parent.
    fn process(&self) -> Process {
        self.held().claim().state().process
    }

    /// Returns false in a forked child of the process that holds the lock.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process().is_this()
    }

    /// Returns the name of the lock, without the key prefix. If there are several names, the one that sorts first.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.held().claim().names().first().as_bytes()
    }

    /// Returns the name of the lock as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        std::str::from_utf8(self.name()).ok()
    }

    /// Returns the names of the lock, without the key prefix: sorted, and each of them once.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.held().claim().names().iter().map(Name::as_bytes)
    }

    /// Returns the owner of the lock's keys on the nodes: `LABEL#RANDOM`, as `redis-cli GET KEY` shows it for an exclusive
    /// lock. Threads that hand the lock to each other share one owner.
    ///
    /// Operators compare it with the owner that the nodes have. The label is
    /// [`Builder::owner_label`](crate::Builder::owner_label), which defaults to the host's name and the process id. The
    /// random part follows the last `#` and differs for each lock. Owners of reentrant and read-write locks end with `:1`,
    /// as those of Redisson do; owners of writers end with `:1:write`.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.held().claim().owner()
    }

    /// Returns the basis of the lock, as far as it is known now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        let is_ours = self.process().is_this();
        match if is_ours { self.held().basis() } else { Basis::Majority } {
            Basis::FirstNode => Mode::Fallback,
            Basis::Majority if self.held().claim().state().nodes().len() == 1 => Mode::SingleNode,
            Basis::Majority => Mode::Quorum,
        }
    }

    /// Returns the fencing token: a number larger than that of every earlier holder of this name, or of any of several
    /// names. `None` with [`fencing(false)`](crate::Builder::fencing), and for permits of a [`Semaphore`](crate::Semaphore).
    ///
    /// A storage that keeps the largest token it has seen, and refuses writes with a smaller one, is safe from a holder that
    /// does not know yet that its lock is lost. This holds without conditions as long as each master of the majority that
    /// knew the last number keeps it: for ten minutes after the lock's last use. Once one of these masters has forgotten the
    /// number, new numbers rely on the set's time. That is the median of the masters' clocks, each corrected by the lead
    /// that the master's mark records. Tokens keep growing no matter which masters forget, and whatever their clocks say,
    /// unless a majority of the masters loses its marks at once. In that case their clocks have to agree.
    ///
    /// After those ten minutes every token relies on the set's time. A token may then be smaller than an earlier one if the
    /// set's time was set back by more than ten minutes meanwhile: by the clocks of most masters, or by that of a single
    /// master.
    ///
    /// One more limit applies while only a bare majority of the masters is up. The clock of one of them may have been set
    /// back while no client was running, and another one may have forgotten the number. New clients then take that clock for
    /// the set's time, and the next token may be smaller by as much.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.hold.token
    }

    /// Returns the time for which the lock is certainly ours, with clock drift allowed for. Zero once another caller may
    /// have the lock.
    ///
    /// It is `TTL - time since the request was sent - drift - clock tolerance`. The drift is 1 % of the TTL plus 2 ms: the
    /// validity time of the Redlock algorithm (Redis documentation, "Distributed Locks with Redis"). The
    /// [`clock_tolerance`](crate::Builder::clock_tolerance) is the step by which a master's clock may be set forward, which
    /// ends its keys early. The time is measured by a clock that keeps running while the machine is suspended, if the system
    /// has such a clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.process().is_this() {
            true => self.held().remaining(),
            false => Duration::ZERO,
        }
    }

    /// Checks that the lock is still ours.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) once [`remaining`](Self::remaining) is zero. From then on [`lost`](Self::lost) has
    /// its message.
    pub fn check(&self) -> Result<(), Error> {
        self.process().check()?;
        self.held().check()
    }

    /// Returns the channel that gets one message when the lock is lost: at the end of its validity, or earlier if it is
    /// known to be gone, for example because its keys were deleted. If the lock is given back without having been lost, the
    /// channel ends without a message.
    ///
    /// The loss is reported once, no matter which call notices it first. [`check`](Self::check), [`extend`](Self::extend),
    /// an [`unlock`](Self::unlock) that returns [`Lost`](crate::ErrorKind::Lost), and the drop of a guard whose validity has
    /// ended send the message as well.
    ///
    /// Made for `select!` of [`crossbeam_channel`]. There is only one message: a second read, also from a clone, finds that
    /// the channel has ended, which says nothing about the lock.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::crossbeam_channel::select;
    ///
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// # let (_sender, work) = quorlock::crossbeam_channel::unbounded::<u32>();
    /// let guard = locks.lock("orders/42")?;
    /// loop {
    ///     select! {
    ///         recv(guard.lost()) -> reason => break, // stop what the lock protects
    ///         recv(work) -> item => { /* .. */ }
    ///     }
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    #[must_use]
    pub fn lost(&self) -> &Receiver<LossReason> {
        match self.process().is_this() {
            true => self.hold.notice.receiver(),
            false => &holder::ended().lost,
        }
    }

    /// Returns the channel that gets the latest message about the risk to the lock: that its renewals fail while it is still
    /// valid, or that a renewal was confirmed again. A holder can then finish its work in order, or notify somebody. The
    /// channel ends when the lock is lost or given back.
    ///
    /// The warning comes when two renewals in a row were not confirmed and two fifths of the validity are left, at the
    /// latest when one third is left. A [`risk_margin`](crate::Builder::risk_margin) replaces these limits. With the default
    /// settings the warning comes 3.2 to 3.9 s before the loss. An outage of one second is not reported, and the fault of a
    /// single node never is. After a warning, the lock's recovery is reported before the next warning.
    ///
    /// A lock that is not renewed, or that ends by its [`max_hold`](crate::Builder::max_hold), is never at risk. A loss
    /// whose reason is [`KeysGone`](LossReason::KeysGone) or [`ClockStoodStill`](LossReason::ClockStoodStill) comes without
    /// a warning.
    ///
    /// The channel has room for one message, and a later message replaces it. A clone of the receiver reads from the same
    /// channel.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::Risk;
    /// use quorlock::crossbeam_channel::select;
    ///
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// # let (_sender, work) = quorlock::crossbeam_channel::unbounded::<u32>();
    /// let guard = locks.lock("orders/42")?;
    /// loop {
    ///     select! {
    ///         recv(guard.at_risk()) -> risk => match risk {
    ///             Ok(risk @ Risk::AtRisk { .. }) => eprintln!("{guard} is {risk}"), // begin nothing new
    ///             Ok(risk) => eprintln!("{guard} is {risk}"),
    ///             Err(_) => break, // it is lost
    ///         },
    ///         recv(work) -> item => { /* .. */ }
    ///     }
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    #[must_use]
    pub fn at_risk(&self) -> &Receiver<Risk> {
        match self.process().is_this() {
            true => self.hold.notice.messages(),
            false => &holder::ended().at_risk,
        }
    }

    /// Calls `callback` with each message about the risk to the lock, on another thread: see [`at_risk`](Self::at_risk). If
    /// the lock is already at risk, that is the first message. While the callback is running, new messages replace each
    /// other; it gets the latest one when it returns. No call begins once the lock is lost or given back.
    ///
    /// The callback may block, panic, unlock or drop the guard, like that of [`on_lost`](Self::on_lost), and runs on the
    /// same threads. Do not move the guard into its own callback: it would be dropped only after the loss.
    pub fn on_at_risk(&self, callback: impl FnMut(Risk) + Send + 'static) {
        if self.process().is_this() {
            self.held().call_at_risk(&self.hold, Box::new(callback));
        }
    }

    /// Returns the channel that gets the latest request to give the lock up, made by
    /// [`ask_to_release`](crate::Handle::ask_to_release). The channel ends when the lock is lost or given back.
    ///
    /// A request forces nothing: the holder finishes its work in order and gives the lock back, or continues. Each request
    /// is reported once. A lock whose holder has received a request is not handed to another thread of this process when it
    /// is given back. For a moment the process leaves it to callers that wait elsewhere.
    ///
    /// **A holder is told only if it calls this, or [`on_asked`](Self::on_asked).** From that call on, a connection to each
    /// node listens for requests, so that a request arrives within a moment. A client listens for at most 1,024 locks. Each
    /// renewal and each [`extend`](Self::extend) also looks for requests, in case a message was lost. So does the call
    /// itself, for a request that was made earlier.
    ///
    /// The channel has room for one message, and a later message replaces it. A clone of the receiver reads from the same
    /// channel.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::crossbeam_channel::select;
    ///
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// # let (_sender, work) = quorlock::crossbeam_channel::unbounded::<u32>();
    /// let guard = locks.lock("imports")?;
    /// loop {
    ///     select! {
    ///         recv(guard.asked()) -> request => break, // between two items: others may have the lock
    ///         recv(work) -> item => { /* .. */ }
    ///     }
    /// }
    /// guard.unlock()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    #[must_use]
    pub fn asked(&self) -> &Receiver<ReleaseRequest> {
        if !self.process().is_this() {
            return &holder::ended().asked;
        }
        self.held().hear_asks();
        self.hold.notice.messages()
    }

    /// Calls `callback` with each request to give the lock up, on another thread: see [`asked`](Self::asked). A callback
    /// that is still running gets the latest request when it returns. No call begins once the lock is lost or given back.
    ///
    /// The callback may block, panic, unlock or drop the guard, like that of [`on_lost`](Self::on_lost), and runs on the
    /// same threads. Do not move the guard into its own callback: it would be dropped only after the loss.
    pub fn on_asked(&self, callback: impl FnMut(ReleaseRequest) + Send + 'static) {
        if self.process().is_this() {
            self.held().call_asked(&self.hold, Box::new(callback));
        }
    }

    /// Calls `callback` when the lock is lost, on another thread, or at once on this thread if the lock is already lost. The
    /// callback is called once for the loss, like the one message of [`lost`](Self::lost), and never after the lock was
    /// given back.
    ///
    /// The callback may block, panic, unlock or drop the guard. It delays nothing else, unless 257 callback threads block at
    /// once, the most that a client has; further callbacks then wait until one of these ends. Do not move the guard into its
    /// own callback: it would be dropped only after the loss.
    pub fn on_lost(&self, callback: impl FnOnce(LossReason) + Send + 'static) {
        if self.process().is_this() {
            self.hold.notice.call(Box::new(callback));
        }
    }

    /// Extends the lock, so that it lives for at least `ttl` from now, but not beyond its
    /// [`max_hold`](crate::Builder::max_hold). Waits until a majority has confirmed the extension, for at most the node
    /// timeout, or twice that if connections broke meanwhile.
    ///
    /// Keys on the nodes are never shortened. If `ttl` is shorter than the time left, [`remaining`](Self::remaining) is cut
    /// at once, until the next renewal. Nodes that lost the key, or never had it, get it, unless another caller has taken it
    /// there. A lost lock stays lost.
    ///
    /// # Errors
    ///
    /// - [`Config`](crate::ErrorKind::Config) if `ttl` is out of the range that [`Builder::ttl`](crate::Builder::ttl)
    ///   states.
    /// - [`Lost`](crate::ErrorKind::Lost) if the lock is lost.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes confirmed. The lock is then not held for longer than
    ///   before (and for less, if `ttl` is shorter). With an even number of nodes, this also happens for a moment after the
    ///   clock of one of them was set forward.
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.process().check()?;
        self.held().extend(ttl)
    }

    /// Returns true if the lock is valid until the end of its [`max_hold`](crate::Builder::max_hold), so that it then ends
    /// without a fault. For the program `quorlock`.
    #[doc(hidden)]
    #[must_use]
    pub fn ends_by_max_hold(&self) -> bool {
        self.process().is_this() && self.held().ends_by_max_hold()
    }

    /// Frees the lock as soon as it is given back, whatever its [`min_hold`](crate::Builder::min_hold) is: for a job that
    /// has failed, so that another host may do it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// # fn write_report() -> std::io::Result<()> { Ok(()) }
    /// use std::time::Duration;
    ///
    /// use quorlock::OptionalGuard as _;
    ///
    /// let report = locks.mutex("nightly-report").min_hold(Duration::from_secs(5 * 60));
    /// if let Some(guard) = report.try_lock().optional()? {
    ///     if write_report().is_err() {
    ///         guard.waive_min_hold();
    ///     }
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn waive_min_hold(&self) {
        if self.process().is_this() {
            self.held().waive_min_hold();
        }
    }

    /// Gives the lock back and waits until a majority of the nodes is certainly without it, for at most the node timeout.
    /// Returns at once if the lock is handed to another waiting thread of this process.
    ///
    /// # Errors
    ///
    /// - [`Lost`](crate::ErrorKind::Lost) if the lock was already lost: another caller may have done the protected work as
    ///   well.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes confirmed, or too few for certain, since a request over a
    ///   broken connection may still arrive. The lock was ours until now, and may stay taken until its TTL or its
    ///   [`min_hold`](crate::Builder::min_hold) is over.
    ///
    /// In both cases the lock is given back as far as the nodes can be reached.
    pub fn unlock(self) -> Result<(), Error> {
        self.process().check()?;
        self.hold.give_back_and_wait()
    }
}

/// The kind and the quoted names, for messages.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_names(f, self.held().claim().kind().label, self.names())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().map(NameText).collect();
        let mut guard = f.debug_struct("Guard");
        match names.as_slice() {
            [name] => guard.field("name", name),
            names => guard.field("names", &names),
        };
        guard
            .field("mode", &self.mode())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish()
    }
}
