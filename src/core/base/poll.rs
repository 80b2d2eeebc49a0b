//! The longest sleep of a waiter.

use std::time::Duration;

/// The longest sleep of a waiter that others are to wake: a lost message or wake-up costs no more.
///
/// Everything that depends on a waiter's next check is measured by it: for how long nodes keep an entry of a queue and a
/// reservation, and when an obstacle has gone. A waiter of a held lock sleeps longer only if its user's longest pause is longer.
pub(crate) const POLL: Duration = Duration::from_secs(1);
