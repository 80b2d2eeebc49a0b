//! The locks that threads hold, and may take again.

use std::collections::HashMap;
use std::hash::Hash;

use super::spare::give_room_back;
use super::{LocalLease, LossReason, Time};

/// Which threads of one client hold which locks, where the kind of lock lets a thread take again what it holds.
///
/// An entry lasts as long as its thread has a guard, also when the lease is over: the thread that takes such a lock again
/// is told of the loss, and does not get the lock anew beside the guard of a lost one. Only the thread itself changes its
/// entries.
pub(crate) struct ThreadHolds<K, H: LocalLease> {
    holds: HashMap<(H::Thread, K), ThreadHold<H>>,
}

/// One thread's holds on one lease.
struct ThreadHold<H> {
    lease: H,
    /// Under which the thread got the lease. Its token goes by that number, however often the thread takes the lock.
    sequence: u64,
    guards: usize,
}

impl<K: Clone + Eq + Hash, H: LocalLease> ThreadHolds<K, H> {
    pub(crate) fn new() -> Self {
        Self { holds: HashMap::new() }
    }

    /// The thread wants the lock. Returns its further hold, or why the lock that it has is lost; `None`: it has no guard of
    /// that lock.
    pub(crate) fn reenter(
        &self,
        key: &K,
        thread: H::Thread,
        now: Time,
    ) -> Option<Result<H::Hold, LossReason>> {
        let hold = self.hold(key, thread)?;
        Some(hold.lease.reenter(hold.sequence, now))
    }

    /// The thread has one guard more. It got the lease under that sequence number, if this is its first guard.
    pub(crate) fn took(&mut self, key: &K, thread: H::Thread, lease: H, sequence: u64) {
        let new = || ThreadHold { lease, sequence, guards: 0 };
        self.holds.entry((thread, key.clone())).or_insert_with(new).guards += 1;
    }

    /// The thread gives one of its guards back. This comes before anything else that is done for the end of the guard:
    /// what is called on the way may ask for the lock, and must not get a lease that is about to go.
    pub(crate) fn left(&mut self, key: &K, thread: H::Thread) {
        let entry = (thread, key.clone());
        if let Some(hold) = self.holds.get_mut(&entry) {
            hold.guards -= 1;
            if hold.guards == 0 {
                self.holds.remove(&entry);
            }
        }
    }

    /// Returns how many guards of the lock the thread has.
    pub(crate) fn guards(&self, key: &K, thread: H::Thread) -> usize {
        self.hold(key, thread).map_or(0, |hold| hold.guards)
    }

    /// Returns what the driver keeps with the lease that the thread has.
    pub(crate) fn lease(&self, key: &K, thread: H::Thread) -> Option<&H> {
        self.hold(key, thread).map(|hold| &hold.lease)
    }

    /// Gives room back. Returns whether any thread holds anything.
    pub(crate) fn tidy(&mut self) -> bool {
        give_room_back(&mut self.holds);
        !self.holds.is_empty()
    }

    fn hold(&self, key: &K, thread: H::Thread) -> Option<&ThreadHold<H>> {
        self.holds.get(&(thread, key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Terms;
    use super::*;

    /// A lease by its number; odd ones are lost. A hold has the lease's number and the sequence number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Lease(u64);

    impl LocalLease for Lease {
        type Hold = (u64, u64);
        type Thread = u32;

        fn held_until(&self, _: Time) -> Option<Time> {
            None
        }

        fn join(&self, _: Terms, _: u64, _: Time) -> Option<(u64, u64)> {
            None
        }

        fn reenter(&self, sequence: u64, _: Time) -> Result<(u64, u64), LossReason> {
            if self.0.is_multiple_of(2) { Ok((self.0, sequence)) } else { Err(LossReason::Expired) }
        }
    }

    const NOW: Time = Time::from_start(std::time::Duration::ZERO);

    #[test]
    fn a_thread_takes_again_what_it_has_a_guard_of_and_nobody_else_does() {
        let mut holds = ThreadHolds::new();
        assert_eq!(holds.reenter(&"a", 1, NOW), None);
        holds.took(&"a", 1, Lease(2), 7);
        assert_eq!(holds.reenter(&"a", 1, NOW), Some(Ok((2, 7))));
        assert_eq!((holds.reenter(&"a", 2, NOW), holds.reenter(&"b", 1, NOW)), (None, None));
        holds.took(&"a", 1, Lease(4), 9);
        assert_eq!(holds.guards(&"a", 1), 2);
        assert_eq!(holds.lease(&"a", 1), Some(&Lease(2)), "the first guard's");
        for guards in [1, 0, 0] {
            assert_eq!(holds.reenter(&"a", 1, NOW).is_some(), holds.guards(&"a", 1) > 0);
            holds.left(&"a", 1);
            assert_eq!(holds.guards(&"a", 1), guards);
        }
        assert_eq!(holds.reenter(&"a", 1, NOW), None);
        assert!(!holds.tidy(), "nothing is left of it");
    }

    #[test]
    fn a_thread_with_a_guard_of_a_lost_lock_is_told() {
        let mut holds = ThreadHolds::new();
        holds.took(&"a", 1, Lease(3), 0);
        assert_eq!(holds.reenter(&"a", 1, NOW), Some(Err(LossReason::Expired)));
        holds.left(&"a", 1);
        assert_eq!(holds.reenter(&"a", 1, NOW), None, "its guards are gone");
    }

    #[test]
    fn used_names_leave_no_room_behind() {
        let mut holds = ThreadHolds::new();
        for name in 0..10_000 {
            holds.took(&name, 1, Lease(2), 0);
        }
        assert!(holds.tidy());
        (0..10_000).for_each(|name| holds.left(&name, 1));
        assert!(!holds.tidy());
        assert_eq!(holds.holds.capacity(), 0);
    }
}
