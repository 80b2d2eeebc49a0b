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

/// A lock that is held, until it is dropped or its validity ends.
///
/// It owns all it needs, so it can be stored, returned and sent to another thread, and it may
/// outlive the [`Quorlock`](crate::Quorlock) that gave it out. Dropping it, also by a panic, gives
/// the lock back without waiting on the network; [`unlock`](Self::unlock) waits and reports. The lock of
/// a process that is killed, aborts (`panic = "abort"`), or calls [`std::process::exit`] with the guard
/// still there, ends with its TTL. So does that of a guard in a `static`, which is never dropped. A guard that is leaked
/// with [`std::mem::forget`] holds its lock for as long as the process lives, if it is renewed.
///
/// The lock is renewed while it is held, unless [`Renewal::Manual`](crate::Renewal) says otherwise.
///
/// **A lease is not a mutex in memory.** A process that is paused for longer than
/// [`remaining`](Self::remaining) does not notice that somebody else took the lock meanwhile: call
/// [`check`](Self::check) before each step that must be protected.
///
/// **A guard needs a name.** `let _ = locks.lock("a")?;` drops it at once, without a warning. `let _guard = ..` keeps it to the end
/// of the block. A call whose guard is not used at all is a warning of the compiler:
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

/// What a lock rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A majority of several masters.
    Quorum,
    /// The one master that is configured.
    SingleNode,
    /// The first of several masters, while a majority could not be reached: see
    /// [`Fallback`](crate::Fallback). Turns into `Quorum` when a majority has the lock.
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

    /// It shares the lock from now on. In a child by fork it does nothing: the lock is the parent's.
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

    /// The process that holds it; not this one, in a child of it.
    fn process(&self) -> Process {
        self.held().claim().state().process
    }

    /// Returns false in a child by fork of the process that holds it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process().is_this()
    }

    /// The name of the lock, without the key prefix. Of several, the one that sorts first.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.held().claim().names().first().as_bytes()
    }

    /// The name of the lock as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        std::str::from_utf8(self.name()).ok()
    }

    /// The names of the lock, without the key prefix: in order, and each of them once.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.held().claim().names().iter().map(Name::as_bytes)
    }

    /// The owner of the lock's keys on the nodes: `LABEL#RANDOM`, as `redis-cli GET KEY` shows it for an exclusive lock.
    /// Threads that hand the lock to each other have it as one owner.
    ///
    /// It is for operators, who compare it with what the nodes have. The label is
    /// [`Builder::owner_label`](crate::Builder::owner_label), by default the host's name and the process id. No two locks
    /// have the same random part, which follows the last `#`. Owners of reentrant and read-write locks have `:1` behind it, as
    /// those of Redisson do; those of writers have `:1:write`.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.held().claim().owner()
    }

    /// What the lock rests on, as far as is known now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        let is_ours = self.process().is_this();
        match if is_ours { self.held().basis() } else { Basis::Majority } {
            Basis::FirstNode => Mode::Fallback,
            Basis::Majority if self.held().claim().state().nodes().len() == 1 => Mode::SingleNode,
            Basis::Majority => Mode::Quorum,
        }
    }

    /// A number larger than that of every earlier holder of this name, or of any of several names. `None` with
    /// [`fencing(false)`](crate::Builder::fencing), and for permits of a [`Semaphore`](crate::Semaphore).
    ///
    /// A storage that keeps the largest token it has seen, and refuses writes with a smaller one, is
    /// safe from a holder that does not know yet that its lock is lost. It is so without condition as long
    /// as each master of the majority that knew the last number keeps it: for ten minutes after the lock's
    /// last use. Once one of them has forgotten it, it rests on the set's time, by which new numbers are
    /// made: the median of the masters' clocks, each corrected by what the master's mark says it is ahead.
    /// That goes on whichever masters forget, and whatever their clocks say, unless a majority of them
    /// loses its marks at once; then their clocks have to agree.
    ///
    /// After those ten minutes every token rests on the set's time. So a token may be smaller than one of before if the
    /// set's time was set back by more than ten minutes meanwhile: the clocks of most masters, or that of a single one.
    ///
    /// There is one limit more while just a majority of the masters is up. The clock of one of them may have been set
    /// back while no client was running, and another one may have forgotten the number. Then new clients take that
    /// clock for the set's time, and the next token may be smaller by as much.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.hold.token
    }

    /// How much longer the lock is certainly ours, clock drift allowed for; zero once it may be
    /// somebody else's.
    ///
    /// It is `TTL - time since the request was sent - drift - clock tolerance`. The drift is 1 % of the TTL
    /// and 2 ms: the validity time of the Redlock algorithm (Redis documentation, "Distributed Locks
    /// with Redis"). The [`clock_tolerance`](crate::Builder::clock_tolerance) is by how much a master's
    /// clock may be set forward, which ends its keys early. Judged by a clock that goes on while the machine is suspended, where the
    /// system has one.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.process().is_this() {
            true => self.held().remaining(),
            false => Duration::ZERO,
        }
    }

    /// Makes sure that the lock is still ours.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) once [`remaining`](Self::remaining) is zero. From then on
    /// [`lost`](Self::lost) has its message.
    pub fn check(&self) -> Result<(), Error> {
        self.process().check()?;
        self.held().check()
    }

    /// Gets one message when the lock is lost: at the end of its validity, and never before that
    /// without a reason. There is one message for each loss, whoever sees it first: [`check`](Self::check),
    /// [`extend`](Self::extend), an [`unlock`](Self::unlock) that says
    /// [`Lost`](crate::ErrorKind::Lost), and the drop of a guard whose time is over send it as well. Ends
    /// without a message when the lock is given back and had not been lost.
    ///
    /// Made for `select!` of [`crossbeam_channel`]. There is one message in all: a second read, also from a clone, finds that
    /// the channel has ended, which says nothing of the lock.
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

    /// Gets the latest message about the risk to the lock: that its renewals fail while it is still valid, and that one was
    /// confirmed again. Ends when the lock is lost or given back. A holder can end its work in order then, or tell somebody.
    ///
    /// The warning comes when two renewals in a row were not confirmed and two fifths of the validity are left, at the latest when a
    /// third is left; or by the holder's own [`risk_margin`](crate::Builder::risk_margin). With the default settings that
    /// is 3.2 to 3.9 s before the loss, and no outage of a second is told. The fault of a single node never is. The warning is
    /// told once, and then that the lock has recovered, before it can be told again.
    ///
    /// A lock that is not renewed, or that ends by its [`max_hold`](crate::Builder::max_hold), is never at risk. A loss whose
    /// reason is [`KeysGone`](LossReason::KeysGone) or [`ClockStoodStill`](LossReason::ClockStoodStill) comes without a warning.
    ///
    /// The channel has room for one message, and a later one replaces it. A clone of it reads from the same channel.
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

    /// Has `callback` called with each message about the risk to the lock, on another thread: see [`at_risk`](Self::at_risk). If
    /// the lock is at risk already, that is the first message. A callback that is still at work gets the latest message when it
    /// returns, and none that was replaced meanwhile. No call begins once the lock is lost or given back.
    ///
    /// It may block, panic, unlock or drop the guard, as that of [`on_lost`](Self::on_lost) may, and runs on the same threads. Do
    /// not move the guard into its own callback: it would be dropped only after the loss.
    pub fn on_at_risk(&self, callback: impl FnMut(Risk) + Send + 'static) {
        if self.process().is_this() {
            self.held().call_at_risk(&self.hold, Box::new(callback));
        }
    }

    /// Gets the latest request to give the lock up, which somebody has made by
    /// [`ask_to_release`](crate::Handle::ask_to_release). Ends when the lock is lost or given back.
    ///
    /// It forces nothing: the holder ends its work in order and gives the lock back, or goes on. Each request is told once. A lock
    /// whose holder has heard of one is handed to no other thread of this process when it is given back. For a moment the process
    /// leaves it to callers that wait elsewhere.
    ///
    /// **A holder is told only if it calls this, or [`on_asked`](Self::on_asked).** From that call on a connection to each node
    /// listens for requests, so that one is told within a moment; a client listens for 1,024 locks at most. Each renewal and each [`extend`](Self::extend) looks for them
    /// as well, in case a message was lost. So does that call, for a request that was made before.
    ///
    /// The channel has room for one message, and a later one replaces it. A clone of it reads from the same channel.
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

    /// Has `callback` called with each request to give the lock up, on another thread: see [`asked`](Self::asked). A callback that is
    /// still at work gets the latest request when it returns. No call begins once the lock is lost or given back.
    ///
    /// It may block, panic, unlock or drop the guard, as that of [`on_lost`](Self::on_lost) may, and runs on the same threads. Do
    /// not move the guard into its own callback: it would be dropped only after the loss.
    pub fn on_asked(&self, callback: impl FnMut(ReleaseRequest) + Send + 'static) {
        if self.process().is_this() {
            self.held().call_asked(&self.hold, Box::new(callback));
        }
    }

    /// Has `callback` called when the lock is lost, on another thread; at once, on this one, if
    /// it is lost already. Called once for each loss, as [`lost`](Self::lost) has its one message; never
    /// called once the lock was given back.
    ///
    /// It may block, panic, unlock or drop the guard: that holds up nothing else, unless 257 threads of callbacks block at
    /// once, which is as many as a client has for them; further ones are called when one of those is over. Do not move
    /// the guard into its own callback: it would be dropped only after the loss.
    pub fn on_lost(&self, callback: impl FnOnce(LossReason) + Send + 'static) {
        if self.process().is_this() {
            self.hold.notice.call(Box::new(callback));
        }
    }

    /// Has the lock live for `ttl` from now on at least, but not beyond its
    /// [`max_hold`](crate::Builder::max_hold). Waits until a majority has confirmed it, at most the node
    /// timeout; twice that, if connections broke meanwhile.
    ///
    /// Keys on the nodes are never shortened. With a `ttl` shorter than what is left,
    /// [`remaining`](Self::remaining) is cut at once, until the next renewal. Nodes that lost the key,
    /// or never had it, get it, unless somebody else has taken it there. A lock that is lost stays
    /// lost.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) if `ttl` is out of the range that
    /// [`Builder::ttl`](crate::Builder::ttl) states; [`Lost`](crate::ErrorKind::Lost) if the lock is
    /// lost; [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes confirmed: then the lock is not
    /// held for longer than before (and for less, if less was asked for). With an even number of nodes it is
    /// so, too, for a moment after the clock of one of them was set forward.
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.process().check()?;
        self.held().extend(ttl)
    }

    /// Returns true if the lock is valid until its [`max_hold`](crate::Builder::max_hold) is over, so that it then ends without a fault.
    /// For the program `quorlock`.
    #[doc(hidden)]
    #[must_use]
    pub fn ends_by_max_hold(&self) -> bool {
        self.process().is_this() && self.held().ends_by_max_hold()
    }

    /// Has the lock free as soon as it is given back, whatever its [`min_hold`](crate::Builder::min_hold) is: for a job that
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

    /// Gives the lock back and waits until a majority of the nodes is certainly without it, at most
    /// the node timeout. Returns at once where the lock is handed to another thread of this process
    /// that waits for it.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lock was lost before: what it protected may have been
    /// done by two. [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes confirmed, or too few for
    /// certain, since a request over a connection that broke may still arrive: the lock was
    /// ours until now, and may stay taken until its TTL, or its
    /// [`min_hold`](crate::Builder::min_hold), is over. In both cases the lock is given
    /// back as far as the nodes can be reached.
    pub fn unlock(self) -> Result<(), Error> {
        self.process().check()?;
        self.hold.give_back_and_wait()
    }
}

/// The kind and the names, in quotes: for messages.
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
