//! The safety mechanisms by name, so that a test can show that each one is needed.

/// Which safety mechanisms are in force. Always all of them: there is no public way to change it,
/// and only tests build another value, to prove that the loss of one is noticed (a "tooth").
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanisms {
    /// A lock needs a majority of the nodes, not just one.
    pub(crate) majority: bool,
    /// The validity is shortened by what two clocks may drift apart.
    pub(crate) drift: bool,
    /// The validity is shortened by what a node's clock may be set forward unnoticed.
    pub(crate) clock_tolerance: bool,
    /// The validity is shortened by the time that the attempt itself took.
    pub(crate) elapsed: bool,
    /// A node that may have forgotten locks grants nothing for a while.
    pub(crate) quarantine: bool,
    /// That is for as long as any lock can live, whatever the own ones do.
    pub(crate) full_max_ttl: bool,
    /// A node grants only to those who come with the mark that it has at that moment.
    pub(crate) mark_is_compared: bool,
    /// A change of a node's mark takes place only if the mark is still the one it was decided on.
    pub(crate) changes_name_the_old_value: bool,
    /// Who finds a quarantine does not begin another one.
    pub(crate) quarantine_is_joined: bool,
    /// A quarantine ends by the median of the nodes' clocks, not by the node's own.
    pub(crate) ends_by_the_sets_time: bool,
    /// Where there are too few clocks for a median to be beyond doubt, whoever ends a quarantine has
    /// watched it for the whole time.
    pub(crate) few_clocks_are_watched: bool,
    /// Another configuration on one node concerns all of them.
    pub(crate) configuration_is_of_the_set: bool,
    /// What a node grants counts only if its clock, read along with it, is where it has to be.
    pub(crate) clocks_are_watched: bool,
    /// A clock that may have been set by more than the tolerance counts as one that was.
    pub(crate) doubt_has_no_vote: bool,
    /// A clock that was not watched is compared with what the node's mark says of it.
    pub(crate) clocks_are_noted: bool,
    /// A clock that has gained is noted no faster than clocks may drift.
    pub(crate) marks_rise_slowly: bool,
    /// What a clock had gained before it was read first counts along with what it gains later.
    pub(crate) trackers_begin_at_marks: bool,
    /// If most of the clocks seem to be set forward at once, all leases are over.
    pub(crate) own_clock_is_doubted: bool,
    /// A node whose clock has just moved says nothing against those who hold locks.
    pub(crate) moved_clocks_do_not_deny: bool,
    /// Nodes in quarantine serve those who hold locks.
    pub(crate) holders_in_quarantine: bool,
    /// Each round of tries has an owner id of its own.
    pub(crate) fresh_owner: bool,
    /// Nodes that were asked and did not answer get a release as well.
    pub(crate) release_silent: bool,
    /// What connects anew ends the connections on the server that were given up before.
    pub(crate) old_connections_are_ended: bool,
    /// A release that something may still follow is not certain, and does not count.
    pub(crate) only_certain_releases_count: bool,
    /// A release behind an unanswered extension raises the fence, so that no late repair is made.
    pub(crate) releases_raise_the_fence: bool,
    /// A release that something may still follow is repeated.
    pub(crate) releases_are_repeated: bool,
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
    /// Numbers are never behind the set's time.
    pub(crate) fence_clock_floor: bool,
    /// The set's time is made of clocks that are corrected by what the nodes' marks say of them.
    pub(crate) time_is_corrected: bool,
    /// Where clients may fall back to the first node, a majority wins nothing while that node can be
    /// reached and does not grant.
    pub(crate) first_node_must_grant: bool,
    /// And that it cannot be reached is known by a try to connect that failed since it was asked.
    pub(crate) first_node_is_tried: bool,
    /// A lease is handed to another thread only while it is known to be ours.
    pub(crate) hand_over_only_while_held: bool,
    /// And only with enough validity left.
    pub(crate) hand_over_needs_validity: bool,
    /// And only if its keys do not live for longer than the new holder would have asked for.
    pub(crate) hand_over_keeps_to_terms: bool,
    /// Who was handed a lease, and does not want it any more, gives it back.
    pub(crate) chosen_who_leaves_passes_on: bool,
    /// A process lets go of a lock that its threads hand to each other.
    pub(crate) turns_end: bool,
    /// Who waits tries once more when the nodes are listened to.
    pub(crate) try_once_subscribed: bool,
    /// Who was refused by one node alone tries again when that one tells of a release.
    pub(crate) heeds_who_refused: bool,
    /// Who waits is woken when a majority of the nodes is free, not by the first message.
    pub(crate) wake_by_majority: bool,
    /// After a split vote one node is asked first, and the others with its grant.
    pub(crate) ordered_tries: bool,
    /// Who gives a lock back for which others wait leaves it to them.
    pub(crate) gives_way: bool,
    /// Who has waited for longer goes before who has not, where many are told of a release.
    pub(crate) elders_first: bool,
}

impl Mechanisms {
    pub(crate) const ALL: Self = Self {
        majority: true,
        drift: true,
        clock_tolerance: true,
        elapsed: true,
        quarantine: true,
        full_max_ttl: true,
        mark_is_compared: true,
        changes_name_the_old_value: true,
        quarantine_is_joined: true,
        ends_by_the_sets_time: true,
        few_clocks_are_watched: true,
        configuration_is_of_the_set: true,
        clocks_are_watched: true,
        doubt_has_no_vote: true,
        clocks_are_noted: true,
        marks_rise_slowly: true,
        trackers_begin_at_marks: true,
        own_clock_is_doubted: true,
        moved_clocks_do_not_deny: true,
        holders_in_quarantine: true,
        fresh_owner: true,
        release_silent: true,
        old_connections_are_ended: true,
        only_certain_releases_count: true,
        releases_raise_the_fence: true,
        releases_are_repeated: true,
        unknown_does_not_extend: true,
        lost_stays_lost: true,
        renewal_stops_before_release: true,
        repair: true,
        repair_among_contenders: true,
        fence_write_back: true,
        fence_only_where_ours: true,
        fence_clock_floor: true,
        time_is_corrected: true,
        first_node_must_grant: true,
        first_node_is_tried: true,
        hand_over_only_while_held: true,
        hand_over_needs_validity: true,
        hand_over_keeps_to_terms: true,
        chosen_who_leaves_passes_on: true,
        turns_end: true,
        try_once_subscribed: true,
        heeds_who_refused: true,
        wake_by_majority: true,
        ordered_tries: true,
        gives_way: true,
        elders_first: true,
    };

    /// The number of yeses that win, out of `nodes`.
    pub(crate) const fn quorum(self, nodes: usize) -> usize {
        if self.majority { super::majority(nodes) } else { 1 }
    }
}
