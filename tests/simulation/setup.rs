//! Settings of one client, and the behaviour of its threads where a plan does not leave that to chance.

use std::time::Duration;

use super::chance::Chance;
use super::client::Cx;
use super::lock_id::LockId;
use crate::core::acquire::Patience;
use crate::core::base::{Backoff, Time};
use crate::kinds::KINDS;
use crate::kinds::contract::kind::Kind;

/// Pauses between attempts, unless a plan says otherwise.
pub(super) const BACKOFF: Backoff =
    Backoff { min: Duration::from_millis(5), max: Duration::from_millis(150) };

/// Time for which calls tolerate that no majority can be reached, unless a plan says otherwise.
pub(super) const NO_QUORUM: Duration = Duration::from_secs(3);

/// Longest time for which the nodes keep a lock that is given back, in TTLs of it.
pub(super) const LONGEST_KEPT: f64 = 1.5;

/// Configuration of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Number of nodes that it uses, from the first one on.
    pub(super) nodes: usize,
    pub(super) ttl: Duration,
    pub(super) max_ttl: Duration,
    pub(super) clock_tolerance: Duration,
    pub(super) node_timeout: Duration,
    pub(super) no_quorum_timeout: Duration,
    /// Time without a majority after which it falls back to the first node; `None`: never.
    pub(super) fall_back_after: Option<Duration>,
    /// Its pauses between attempts.
    pub(super) backoff: Backoff,
    /// Number of permits of each semaphore.
    pub(super) permits: u32,
    pub(super) habit: Habit,
}

/// Behaviour of a client's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// Anything that users do, by chance.
    Anything,
    /// They take the first name and keep it; should they lose it, they take it again.
    Keeps,
    /// As `Keeps`, each of them with a name of its own.
    KeepsItsOwn,
    /// They take the first name and keep it, after that time.
    KeepsFrom(Duration),
    /// They want the first name all the time, each time for a moment.
    Contends,
    /// They want the first name all the time, have it shortly, and want it again at once.
    Insists,
    /// They want locks with so many names, chosen anew each time, and have each lock for so long.
    Picks(usize, Duration),
    /// They want the first name, have it for so long, unlock it, and rest for as long.
    Works(Duration),
    /// As `Works`, and their renewals begin [`LATE`] after they are due.
    RenewsLate(Duration),
    /// They try for the first name once, after that time, and give it back at once.
    TriesOnce(Duration),
    /// They take the first name, give it back at once, and stay away for so long.
    Visits(Duration),
    /// They read the first name for so long, and again at once.
    Reads(Duration),
    /// They write the first name for so long, and again at once.
    Writes(Duration),
    /// They want the first name as a fair lock, have it for so long, and rest for as long.
    Queues(Duration),
    /// They write the first name for so long, downgrade that and read for so long, give it back, and rest for as long as they
    /// wrote.
    Downgrades(Duration, Duration),
    /// They want up to so many permits of the first name's semaphore, have them for so long, and rest for as long.
    TakesPermits(u32, Duration),
    /// They take a permit of the first name's semaphore and keep it.
    KeepsPermits,
    /// They try for a permit of the first name's semaphore once, after that time, and give it back at once.
    TriesPermit(Duration),
    /// They try for the first name again and again, for a job that is done once in that time at most.
    RunsJobs(Duration),
    /// They want a lock again and again.
    Loops(Loop),
}

/// A lock that callers want again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// The label of the kind; `None`: each caller of a client wants another kind.
    pub(super) kind: Option<&'static str>,
    /// One bit for each name. If the kind has one name, each caller wants one of them.
    pub(super) names: u32,
    /// Number of permits, for a semaphore.
    pub(super) permits: u32,
    pub(super) holds: Duration,
    pub(super) rests: Duration,
    /// They give up after that time; `None`: never.
    pub(super) patience: Option<Duration>,
    /// True if their calls have no deadline, and are cancelled after `patience`.
    pub(super) cancels: bool,
}

impl Loop {
    /// Callers that want a lock of that kind under each of those names, have it for 5 ms, and want it again at once.
    pub(super) const fn of(kind: &'static str, names: u32) -> Self {
        Self { kind: Some(kind), ..Self::of_each_kind(names) }
    }

