//! Conditions that every run must meet. Checkers see true time and the outside of things: messages to holders, the
//! duration of calls, data on the nodes. They know no rule of the protocol.

mod admission;
mod again;
mod exclusion;
mod forced;
mod holders;
mod jobs;
mod leaks;
mod load;
mod losses;
mod order;
mod parts;
mod progress;
mod releases;
mod room;
mod terms;
mod tokens;
mod turns;
mod waits;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

pub(super) use admission::{admitted_early, wrong_mark};
pub(super) use again::{Again, taken_again};
pub(super) use exclusion::side_by_side;
pub(super) use forced::is_back;
pub(super) use holders::ended_with_its_last_holder;
pub(super) use leaks::{Ran, fence_left, kept_back, leaked, left_behind};
pub(super) use losses::heard_of_its_end;
pub(super) use order::Order;
pub(super) use releases::{comes_back, unlocked};
pub(super) use room::open_to_others;
pub(super) use terms::{Agreed, outlives};
pub(super) use turns::Turns;

use self::exclusion::Exclusion;
use self::jobs::Jobs;
use self::leaks::Leaks;
use self::load::Load;
use self::losses::Losses;
use self::tokens::Tokens;
use self::warnings::Warnings;
use super::claim::Claim;
use super::lock_id::LockId;
use crate::core::base::Time;
use crate::core::hold::{LossReason, RiskNews, Terms};
use crate::ident::{WRITES, forms_of};

/// A finding of a checker.
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

/// The terms on which a lock is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseTerms {
    pub(super) terms: Terms,
    /// True if it rests on the first node alone.
    pub(super) on_first: bool,
}

impl LeaseTerms {
    /// Returns true if the nodes are asked for the lock again and again.
    fn is_watched(self) -> bool {
        self.terms.renewed && self.terms.max_hold.is_none()
    }
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) at: Duration,
    pub(super) client: usize,
    lock: LockId,
}

