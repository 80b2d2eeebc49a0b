//! The kinds of locks. A kind is its scripts: how to take, extend and give back.

use std::fmt;
use std::time::Duration;

use crate::node::Request;

mod mutex;
pub(crate) mod reply;

pub use mutex::Mutex;

/// What the coordinator needs to know of a kind of lock.
pub(crate) trait Kind: fmt::Debug + Send + Sync {
    fn acquire(&self, key: &[u8], owner: &str, ttl: Duration) -> Request;

    /// `repair_until_ms`: until when, in milliseconds of the node's own clock, a key that is gone
    /// may be set again.
    fn extend(&self, key: &[u8], owner: &str, ttl: Duration, repair_until_ms: i64) -> Request;

    fn release(&self, key: &[u8], owner: &str) -> Request;
}

/// Every kind; adding one is its scripts, its file and its line here.
#[cfg(test)]
const KINDS: [&dyn Kind; 1] = [&mutex::MutexKind];

/// The exclusive lock, for the simulator.
#[cfg(all(test, feature = "embedded"))]
pub(crate) const EXCLUSIVE: &dyn Kind = &mutex::MutexKind;

/// A duration as scripts take it. Settings are checked to be far below the limit.
fn milliseconds(duration: Duration) -> Vec<u8> {
    duration.as_millis().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a script states each of its KEYS and ARGV, in order, and its replies; the call
    /// has just as many.
    #[test]
    fn calls_are_as_the_scripts_headers_state() {
        let ttl = Duration::from_secs(1);
        for kind in KINDS {
            let calls = [
                kind.acquire(b"key", "owner", ttl),
                kind.extend(b"key", "owner", ttl, 0),
                kind.release(b"key", "owner"),
            ];
            for call in calls {
                let (source, keys, arguments) = call.shape();
                assert_eq!(stated(source, "KEYS"), keys, "KEYS of:\n{source}");
                assert_eq!(stated(source, "ARGV"), arguments, "ARGV of:\n{source}");
            }
        }
    }

    fn stated(source: &str, table: &str) -> usize {
        let header = source.lines().take_while(|line| line.starts_with("--"));
        let lines = header.filter(|line| line.starts_with(&format!("-- {table}[")));
        let stated = lines.enumerate().map(|(i, line)| {
            assert!(line.starts_with(&format!("-- {table}[{}]  ", i + 1)), "{line}");
        });
        stated.count()
    }

    #[test]
    fn durations_are_whole_milliseconds() {
        assert_eq!(milliseconds(Duration::from_secs(24 * 60 * 60)), b"86400000");
    }
}
