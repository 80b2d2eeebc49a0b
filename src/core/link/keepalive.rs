//! The end of a connection over which nothing comes.

use std::time::Duration;

/// The checks that the systems on both sides make while nothing comes over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    /// Time without a message before the first check.
    pub(crate) idle: Duration,
    /// Time between further checks while none is answered.
    pub(crate) interval: Duration,
    /// The number of unanswered checks after which the connection is over.
    pub(crate) checks: u32,
}

/// The checks of each connection. A firewall does not forget a connection that is checked so often. If the other side cannot be
/// reached any more, that is noticed a minute after its last message. A connection on which an answer is awaited has a shorter
/// time limit; one that only waits for messages has none.
pub(crate) const KEEPALIVE: Keepalive =
    Keepalive { idle: Duration::from_secs(15), interval: Duration::from_secs(5), checks: 9 };
