//! The duty of the first process of a container: it is given the orphans of all others, and asks for the end of each, or they
//! stay listed for ever.

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use super::members;

/// Asks for the ends of the orphans that this process has been given, if it is the first one. `ours`: its own children, whose
/// ends are asked for elsewhere.
pub(super) fn reap(ours: impl IntoIterator<Item = Pid>) {
    let this = getpid();
    if this != Pid::from_raw(1) {
        return;
    }
    let ours: Vec<_> = ours.into_iter().collect();
    for orphan in members::ended_children(this) {
        if !ours.contains(&orphan) {
            let _ = waitpid(orphan, Some(WaitPidFlag::WNOHANG));
        }
    }
}
