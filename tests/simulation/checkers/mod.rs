//! What must be true of every run. Checkers see true time and the outside of things: what holders
//! are told, how long calls take, what is on the nodes. They know no rule of the protocol.

mod exclusion;
mod leaks;
mod losses;
mod progress;
mod tokens;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

pub(super) use leaks::{Ran, leaked};

use self::exclusion::Exclusion;
use self::leaks::Leaks;
use self::losses::Losses;
use self::tokens::Tokens;
use super::claim::Claim;
use crate::quorum::LossReason;

/// What was found, by which checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) at: Duration,
    pub(super) checker: &'static str,
    pub(super) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:.4} s: {}", self.checker, self.at.as_secs_f64(), self.what)
    }
}

/// The checkers' notes of one run.
#[derive(Default)]
pub(super) struct Checks {
    exclusion: Exclusion,
    losses: Losses,
    leaks: Leaks,
    tokens: Tokens,
    /// Which process made which owner id.
    owners: BTreeMap<String, u64>,
    crashed: BTreeSet<u64>,
    /// When each client was last paused until.
    woke: BTreeMap<usize, Duration>,
    pub(super) grants: usize,
    /// Nothing happens that could cost anybody a lock.
    pub(super) rolling: bool,
    /// When the last fault began.
    pub(super) last_fault: Duration,
    /// The clocks are good enough for it.
    pub(super) promise_exclusion: bool,
    /// Numbers have to rise, whatever happens.
    pub(super) promise_tokens: bool,
    /// The checkers whose word counts; all, if none is named.
    pub(super) only: &'static [&'static str],
    violation: Option<Violation>,
}

impl Checks {
    /// The first violation, if there is one.
    pub(super) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(super) fn report(&mut self, at: Duration, checker: &'static str, what: String) {
        if self.only.is_empty() || self.only.contains(&checker) {
            self.violation.get_or_insert(Violation { at, checker, what });
        }
    }

    pub(super) fn claimed(&mut self, owner: &str, process: u64) {
        self.owners.insert(owner.to_owned(), process);
    }

    pub(super) fn crashed(&mut self, process: u64) {
        self.crashed.insert(process);
    }

    /// Whether nobody is there any more who could give back what that owner has.
    pub(super) fn is_orphan(&self, owner: &str) -> bool {
        self.owners.get(owner).is_none_or(|process| self.crashed.contains(process))
    }

    pub(super) fn woke(&mut self, client: usize, now: Duration) {
        self.woke.insert(client, now);
    }

    /// When the client was last woken from a pause.
    fn woken(&self, client: usize) -> Duration {
        self.woke.get(&client).copied().unwrap_or_default()
    }

    /// What a lock says of itself now: that it is valid until then, in true time.
    pub(super) fn lease(
        &mut self,
        lock: u64,
        client: usize,
        claim: &Claim,
        until: Duration,
        now: Duration,
    ) {
        let found = self.exclusion.lease(lock, client, claim, until, now);
        if let Some(what) = found.filter(|_| self.promise_exclusion) {
            self.report(now, "exclusion", what);
        }
        self.losses.lease(lock, client, until);
    }

    /// A lock was granted.
    pub(super) fn granted(&mut self, claim: &Claim, now: Duration) {
        let found = self.tokens.granted(claim);
        if let Some(what) = found.filter(|_| self.promise_tokens) {
            self.report(now, "tokens", what);
        }
    }

    /// A node ran a request.
    pub(super) fn ran(&mut self, ran: &Ran<'_>, now: Duration) {
        if let Some(what) = self.leaks.ran(ran) {
            self.report(now, "leaks", what);
        }
    }

    /// The lock was given back, or its holder told of the loss.
    pub(super) fn ended(&mut self, lock: u64) {
        self.exclusion.ended(lock);
        self.losses.ended(lock);
    }

    /// The holder was told of a loss, whose validity ended then.
    pub(super) fn told(
        &mut self,
        client: usize,
        claim: &Claim,
        reason: LossReason,
        ended: Duration,
        now: Duration,
    ) {
        // A lock has to reach all nodes first, with its second renewal if not with its first.
        let settled = claim.granted_at + claim.terms.ttl < self.last_fault;
        if self.rolling && claim.terms.renewed && settled {
            let what =
                format!("{} lost {reason:?}, and a majority was always there", claim.short());
            self.report(now, "losses", what);
        }
        let woken = self.woken(client);
        if let Some(what) = losses::told(claim, reason, ended, woken, now) {
            self.report(now, "losses", what);
        }
    }

    /// Nothing happens any more: whether everybody was told what there was to tell.
    pub(super) fn all_told(&mut self, now: Duration) {
        if let Some(what) = self.losses.untold(now) {
            self.report(now, "losses", what);
        }
    }

    /// A call has ended; it took so long, or came to its end then, and may have taken so long.
    pub(super) fn call_ended(
        &mut self,
        client: usize,
        began: Duration,
        bound: Option<(Duration, Duration)>,
        now: Duration,
    ) {
        // A process that did not run is no fault of the call.
        if self.woken(client) < began
            && let Some(what) = waits::too_long(client, bound)
        {
            self.report(now, "waits", what);
        }
    }

    /// After everything was healed, and long enough, a client wanted a lock once more.
    pub(super) fn probed(&mut self, client: usize, name: usize, granted: bool, now: Duration) {
        if let Some(what) = progress::probed(client, name, granted) {
            self.report(now, "progress", what);
        }
    }
}
