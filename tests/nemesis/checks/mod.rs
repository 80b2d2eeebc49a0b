//! Tests of the harness itself: each check of the judge must find the faults in wrong histories,
//! plans keep to their rules, and links obey their conditions.

pub(crate) mod count;
pub(crate) mod judge;
pub(crate) mod links;
pub(crate) mod permits;
pub(crate) mod picture;
pub(crate) mod plan;
pub(crate) mod readers;
pub(crate) mod recovery;
pub(crate) mod stores;
pub(crate) mod story;
pub(crate) mod waits;
pub(crate) mod witness;
pub(crate) mod worker;

/// A test and its name.
pub(crate) type Check = (&'static str, fn());

/// All tests.
pub(crate) fn all() -> Vec<Check> {
    [
        judge::CHECKS,
        count::CHECKS,
        stores::CHECKS,
        readers::CHECKS,
        permits::CHECKS,
        recovery::CHECKS,
        waits::CHECKS,
        picture::CHECKS,
        plan::CHECKS,
        links::CHECKS,
        witness::CHECKS,
        worker::CHECKS,
    ]
    .concat()
}
