//! Numbers that nobody else has, for names.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The system's, by way of what makes hash maps differ.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
