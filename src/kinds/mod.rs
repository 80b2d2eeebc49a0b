//! The kinds of locks. A kind is its scripts: how to take, extend and give back.

#[cfg(test)]
use crate::runtime::kind::Kind;

mod mutex;

pub use mutex::{Exclusive, Mutex};

/// Every kind; adding one is its scripts, its file and its line here.
#[cfg(test)]
const KINDS: [&dyn Kind; 1] = [&Exclusive];

/// The exclusive lock, for the simulator.
#[cfg(all(test, feature = "embedded"))]
pub(crate) const EXCLUSIVE: &dyn Kind = &Exclusive;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::kind::{Fence, Raise, Repair};

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
