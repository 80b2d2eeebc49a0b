//! The locks that threads hold, and may take again.

use std::collections::HashMap;
use std::hash::Hash;

use super::super::base::give_room_back;
use super::super::base::{HoldClass, Mechanism, Time};
use super::super::hold::LossReason;
use super::LocalLease;

/// The locks that the threads of one client hold, for kinds of locks that a thread may take again.
///
/// An entry lasts as long as its thread has a guard, even if the lease is over. A thread that takes such a lock again is
/// told of the loss: it does not get the lock anew while it has a guard of the lost one. Only the thread itself changes its
/// entries.
pub(crate) struct ThreadHolds<K, H: LocalLease> {
    holds: HashMap<(H::Thread, K), ThreadHold<H>>,
}

/// One thread's holds on one lease.
struct ThreadHold<H> {
    lease: H,
    /// The sequence number under which the thread got the lease. Its token uses that number, however often it takes the lock.
    sequence: u64,
    guards: Guards,
}

/// The number of a thread's guards of each class. A thread may have both: it may read what it writes.
#[derive(Clone, Copy, Debug, Default)]
struct Guards {
    exclusive: usize,
    shared: usize,
}

impl Guards {
    fn of(&mut self, class: HoldClass) -> &mut usize {
        match class {
            HoldClass::Exclusive => &mut self.exclusive,
            HoldClass::Shared => &mut self.shared,
        }
    }

    fn all(self) -> usize {
        self.exclusive + self.shared
    }
}

/// The answer to a thread that wants a lock of which it has guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again<T> {
    /// The thread holds the lock once more.
    Hold(T),
    /// The lock is lost.
    Lost(LossReason),
    /// The thread shares the lock, and wants it exclusively: it would wait for its own guards.
    WaitsForItself,
}

impl<K: Clone + Eq + Hash, H: LocalLease> ThreadHolds<K, H> {
    pub(crate) fn new() -> Self {
        Self { holds: HashMap::new() }
    }

    /// Tries to take the lock again, for a hold of that class. `None`: the thread has no guard of the lock.
    pub(crate) fn again(
        &self,
        key: &K,
        thread: H::Thread,
        class: HoldClass,
        now: Time,
    ) -> Option<Again<H::Hold>> {
        let hold = self.hold(key, thread)?;
        let shares_only = hold.guards.exclusive == 0 && Mechanism::SharersDoNotUpgrade.is_on();
        if shares_only && class == HoldClass::Exclusive {
            return Some(Again::WaitsForItself);
        }
        let again = hold.lease.reenter(hold.sequence, class, now);
        Some(again.map_or_else(Again::Lost, Again::Hold))
    }

    /// Notes one more guard of that class. The thread got the lease under that sequence number, if this is its first guard.
    pub(crate) fn took(
        &mut self,
        key: &K,
        thread: H::Thread,
        class: HoldClass,
        lease: H,
        sequence: u64,
    ) {
        let new = || ThreadHold { lease, sequence, guards: Guards::default() };
        *self.holds.entry((thread, key.clone())).or_insert_with(new).guards.of(class) += 1;
    }

    /// Notes that the thread gives back one of its guards of that class. This must come before all other steps of the guard's
    /// end: code that is called on the way may ask for the lock, and must not get a lease that is about to go.
    pub(crate) fn left(&mut self, key: &K, thread: H::Thread, class: HoldClass) {
        let entry = (thread, key.clone());
        if let Some(hold) = self.holds.get_mut(&entry) {
            let guards = hold.guards.of(class);
            *guards = guards.saturating_sub(1);
            if hold.guards.all() == 0 {
                self.holds.remove(&entry);
            }
        }
    }

    /// Notes that the thread has turned an exclusive guard into a shared one.
    pub(crate) fn downgraded(&mut self, key: &K, thread: H::Thread) {
        if let Some(hold) = self.holds.get_mut(&(thread, key.clone())) {
            hold.guards.exclusive = hold.guards.exclusive.saturating_sub(1);
            hold.guards.shared += 1;
        }
    }

    /// Returns the number of the thread's guards of the lock, of that class.
    pub(crate) fn guards(&self, key: &K, thread: H::Thread, class: HoldClass) -> usize {
        let mut guards = self.hold(key, thread).map(|hold| hold.guards).unwrap_or_default();
        *guards.of(class)
    }

    /// Returns the driver's data for the lease that the thread has.
    pub(crate) fn lease(&self, key: &K, thread: H::Thread) -> Option<&H> {
        self.hold(key, thread).map(|hold| &hold.lease)
    }

    /// Gives unused memory back. Returns true if any thread holds anything.
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
    use super::super::super::base::without;
    use super::super::super::hold::Terms;
    use super::HoldClass::{Exclusive, Shared};
    use super::*;

