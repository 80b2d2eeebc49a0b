//! The safety mechanisms by name, so that a test can show that each one is needed.

/// Which safety mechanisms are in force. Always all of them: there is no public way to change it,
/// and only tests build another value, to prove that the loss of one is noticed (a "tooth").
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanisms {
    /// A lock needs a majority of the nodes, not just one.
    pub(crate) majority: bool,
    /// The validity is shortened by what two clocks may drift apart.
    pub(crate) drift: bool,
    /// The validity is shortened by the time that the attempt itself took.
    pub(crate) elapsed: bool,
    /// Each round of tries has an owner id of its own.
    pub(crate) fresh_owner: bool,
    /// Nodes that were asked and did not answer get a release as well.
    pub(crate) release_silent: bool,
    /// A renewal that was not confirmed leaves the validity as it is.
    pub(crate) unknown_does_not_extend: bool,
    /// A confirmation that comes after the end of validity revives nothing.
    pub(crate) lost_stays_lost: bool,
    /// Renewals stop before a release is sent.
    pub(crate) renewal_stops_before_release: bool,
    /// A node that lost the key of a held lock gets it again.
    pub(crate) repair: bool,
    /// Such a node gets it also if others have tried for the lock there meanwhile, in vain.
    pub(crate) repair_among_contenders: bool,
    /// A lock counts only once a majority knows its number.
    pub(crate) fence_write_back: bool,
    /// Nodes that do not hold our key cannot confirm its number.
    pub(crate) fence_only_where_ours: bool,
    /// Numbers are never behind the masters' time.
    pub(crate) fence_clock_floor: bool,
}

impl Mechanisms {
    pub(crate) const ALL: Self = Self {
        majority: true,
        drift: true,
        elapsed: true,
        fresh_owner: true,
        release_silent: true,
        unknown_does_not_extend: true,
        lost_stays_lost: true,
        renewal_stops_before_release: true,
        repair: true,
        repair_among_contenders: true,
        fence_write_back: true,
        fence_only_where_ours: true,
        fence_clock_floor: true,
    };

    /// The number of yeses that win, out of `nodes`.
    pub(crate) const fn quorum(self, nodes: usize) -> usize {
        if self.majority { super::majority(nodes) } else { 1 }
    }
}
