//! The present leader, for observers that do not stand for election.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::clock;
use crate::core::base::{Time, majority};
use crate::core::operate::LockState;
use crate::core::vote::FencingToken;
use crate::error::{Error, ErrorKind};
use crate::handle::Handle;
use crate::ident::{Owner, value_of};
use crate::kinds::Exclusive;
use crate::process::Process;

/// The time between two requests of an observer to the masters.
const LOOKS: Duration = Duration::from_millis(250);
/// The time between two requests for a while after the leader is gone: the next leader is usually there in a moment.
const LOOKS_SOON: Duration = Duration::from_millis(25);
const SOON: Duration = Duration::from_secs(2);
/// The most changes that wait to be read. Older ones are dropped.
const MOST_CHANGES: usize = 64;

/// A leader, as a majority of the masters knows it. From [`Election::leader`](super::Election::leader) and
/// [`Observer::changes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The [value](super::Election::value) of the candidate; empty if it has none, or if it is the holder of a plain lock.
    pub value: Vec<u8>,
    /// The number of its term. Larger than those of all leaders before, and no smaller than
    /// [`Leadership::term`](super::Leadership::term): if several candidates came at the same instant, masters may know a
    /// larger number. `None` if the holder has no number.
    pub term: Option<FencingToken>,
    /// The owner of the lock, as [`Guard::owner`](crate::Guard::owner) returns it.
    pub owner: Owner,
    /// The time after which the term may be over, if it is not renewed.
    pub remaining_ttl: Option<Duration>,
}

impl Leader {
    /// Returns the value as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn value_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }
}

/// The value, or else the owner, and the term: for a log.
impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value_str().filter(|value| !value.is_empty()) {
            Some(value) => write!(f, "{}", value.escape_debug())?,
            None => write!(f, "{}", self.owner)?,
        }
        self.term.map_or(Ok(()), |term| write!(f, " (term {term})"))
    }
}

/// Returns the owner that has the lock on a majority of the masters.
pub(super) fn leader(lock: &Handle<Exclusive>) -> Result<Option<Leader>, Error> {
    let report = lock.holder()?;
    match report.state() {
        LockState::Unclear => {
            let message = format!(
                "too few masters can say who leads \"{}\": some have not answered, or may have forgotten a leader",
                lock.name().escape_ascii()
            );
            Err(Error::new(ErrorKind::NoQuorum, message))
        }
        _ => {
            let holder = report.holders().find(|holder| !holder.kept);
            Ok(holder.map(|holder| Leader {
                value: value_of(holder.owner.as_bytes()),
                term: holder.token,
                owner: holder.owner.clone(),
                remaining_ttl: report.remaining_ttl(),
            }))
        }
    }
}

/// Returns true if the nodes show a later holder than that term. Either another owner has the lock, or no node that answers
/// names an owner and a majority knows a larger number. While attempts are under way, nodes know the numbers of attempts
/// that may all fail.
pub(super) fn has_led_since(lock: &Handle<Exclusive>, term: FencingToken) -> bool {
    let Ok(report) = lock.holder() else { return false };
    let is_later = |token: Option<FencingToken>| token.is_some_and(|token| token > term);
    report.holders().any(|holder| is_later(holder.token))
        || report.names.iter().any(|name| {
            let answers = name.nodes.iter().filter_map(|node| node.answer.as_ref().ok());
            let is_free = answers.clone().all(|answer| answer.owners.is_empty());
            is_free
                && answers.filter(|answer| is_later(answer.token)).count()
                    >= majority(name.nodes.len())
        })
}

/// Observes an election, from [`Election::observe`](super::Election::observe), until it is dropped.
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Observer {
    changes: Receiver<Option<Leader>>,
    process: Process,
    /// Its drop ends the thread.
    observing: Option<Sender<()>>,
}

/// A channel that has ended, for a forked child, which has no observing thread.
static ENDED: OnceLock<Receiver<Option<Leader>>> = OnceLock::new();

fn ended() -> &'static Receiver<Option<Leader>> {
    ENDED.get_or_init(|| bounded(1).1)
}

impl Observer {
    /// Returns the channel that gets a message for each change of the leader: first for the present one, and `None` when
    /// nobody leads. The channel ends when the client is closed.
    ///
    /// The masters are asked four times a second. An answer takes at most one
    /// [`node_timeout`](crate::Builder::node_timeout). With the default of 200 ms, each term that lasts for one second is
    /// reported, and the last state within one second. The numbers of the terms never fall. While too few masters can be
    /// reached, nothing is reported. A reader that is 64 changes behind loses the oldest change.
    #[must_use]
    pub fn changes(&self) -> &Receiver<Option<Leader>> {
        if self.process.is_this() { &self.changes } else { ended() }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The observing thread is the parent's, and may hold the channel's lock.
            std::mem::forget(self.observing.take());
        }
    }
}

/// Starts a thread that observes the lock.
pub(super) fn start(lock: Handle<Exclusive>, process: Process) -> Result<Observer, Error> {
    lock.check()?;
    ended();
    let ((sender, changes), (observing, observed)) = (bounded(MOST_CHANGES), bounded(0));
    let told = Told { sender, oldest: changes.clone(), last: None, since: clock::now() };
    clock::spawn("quorlock-observer".to_owned(), move || told.observe(&lock, &observed)).map_err(
        |error| Error::config(format!("no thread could be started to observe a leader: {error}")),
    )?;
    Ok(Observer { changes, process, observing: Some(observing) })
}

/// The state of an observer: the last change, and the receiver of changes.
struct Told {
    sender: Sender<Option<Leader>>,
    oldest: Receiver<Option<Leader>>,
    /// `None`: nothing was sent yet.
    last: Option<Option<Leader>>,
    since: Time,
}

impl Told {
    /// Observes until the observer is dropped or the client is closed: the body of the thread.
    fn observe(mut self, lock: &Handle<Exclusive>, observed: &Receiver<()>) {
        loop {
            match leader(lock) {
                Ok(leader) => self.tell(leader),
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(_) => {}
            }
            let nobody_leads = matches!(self.last, Some(None));
            let soon = nobody_leads && clock::now().since(self.since) < SOON;
            let pause = if soon { LOOKS_SOON } else { LOOKS };
            if observed.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn tell(&mut self, leader: Option<Leader>) {
        let owner = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.owner.clone());
        if self.last.as_ref().is_some_and(|last| owner(last) == owner(&leader)) {
            return;
        }
        (self.last, self.since) = (Some(leader.clone()), clock::now());
        if let Err(full) = self.sender.try_send(leader) {
            let _ = self.oldest.try_recv();
            // Only this thread sends, so there is room.
            let _ = self.sender.try_send(full.into_inner());
        }
    }
}
