//! The requests of the kinds that keep one key for a lock on a node, and beside it the lock's fence and tombstones.

use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::vote::fence_outlives_ms;
use crate::ident::{fence_key, kept_text, reserved_key, tombstone_key};
use crate::kinds::contract::kind::{Keep, Raise, Repair};
use crate::kinds::contract::reservations::reservation;
use crate::node::{Part, Request, Script};

/// The scripts of such a kind. Their headers state the same KEYS and ARGV.
pub(crate) struct OneKey {
    pub(crate) acquire: &'static Script,
    pub(crate) confirm: &'static Script,
    pub(crate) extend: &'static Script,
    pub(crate) release: &'static Script,
}

/// How long the fence of a lock lives that ends after `lock`.
pub(crate) fn fence_ttl(lock: Duration) -> Part<'static> {
    let lock_ms = i64::try_from(lock.as_millis()).unwrap_or(i64::MAX);
    Part::Number(lock_ms.saturating_add(fence_outlives_ms()))
}

impl OneKey {
    /// See [`Kind::acquire`](crate::kinds::contract::kind::Kind::acquire).
    pub(crate) fn acquire(
        &self,
        key: &[u8],
        mark_key: &[u8],
        owner: &str,
        ttl: Duration,
        waits: Waits,
        proposal: Option<u64>,
    ) -> Request {
        let (reserved, fence) = (reserved_key(key), proposal.map(|_| fence_key(key)));
        let reservation = reservation(&waits);
        let mut parts = vec![Part::Bytes(key), Part::Bytes(mark_key), Part::Bytes(&reserved)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), fence_ttl(ttl)]);
        }
        // Most callers have none. Each argument costs a server a hundredth of the call.
        if !reservation.is_empty() {
            parts.push(Part::Bytes(reservation.as_bytes()));
        }
        Request::new(self.acquire, keys, &parts)
    }

    /// See [`Kind::confirm`](crate::kinds::contract::kind::Kind::confirm).
    pub(crate) fn confirm(&self, key: &[u8], owner: &str, number: u64) -> Request {
        let fence = fence_key(key);
        let parts = [
            Part::Bytes(key),
            Part::Bytes(&fence),
            Part::Bytes(owner.as_bytes()),
            number.into(),
            Part::Number(fence_outlives_ms()),
        ];
        Request::new(self.confirm, 2, &parts)
    }

    /// See [`Kind::extend`](crate::kinds::contract::kind::Kind::extend).
    pub(crate) fn extend(
        &self,
        key: &[u8],
        owner: &str,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        let fence = repair.fence.map(|_| fence_key(key));
        let tombstone = tombstone_key(key, owner.as_bytes());
        let mut parts =
            vec![Part::Bytes(key), Part::Bytes(repair.mark_key), Part::Bytes(&tombstone)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        let (until, quarantine) = (Part::Number(repair.until_ms), repair.quarantine.into());
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), until, Part::Number(quarantine)]);
        if let Some(fence) = repair.fence {
            parts.extend([Part::from(fence.number), Part::from(fence.up_to), fence_ttl(ttl)]);
        }
        Request::new(self.extend, keys, &parts)
    }

    /// See [`Kind::release`](crate::kinds::contract::kind::Kind::release). `channels`: on which the release is told.
    pub(crate) fn release(
        &self,
        key: &[u8],
        owner: &str,
        channels: &[Vec<u8>],
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        let fence = raise.map(|_| fence_key(key));
        let may_keep = keep.is_some() || raise.is_some();
        let tombstone = may_keep.then(|| tombstone_key(key, owner.as_bytes()));
        let mut parts = vec![Part::Bytes(key)];
        parts.extend(tombstone.as_deref().map(Part::Bytes));
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.push(Part::Bytes(owner.as_bytes()));
        parts.extend(channels.iter().map(|channel| Part::Bytes(channel)));
        let kept = kept_text(owner);
        if may_keep {
            let (until_ms, by_ms) = keep.map_or((0, 0), |keep| (keep.until_ms, keep.by_ms));
            let times = [Part::Number(until_ms), Part::Number(by_ms)];
            parts.extend(times.into_iter().chain([Part::Bytes(kept.as_bytes())]));
        }
        if let Some(Raise { to, lasts }) = raise {
            parts.extend([Part::from(to), fence_ttl(lasts)]);
        }
        Request::new(self.release, keys, &parts)
    }
}
