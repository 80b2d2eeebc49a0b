//! What a held lock rests on.

use std::time::Duration;

use super::Time;

/// The nodes whose word decides about a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// A majority of the nodes.
    Majority,
    /// The first configured node alone, while no majority can be reached. Two clients that fall back
    /// exclude each other there; one that falls back and one that reaches a majority do not.
    FirstNode,
}

impl Basis {
    /// Whose word decides about an attempt that begins at `started`, when clients fall back `after`
    /// that time without a quorum (`None`: never), and there has been none since `no_quorum_since`.
    pub(crate) fn of_attempt(
        after: Option<Duration>,
        no_quorum_since: Option<Time>,
        started: Time,
    ) -> Self {
        match (after, no_quorum_since) {
            (Some(after), Some(since)) if started.since(since) >= after => Self::FirstNode,
            _ => Self::Majority,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_node_decides_alone_only_after_the_agreed_time_without_a_quorum() {
        let at = |ms| Time::from_start(Duration::from_millis(ms));
        let after = Some(Duration::from_millis(500));
        assert_eq!(Basis::of_attempt(None, Some(at(0)), at(9_000)), Basis::Majority);
        assert_eq!(Basis::of_attempt(after, None, at(9_000)), Basis::Majority);
        assert_eq!(Basis::of_attempt(after, Some(at(100)), at(599)), Basis::Majority);
        assert_eq!(Basis::of_attempt(after, Some(at(100)), at(600)), Basis::FirstNode);
    }
}
