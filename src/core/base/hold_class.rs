//! The number of holders that a lock has at a time.

/// The class of a holder: it decides which holders of one lock exclude each other.
///
/// Holders of different kinds of locks that have a name in common always exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldClass {
    /// One holder at a time.
    Exclusive,
    /// Any number of holders of the same kind, in any number of processes.
    Shared,
}