    /// As `of`, but each caller of a client wants another kind.
    pub(super) const fn of_each_kind(names: u32) -> Self {
        let (holds, rests) = (Duration::from_millis(5), Duration::ZERO);
        Self { kind: None, names, permits: 1, holds, rests, patience: None, cancels: false }
    }

    fn lock_of(self, caller: usize) -> LockId {
        let place = match self.kind {
            Some(kind) => KINDS.iter().position(|it| it.label == kind),
            None => Some(caller % KINDS.len()),
        };
        let place = place.expect("a kind of that name");
        let names: Vec<_> = (0..32).filter(|name| self.names & 1 << name != 0).collect();
        match KINDS[place].most_names {
            1 => LockId::new(place, [names[caller % names.len()]]),
            _ => LockId::new(place, names),
        }
    }
}

/// Delay between a thread's decision to renew a lock and the renewal.
pub(super) const LATE: Duration = Duration::from_millis(300);

/// Duration of a job.
const JOB: Duration = Duration::from_millis(20);

impl Habit {
    /// Delay before the first call.
    pub(super) fn begins(self) -> Duration {
        match self {
            Self::TriesOnce(after) | Self::TriesPermit(after) | Self::KeepsFrom(after) => after,
            _ => Duration::ZERO,
        }
    }

    /// Patience of the next call, after so many `calls`; `None`: there is no further call.
    pub(super) fn next(self, calls: u32, cx: &mut Cx<'_>) -> Option<Patience> {
        match self {
            Self::Anything => None,
            Self::RunsJobs(_) => Some(Patience::Once),
            Self::TriesOnce(_) | Self::TriesPermit(_) => (calls == 0).then_some(Patience::Once),
            Self::Keeps
            | Self::KeepsItsOwn
            | Self::KeepsFrom(_)
            | Self::KeepsPermits
            | Self::TakesPermits(..)
            | Self::Insists
            | Self::Picks(..)
            | Self::Works(_)
            | Self::Visits(_)
            | Self::Reads(_)
            | Self::Writes(_)
            | Self::Queues(_)
            | Self::Downgrades(..)
            | Self::RenewsLate(_) => Some(Patience::Forever),
            Self::Loops(Loop { patience: None, .. } | Loop { cancels: true, .. }) => {
                Some(Patience::Forever)
            }
            Self::Loops(Loop { patience: Some(patience), .. }) => {
                Some(Patience::Until(cx.now().after(patience)))
            }
            Self::Contends => Some(Patience::Until(cx.now().after(cx.net.chance.ms(500..4_000)))),
        }
    }

    /// Returns the time until which a lock granted now is used, if that is not left to chance.
    pub(super) fn until(self, now: Time) -> Option<Time> {
        match self {
            Self::Anything => None,
            Self::Keeps | Self::KeepsItsOwn | Self::KeepsFrom(_) | Self::KeepsPermits => {
                Some(now.after(Duration::from_secs(3_600)))
            }
            Self::Contends | Self::TriesOnce(_) | Self::TriesPermit(_) | Self::Visits(_) => {
                Some(now)
            }
            Self::Insists => Some(now.after(Duration::from_micros(300))),
            Self::RunsJobs(_) => Some(now.after(JOB)),
            Self::Loops(Loop { holds, .. }) => Some(now.after(holds)),
            Self::Works(time)
            | Self::RenewsLate(time)
            | Self::Picks(_, time)
            | Self::TakesPermits(_, time)
            | Self::Reads(time)
            | Self::Queues(time)
            | Self::Writes(time)
            | Self::Downgrades(time, _) => Some(now.after(time)),
        }
    }

