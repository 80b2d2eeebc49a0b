//! Late requests: copies that were written and never answered, and the steps that make a release certain in spite of them.
//!
//! A connection that is given up is not gone. The network or the server may still have requests that were
//! written over it. They may run behind a release that was answered over the next connection. A late
//! `acquire` finds the lock free and takes it for an owner that is gone; a late extension repairs it.

use std::time::Duration;

use super::super::base::{Backoff, Mechanism, Rule, Time};

/// The time for which something may still arrive over a connection that was given up. A kernel that has to deliver the rest of a
/// closed socket tries for about 100 s (Linux: `tcp_orphan_retries`).
pub(crate) const LATEST: Duration = Duration::from_secs(120);

/// The pauses between the repetitions of a release.
const REPEATED: Backoff =
    Backoff { min: Duration::from_millis(100), max: Duration::from_millis(10_000) };

/// The connection over which a request is written to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Via {
    /// Its number among the connections to the node, which rises.
    pub(crate) connection: u64,
    /// True if nothing that was written over an earlier connection can run any more.
    pub(crate) fenced: bool,
}

impl Via {
    /// Returns the connection of that number, while earlier ones may still deliver something.
    #[cfg(test)]
    pub(crate) const fn unfenced(connection: u64) -> Self {
        Self { connection, fenced: false }
    }
}

/// The copies of one request that were written to one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copies {
    sent: u32,
    /// The oldest and the latest connection over which a copy was written that may still run.
    over: Option<(u64, u64)>,
}

impl Copies {
    /// Returns the number of copies that were written.
    pub(crate) const fn sent(self) -> u32 {
        self.sent
    }

    /// Notes that a copy is about to be written.
    pub(crate) fn sending(&mut self, via: Via) {
        self.sent += 1;
        let oldest = self.over.filter(|_| !via.fenced).map_or(via.connection, |(oldest, _)| oldest);
        self.over = Some((oldest, via.connection));
    }

    /// Notes that the copy that was written last has certainly not run, and never will.
    pub(crate) fn unsent(&mut self) {
        self.sent = self.sent.saturating_sub(1);
        self.over = self.over.filter(|_| self.sent > 0);
    }

    /// Notes that the copy that was written last is answered. So those before it on the same connection have run.
    pub(crate) fn answered(&mut self) {
        self.over = self.over.filter(|(oldest, latest)| oldest < latest);
    }

    /// Returns the oldest connection over which a copy may still run.
    pub(crate) fn unanswered(self) -> Option<u64> {
        self.over.map(|(oldest, _)| oldest)
    }
}

/// The requests that may still run on a node for an owner that the node is told to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// The oldest connection over which an `acquire` may still run.
    pub(crate) acquires: Option<u64>,
    /// The oldest connection over which an extension may still run.
    pub(crate) extensions: Option<u64>,
    /// The number to which the release raises the node's fence. It is above all numbers up to which those extensions may set the
    /// key again, so that they are refused.
    pub(crate) raises_to: Option<u64>,
}

impl Late {
    /// Returns true if nothing can follow a release that a node has answered over that connection.
    pub(crate) fn is_over(self, via: Via) -> bool {
        let in_order = |oldest: Option<u64>| oldest.is_none_or(|oldest| oldest == via.connection);
        let extensions_do_nothing = self.raises_to.is_some() || in_order(self.extensions);
        via.fenced || in_order(self.acquires) && extensions_do_nothing
    }

    /// Returns true if any request may still run.
    pub(crate) const fn is_something(self) -> bool {
        self.acquires.is_some() || self.extensions.is_some()
    }
}

/// A release that must be sent to a node again, as long as something may run behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repetition {
    late: Late,
    /// The time from which no extension sets the key again: each carries a deadline.
    repairs_end: Time,
    /// The end of the repetition, set by the first answer.
    until: Option<Time>,
    count: u32,
}

impl Repetition {
    /// Returns the repetition of a release behind `late` requests; extensions repair nothing from `repairs_end` on.
    pub(crate) const fn new(late: Late, repairs_end: Time) -> Self {
        Self { late, repairs_end, until: None, count: 0 }
    }