/// The checkers' notes of one run.
#[derive(Default)]
pub(super) struct Checks {
    exclusion: Exclusion,
    losses: Losses,
    warnings: Warnings,
    leaks: Leaks,
    tokens: Tokens,
    load: Load,
    /// Time since which a majority of the nodes has taken a key from an owner by force.
    forced_out: BTreeMap<(Vec<u8>, Vec<u8>), Duration>,
    pub(super) turns: Turns,
    pub(super) order: Order,
    jobs: Jobs,
    /// The process that made each owner id. All owners in this struct are in the form of [`who`].
    owners: BTreeMap<Vec<u8>, u64>,
    /// Owners of clients whose users may end connections, so that no request of theirs comes late.
    may_end: BTreeSet<Vec<u8>>,
    /// Owners whose locks were said to be given back.
    given_back: BTreeSet<Vec<u8>>,
    /// Owners whose locks have numbers, so that fences keep late extensions out.
    numbered: BTreeSet<Vec<u8>>,
    crashed: BTreeSet<u64>,
    /// Owners whose key was set again on some node.
    repaired: BTreeSet<Vec<u8>>,
    /// Owners that want nothing any more, each with its client and the time since then.
    given_up: BTreeMap<Vec<u8>, (usize, Duration)>,
    /// End of each client's last pause.
    woke: BTreeMap<usize, Duration>,
    /// Time of each client's last attempt that reached a majority.
    reached: BTreeMap<usize, Duration>,
    /// End of the time for which each client was last cut off from some nodes; `Duration::MAX`: it still is.
    cut_off_until: BTreeMap<usize, Duration>,
    /// All locks that were granted.
    pub(super) grants: Vec<Grant>,
    /// True if nothing happens that could cost anybody a lock.
    pub(super) rolling: bool,
    /// Longest wait of each client for a lock.
    pub(super) longest_waits: BTreeMap<usize, Duration>,
    /// Longest wait that any caller may have for a lock, if that is promised.
    pub(super) longest_wait: Option<Duration>,
    /// Time at which the last fault began.
    pub(super) last_fault: Duration,
    /// True if `rolling` holds for short troubles at any time, too.
    pub(super) blips: bool,
    /// The TTL of locks.
    pub(super) ttl: Duration,
    /// True if some node has forgotten keys, or somebody has deleted them.
    pub(super) forgotten: bool,
    /// True if that has happened without a quarantine of the node.
    pub(super) unguarded: bool,
    /// Last time at which somebody deleted the keys of each name.
    deleted_at: BTreeMap<usize, Duration>,
    /// True if the clients are configured alike.
    pub(super) one_configuration: bool,
    /// True if the clocks are good enough for exclusion, and nobody deletes keys.
    pub(super) promise_exclusion: bool,
    /// True if a majority of the nodes keeps what it is to keep, and every holder gives its lock back.
    pub(super) promise_jobs: bool,
    /// True if numbers must rise, whatever happens.
    pub(super) promise_tokens: bool,
    /// True if nobody but the clients decides that a node grants locks again.
    pub(super) promise_admission: bool,
    /// True if nodes that were silent know the scripts of all requests, and run them in order.
    pub(super) promise_final: bool,
    /// The checkers whose findings count; all, if none is named.
    pub(super) only: &'static [&'static str],
    /// Last time at which a majority of the nodes became free of keys.
    freed_at: Option<Duration>,
    is_free: bool,
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

    pub(super) fn claimed(&mut self, owner: &str, process: u64, may_end: bool, has_numbers: bool) {
        let owner = who(owner.as_bytes()).to_vec();
        if has_numbers {
            self.numbered.insert(owner.clone());
        }
        if may_end {
            self.may_end.insert(owner.clone());
        }
        self.owners.insert(owner, process);
    }

    /// Returns true if no request of that owner comes late, because its user may end connections.
    pub(super) fn may_end(&self, owner: &[u8]) -> bool {
        self.may_end.contains(who(owner))
    }

    /// Notes that a client's process is killed.
    pub(super) fn crashed(&mut self, client: usize, process: u64) {
        self.crashed.insert(process);
        self.order.crashed(client);
    }

    /// Notes that a caller waits for a lock. The caller is given by its client and its index there.
    pub(super) fn call_begins(&mut self, caller: (usize, usize), lock: LockId, now: Duration) {
        if lock.waiting().is_in_queue() {
            self.order.begins(caller, lock, now);
        }
    }

    /// Notes that its first attempt has found nodes that cannot be reached, or grant nothing for now.
    pub(super) fn has_no_place(&mut self, caller: (usize, usize)) {
        self.order.has_no_place(caller);
    }

    /// Notes that it no longer waits: it has the lock, or gives up.
    pub(super) fn waits_no_more(&mut self, caller: (usize, usize), has_lock: bool, now: Duration) {
        if let Some(what) = self.order.ends(caller, has_lock) {
            self.report(now, "order", what);
        }
    }

    /// Notes that nothing is wanted any more for that owner: its attempt was given up, or its lock is over.
    pub(super) fn gives_up(&mut self, client: usize, owner: &str, now: Duration) {
        self.given_up.entry(who(owner.as_bytes()).to_vec()).or_insert((client, now));
    }

    /// Returns the client of that owner and the time since which it wants nothing any more, unless it was killed.
    pub(super) fn given_up(&self, owner: &str) -> Option<(usize, Duration)> {
        self.given_up.get(who(owner.as_bytes())).copied().filter(|_| !self.is_orphan(owner))
    }

    /// Returns true if that owner had the lock, and not only some of its keys.
    pub(super) fn was_granted(&self, owner: &str) -> bool {
        self.exclusion.ended_at(owner.as_bytes()).is_some()
    }

    /// Returns true if no process is left that could give back the keys of that owner.
    pub(super) fn is_orphan(&self, owner: &str) -> bool {
        self.owners.get(who(owner.as_bytes())).is_none_or(|process| self.crashed.contains(process))
    }

    /// Notes that a client was told that this owner's lock is given back.
    pub(super) fn says_given_back(&mut self, owner: &[u8]) {
        self.given_back.insert(who(owner).to_vec());
    }

    fn is_given_back(&self, owner: &[u8]) -> bool {
        self.given_back.contains(who(owner))
    }

    pub(super) fn woke(&mut self, client: usize, now: Duration) {
        self.woke.insert(client, now);
    }

    /// Notes that the client is cut off from some nodes until then, or was.
    pub(super) fn cut_off(&mut self, client: usize, until: Duration) {
        self.cut_off_until.insert(client, until);
    }

    /// Returns the time at which the client last woke from a pause.
    fn woken(&self, client: usize) -> Duration {
        self.woke.get(&client).copied().unwrap_or_default()
    }

    /// Takes in the validity that a lock claims now: it ends at `until`, in true time. Returns true if the lock is
    /// valid and this claim is new.
    pub(super) fn lease(
        &mut self,
        lock: u64,
        client: usize,
        claim: &Claim,
        terms: LeaseTerms,
        until: Duration,
        now: Duration,
    ) -> bool {
        let before = self.exclusion.until(lock);
        let found = self.exclusion.lease(lock, client, claim, terms, until, now);
        if let Some(what) = found.filter(|_| self.promise_exclusion) {
            self.report(now, "exclusion", what);
        }
        self.losses.lease(lock, client, until);
        if let Some(what) = self.losses.goes_on(lock, now).filter(|_| terms.is_watched()) {
            self.report(now, "losses", what);
        }
        until > now && before != Some(until)
    }

    /// Checks the validity that a lock claims by its client's clock.
    pub(super) fn terms(
        &mut self,
        claim: &Claim,
        valid_until: Time,
        agreed: &Agreed,
        now: Duration,
    ) {
        if let Some(what) = terms::broken(&claim.short(), valid_until, agreed) {
            self.report(now, "terms", what);
        }
    }

    /// Returns true if the lease of that owner rests on the first node alone.
    pub(super) fn rests_on_first(&self, owner: &str) -> bool {
        self.exclusion.rests_on_first(owner)
    }

    /// Returns the lock of this owner, and the end of its lease.
    pub(super) fn lease_of(&self, owner: &str) -> Option<(LockId, Duration)> {
        self.exclusion.lease_of(owner)
    }

    /// Notes that somebody has deleted the key of that name on all nodes.
    pub(super) fn deleted(&mut self, name: usize, now: Duration) {
        self.forgotten = true;
        self.unguarded = true;
        self.deleted_at.insert(name, now);
        // Only renewals find out: the one that is due within a third of the TTL, or the next one. A lock that is
        // valid until it must end is not renewed.
        let by = now + self.ttl + Duration::from_millis(300);
        for (lock, watched) in self.exclusion.locks_of(name) {
            let by = if watched { by } else { Duration::MAX };
            self.losses.deleted(lock, by, now);
        }
    }

    /// Checks a lock that was granted, or handed over as the `sequence`-th. It claims to be valid until `until`.
    pub(super) fn granted(&mut self, claim: &Claim, sequence: u64, until: Duration, now: Duration) {
        if let Some(what) = self.jobs.granted(claim, now).filter(|_| self.promise_jobs) {
            self.report(now, "jobs", what);
        }
        if until <= now {
            let what = format!("{} was handed out {:?} after its end", claim.short(), now - until);
            self.report(now, "terms", what);
        }
        // A client whose keys were deleted hands the lock on until it finds out.
        if sequence > 0 && !self.promise_exclusion {
            return;
        }
        // Or a client hears of its own grant only after somebody else was granted the lock.
        let mut deleted_at = self.deleted_at.iter().filter(|(name, _)| claim.lock.has(**name));
        let is_deleted = deleted_at.any(|(_, at)| claim.began <= *at);
        // The same holds for an owner that was forced out, and its threads.
        if self.is_forced(claim.owner()) {
            return;
        }
        let has_numbers = self.numbered.contains(who(claim.owner().as_bytes()));
        let found = has_numbers.then(|| self.tokens.granted(claim, sequence)).flatten();
        let found = found.filter(|_| !is_deleted);
        if let Some(what) = found.filter(|_| self.promise_tokens) {
            self.report(now, "tokens", what);
        }
    }

    /// Notes that an operator has nodes take its locks from that owner.
    pub(super) fn is_being_forced(&mut self, owner: &[u8]) {
        self.exclusion.is_being_forced(owner);
    }

    /// Notes that a majority of the nodes has done so.
    pub(super) fn forced_out(&mut self, key: &[u8], owner: &[u8], now: Duration) {
        for owner in forms_of(owner) {
            self.forced_out.entry((key.to_vec(), who(&owner).to_vec())).or_insert(now);
        }
    }

    /// Returns true if an operator has ordered so. Others may then have the lock as well.
    pub(super) fn is_forced(&self, owner: &str) -> bool {
        self.exclusion.is_forced(owner)
    }

    /// Returns the time since which a majority has taken that key from that owner.
    fn forced_since(&self, key: &[u8], owner: &[u8]) -> Option<Duration> {
        self.forced_out.get(&(key.to_vec(), who(owner).to_vec())).copied()
    }

    /// Returns true if some node was given the key of that owner again.
    pub(super) fn is_repaired(&self, owner: &str) -> bool {
        self.repaired.contains(who(owner.as_bytes()))
    }

    /// Checks a request that a node ran.
    pub(super) fn ran(&mut self, ran: &Ran<'_>, now: Duration) {
        if ran.node == 0 && ran.ends.is_some() {
            self.exclusion.is_on_first(ran.owner, ran.closed_until);
        }
        if ran.what == "extend" && ran.ended.is_none() && ran.ends.is_some() {
            self.repaired.insert(who(ran.owner).to_vec());
        }
        // The end of a lock is unknown if clocks are wrong, or if the node's clock was set back.
        let ended = self.exclusion.ended_at(ran.owner).filter(|_| self.promise_exclusion);
        let has_numbers = self.numbered.contains(who(ran.owner));
        let late = self.leaks.came_late(ran, self.may_end(ran.owner), has_numbers);
        if let Some(what) = late.filter(|_| !self.forgotten && !ran.set_back) {
            self.report(now, "late", what);
        }
        if let Some(what) = self.leaks.ran(ran, ended.filter(|_| !ran.set_back), now) {
            self.report(now, "leaks", what);
        }
        let valid = self.lease_of(&String::from_utf8_lossy(ran.owner));
        if let (Some(ended), Some(ends)) = (ran.ended, ran.ends)
            && ends < ended
            && valid.is_some_and(|(_, until)| now < until)
        {
            let what =
                format!("node {} has cut a key short that it keeps for its holder", ran.node);
            self.report(now, "exclusion", what);
        }
    }

    /// Checks a request of that owner on a node, which had these keys of its lock `before`, and `now_has` those.
    pub(super) fn changed(
        &mut self,
        node: usize,
        (owner, what): (&[u8], &str),
        before: &[bool],
        now_has: &[bool],
        now: Duration,
    ) {
        if let Some(what) = parts::left_in_part(node, what, owner, before, now_has) {
            self.report(now, "parts", what);
        }
    }

    /// Checks the load by a request of that owner; `in_flight`: its client had closed the connection before.
    pub(super) fn asked(
        &mut self,
        node: usize,
        owner: &[u8],
        what: &str,
        in_flight: bool,
        now: Duration,
    ) {
        if what == "extend"
            && !in_flight
            && let Some(what) = self.load.extended(node, owner, self.ttl, now)
        {
            self.report(now, "load", what);
        }
    }

    /// Notes that the lock was given back, or its holder told of the loss.
    pub(super) fn ended(&mut self, lock: u64) {
        self.exclusion.ended(lock);
        self.losses.ended(lock);
    }

    /// Checks a loss that a holder was told of. The validity ended at `ended`.
    pub(super) fn told(
        &mut self,
        client: usize,
        claim: &Claim,
        LeaseTerms { terms, on_first }: LeaseTerms,
        reason: LossReason,
        ended: Duration,
        now: Duration,
    ) {
        // A lock must have reached all nodes before one of them fails, at the latest with its second renewal.
        let since = self.last_fault.checked_sub(claim.granted_at);
        let unsettled = !self.blips && since.is_some_and(|since| since <= terms.ttl);
        if self.rolling && terms.renewed && !unsettled {
            let what =
                format!("{} lost {reason:?}, and a majority was always there", claim.short());
            self.report(now, "losses", what);
        }
        let woken = self.woken(client);
        // A lock of the fallback ends when somebody else has it elsewhere, even for a moment.
        // An owner that was forced out earlier comes back with its next renewal on a node that has forgotten that.
        let mut forced_out = self.forced_out.keys();
        let is_taken = self.forgotten && forced_out.any(|(key, _)| claim.keys.contains(key));
        let gone = self.unguarded || on_first || self.is_forced(claim.owner()) || is_taken;
        if let Some(what) = losses::told(claim, terms, reason, gone, ended, woken, now) {
            self.report(now, "losses", what);
        }
    }

    /// Checks the news for the holders of that lock of `claim`: it is at risk, or not any more.
    pub(super) fn risk_told(&mut self, lock: u64, claim: &Claim, news: RiskNews, now: Duration) {
        if let Some(what) = self.warnings.told(lock, news) {
            self.report(now, "warnings", format!("{} {what}", claim.short()));
        }
    }

    /// Notes that another holder has the lock.
    pub(super) fn handed_over(&mut self, lock: u64) {
        self.warnings.handed_over(lock);
    }

    /// Checks the warnings before a loss. The validity ended at `ended`. `failed`: renewals that were due in time have failed.
    pub(super) fn loss_told(
        &mut self,
        client: usize,
        (lock, claim): (u64, &Claim),
        (ended, failed): (Duration, bool),
        now: Duration,
    ) {
        // A process that wakes later than that finds the loss at once, without a warning.
        let had_time = failed && self.woken(client) + self.ttl / 4 < ended;
        if let Some(what) = self.warnings.lost(lock, had_time) {
            self.report(now, "warnings", format!("{} {what}", claim.short()));
        }
    }

    /// Checks, once nothing happens any more, that all holders were told of their losses.
    pub(super) fn all_told(&mut self, now: Duration) {
        if let Some(what) = self.losses.untold(now) {
            self.report(now, "losses", what);
        }
    }

    /// Returns true if somebody has deleted the keys of that lock, and its holder does not know.
    pub(super) fn is_deleted(&self, lock: u64) -> bool {
        self.losses.is_deleted(lock)
    }

    /// Checks the end of a call. `bound`: its duration and the longest one allowed, or its end and its deadline.
    pub(super) fn call_ended(
        &mut self,
        client: usize,
        began: Duration,
        bound: Option<(Duration, Duration)>,
        now: Duration,
    ) {
        // Time in which the process did not run is no fault of the call.
        if self.woken(client) < began
            && let Some(what) = waits::too_long(client, bound)
        {
            self.report(now, "waits", what);
        }
    }

    /// Checks the number of attempts of a call in that time, with pauses that are no shorter than `pause`.
    pub(super) fn attempted(
        &mut self,
        client: usize,
        attempts: u32,
        took: Duration,
        pause: Duration,
        now: Duration,
    ) {
        if let Some(what) = load::spins(client, attempts, took, pause) {
            self.report(now, "load", what);
        }
    }

    /// Notes that an attempt of the client has reached a majority.
    pub(super) fn reached(&mut self, client: usize, now: Duration) {
        self.reached.insert(client, now);
    }

    /// Checks a call that neither reached the nodes nor was refused by a single node since then, and goes on or gives up (`over`).
    /// It may go on if another call of its client has reached the nodes: each may ask one node alone while that says "held".
    pub(super) fn unreached(
        &mut self,
        client: usize,
        since: Duration,
        timeout: Duration,
        over: bool,
        now: Duration,
    ) {
        let woken = self.woken(client);
        let by_others = self.reached.get(&client).copied().filter(|_| !over);
        let since = since.max(by_others.unwrap_or_default());
        if let Some(what) = waits::unreached(client, now - since, timeout, over, woken < since) {
            self.report(now, "waits", what);
        }
    }

    /// Checks that a client is told of differing configurations only if they differ.
    pub(super) fn disagreed(&mut self, client: usize, now: Duration) {
        if self.one_configuration {
            let what = format!("client {client} is told of another configuration; there is none");
            self.report(now, "agreement", what);
        }
    }

    /// Notes whether the only lock could be taken now.
    pub(super) fn is_free(&mut self, is_free: bool, now: Duration) {
        if is_free && !self.is_free {
            self.freed_at = Some(now);
        }
        self.is_free = is_free;
    }

    /// Notes that a client has got the lock in the end, when each of them wants each lock once.
    pub(super) fn served_in_the_end(&mut self, client: usize, lock: LockId, now: Duration) {
        self.grants.push(Grant { at: now, client, lock });
        self.freed_at = None;
    }

    /// Checks a grant to a client that has waited for it since `waits_since`, or not at all.
    pub(super) fn served(
        &mut self,
        client: usize,
        lock: LockId,
        waits_since: Option<Duration>,
        now: Duration,
    ) {
        self.grants.push(Grant { at: now, client, lock });
        if let Some(what) = self.turns.served(client, now) {
            self.report(now, "turns", what);
        }
        // The lock is no longer free. Later it may be given back and taken without ever being quite free.
        let overslept = self
            .freed_at
            .take()
            .zip(waits_since)
            .and_then(|(at, since)| waits::overslept(client, at.max(since), now));
        if let Some(what) = overslept {
            self.report(now, "waits", what);
        }
    }

    /// Checks the wait of a caller for that lock since then.
    pub(super) fn waits(
        &mut self,
        caller: (usize, usize),
        lock: LockId,
        since: Duration,
        now: Duration,
    ) {
        let longest = self.longest_waits.entry(caller.0).or_default();
        *longest = (*longest).max(now - since);
        let cut_off_until = self.cut_off_until.get(&caller.0).copied().unwrap_or_default();
        let able_since = self.woken(caller.0).max(cut_off_until);
        let Some(most) = self.longest_wait.filter(|_| able_since < since) else { return };
        if let Some(what) = waits::starves(caller, lock, now - since, most) {
            let meanwhile = waits::meanwhile(&self.grants, lock, since);
            self.report(now, "waits", format!("{what}; meanwhile: {meanwhile}"));
        }
    }

    /// Checks that a client got a lock that it wanted long enough after everything was healed.
    pub(super) fn probed(&mut self, client: usize, lock: LockId, granted: bool, now: Duration) {
        if let Some(what) = progress::probed(client, lock, granted) {
            self.report(now, "progress", what);
        }
    }
}

/// Common form of an owner before and after its lock was downgraded from writing to reading. It is one lock, and
/// nodes may not know of the downgrade.
fn who(owner: &[u8]) -> &[u8] {
    owner.strip_suffix(WRITES.as_bytes()).unwrap_or(owner)
}
