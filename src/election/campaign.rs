//! An election, and how a candidate stands for it.

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

/// The TTL of an election whose settings say nothing, and whose client allows it: how long a crash of the leader leaves the
/// candidates without one.
const DEFAULT_TTL: Duration = Duration::from_secs(2);

/// The longest value of a candidate, in bytes. It is a part of the owner that the masters keep.
const LONGEST_VALUE: usize = 128;

/// An election by name: of all candidates, on whatever machines, one leads at a time. From
/// [`Quorlock::election`](crate::Quorlock::election).
///
/// A **term** is one hold of the exclusive lock of that name, so the promises for locks hold for terms. No two candidates lead at one
/// time, by [`is_leader`](Leadership::is_leader); each term has a number larger than those before ([`term`](Leadership::term)),
/// which a storage can compare as a fencing token. `election("x")` and `mutex("x")` exclude each other. On a single master, and with a
/// [`fallback`](crate::Fallback), an election promises what a lock does there.
///
/// A term is renewed for as long as its leader lives, whatever the client's [`renewal`](crate::Builder::renewal),
/// [`max_hold`](crate::Builder::max_hold) and [`min_hold`](crate::Builder::min_hold) are.
///
/// A leader that crashes leaves the candidates without one for its TTL at most. So the TTL is short: it defaults to 2 s, or to that of
/// the client if that is shorter or the client's settings allow no 2 s. A leader that resigns, or whose process ends in
/// order, is followed within milliseconds.
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
    /// The candidates of this election and its clones stay away together.
    away: Arc<Away>,
}

impl Election {
    pub(crate) fn new(shared: &Arc<Shared>, name: &[u8]) -> Self {
        let settings = shared.coordinator.settings();
        let default = settings.ttl.min(DEFAULT_TTL);
        let ttl = if settings.check_ttl(default).is_ok() { default } else { settings.ttl };
        // A term lasts for as long as its leader wants it, and is over with it.
        let lock = Handle::new(shared, [name]).ttl(ttl).renewal(Renewal::Auto);
        let lock = lock.max_hold(Duration::MAX).min_hold(Duration::ZERO);
        Self { shared: shared.clone(), lock, value: Vec::new(), away: Arc::default() }
    }

    /// The value of this candidate, such as its address, which all can read while it leads: at most 128 bytes of any kind.
    /// Defaults to none. See [`leader`](Self::leader).
    pub fn value(mut self, value: impl AsRef<[u8]>) -> Self {
        self.value = value.as_ref().to_vec();
        self
    }

    /// The time for which a term lives without a renewal, in the range that [`Builder::ttl`](crate::Builder::ttl) states. A crash
    /// of the leader leaves the candidates without one for so long. Defaults to 2 s where the client's settings allow that.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// The time before the end of its term at which a leader whose renewals fail is told to [leave](Leadership::leaving). More than half of
    /// the TTL counts as half. Defaults to what [`Builder::risk_margin`](crate::Builder::risk_margin) describes: with a TTL of 2 s
    /// about 650 ms.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.lock = self.lock.risk_margin(margin);
        self
    }

    /// The name of the election, without the key prefix: as it was given, also if it cannot be used.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.lock.name()
    }

    /// The name of the election as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        self.lock.name_str()
    }

    /// The time for which a term lives without a renewal.
    #[must_use]
    pub fn lives_for(&self) -> Duration {
        self.lock.lives_for()
    }

    /// Stands for election, and waits until this candidate leads.
    ///
    /// After a term of this `Election`, or of a clone of it, that has [ended](Leadership::resign) in time, it first waits until
    /// another candidate has led, at most for one TTL.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock). [`Config`](crate::ErrorKind::Config), too, for a value that is too long,
    /// and with [`fencing(false)`](crate::Builder::fencing), for then a term has no number.
    pub fn campaign(&self) -> Result<Leadership, Error> {
        self.campaign_within(Wait::forever())
    }

    /// Stands for election for no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`campaign`](Self::campaign), and [`Held`](crate::ErrorKind::Held) if another candidate leads.
    pub fn try_campaign_for(&self, timeout: Duration) -> Result<Leadership, Error> {
        self.campaign_within(timeout)
    }

    /// Stands for election within the limits of `wait`: a time, a channel that cancels, or both.
    ///
    /// # Errors
    ///
    /// Those of [`campaign`](Self::campaign), and of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn campaign_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<Leadership, Error> {
        let wait = wait.into().pinned();
        self.check()?;
        let closed = self.shared.coordinator.closed();
        self.away.stay(&self.lock, wait, closed).map_err(|why| self.not_over(&why))?;
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

    /// Makes sure that somebody can stand with these settings.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.process().check()?;
        self.lock.check()?;
        let length = self.value.len();
        if length > LONGEST_VALUE {
            return Err(Error::config(format!(
                "the value of a candidate for {self} has {length} bytes; {LONGEST_VALUE} is the most (use an address under \
                 which more can be read)"
            )));
        }
        if !self.shared.coordinator.settings().fencing {
            return Err(self.without_terms());
        }
        Ok(())
    }

    /// Returns who leads, as a majority of the masters says; `None` if nobody does. It takes no part in the election.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`](crate::Handle::holder). [`NoQuorum`](crate::ErrorKind::NoQuorum), too, if too few masters can
    /// say: those that were restarted may have forgotten a leader.
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        observer::leader(&self.lock)
    }

    /// Asks the leader to resign, as [`Handle::ask_to_release`](crate::Handle::ask_to_release) does. Its
    /// [`leaving`](super::Leadership::leaving) gets the request. Returns true if somebody leads, and false if nobody does.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::ask_to_release`](crate::Handle::ask_to_release).
    pub fn ask_to_resign(&self, reason: impl AsRef<str>) -> Result<bool, Error> {
        self.lock.ask_to_release(reason)
    }

    /// Observes who leads from now on, without taking part in the election.
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

/// The kind and the name, in quotes: for messages.
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
