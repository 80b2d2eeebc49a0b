//! No two leases of one name are valid at one instant of true time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::simulation::claim::Claim;

#[derive(Default)]
pub(super) struct Exclusion {
    leases: BTreeMap<u64, Lease>,
}

struct Lease {
    client: usize,
    name: usize,
    owner: String,
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
        until: Duration,
        now: Duration,
    ) -> Option<String> {
        let mine = self.leases.entry(lock).or_insert_with(|| Lease {
            client,
            name: claim.name,
            owner: claim.short().to_owned(),
            until,
        });
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
                other.owner,
                other.until - now,
            )
        })
    }

    pub(super) fn ended(&mut self, lock: u64) {
        self.leases.remove(&lock);
    }
}
