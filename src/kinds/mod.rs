//! The kinds of locks. A kind is its scripts: how to take, extend and give back.

use std::fmt;
use std::time::Duration;

use crate::node::Request;

mod mutex;
pub(crate) mod reply;

pub use mutex::Mutex;

/// What the coordinator needs to know of a kind of lock.
pub(crate) trait Kind: fmt::Debug + Send + Sync {
    /// What it is called. Names of different kinds have different local queues.
    fn label(&self) -> &'static str;

    /// Takes the lock under the mark that is written with the call, and that the node keeps at
    /// `mark_key`. `proposal`: a number for the grant; `None` without fencing.
    fn acquire(
        &self,
        key: &[u8],
        mark_key: &[u8],
        owner: &str,
        ttl: Duration,
        proposal: Option<u64>,
    ) -> Request;

    /// Tells a node that it granted the lock with that `number`.
    fn confirm(&self, key: &[u8], owner: &str, number: u64) -> Request;

    fn extend(&self, key: &[u8], owner: &str, ttl: Duration, repair: Repair<'_>) -> Request;

    /// Gives the lock back, and raises its fence as `raise` says.
    fn release(&self, key: &[u8], owner: &str, raise: Option<Raise>) -> Request;
}

/// To what a release raises the lock's fence, so that no extension behind it sets the key again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raise {
    pub(crate) to: u64,
    /// How long such an extension may be under way.
    pub(crate) lasts: Duration,
}

/// What an extension may do where our key is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair<'a> {
    /// Until when, in milliseconds of the node's own clock, the key may be set again.
    pub(crate) until_ms: i64,
    /// Where the node keeps its mark.
    pub(crate) mark_key: &'a [u8],
    /// Whether newcomers are granted nothing but under an admitted mark.
    pub(crate) quarantine: bool,
    /// `None` without fencing.
    pub(crate) fence: Option<Fence>,
}

/// The number of a lock that is held, and the largest one that a node may know for the key to be set
/// there again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) number: u64,
    pub(crate) up_to: u64,
}

/// Every kind; adding one is its scripts, its file and its line here.
#[cfg(test)]
const KINDS: [&dyn Kind; 1] = [&mutex::MutexKind];

/// The exclusive lock, for the simulator.
#[cfg(all(test, feature = "embedded"))]
pub(crate) const EXCLUSIVE: &dyn Kind = &mutex::MutexKind;

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a script states each of its KEYS and ARGV, in order, and its replies; the call
    /// has just as many.
    #[test]
    fn calls_are_as_the_scripts_headers_state() {
        let ttl = Duration::from_secs(1);
        for kind in KINDS {
            let fence = Some(Fence { number: 1, up_to: 2 });
            let repair = |fence| Repair { until_ms: 0, mark_key: b"mark", quarantine: true, fence };
            let calls = [
                (true, kind.acquire(b"key", b"mark", "owner", ttl, Some(1))),
                (false, kind.acquire(b"key", b"mark", "owner", ttl, None)),
                (true, kind.confirm(b"key", "owner", 1)),
                (true, kind.extend(b"key", "owner", ttl, repair(fence))),
                (false, kind.extend(b"key", "owner", ttl, repair(None))),
                (true, kind.release(b"key", "owner", Some(Raise { to: 2, lasts: ttl }))),
                (false, kind.release(b"key", "owner", None)),
            ];
            for (fencing, call) in calls {
                let (source, keys, arguments) = call.shape();
                assert_eq!(stated(source, "KEYS", fencing), keys, "KEYS of:\n{source}");
                assert_eq!(stated(source, "ARGV", fencing), arguments, "ARGV of:\n{source}");
            }
        }
    }

    fn stated(source: &str, table: &str, fencing: bool) -> usize {
        let header = source.lines().take_while(|line| line.starts_with("--"));
        let lines = header.filter(|line| line.starts_with(&format!("-- {table}[")));
        let stated = lines.enumerate().filter(|(i, line)| {
            assert!(line.starts_with(&format!("-- {table}[{}]  ", i + 1)), "{line}");
            let fence = ["(not given without fencing)", "(given only to raise it)"];
            fencing || !fence.iter().any(|fence| line.ends_with(fence))
        });
        stated.count()
    }
}
