//! The safety mechanisms by name, so that a test can show that each one is needed.
//!
//! A mutation test switches one off and shows that something goes wrong without it. Only test builds can
//! do that: elsewhere `is_on` is the constant `true`.

/// A safety mechanism of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// A lock needs a majority of the nodes, not just one.
    Majority,
    /// The validity is shortened by what two clocks may drift apart.
    Drift,
    /// The validity is shortened by what a node's clock may be set forward unnoticed.
    ClockTolerance,
    /// The validity is shortened by the time that the attempt itself took.
    Elapsed,
    /// A node that may have forgotten locks grants nothing for a while.
    Quarantine,
    /// That is for as long as any lock can live, and not only the client's own ones.
    FullMaxTtl,
    /// A node grants only to requests that come with the mark that it has at that time.
    MarkIsCompared,
    /// A change of a node's mark takes place only if the mark is still the one it was decided on.
    ChangesNameTheOldValue,
    /// A client that finds a quarantine does not begin another one.
    QuarantineIsJoined,
    /// A quarantine ends by the median of the nodes' clocks, not by the node's own.
    EndsByTheSetsTime,
    /// Where there are too few clocks for a certain median, a client ends only a quarantine that it has
    /// watched for the whole time.
    FewClocksAreWatched,
    /// Another configuration on one node concerns all of them.
    ConfigurationIsOfTheSet,
    /// What a node grants counts only if its clock, read along with it, is where it has to be.
    ClocksAreWatched,
    /// A clock that may have been set by more than the tolerance counts as one that was.
    DoubtHasNoVote,
    /// The tracking of a clock whose first answer took long begins with the next answer.
    VagueBoundsAreReplaced,
    /// A clock that was not watched is compared with what the node's mark says of it.
    ClocksAreNoted,
    /// A node is probed now and then also while its clock is read all the time, so that drift is noted.
    BusyNodesAreProbed,
    /// A step forward that was seen counts also if the clock was behind its mark before.
    SeenStepsCount,
    /// A clock that has gained is noted no faster than clocks may drift.
    MarksRiseSlowly,
    /// What a clock had gained before it was read first counts along with what it gains later.
    TrackersBeginAtMarks,
    /// If most of the clocks seem to be set forward at once, all leases are over.
    OwnClockIsDoubted,
    /// A node whose clock has just moved says nothing against holders.
    MovedClocksDoNotDeny,
    /// A node at which several servers answer has no vote.
    OneServerAnswers,
    /// Nodes in quarantine serve holders.
    HoldersInQuarantine,
    /// Each round of tries has an owner id of its own.
    FreshOwner,
    /// Nodes that were asked and did not answer get a release as well.
    ReleaseSilent,
    /// A node that says that the lock is not ours, or not all of its names, gets a release as well.
    ReleaseDenied,
    /// A new connection ends the old ones on the server that were given up before.
    OldConnectionsAreEnded,
    /// A release that something may still follow is not certain, and does not count.
    OnlyCertainReleasesCount,
    /// A release behind an unanswered extension raises the fence, so that no late repair is made.
    ReleasesRaiseTheFence,
    /// A release that something may still follow is repeated.
    ReleasesAreRepeated,
    /// A renewal that was not confirmed leaves the validity as it is.
    UnknownDoesNotExtend,
    /// A confirmation that comes after the end of validity revives nothing.
    LostStaysLost,
    /// Holders are warned while the lock is still valid, if its renewals fail.
    HoldersAreWarned,
    /// Renewals stop before a release is sent.
    RenewalStopsBeforeRelease,
    /// A node that lost the key of a held lock gets it again.
    Repair,
    /// Such a node gets it also if others have tried for the lock there meanwhile, in vain.
    RepairAmongContenders,
    /// No extension gives a lock back to an owner from which it was taken by force.
    ForcedStayOut,
    /// A lock counts only once a majority knows its number.
    FenceWriteBack,
    /// Nodes that do not hold our key cannot confirm its number.
    FenceOnlyWhereOurs,
    /// A number that is far above all others needs more than one node's word.
    FarNumbersNeedSeveral,
    /// But not a number that the clocks of several nodes have reached.
    ReachedNumbersAreNear,
    /// A node keeps a lock's number for a while after the lock has ended.
    FencesOutliveLocks,
    /// Numbers are never behind the set's time.
    FenceClockFloor,
    /// The set's time is made of clocks that are corrected by what the nodes' marks say of them.
    TimeIsCorrected,
    /// While nobody has said how far any clock is ahead, this is said of one node at a time.
    FirstNotesTakeTurns,
    /// Whenever one node was probed, all nodes' marks are compared with their clocks.
    AllMarksAreCompared,
    /// The clock of a node in quarantine does not show that the clock of an admitted one was not set.
    QuarantinedClocksAreNoWitnesses,
    /// But it may show that it was.
    QuarantinedClocksAccuse,
    /// A node begins its quarantine although the clocks of others contradict each other.
    ContradictionsAreNotWaitedFor,
    /// A node whose clock and mark say a time that cannot be says nothing of the set's time.
    TimesAreBounded,
    /// A doubt about clocks is over when all locks of before have ended.
    DoubtsEnd,
    /// A node is probed so often only within a time, whatever it answers.
    ProbesAreBounded,
    /// Where clients may fall back to the first node, a majority wins nothing while that node can be
    /// reached and does not grant.
    FirstNodeMustGrant,
    /// And that it cannot be reached is known by a try to connect that failed since it was asked.
    FirstNodeIsTried,
    /// And who was refused by that node is not woken by nodes that have granted the attempt.
    FirstNodeMustTell,
    /// A lease is handed to another thread only while it is known to be ours.
    HandOverOnlyWhileHeld,
    /// And only with enough validity left.
    HandOverNeedsValidity,
    /// And only if its keys do not live for longer than the new holder would have asked for.
    HandOverKeepsToTerms,
    /// And not while the nodes are to keep the lock, nor to a caller that wants them to.
    KeptLocksAreNotHandedOver,
    /// And not once another process has asked for the lock: then its threads neither hand it on, nor join it.
    AskedLocksGoToOthers,
    /// What an attempt that failed has got is not kept by the nodes, as a lock is that was held.
    OnlyHeldLocksAreKept,
    /// A caller that was handed a lease, and does not want it any more, gives it back.
    ChosenWhoLeavesPassesOn,
    /// A process lets go of a lock that its threads hand to each other, or join again and again.
    TurnsEnd,
    /// A lease of several holders is given back by the last of them.
    LastHolderGivesBack,
    /// A thread takes a lock again only while it still holds it.
    LostLocksAreNotTakenAgain,
    /// A thread that shares a lock does not get it for itself alone: others may share it as well.
    SharersDoNotUpgrade,
    /// The nodes are told at once that a lock is shared from now on, which its holder had for itself alone.
    DowngradesAreTold,
    /// A downgrade ends the rounds of extension of before: nothing more is sent for them, nor heard of the shared lock.
    DowngradesRestartRounds,
    /// A holder that unlocks is told that its lock was not lost only once the nodes' answers say so.
    NoticesAwaitTheVerdict,
    /// What one of several holders asks for does not cut the validity of the others.
    ExtensionsCutNoOther,
    /// A caller that may share the lock with the holders of its process, and cannot join them, does not wait for them.
    SharersDoNotWait,
    /// But it waits for a caller of its process that asks the nodes for what both of them can hold.
    SharersWaitForAskers,
    /// Callers do not join a lease once a writer is known to wait for its end.
    WritersEndJoins,
    /// A subscriber looks again at what it is to listen to once the node has confirmed what it was asked for.
    UnheededChangesAreLookedAt,
    /// A waiter tries once more when the nodes are listened to.
    TryOnceSubscribed,
    /// A waiter tries again when nodes tell of a release.
    HeedsReleases,
    /// A waiter is woken when a majority of the nodes is free, not by the first message.
    WakeByMajority,
    /// A waiter that hears of a release from too few nodes tries again, where others have not said that the lock is held.
    SilentNodesMayBeFree,
    /// The same, where others are not listened to.
    UnheardNodesMayBeFree,
    /// After a split vote one node is asked first, and the others with its grant.
    OrderedTries,
    /// All locks with several names prefer the same node.
    SeveralNamesMeet,
    /// A caller that does not wait tries again where the votes were split, for perhaps nobody has the lock.
    SplitVotesAreTriedAgain,
    /// A node that does not tell of releases of which the others have told is not preferred.
    SilentNodesAreNotPreferred,
    /// After some refusals by the preferred node alone all nodes are asked.
    AllAreAskedAgain,
    /// Where no quorum was reached, all nodes are asked each time.
    AllAreAskedInAnOutage,
    /// A waiter that plain order would starve reserves the lock.
    WaitersReserve,
    /// And withdraws that when it waits no more.
    ReservationsAreWithdrawn,
    /// A withdrawal goes behind the requests of its call that are in the same write.
    WithdrawalsGoLast,
    /// And leaves the lock to others now and then.
    ReservationsRest,
    /// A reservation lasts for two attempts of the full length at least.
    ReservationsOutliveAttempts,
    /// Of the callers of a process that wait behind each other, only the first one reserves the lock.
    FirstCallersReserve,
    /// A caller whose attempt has reached no majority reserves nothing, and withdraws its reservation.
    ReservationsNeedQuorum,
    /// A process that gives a lock back leaves it to the others that wait for it.
    GivesWay,
    /// And does not take its own release for that of another one.
    OwnReleaseIsNoNews,
    /// Nor the second message of a release for another release.
    SecondMessagesAreNoNews,
    /// Of many waiters that are told of a release, those that have waited for longer come first.
    EarlierWaitersFirst,
    /// A caller in the queue of a fair lock keeps the ticket that it has.
    TicketsStay,
    /// And gives it up where too few nodes know of it.
    TicketsNeedMajority,
    /// And comes back with it once it reaches enough nodes again.
    TicketsAreKept,
    /// Who is refused a slot of a semaphore tries the ones that the refusal names.
    RefusalsNameFreeSlots,
    /// Requests whose connection was closed go out once more, over another one.
    ReconnectsOnce,
    /// Requests that a batch may make again come behind all others of a write.
    BatchesGoLast,
    /// Over a network, a write follows another one before that is answered.
    WritesFollow,
    /// A clock that has moved takes the grants as well whose requests were on their way by then.
    DoubtsReachBack,
    /// Releases go out behind the requests that a silent node has not answered, on the same connection.
    FinalReleases,
    /// A release that a node has refused is told again.
    RefusedReleasesAreKept,
}

