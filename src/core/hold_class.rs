//! How many holders of one process a kind of lock lets in.

/// Whether a lease of a kind of lock has one holder at a time, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldClass {
    /// One holder at a time. A holder that gives the lock back hands its lease to the next caller of its process.
    Exclusive,
    /// Several holders at a time. A caller joins a lease that its process has already, without asking the nodes. The last
    /// holder of a lease gives it back to the nodes.
    Shared,
}
