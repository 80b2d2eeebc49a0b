//! Keys without expiry that are in the way of locks.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ident::Names;
use crate::observe;

/// So many locks are remembered; then all of them are told anew.
const LOCKS: usize = 1_024;

/// The locks of which it was told that a key without expiry is in the way: a lock that looks held for ever.
#[derive(Default)]
pub(crate) struct EndlessKeys(Mutex<HashSet<Names>>);

impl EndlessKeys {
    /// A key without expiry is in the way of the lock with these names on these nodes. Told once for each lock.
    pub(crate) fn tell(&self, names: &Names, nodes: &[Arc<str>]) {
        let mut told = self.0.lock();
        if told.len() >= LOCKS {
            told.clear();
        }
        let is_new = told.insert(names.clone());
        drop(told);
        if is_new {
            observe::endless_key(names, nodes);
        }
    }
}
