//! Once everything is healed, everybody gets every lock again.

/// A client wanted a lock, and had long enough for it.
pub(super) fn probed(client: usize, name: usize, granted: bool) -> Option<String> {
    (!granted).then(|| format!("client {client} cannot get name {name}, though nothing is wrong"))
}
