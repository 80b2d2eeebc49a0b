//! Once everything is healed, every client gets every lock again.

use crate::simulation::lock_id::LockId;

/// Checks that a client got a lock that it wanted, and had long enough for.
pub(super) fn probed(client: usize, lock: LockId, granted: bool) -> Option<String> {
    (!granted).then(|| format!("client {client} cannot get {lock}, though nothing is wrong"))
}
