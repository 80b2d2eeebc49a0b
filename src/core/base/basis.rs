//! What a held lock rests on.

/// The nodes whose word decides about a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// A majority of the nodes.
    Majority,
    /// The first configured node alone, while no majority can be reached. Two clients that fall back
    /// exclude each other there; one that falls back and one that reaches a majority do not.
    FirstNode,
}
