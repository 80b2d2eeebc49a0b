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

    fn extend(&self, key: &[u8], owner: &str, ttl: Duration) -> Request;

    fn release(&self, key: &[u8], owner: &str) -> Request;
}

/// A duration as scripts take it. Settings are checked to be far below the limit.
fn milliseconds(duration: Duration) -> Vec<u8> {
    duration.as_millis().to_string().into_bytes()
}
