//! Keys without expiry that are in the way of locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::core::{Time, give_room_back};
use crate::ident::Names;
use crate::observe;

/// So many locks are remembered; then all of them are told anew.
const LOCKS: usize = 1_024;

/// A lock is remembered for so long after its key was in the way last.
const KEPT: Duration = Duration::from_secs(60);

/// The locks of which it was told that a key without expiry is in the way: a lock that looks held for ever.
/// Each with the time until which it is remembered.
#[derive(Default)]
pub(crate) struct EndlessKeys(Mutex<HashMap<Names, Time>>);

impl EndlessKeys {
    /// A key without expiry is in the way of the lock with these names on these nodes. Told once for each lock.
    pub(crate) fn tell(&self, names: &Names, nodes: &[Arc<str>]) {
        if self.is_new(names, clock::now()) {
            observe::endless_key(names, nodes);
        }
    }

    /// Forgets the locks that nobody has wanted for long, and returns whether any is left.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        let mut told = self.0.lock();
        told.retain(|_, until| now < *until);
        give_room_back(&mut *told);
        !told.is_empty()
    }

    fn is_new(&self, names: &Names, now: Time) -> bool {
        let mut told = self.0.lock();
        if told.len() >= LOCKS {
            told.clear();
        }
        told.insert(names.clone(), now.after(KEPT)).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::Name;

    #[test]
    fn a_lock_is_told_again_once_nobody_has_wanted_it_for_a_minute() {
        let at = |s| Time::from_start(Duration::from_secs(s));
        let names =
            |name: &str| Names::new(1, [Name::new(b"", name.as_bytes(), &[])]).expect("a name");
        let endless = EndlessKeys::default();
        (0..1_000).for_each(|i| assert!(endless.is_new(&names(&i.to_string()), at(0))));
        assert!(!endless.is_new(&names("7"), at(30)));
        assert!(endless.tidy(at(59)));
        assert!(!endless.is_new(&names("8"), at(59)));
        assert!(endless.tidy(at(60)));
        assert_eq!(endless.0.lock().len(), 2);
        assert!(endless.0.lock().capacity() < 100);
        assert!(!endless.is_new(&names("7"), at(89)), "it was wanted meanwhile");
        assert!(!endless.tidy(at(149)));
        assert!(endless.is_new(&names("7"), at(149)));
    }
}