impl Mechanism {
    #[cfg(not(test))]
    pub(crate) const fn is_on(self) -> bool {
        true
    }

    /// Whether no test of this thread has switched it off.
    #[cfg(test)]
    pub(crate) fn is_on(self) -> bool {
        switched_off::are_none_of(self)
    }
}

/// A rule with the switch of its mechanism behind it: `majority(nodes).if_off(Mechanism::Majority, 1)` is what the rule says,
/// and 1 in a test that has switched the majority off.
pub(crate) trait Rule: Sized {
    /// Returns this; or `instead`, where a test of this thread has switched `mechanism` off.
    #[must_use]
    #[inline]
    fn if_off(self, mechanism: Mechanism, instead: Self) -> Self {
        if mechanism.is_on() { self } else { instead }
    }
}

impl<T> Rule for T {}

#[cfg(test)]
pub(crate) use switched_off::without;

#[cfg(test)]
mod switched_off {
    use std::cell::Cell;

    use super::Mechanism;

    thread_local! {
        /// A bit for each mechanism that is off. Of the thread, so that tests do not disturb each other.
        static OFF: Cell<u128> = const { Cell::new(0) };
    }

    pub(super) fn are_none_of(mechanism: Mechanism) -> bool {
        OFF.get() & bit(mechanism) == 0
    }

    /// Runs `test` with these mechanisms switched off on this thread.
    pub(crate) fn without<R>(mechanisms: &[Mechanism], test: impl FnOnce() -> R) -> R {
        let _restored = Restored(OFF.get());
        OFF.set(mechanisms.iter().fold(OFF.get(), |off, &mechanism| off | bit(mechanism)));
        test()
    }

    fn bit(mechanism: Mechanism) -> u128 {
        1_u128.checked_shl(mechanism as u32).expect("there are fewer than 128 mechanisms")
    }

    /// Sets back what was off before, also when the test panics.
    struct Restored(u128);

    impl Drop for Restored {
        fn drop(&mut self) {
            OFF.set(self.0);
        }
    }
}
