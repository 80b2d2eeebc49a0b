//! Keys without expiry that are in the way of locks.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ident::Name;
use crate::observe;

/// So many names are remembered; then all of them are told anew.
const NAMES: usize = 1_024;

/// The names of which it was told that a key without expiry is in the way: a lock that looks held for ever.
#[derive(Default)]
pub(crate) struct EndlessKeys(Mutex<HashSet<Box<[u8]>>>);

impl EndlessKeys {
    /// A key without expiry is in the way of `name` on these nodes. Told once for each name.
    pub(crate) fn tell(&self, name: &Name, nodes: &[Arc<str>]) {
        let mut told = self.0.lock();
        if told.len() >= NAMES {
            told.clear();
        }
        let is_new = told.insert(name.key().into());
        drop(told);
        if is_new {
            observe::endless_key(name, nodes);
        }
    }
}
