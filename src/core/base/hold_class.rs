//! How many holders a lock has at a time.

/// Which holders of one lock exclude each other.
///
/// Holders of different kinds of locks that have a name in common always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldClass {
    /// One holder at a time.
    Exclusive,
    /// Any number of holders of the same kind, in any number of processes.
    Shared,
}
