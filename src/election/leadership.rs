//! One term of a leader.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::core::hold::LossReason;
use crate::core::vote::FencingToken;
use crate::error::Error;
use crate::guard::Guard;
use crate::release_request::ReleaseRequest;
use crate::risk::Risk;

/// The reason why a leader has to leave, or has left.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Leaving {
    /// The renewals of its term fail: the term ends after the time that the risk states, unless they recover.
    AtRisk(Risk),
    /// The term is lost.
    Lost(LossReason),
    /// Somebody asks the leader to resign. The term continues until it does.
    Asked(ReleaseRequest),
    /// [`run`](super::Election::run), or the [`Candidate`](super::Candidate), was told to stop.
    Stopped,
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtRisk(risk) => risk.fmt(f),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
            Self::Asked(request) => request.fmt(f),
            Self::Stopped => f.write_str("told to stop"),
        }
    }
}

/// The most requests to resign that a leader gets in one term.
const MOST_REQUESTS: usize = 8;

/// A channel that has ended, for a forked child: the senders of the parent's channel may be locked there.
static ENDED: OnceLock<Receiver<Leaving>> = OnceLock::new();

fn ended() -> &'static Receiver<Leaving> {
    ENDED.get_or_init(|| bounded(1).1)
}

/// One term of a leader, until it is dropped or its validity ends. Dropping it, also by a panic, gives the leadership back.
#[must_use = "the leadership is given back as soon as this is dropped"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
    term: FencingToken,
    leaving: Receiver<Leaving>,
    leave: Sender<Leaving>,
}

impl Leadership {
    pub(super) fn new(guard: Guard, term: FencingToken) -> Self {
        ended();
        // Room for one message of each kind, and for all requests.
        let (leave, leaving) = bounded(3 + MOST_REQUESTS);
        let (at_risk, lost, asked) = (leave.clone(), leave.clone(), leave.clone());
        let (mut is_told, mut asked_times) = (false, 0);
        guard.on_at_risk(move |risk| {
            if risk.is_at_risk() && !std::mem::replace(&mut is_told, true) {
                let _ = at_risk.try_send(Leaving::AtRisk(risk));
            }
        });
        guard.on_asked(move |request| {
            asked_times += 1;
            if asked_times <= MOST_REQUESTS {
                let _ = asked.try_send(Leaving::Asked(request));
            }
        });
        guard.on_lost(move |reason| _ = lost.try_send(Leaving::Lost(reason)));
        Self { guard, term, leaving, leave }
    }

    /// Returns the number of this term: larger than those of all terms before, and a [`FencingToken`] for storages that
    /// compare it.
    #[must_use]
    pub const fn term(&self) -> FencingToken {
        self.term
    }

    /// Returns true if the term is certainly not over. Each call reads the clock: see [`Guard::remaining`].
    #[must_use]
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the time for which the term certainly lasts without a further renewal; zero once another candidate may lead.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Checks that this candidate still leads.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::check`].
    pub fn check(&self) -> Result<(), Error> {
        self.guard.check()
    }

    /// Returns the channel that gets a message when the leader has to leave: a margin before its term ends, if its renewals
    /// fail; when the term is lost; when somebody [asks it to resign](super::Election::ask_to_resign); and when
    /// [`run`](super::Election::run) is told to stop. Up to eight requests are reported in a term, and each of the others
    /// once. Unless the term is lost it is still valid at the message, so that the leader can finish its work in order.
    ///
    /// Renewals continue after the message. If they recover, the term continues as well, until the leader resigns. A leader
    /// may also ignore a request.
    #[must_use]
    pub fn leaving(&self) -> &Receiver<Leaving> {
        if self.guard.is_of_this_process() { &self.leaving } else { ended() }
    }

    /// Returns the sender that tells the leader to leave.
    pub(super) fn leave(&self) -> Sender<Leaving> {
        self.leave.clone()
    }

    /// Returns the guard of the lock that this term holds.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the guard alone, without [`leaving`](Self::leaving): the lock is held as before.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Gives the leadership back, and waits until another candidate can have it, as [`Guard::unlock`] does. The candidates
    /// of the same [`Election`](super::Election), and of its clones, stay away until another one has led, for at most one
    /// TTL.
    ///
    /// Dropping a `Leadership` does the same, without waiting.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`].
    pub fn resign(self) -> Result<(), Error> {
        self.guard.unlock()
    }
}
