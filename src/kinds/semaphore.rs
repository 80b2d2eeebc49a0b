//! The kind of semaphores: a hash a node, in which each holder has slots of its own.

use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::base::HoldClass;
use crate::core::vote::PermitsWanted;
use crate::guard::Guard;
use crate::handle::{LockKind, OneName, sealed};
use crate::ident::{Names, kept_text, release_channel, reserved_key, tombstone_key};
use crate::kinds::contract::kind::{Claimant, Keep, Kind, Raise, Repair};
use crate::kinds::contract::reply;
use crate::kinds::contract::reservations::reservation;
use crate::node::{Part, Request, Script};

// No batch makes several calls of them in one step: a call takes the longer, the more holds there are.
static ACQUIRE: Script = Script::new(include_str!("../../lua/semaphore/acquire.lua"))
    .with_meaning(reply::acquire_meaning);
static EXTEND: Script =
    Script::new(include_str!("../../lua/semaphore/extend.lua")).with_meaning(reply::extend_meaning);
static RELEASE: Script = Script::new(include_str!("../../lua/semaphore/release.lua"));

/// The kind of a [`Semaphore`](crate::Semaphore)'s permits. [`Quorlock::handle`](crate::Quorlock::handle) of this kind is a
/// semaphore with one permit.
#[derive(Debug)]
#[non_exhaustive]
pub struct Permits;

impl LockKind for Permits {
    type Guard = Guard;
}

impl OneName for Permits {}

impl sealed::Kind for Permits {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "Semaphore";
}

/// How many permits the semaphore has, and the slots that are the claimant's.
fn parts_of<'a>(claimant: &Claimant<'_>) -> Vec<Part<'a>> {
    let slots = claimant.permits.slots.iter().map(|slot| Part::from(slot as u64));
    std::iter::once(Part::Number(claimant.permits.of.into())).chain(slots).collect()
}

impl Kind for Permits {
    fn label(&self) -> &'static str {
        "semaphore"
    }

    fn hold_class(&self) -> HoldClass {
        // Each slot has one holder at a time.
        HoldClass::Exclusive
    }

    fn permits(&self) -> Option<PermitsWanted> {
        Some(PermitsWanted { count: 1, of: 1 })
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        &[]
    }

    fn commands(&self) -> &'static [&'static str] {
        &[
            "set", "get", "mget", "hset", "hmget", "hgetall", "hdel", "hlen", "del", "type",
            "pttl", "pexpire", "time", "publish",
        ]
    }

    fn acquire(
        &self,
        names: &Names,
        mark_key: &[u8],
        claimant: Claimant<'_>,
        ttl: Duration,
        waits: Waits,
        _: Option<u64>,
    ) -> Request {
        let key = names.first().key();
        let (reserved, reservation) = (reserved_key(key), reservation(&waits));
        let mut parts = vec![Part::Bytes(key), Part::Bytes(mark_key), Part::Bytes(&reserved)];
        parts.extend([Part::Bytes(claimant.owner.as_bytes()), ttl.into(), Part::Mark]);
        parts.push(Part::Bytes(reservation.as_bytes()));
        parts.extend(parts_of(&claimant));
        Request::new(&ACQUIRE, 3, &parts)
    }

    fn confirm(&self, _: &Names, _: &str, _: u64) -> Option<Request> {
        None
    }

    fn extend(
        &self,
        names: &Names,
        claimant: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        let (key, owner) = (names.first().key(), claimant.owner.as_bytes());
        let tombstone = tombstone_key(key, owner);
        let mut parts = vec![
            Part::Bytes(key),
            Part::Bytes(repair.mark_key),
            Part::Bytes(&tombstone),
            Part::Bytes(owner),
            ttl.into(),
            Part::Number(repair.until_ms),
            Part::Number(repair.quarantine.into()),
        ];
        parts.extend(parts_of(&claimant));
        Request::new(&EXTEND, 3, &parts)
    }

    fn release(
        &self,
        names: &Names,
        claimant: Claimant<'_>,
        keep: Option<Keep>,
        _: Option<Raise>,
    ) -> Request {
        let (key, owner) = (names.first().key(), claimant.owner.as_bytes());
        let (channel, kept) = (release_channel(key), kept_text(claimant.owner));
        let Some(Keep { until_ms, by_ms }) = keep else {
            let parts = [Part::Bytes(key), Part::Bytes(owner), Part::Bytes(&channel)];
            return Request::new(&RELEASE, 1, &parts);
        };
        let tombstone = tombstone_key(key, owner);
        let mut parts = vec![Part::Bytes(key), Part::Bytes(&tombstone)];
        parts.extend([Part::Bytes(owner), Part::Bytes(&channel)]);
        parts.extend([Part::Number(until_ms), Part::Number(by_ms), Part::Bytes(kept.as_bytes())]);
        parts.extend(parts_of(&claimant));
        Request::new(&RELEASE, 2, &parts)
    }

    #[cfg(all(test, feature = "embedded"))]
    fn holders(
        &self,
        key: &[u8],
        call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply,
    ) -> Vec<(Vec<u8>, i64)> {
        use crate::embedded::Reply;

        let Reply::List(fields) = call(&[b"HGETALL", key]) else { return Vec::new() };
        let hold = |field: &[Reply]| match field {
            [Reply::Bulk(owner), Reply::Bulk(hold)] if owner != b"permits" => {
                let text = std::str::from_utf8(hold).ok()?;
                Some((owner.clone(), text.split(' ').next()?.parse().ok()?))
            }
            _ => None,
        };
        fields.chunks(2).filter_map(hold).collect()
    }
}
