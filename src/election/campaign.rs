//! An election, and the ways to stand for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::away::{Away, NotOver};
use super::leadership::Leadership;
use super::observer::{self, Leader, Observer};
use crate::config::settings::Renewal;
use crate::error::{Error, ErrorKind};
use crate::handle::Handle;
use crate::ident::{candidate_label, write_with_names};
use crate::kinds::Exclusive;
use crate::process::Process;
use crate::shared::Shared;
use crate::wait::Wait;

/// The default TTL of an election, if the client's settings allow it. After a crash of the leader, the candidates are
/// without one for that time.
const DEFAULT_TTL: Duration = Duration::from_secs(2);

/// The longest value of a candidate, in bytes. It is a part of the owner that the masters keep.
const LONGEST_VALUE: usize = 128;

/// An election by name: one of all candidates, on any machines, leads at a time. From
/// [`Quorlock::election`](crate::Quorlock::election).
///
/// A **term** is one hold of the exclusive lock of that name, so the promises for locks hold for terms. No two candidates
/// lead at the same time, according to [`is_leader`](Leadership::is_leader). Each term has a number larger than those before
/// ([`term`](Leadership::term)), which a storage can compare as a fencing token. `election("x")` and `mutex("x")` exclude
/// each other. On a single master, and with a [`fallback`](crate::Fallback), an election promises what a lock does there.
///
/// A term is renewed for as long as its leader lives, whatever the client's [`renewal`](crate::Builder::renewal),
/// [`max_hold`](crate::Builder::max_hold) and [`min_hold`](crate::Builder::min_hold) are.
///
/// After a crash of the leader, the candidates are without one for at most its TTL. So the TTL is short: it defaults to 2 s,
/// or to that of the client if that is shorter or the client's settings do not allow 2 s. A leader that resigns, or whose
/// process ends in order, is replaced within milliseconds.
///
/// # Examples
///
/// One instance of a service does the work, and the others wait until it is their turn:
///
/// ```no_run
/// use quorlock::Quorlock;
/// use quorlock::crossbeam_channel::{bounded, select, tick};
/// # fn do_some_work(term: u64) {}
///
/// # let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let (stop, stopped) = bounded(0); // dropped by a signal handler, for example
/// let every_second = tick(std::time::Duration::from_secs(1));
/// locks.election("scheduler").value("10.0.0.7:8080").run(&stopped, |leadership| loop {
///     select! {
///         recv(leadership.leaving()) -> _ => return, // in time before another one leads
///         recv(every_second) -> _ => do_some_work(leadership.term().into()),
///     }
/// })?;
/// # Ok::<(), quorlock::Error>(())
/// ```
#[must_use = "an election does nothing until one of its calls is made"]
#[derive(Clone)]
pub struct Election {
    shared: Arc<Shared>,
    lock: Handle<Exclusive>,
    value: Vec<u8>,
    /// The candidates of this election and of its clones stay away together.
    away: Arc<Away>,
}

impl Election {
    pub(crate) fn new(shared: &Arc<Shared>, name: &[u8]) -> Self {
        let settings = shared.coordinator.settings();
        let default = settings.ttl.min(DEFAULT_TTL);
        let ttl = if settings.check_ttl(default).is_ok() { default } else { settings.ttl };
        // A term lasts for as long as its leader wants, and ends with the leader.
        let lock = Handle::new(shared, [name]).ttl(ttl).renewal(Renewal::Auto);
        let lock = lock.max_hold(Duration::MAX).min_hold(Duration::ZERO);
        Self { shared: shared.clone(), lock, value: Vec::new(), away: Arc::default() }
    }

    /// Sets the value of this candidate, such as its address, which everybody can read while it leads: at most 128 bytes of
    /// any kind. Defaults to none. See [`leader`](Self::leader).
    pub fn value(mut self, value: impl AsRef<[u8]>) -> Self {
        self.value = value.as_ref().to_vec();
        self
    }

