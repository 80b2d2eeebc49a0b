//! No two leases that exclude each other are valid at one instant of true time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{LeaseTerms, who};
use crate::core::base::HoldClass;
use crate::ident::forms_of;
use crate::simulation::claim::{Claim, short};
use crate::simulation::lock_id::LockId;

#[derive(Default)]
pub(super) struct Exclusion {
    leases: BTreeMap<u64, Lease>,
    /// End of each owner's validity, as its lock claimed it last.
    ends: BTreeMap<Vec<u8>, Duration>,
    /// End of each owner's key on the first node, as it was set there last.
    on_first_until: BTreeMap<Vec<u8>, Duration>,
    /// The owners from which an operator takes their locks.
    forced: BTreeSet<Vec<u8>>,
}

struct Lease {
    client: usize,
    lock: LockId,
    owner: String,
    watched: bool,
    until: Duration,
    began: Duration,
    /// True if it rests on the first node alone.
    on_first: bool,
    /// True if the first node could not be reached when it was granted.
    without_first: bool,
}

impl Exclusion {
    /// Takes in the lease that a lock claims. Returns a violation in it, if there is one.
    ///
    /// A lease changes only when its client acts, and each change comes to this function. So two leases that are
    /// valid at one instant are found when the second one begins or is revived. An unchanged lease is not compared.
    pub(super) fn lease(
        &mut self,
        lock: u64,
        client: usize,
        claim: &Claim,
        terms: LeaseTerms,
        until: Duration,
        now: Duration,
    ) -> Option<String> {
        let (watched, on_first) = (terms.is_watched(), terms.on_first);
        let is_same = |known: &Lease| {
            (known.until, known.watched, known.on_first) == (until, watched, on_first)
                && known.lock == claim.held_as()
                && known.owner == claim.owner()
        };
        if self.leases.get(&lock).is_some_and(is_same) {
            return None;
        }
        let mine = self.leases.entry(lock).or_insert_with(|| Lease {
            client,
            lock: claim.held_as(),
            owner: claim.owner().to_owned(),
            watched,
            until,
            began: now,
            on_first,
            without_first: claim.without_first,
        });
        (mine.watched, mine.on_first) = (watched, on_first);
        (mine.lock, mine.owner) = (claim.held_as(), claim.owner().to_owned());
        self.ends.insert(who(claim.owner().as_bytes()).to_vec(), until);
        let lapsed = std::mem::replace(&mut mine.until, until);
        if lapsed < now && until > now {
            return Some(format!(
                "{} was lost by client {client} as {} {:?} ago, and is valid again",
                claim.lock,
                claim.short(),
                now - lapsed,
            ));
        }
        if until <= now {
            return None;
        }
        // An operator has said that others may have it now.
        if self.is_forced(claim.owner()) {
            return None;
        }
        if let Some(what) = self.too_many(claim, now) {
            return Some(what);
        }
        let mine = &self.leases[&lock];
        let other = self.leases.iter().find(|(id, lease)| {
            **id != lock
                && lease.lock.excludes(claim.held_as())
                && lease.until > now
                && !self.is_forced(&lease.owner)
                && !self.is_fallbacks_price(mine, lease)
        });
        other.map(|(_, other)| {
            format!(
                "{} is held by client {client} as {}, valid for another {:?}, and {} by client \
                 {} as {}, for {:?}",
                claim.lock,
                claim.short(),
                until - now,
                other.lock,
                other.client,
                short(&other.owner),
                other.until - now,
            )
        })
    }

    /// Returns a violation if more permits of a semaphore are held than it has, in whatever slots.
    fn too_many(&self, claim: &Claim, now: Duration) -> Option<String> {
        let (semaphore, _, of) = claim.held_as().permits_held()?;
        let valid = |lease: &&Lease| lease.until > now && !self.is_forced(&lease.owner);
        let of_it = |lease: &Lease| {
            let (other, count, of) = lease.lock.permits_held()?;
            (other == semaphore && !lease.on_first).then_some((count, of))
        };
        let held: Vec<_> = self.leases.values().filter(valid).filter_map(of_it).collect();
        let count: u32 = held.iter().map(|(count, _)| count).sum();
        let most = held.iter().map(|(_, of)| *of).max().unwrap_or(of);
        (count > most).then(|| format!("{count} permits of {semaphore} are held, which has {most}"))
    }

