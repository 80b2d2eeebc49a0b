//! Makes a caller that drives connections let go of them.
//!
//! The caller waits for long if a node is far away, or hangs. Workers carry the requests that come for the nodes meanwhile, and
//! cannot begin before the caller has let go.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use super::waker::Waker;

#[derive(Default)]
pub(super) struct Recall {
    /// True while a caller drives connections and waits for a recall along with the answers.
    is_awaited: AtomicBool,
    is_made: AtomicBool,
    /// Ends that wait. `None`: no caller can wait for a recall.
    #[cfg(unix)]
    waker: Option<Waker>,
}

impl Recall {
    /// Creates a recall. No caller can wait for it if the process may have no further file descriptor.
    pub(super) fn new() -> Self {
        Self {
            #[cfg(unix)]
            waker: Waker::new().ok(),
            ..Self::default()
        }
    }

    /// Returns true if a caller can wait for it.
    pub(super) fn can_be_made(&self) -> bool {
        #[cfg(unix)]
        return self.waker.is_some();
        #[cfg(not(unix))]
        return false;
    }

    /// Notes that a caller is about to wait for answers and for a recall. An earlier recall was for another caller.
    ///
    /// The caller must still look for earlier requests in the mailboxes of the nodes whose connections it has.
    pub(super) fn expect(&self) {
        if self.is_made() {
            self.heed();
            // Only after `heed`: otherwise a recall that is made in between would be neither reported nor made again.
            self.is_made.store(false, Ordering::SeqCst);
        }
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Notes that no caller waits for a recall any more.
    pub(super) fn stop_expecting(&self) {
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// Makes the caller let go, if there is one.
    pub(super) fn make(&self) {
        if self.is_awaited.load(Ordering::SeqCst) && !self.is_made.swap(true, Ordering::SeqCst) {
            #[cfg(unix)]
            self.waker.iter().for_each(Waker::wake);
        }
    }

    /// Returns true if it was made. The thread that made it may not have ended the caller's wait yet.
    pub(super) fn is_made(&self) -> bool {
        self.is_made.load(Ordering::SeqCst)
    }

    /// Notes that the caller has been told.
    #[cfg(unix)]
    pub(super) fn heed(&self) {
        self.waker.iter().for_each(Waker::heed);
    }

    /// No caller drives a connection on these systems.
    #[cfg(not(unix))]
    fn heed(&self) {}

    /// Returns the file descriptor to wait for.
    #[cfg(unix)]
    pub(super) fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Returns true if a waiting caller is told at once.
    fn is_told(recall: &Recall) -> bool {
        let waker = recall.waker().expect("there are file descriptors");
        let mut polled = [PollFd::new(waker, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).expect("it can be polled") == 1
    }

    #[test]
    fn a_caller_is_told_of_what_comes_while_it_waits_and_of_nothing_else() {
        let recall = Recall::new();
        recall.make();
        assert!(!is_told(&recall), "nobody waits");
        for _ in 0..3 {
            recall.expect();
            assert!(!is_told(&recall), "what came before was for another caller");
            recall.make();
            recall.make();
            assert!(is_told(&recall));
            recall.heed();
            recall.make();
            assert!(!is_told(&recall), "it was told once, and lets go");
            recall.stop_expecting();
        }
        recall.expect();
        recall.make();
        recall.stop_expecting();
        recall.expect();
        assert!(!is_told(&recall), "the caller before did not wait any more");
    }
}
