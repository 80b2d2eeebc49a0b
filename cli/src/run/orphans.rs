//! The duty of the first process of a container. The system gives it the orphans of all other processes, and it must reap them, or
//! they stay listed for ever.

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use super::members;
use crate::children;

/// Reaps the orphans that this process was given, if it is the first one. `ours` are its own children, which are reaped elsewhere.
pub(super) fn reap(ours: impl IntoIterator<Item = Pid>) {
    let this = getpid();
    if this != Pid::from_raw(1) {
        return;
    }
    let ours: Vec<_> = ours.into_iter().collect();
    let own = children::own();
    for orphan in members::ended_children(this) {
        if !ours.contains(&orphan) && !own.contains(&orphan) {
            let _ = waitpid(orphan, Some(WaitPidFlag::WNOHANG));
        }
    }
}