    /// Notes that an operator takes its locks from that owner.
    pub(super) fn is_being_forced(&mut self, owner: &[u8]) {
        self.forced.extend(forms_of(owner).iter().map(|owner| who(owner).to_vec()));
    }

    /// Returns true if an operator takes its locks from that owner.
    pub(super) fn is_forced(&self, owner: &str) -> bool {
        self.forced.contains(who(owner.as_bytes()))
    }

    /// Returns true if these two may be valid side by side: one rests on the first node alone, the other one on a
    /// majority, and the client of the other one could not reach the first node.
    ///
    /// If the majority's lease is the later one, the way to the first node had failed at its grant, or no answer came in time.
    /// If it is the earlier one, its key had run out on the first node, unrenewed, before somebody fell back to that node.
    fn is_fallbacks_price(&self, one: &Lease, other: &Lease) -> bool {
        let (alone, by_majority) = match (one.on_first, other.on_first) {
            (true, false) => (one, other),
            (false, true) => (other, one),
            _ => return false,
        };
        if alone.began <= by_majority.began {
            return by_majority.without_first;
        }
        let until = self.on_first_until.get(who(by_majority.owner.as_bytes()));
        until.is_none_or(|until| *until <= alone.began)
    }

    /// Notes that the first node keeps the key of that owner until then.
    pub(super) fn is_on_first(&mut self, owner: &[u8], until: Duration) {
        self.on_first_until.insert(who(owner).to_vec(), until);
    }

    /// Returns true if the lease of that owner rests on the first node alone.
    pub(super) fn rests_on_first(&self, owner: &str) -> bool {
        self.lease_of_owner(owner).is_some_and(|lease| lease.on_first)
    }

    /// Returns the lock of this owner, and the end of its lease.
    pub(super) fn lease_of(&self, owner: &str) -> Option<(LockId, Duration)> {
        let lease = self.lease_of_owner(owner)?;
        Some((lease.lock, lease.until))
    }

    fn lease_of_owner(&self, owner: &str) -> Option<&Lease> {
        let owner = who(owner.as_bytes());
        self.leases.values().find(|lease| who(lease.owner.as_bytes()) == owner)
    }

    /// Returns the locks of that name. Each comes with true if the nodes are asked for it again and again.
    pub(super) fn locks_of(&self, name: usize) -> Vec<(u64, bool)> {
        let of_name = self.leases.iter().filter(|(_, lease)| lease.lock.has(name));
        of_name.map(|(lock, lease)| (*lock, lease.watched)).collect()
    }

    /// Returns the end of that owner's validity, as its lock claimed it last.
    pub(super) fn ended_at(&self, owner: &[u8]) -> Option<Duration> {
        self.ends.get(who(owner)).copied()
    }

    /// Returns the end of validity that a lease claims.
    pub(super) fn until(&self, lock: u64) -> Option<Duration> {
        Some(self.leases.get(&lock)?.until)
    }

    pub(super) fn ended(&mut self, lock: u64) {
        self.leases.remove(&lock);
    }
}

/// Returns a violation if a node has that key for owners that exclude each other. Each owner comes with the class of its hold.
pub(in super::super) fn side_by_side(
    node: usize,
    key: &[u8],
    holders: &[(HoldClass, Vec<u8>)],
) -> Option<String> {
    let exclusive = |(class, _): &&(HoldClass, Vec<u8>)| *class == HoldClass::Exclusive;
    let (_, alone) = holders.iter().find(exclusive)?;
    let (_, other) = holders.iter().find(|(_, owner)| owner != alone)?;
    let (key, alone, other) = (String::from_utf8_lossy(key), short(alone), short(other));
    Some(format!("node {node} has {key} for {alone} alone, and for {other} as well"))
}
