//! The time for which the old master of a promoted server may go on.

use std::time::Duration;

/// The longest `min-replicas-max-lag` of a master with replicas; the default of servers.
pub(crate) const MAX_LAG: Duration = Duration::from_secs(10);

/// The longest time for which an old master goes on taking writes after one of its replicas was promoted, if its setting
/// `min-replicas-to-write` is the number of its replicas.
///
/// The server counts the lag in whole seconds of its clock, and compares it once a second: a second each. The last second is for the
/// replica's last acknowledgement on its way, for a late comparison, and for the drift of clocks. All clients of a set must wait
/// for as long: another value needs the next number of the mark's format.
pub(crate) const OLD_MASTER_WRITES: Duration = Duration::from_secs(MAX_LAG.as_secs() + 3);
