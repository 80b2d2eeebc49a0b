//! The longest sleep of a waiter.

use std::time::Duration;

/// The longest sleep of a waiter that others are to wake: a message or a wake-up that is lost costs no more.
///
/// Whatever rests on a waiter's next look is measured by it: how long nodes keep an entry of a queue and a reservation,
/// and when an obstacle has gone. A waiter of a held lock sleeps for longer only where its user's longest pause is longer.
pub(crate) const POLL: Duration = Duration::from_secs(1);