    /// Handles the node's answer, at `now` and over that connection. Returns the time at which the release is due once more;
    /// `None` if it is done. The pauses grow, with jitter out of `random` in `0.0..1.0`.
    pub(crate) fn answered(
        &mut self,
        via: Via,
        now: Time,
        random: impl FnOnce() -> f64,
    ) -> Option<Time> {
        if self.late.is_over(via).if_off(Mechanism::ReleasesAreRepeated, true) {
            return None;
        }
        let until = *self.until.get_or_insert_with(|| {
            let latest = now.after(LATEST);
            if self.late.acquires.is_some() { latest } else { latest.min(self.repairs_end) }
        });
        let pause = REPEATED.pause(self.count, random());
        self.count += 1;
        (now < until).then(|| now.after(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    const FENCED: Via = Via { connection: 3, fenced: true };

    fn late(acquires: Option<u64>, extensions: Option<u64>, raises_to: Option<u64>) -> Late {
        Late { acquires, extensions, raises_to }
    }

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn copies_before_the_last_answer_on_the_same_connection_have_run() {
        let mut copies = Copies::default();
        copies.sending(Via::unfenced(1));
        assert_eq!(copies.unanswered(), Some(1));
        copies.sending(Via::unfenced(1));
        copies.answered();
        assert_eq!((copies.unanswered(), copies.sent()), (None, 2));
    }

    #[test]
    fn a_copy_over_an_earlier_connection_stays_unless_that_one_is_fenced_off() {
        let mut copies = Copies::default();
        copies.sending(Via::unfenced(1));
        copies.sending(Via::unfenced(2));
        copies.answered();
        assert_eq!(copies.unanswered(), Some(1));
        let mut copies = Copies::default();
        copies.sending(Via::unfenced(1));
        copies.sending(Via { connection: 2, fenced: true });
        assert_eq!(copies.unanswered(), Some(2));
        copies.answered();
        assert_eq!(copies.unanswered(), None);
    }

    #[test]
    fn a_copy_that_did_not_run_leaves_nothing() {
        let mut copies = Copies::default();
        copies.sending(Via::unfenced(1));
        copies.unsent();
        assert_eq!((copies.unanswered(), copies.sent()), (None, 0));
    }

    #[test]
    fn a_release_is_certain_in_order_behind_a_fence_or_where_the_fence_stops_repairs() {
        let three = Via::unfenced(3);
        for (late, certain) in [
            (late(None, None, None), true),
            (late(Some(3), Some(3), None), true),
            (late(Some(2), None, None), false),
            (late(None, Some(2), None), false),
            (late(None, Some(2), Some(8)), true),
            (late(Some(2), Some(2), Some(8)), false),
        ] {
            assert_eq!(late.is_over(three), certain, "{late:?}");
            assert!(late.is_over(FENCED));
        }
    }

    fn repeated(late: Late, repairs_end: Time) -> Vec<Time> {
        let mut repetition = Repetition::new(late, repairs_end);
        let mut now = at(0);
        let mut times = Vec::new();
        while let Some(due) = repetition.answered(Via::unfenced(3), now, || 1.0) {
            times.push(due);
            now = due;
        }
        times
    }

    #[test]
    fn a_release_is_repeated_at_growing_intervals_until_nothing_matters_any_more() {
        let times = repeated(late(Some(2), None, None), at(1_000));
        assert!(times.len() < 30 && times.is_sorted(), "{times:?}");
        assert!(times.last().is_some_and(|last| *last >= at(0).after(LATEST)));
        // Behind an extension alone, its deadline is enough.
        let times = repeated(late(None, Some(2), None), at(1_000));
        assert!(times.last().is_some_and(|last| (at(1_000)..at(2_500)).contains(last)));
        assert_eq!(repeated(late(None, Some(2), Some(9)), at(1_000)), []);
        let once = || repeated(late(Some(2), None, None), at(1_000));
        assert_eq!(without(&[Mechanism::ReleasesAreRepeated], once), []);
    }

    #[test]
    fn the_repetition_ends_with_an_answer_behind_a_fence() {
        let mut repetition = Repetition::new(late(Some(2), None, None), at(1_000));
        assert!(repetition.answered(Via::unfenced(3), at(0), || 0.5).is_some());
        let fenced = Via { connection: 4, fenced: true };
        assert_eq!(repetition.answered(fenced, at(500), || 0.5), None);
    }
}
