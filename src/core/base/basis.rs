//! The basis of a held lock: a majority, or the first node alone.

/// The nodes whose answers decide about a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// A majority of the nodes.
    Majority,
    /// The first configured node alone, while no majority can be reached. Two clients that fall
    /// back exclude each other on that node. A client that falls back and a client that reaches a
    /// majority do not.
    FirstNode,
}
