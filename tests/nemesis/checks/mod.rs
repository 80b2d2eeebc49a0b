//! Tests of the judge and of the plan: each check is fed with histories that are wrong, and has to say so.

pub(crate) mod judge;
pub(crate) mod plan;
pub(crate) mod recovery;
pub(crate) mod stores;
pub(crate) mod story;
pub(crate) mod witness;

/// A test and its name.
pub(crate) type Check = (&'static str, fn());

/// All tests.
pub(crate) fn all() -> Vec<Check> {
    [judge::CHECKS, stores::CHECKS, recovery::CHECKS, plan::CHECKS, witness::CHECKS].concat()
}