    /// Returns the lock that a caller wants, out of so many `names`.
    pub(super) fn lock_of(self, caller: usize, names: usize, chance: &mut Chance) -> LockId {
        match self {
            Self::KeepsItsOwn => LockId::exclusive(caller),
            Self::Loops(wanted) => wanted.lock_of(caller),
            Self::Picks(some, _) => LockId::some(chance, some, names),
            Self::Reads(_) => LockId::exclusive(0).of_kind(kind("read")),
            Self::Queues(_) => LockId::exclusive(0).of_kind(kind("fair_mutex")),
            Self::TakesPermits(..) | Self::KeepsPermits | Self::TriesPermit(_) => {
                LockId::exclusive(0).of_kind(kind("semaphore"))
            }
            Self::Writes(_) | Self::Downgrades(..) => LockId::exclusive(0).of_kind(kind("write")),
            _ => LockId::exclusive(0),
        }
    }

    /// Time for which they rest after they have had a lock, if that is not left to chance.
    pub(super) fn rests(self) -> Option<Duration> {
        match self {
            Self::Works(time)
            | Self::RenewsLate(time)
            | Self::Queues(time)
            | Self::TakesPermits(_, time)
            | Self::Visits(time)
            | Self::Downgrades(time, _) => Some(time),
            Self::RunsJobs(_) => Some(JOB * 10),
            Self::Loops(Loop { rests, .. }) => Some(rests),
            _ => None,
        }
    }

    /// Time for which they read after they have written and downgraded, if that is not left to chance.
    pub(super) fn downgrades_for(self) -> Option<Duration> {
        match self {
            Self::Downgrades(_, reads) => Some(reads),
            _ => None,
        }
    }

    /// Shortest time for which the nodes keep the lock, if that is set.
    pub(super) fn min_hold(self) -> Option<Duration> {
        match self {
            Self::RunsJobs(min_hold) => Some(min_hold),
            _ => None,
        }
    }

    /// Largest number of permits of a semaphore that they want, if that is not left to chance.
    pub(super) fn most_permits(self) -> Option<u32> {
        match self {
            Self::TakesPermits(most, _) => Some(most),
            Self::Loops(Loop { permits, .. }) => Some(permits),
            Self::KeepsPermits | Self::TriesPermit(_) => Some(1),
            _ => None,
        }
    }

    /// Number of permits that they want each time, if that is not left to chance.
    pub(super) fn permits(self) -> Option<u32> {
        match self {
            Self::Loops(Loop { permits, .. }) => Some(permits),
            _ => None,
        }
    }

    /// Returns true if they wait until the lock is given back.
    pub(super) fn unlocks(self) -> bool {
        matches!(self, Self::Works(_) | Self::RenewsLate(_) | Self::Downgrades(..))
    }

    /// Delay of a renewal after it is due, if that is not left to chance.
    pub(super) fn renews_late(self) -> Option<Duration> {
        matches!(self, Self::RenewsLate(_)).then_some(LATE)
    }

    /// Returns true if some of their calls are cancelled.
    pub(super) fn cancels(self) -> bool {
        let ends = matches!(
            self,
            Self::Visits(_) | Self::KeepsFrom(_) | Self::KeepsPermits | Self::TriesPermit(_)
        );
        let loops = matches!(self, Self::Picks(..) | Self::Reads(_) | Self::Writes(_))
            || self.downgrades_for().is_some();
        !ends && !loops && !matches!(self, Self::RunsJobs(_) | Self::Loops(_))
    }

    /// Time after which each of their calls is cancelled, if that is not left to chance.
    pub(super) fn cancels_after(self) -> Option<Duration> {
        match self {
            Self::Loops(Loop { cancels: true, patience, .. }) => patience,
            _ => None,
        }
    }

    /// Returns true if they want the lock again and again, without long rests, and wait for it as long as it takes.
    pub(super) fn wants_again(self) -> bool {
        let is_patient = |wanted: Loop| wanted.patience.is_none();
        matches!(self, Self::Works(_) | Self::Queues(_) | Self::TakesPermits(..))
            || matches!(self, Self::Loops(wanted) if is_patient(wanted))
    }

    /// Returns true if they think before they want something again.
    pub(super) fn thinks(self) -> bool {
        let loops = matches!(self, Self::Reads(_) | Self::Writes(_) | Self::Loops(_));
        !loops && !matches!(self, Self::Insists | Self::Picks(..))
    }
}

fn kind(label: &str) -> &'static Kind {
    let found = KINDS.iter().find(|kind| kind.label == label);
    found.expect("a kind of that name")
}