    /// Sets the time for which a term lives without a renewal, in the range that [`Builder::ttl`](crate::Builder::ttl)
    /// states. After a crash of the leader, the candidates are without one for that time. Defaults to 2 s if the client's
    /// settings allow that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// Sets the time before the end of its term at which a leader whose renewals fail is told to
    /// [leave](Leadership::leaving). More than half of the validity counts as half of it. Defaults to the margin that
    /// [`Builder::risk_margin`](crate::Builder::risk_margin) describes: about 650 ms with a TTL of 2 s.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.lock = self.lock.risk_margin(margin);
        self
    }

    /// Counts the calls and terms of this candidate under that label as well, as
    /// [`Handle::metrics_label`](crate::Handle::metrics_label) does. Defaults to none.
    pub fn metrics_label(mut self, label: &str) -> Self {
        self.lock = self.lock.metrics_label(label);
        self
    }

    /// Returns the name of the election, without the key prefix: as it was given, also if it cannot be used.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.lock.name()
    }

    /// Returns the name of the election as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        self.lock.name_str()
    }

    /// Returns the time for which a term lives without a renewal.
    #[must_use]
    pub fn lives_for(&self) -> Duration {
        self.lock.lives_for()
    }

    /// Stands for election, and waits until this candidate leads.
    ///
    /// If a term of this `Election`, or of a clone of it, has [ended](Leadership::resign) in time, the call first waits
    /// until another candidate has led, for at most one TTL.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock). [`Config`](crate::ErrorKind::Config) also for a value that is too
    /// long, and with [`fencing(false)`](crate::Builder::fencing), since a term has no number then.
    pub fn campaign(&self) -> Result<Leadership, Error> {
        self.campaign_within(Wait::forever())
    }

    /// Stands for election for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`campaign`](Self::campaign), and [`Held`](crate::ErrorKind::Held) if another candidate leads.
    pub fn try_campaign_for(&self, timeout: Duration) -> Result<Leadership, Error> {
        self.campaign_within(timeout)
    }

    /// Stands for election within the limits of `wait`: a time, a channel that cancels the wait, or both.
    ///
    /// # Errors
    ///
    /// Those of [`campaign`](Self::campaign), and of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn campaign_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<Leadership, Error> {
        let wait = wait.into().pinned();
        self.check()?;
        let closed = self.shared.coordinator.closed();
        let (wanted, recorder) = (self.lock.wanted()?, self.shared.coordinator.recorder());
        let record = recorder.call_begins(wanted.kind.label, wanted.figures.as_deref());
        if let Err(why) = self.away.stay(&self.lock, wait, closed) {
            let error = self.not_over(&why);
            let (_, waited) = record.so_far(Some(error.kind()));
            record.ends(Some(error.kind()), waited);
            return Err(error);
        }
        record.goes_on();
        let label = candidate_label(self.shared.coordinator.state().owner_label(), &self.value);
        let guard = self.lock.clone().of_candidate(label).lock_within(wait)?;
        let term = guard.token().ok_or_else(|| self.without_terms())?;
        self.away.led(&guard, term);
        Ok(Leadership::new(guard, term))
    }

    /// The process of the client.
    pub(super) fn process(&self) -> Process {
        self.shared.coordinator.process
    }

    fn not_over(&self, why: &NotOver) -> Error {
        match why {
            NotOver::For(time) => Error::held(Arc::new(self.to_string()), Some(*time)),
            NotOver::Cancelled => {
                let message = format!("standing for {self} was cancelled");
                Error::new(ErrorKind::Cancelled, message)
            }
        }
    }

    fn without_terms(&self) -> Error {
        Error::config(format!(
            "{self} needs fencing, which is off: without it terms have no numbers"
        ))
    }

    /// Checks that a candidate can stand with these settings.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.process().check()?;
        self.lock.check()?;
        let length = self.value.len();
        if length > LONGEST_VALUE {
            return Err(Error::config(format!(
                "the value of a candidate for {self} has {length} bytes; {LONGEST_VALUE} is the maximum (use an address under \
                 which more can be read)"
            )));
        }
        if !self.shared.coordinator.settings().fencing {
            return Err(self.without_terms());
        }
        Ok(())
    }

    /// Returns the leader according to a majority of the masters; `None` if nobody leads. The call does not affect the
    /// election.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`](crate::Handle::holder). [`NoQuorum`](crate::ErrorKind::NoQuorum) also if too few masters
    /// can tell: masters that were restarted may have forgotten a leader.
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        observer::leader(&self.lock)
    }

    /// Asks the leader to resign, as [`Handle::ask_to_release`](crate::Handle::ask_to_release) does. The leader's
    /// [`leaving`](super::Leadership::leaving) gets the request. Returns true if somebody leads, and false if nobody does.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::ask_to_release`](crate::Handle::ask_to_release).
    pub fn ask_to_resign(&self, reason: impl AsRef<str>) -> Result<bool, Error> {
        self.lock.ask_to_release(reason)
    }

    /// Observes the leader from now on, without taking part in the election.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) for a name that cannot be locked, and
    /// [`Config`](crate::ErrorKind::Config) if no thread could be started.
    pub fn observe(&self) -> Result<Observer, Error> {
        self.process().check()?;
        observer::start(self.lock.clone(), self.process())
    }
}

/// The kind and the quoted name, for messages.
impl fmt::Display for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_names(f, "election", std::iter::once(self.name()))
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.escape_ascii().to_string();
        f.debug_struct("Election").field("lock", &self.lock).field("value", &value).finish()
    }
}