    /// A lease with its number; odd ones are lost. A hold has the lease's number and the sequence number.
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

        fn reenter(&self, sequence: u64, _: HoldClass, _: Time) -> Result<(u64, u64), LossReason> {
            if self.0.is_multiple_of(2) { Ok((self.0, sequence)) } else { Err(LossReason::Expired) }
        }
    }

    const NOW: Time = Time::from_start(std::time::Duration::ZERO);

    #[test]
    fn a_thread_takes_again_what_it_has_a_guard_of_and_nobody_else_does() {
        let mut holds = ThreadHolds::new();
        let again =
            |holds: &ThreadHolds<_, _>, name, thread| holds.again(name, thread, Exclusive, NOW);
        assert_eq!(again(&holds, &"a", 1), None);
        holds.took(&"a", 1, Exclusive, Lease(2), 7);
        assert_eq!(again(&holds, &"a", 1), Some(Again::Hold((2, 7))));
        assert_eq!((again(&holds, &"a", 2), again(&holds, &"b", 1)), (None, None));
        holds.took(&"a", 1, Exclusive, Lease(4), 9);
        assert_eq!(holds.guards(&"a", 1, Exclusive), 2);
        assert_eq!(holds.lease(&"a", 1), Some(&Lease(2)), "the first guard's");
        for guards in [1, 0, 0] {
            assert_eq!(again(&holds, &"a", 1).is_some(), holds.guards(&"a", 1, Exclusive) > 0);
            holds.left(&"a", 1, Exclusive);
            assert_eq!(holds.guards(&"a", 1, Exclusive), guards);
        }
        assert_eq!(again(&holds, &"a", 1), None);
        assert!(!holds.tidy(), "nothing is left of it");
    }

    #[test]
    fn a_thread_with_a_guard_of_a_lost_lock_is_told() {
        let mut holds = ThreadHolds::new();
        holds.took(&"a", 1, Exclusive, Lease(3), 0);
        let again = |holds: &ThreadHolds<_, _>| holds.again(&"a", 1, Exclusive, NOW);
        assert_eq!(again(&holds), Some(Again::Lost(LossReason::Expired)));
        holds.left(&"a", 1, Exclusive);
        assert_eq!(again(&holds), None, "its guards are gone");
    }

    /// A writer may also read. A reader cannot write as well: its own guards would have to be given back first.
    #[test]
    fn a_thread_shares_what_it_has_for_itself_and_not_the_other_way_round() {
        let mut holds = ThreadHolds::new();
        let again = |holds: &ThreadHolds<_, _>, class| holds.again(&"a", 1, class, NOW);
        holds.took(&"a", 1, Shared, Lease(2), 7);
        assert_eq!(again(&holds, Shared), Some(Again::Hold((2, 7))));
        assert_eq!(again(&holds, Exclusive), Some(Again::WaitsForItself));
        let upgraded = without(&[Mechanism::SharersDoNotUpgrade], || again(&holds, Exclusive));
        assert_eq!(upgraded, Some(Again::Hold((2, 7))), "the mutation bites");
        holds.left(&"a", 1, Shared);

        holds.took(&"a", 1, Exclusive, Lease(2), 7);
        holds.took(&"a", 1, Shared, Lease(2), 7);
        assert_eq!(again(&holds, Exclusive), Some(Again::Hold((2, 7))));
        holds.left(&"a", 1, Exclusive);
        assert_eq!(again(&holds, Exclusive), Some(Again::WaitsForItself), "it only reads by now");
        assert_eq!((holds.guards(&"a", 1, Exclusive), holds.guards(&"a", 1, Shared)), (0, 1));
    }

    #[test]
    fn a_guard_that_is_downgraded_counts_as_a_shared_one() {
        let mut holds = ThreadHolds::new();
        holds.took(&"a", 1, Exclusive, Lease(2), 7);
        holds.downgraded(&"a", 1);
        assert_eq!((holds.guards(&"a", 1, Exclusive), holds.guards(&"a", 1, Shared)), (0, 1));
        assert_eq!(holds.again(&"a", 1, Exclusive, NOW), Some(Again::WaitsForItself));
        holds.left(&"a", 1, Shared);
        assert_eq!(holds.again(&"a", 1, Shared, NOW), None);
    }

    #[test]
    fn used_names_leave_no_room_behind() {
        let mut holds = ThreadHolds::new();
        for name in 0..10_000 {
            holds.took(&name, 1, Exclusive, Lease(2), 0);
        }
        assert!(holds.tidy());
        (0..10_000).for_each(|name| holds.left(&name, 1, Exclusive));
        assert!(!holds.tidy());
        assert_eq!(holds.holds.capacity(), 0);
    }
}
