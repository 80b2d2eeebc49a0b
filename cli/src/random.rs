//! Random numbers for names that no other process has.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random number of the system, by way of the seeds of hash maps.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
