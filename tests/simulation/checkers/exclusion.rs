//! No two leases of one name are valid at one instant of true time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::simulation::claim::Claim;

#[derive(Default)]
pub(super) struct Exclusion {
    leases: BTreeMap<u64, Lease>,
    /// Until when each owner's lock was valid by its own word.
    ends: BTreeMap<Vec<u8>, Duration>,
}

struct Lease {
    client: usize,
    name: usize,
    owner: String,
    watched: bool,
    until: Duration,
}

impl Exclusion {
    /// What a lock says of itself; what is wrong with it.
    ///
    /// A lease changes only when its client does something, and then it comes here: so two that are
    /// valid at one instant are seen when the second one begins, or is revived.
    pub(super) fn lease(
        &mut self,
        lock: u64,
        client: usize,
        claim: &Claim,
        watched: bool,
        until: Duration,
        now: Duration,
    ) -> Option<String> {
        let mine = self.leases.entry(lock).or_insert_with(|| Lease {
            client,
            name: claim.name,
            owner: claim.owner.clone(),
            watched,
            until,
        });
        mine.watched = watched;
        self.ends.insert(claim.owner.clone().into_bytes(), until);
        let lapsed = std::mem::replace(&mut mine.until, until);
        if lapsed < now && until > now {
            return Some(format!(
                "name {} was lost by client {client} as {} {:?} ago, and is valid again",
                claim.name,
                claim.short(),
                now - lapsed,
            ));
        }
        if until <= now {
            return None;
        }
        let other = self
            .leases
            .iter()
            .find(|(id, lease)| **id != lock && lease.name == claim.name && lease.until > now);
        other.map(|(_, other)| {
            format!(
                "name {} is held by client {client} as {}, valid for another {:?}, and by client \
                 {} as {}, for {:?}",
                claim.name,
                claim.short(),
                until - now,
                other.client,
                &other.owner[..4],
                other.until - now,
            )
        })
    }

    /// The name and the end of the lease that this owner has.
    pub(super) fn lease_of(&self, owner: &str) -> Option<(usize, Duration)> {
        let lease = self.leases.values().find(|lease| lease.owner == owner)?;
        Some((lease.name, lease.until))
    }

    /// The locks of that name, and whether the nodes are asked for them again and again.
    pub(super) fn locks_of(&self, name: usize) -> Vec<(u64, bool)> {
        let of_name = self.leases.iter().filter(|(_, lease)| lease.name == name);
        of_name.map(|(lock, lease)| (*lock, lease.watched)).collect()
    }

    /// Until when that owner's lock was valid, by what it said last.
    pub(super) fn ended_at(&self, owner: &[u8]) -> Option<Duration> {
        self.ends.get(owner).copied()
    }

    /// Until when a lease says that it is valid.
    pub(super) fn until(&self, lock: u64) -> Option<Duration> {
        Some(self.leases.get(&lock)?.until)
    }

    pub(super) fn ended(&mut self, lock: u64) {
        self.leases.remove(&lock);
    }
}
