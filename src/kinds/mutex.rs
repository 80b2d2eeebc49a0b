//! The exclusive lock: one string a node, the layout of the Redlock algorithm.

use std::time::Duration;

use crate::core::{HoldClass, fence_outlives_ms};
use crate::guard::Guard;
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::{Names, fence_key, kept_text, release_channel, tombstone_key};
use crate::node::{Part, Request, Script};
use crate::runtime::kind::{Keep, Kind, Raise, Repair};
use crate::runtime::reply;

static ACQUIRE: Script =
    Script::batched(include_str!("../../lua/mutex/acquire.lua"), "acquire", &BATCH)
        .with_meaning(reply::acquire_meaning);
static CONFIRM: Script =
    Script::new(include_str!("../../lua/mutex/confirm.lua")).with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::batched(include_str!("../../lua/mutex/extend.lua"), "extend", &BATCH)
        .with_meaning(reply::extend_meaning);
static RELEASE: Script =
    Script::batched(include_str!("../../lua/mutex/release.lua"), "release", &BATCH);

/// The scripts themselves are part of it, so that there is one text of each.
static BATCH: Script = Script::new(concat!(
    "local function acquire(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/acquire.lua"),
    "end\nlocal function extend(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/extend.lua"),
    "end\nlocal function release(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/release.lua"),
    "end\n",
    include_str!("../../lua/mutex/batch.lua"),
));

/// How long the fence of a lock lives that ends after `lock`.
fn fence_ttl(lock: Duration) -> Part<'static> {
    let lock_ms = i64::try_from(lock.as_millis()).unwrap_or(i64::MAX);
    Part::Number(lock_ms.saturating_add(fence_outlives_ms()))
}

/// The kind of exclusive locks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exclusive;

impl LockKind for Exclusive {
    type Guard = Guard;
}

impl OneName for Exclusive {}

impl sealed::Kind for Exclusive {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "Mutex";
}

impl Kind for Exclusive {
    fn label(&self) -> &'static str {
        "mutex"
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Exclusive
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        &[":fence"]
    }

    fn commands(&self) -> &'static [&'static str] {
        &["set", "get", "mget", "del", "type", "pttl", "pexpire", "time", "publish"]
    }

    fn acquire(
        &self,
        names: &Names,
        mark_key: &[u8],
        owner: &str,
        ttl: Duration,
        proposal: Option<u64>,
    ) -> Request {
        let key = names.first().key();
        let fence = proposal.map(|_| fence_key(key));
        let mut parts = vec![Part::Bytes(key), Part::Bytes(mark_key)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), fence_ttl(ttl)]);
        }
        Request::new(&ACQUIRE, keys, &parts)
    }

    fn confirm(&self, names: &Names, owner: &str, number: u64) -> Request {
        let key = names.first().key();
        let fence = fence_key(key);
        let parts = [
            Part::Bytes(key),
            Part::Bytes(&fence),
            Part::Bytes(owner.as_bytes()),
            number.into(),
            Part::Number(fence_outlives_ms()),
        ];
        Request::new(&CONFIRM, 2, &parts)
    }

    fn extend(&self, names: &Names, owner: &str, ttl: Duration, repair: Repair<'_>) -> Request {
        let key = names.first().key();
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
        Request::new(&EXTEND, keys, &parts)
    }

    fn release(
        &self,
        names: &Names,
        owner: &str,
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        let key = names.first().key();
        let (channel, fence) = (release_channel(key), raise.map(|_| fence_key(key)));
        let may_keep = keep.is_some() || raise.is_some();
        let tombstone = may_keep.then(|| tombstone_key(key, owner.as_bytes()));
        let mut parts = vec![Part::Bytes(key)];
        parts.extend(tombstone.as_deref().map(Part::Bytes));
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), Part::Bytes(&channel)]);
        let kept = kept_text(owner);
        if may_keep {
            let until_ms = keep.map_or(0, |keep| keep.until_ms);
            parts.extend([Part::Number(until_ms), Part::Bytes(kept.as_bytes())]);
        }
        if let Some(Raise { to, lasts }) = raise {
            parts.extend([Part::from(to), fence_ttl(lasts)]);
        }
        Request::new(&RELEASE, keys, &parts)
    }
}

/// An exclusive lock by name, from [`Quorlock::mutex`](crate::Quorlock::mutex): the same calls as on the [`Quorlock`](crate::Quorlock),
/// without the name, and with settings of its own.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use quorlock::Quorlock;
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let report = locks.mutex("nightly-report").ttl(Duration::from_secs(5));
/// if let Some(guard) = report.try_lock()? {
///     // .. nobody else writes the report now ..
///     guard.unlock()?;
/// }
/// # Ok::<(), quorlock::Error>(())
/// ```
pub type Mutex = Handle<Exclusive>;
