//! Once everything is healed, everybody gets every lock again.

/// A client wanted a lock, and had long enough for it.
use crate::simulation::lock_id::LockId;

pub(super) fn probed(client: usize, lock: LockId, granted: bool) -> Option<String> {
    (!granted).then(|| format!("client {client} cannot get {lock}, though nothing is wrong"))
}
