//! The safety mechanisms by name, so that a test can show that each one is needed.
//!
//! A mutation test switches one off and shows that something goes wrong without it. Only test builds can
//! do that: elsewhere `is_on` is the constant `true`.

/// A safety mechanism of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// A lock needs a majority of the nodes, not just one.
    Majority,
    /// The validity is shortened by the possible drift between two clocks.
    Drift,
    /// The validity is shortened by the step by which a node's clock may be set forward unnoticed.
    ClockTolerance,
    /// The validity is shortened by the time that the attempt itself took.
    Elapsed,
    /// A node that may have forgotten locks grants nothing for a while.
    Quarantine,
    /// A quarantine lasts as long as any lock can live, not only the client's own locks.
    FullMaxTtl,
    /// The quarantine of a promoted node is longer by the time for which its old master may go on taking writes.
    PromotionsOutlastOldMasters,
    /// A promoted node does not count for holders for that time either.
    HoldersOutlastOldMasters,
    /// A server that was promoted counts as promoted for the rest of its run.
    PromotionsAreRemembered,
    /// A node grants only to requests that come with its present mark.
    MarkIsCompared,
    /// A node's mark is changed only if it is still the mark on which the change was decided.
    ChangesNameTheOldValue,
    /// A client that finds a quarantine does not begin another one.
    QuarantineIsJoined,
    /// A quarantine ends by the median of the nodes' clocks, not by the node's own clock.
    EndsByTheSetsTime,
    /// With too few clocks for a certain median, a client ends only a quarantine that it has watched for the whole time.
    FewClocksAreWatched,
    /// Another configuration on one node concerns all nodes.
    ConfigurationIsOfTheSet,
    /// A node's grant counts only if its clock, read along with the grant, is where it must be.
    ClocksAreWatched,
    /// A clock that may have been set by more than the tolerance counts as one that was set.
    DoubtHasNoVote,
    /// If the first answer of a clock took long, its tracking begins anew with the next answer.
    VagueBoundsAreReplaced,
    /// A clock that was not watched is compared with what its node's mark says of it.
    ClocksAreNoted,
    /// A node is probed now and then even while its clock is read all the time, so that drift is noted.
    BusyNodesAreProbed,
    /// A step forward that was seen counts even if the clock was behind its mark before.
    SeenStepsCount,
    /// The gain of a clock is noted no faster than clocks may drift.
    MarksRiseSlowly,
    /// The gain of a clock before its first reading is added to its later gains.
    TrackersBeginAtMarks,
    /// If most of the clocks seem to be set forward at once, all leases are over.
    OwnClockIsDoubted,
    /// A lease that was asked for before a suspension of this machine is over.
    SuspensionsEndLeases,
    /// A node whose clock has just moved cannot deny a holder its lock.
    MovedClocksDoNotDeny,
    /// A node that finds it too late for a repair cannot deny a holder its lock.
    LateRepairsDoNotDeny,
    /// A node at which several servers answer has no vote.
    OneServerAnswers,
    /// A connection that a proxy keeps open ends when another server answers over it.
    RelayedConnectionsEnd,
    /// A connection ends when a probe over it shows another run of the server than the login.
    AnotherRunEndsConnections,
    /// A proxy may deliver requests to the next server that were written for this one.
    RelayedRequestsMayFollow,
    /// A mark that was made under another replication id may be that of a server which was a replica since.
    ReplicationIdsAreCompared,
    /// A call ends quarantines only on the word of its caller, or if the nodes show that no lock can be held.
    AdmissionIsProven,
    /// A proof ends only the quarantines that were seen before the nodes were scanned.
    ProofsCoverSeenQuarantines,
    /// A node remembers its locks only if a probe after its scan shows it.
    NodesAreProbedAfterScans,
    /// If the nodes turn out not to be one set, no quarantine is ended by order.
    ConflictsEndOrders,
    /// Nodes in quarantine serve holders.
    HoldersInQuarantine,
    /// Each attempt has an owner id of its own.
    FreshOwner,
    /// Nodes that did not answer a request get a release as well.
    ReleaseSilent,
    /// A node that denies that the lock, or one of its names, is ours gets a release as well.
    ReleaseDenied,
    /// A new connection first ends, on the server, the old ones that were given up.
    OldConnectionsAreEnded,
    /// A release is not certain, and does not count, while an earlier request may run after it.
    OnlyCertainReleasesCount,
    /// A release behind an unanswered extension raises the fence, so that a late extension repairs nothing.
    ReleasesRaiseTheFence,
    /// A release is repeated while an earlier request may run after it.
    ReleasesAreRepeated,
    /// A renewal that was not confirmed does not change the validity.
    UnknownDoesNotExtend,
    /// A confirmation that comes after the end of validity does not revive the lock.
    LostStaysLost,
    /// All holders of a lock are told of its loss, not only the one whose thread sees it.
    AllHoldersHearOfLosses,
    /// Holders are warned while the lock is still valid, if its renewals fail.
    HoldersAreWarned,
    /// Renewals stop before a release is sent.
    RenewalStopsBeforeRelease,
    /// The key of a held lock is set again on a node that lost it.
    Repair,
    /// The key is set again even if other callers have tried for the lock on that node meanwhile, in vain.
    RepairAmongContenders,
    /// No extension gives a lock back to an owner from which it was taken by force.
    ForcedStayOut,
    /// An order to take a lock by force is kept for a node that is down as long as a key may live there.
    OrdersOutliveKeys,
    /// A lock counts only once a majority knows its number.
    FenceWriteBack,
    /// Nodes that do not hold our key cannot confirm the lock's number.
    FenceOnlyWhereOurs,
    /// A number that is far above all others needs the answers of several nodes.
    FarNumbersNeedSeveral,
    /// A number that the clocks of several nodes have reached is not far above.
    ReachedNumbersAreNear,
    /// A node keeps a lock's number for a while after the lock has ended.
    FencesOutliveLocks,
    /// Numbers are never behind the set's time.
    FenceClockFloor,
    /// The set's time is made of clocks that are corrected by what the nodes' marks say of them.
    TimeIsCorrected,
    /// While no mark says how far its node's clock is ahead, such marks are written to one node at a time.
    FirstNotesTakeTurns,
    /// After a probe of any node, all nodes' marks are compared with their clocks.
    AllMarksAreCompared,
    /// The clock of a node in quarantine does not show that the clock of an admitted node was not set.
    QuarantinedClocksAreNoWitnesses,
    /// The clock of a node in quarantine may show that the clock of an admitted node was set.
    QuarantinedClocksAccuse,
    /// A node begins its quarantine even if the clocks of other nodes contradict each other.
    ContradictionsAreNotWaitedFor,
    /// A node whose clock and mark yield an impossible time does not count for the set's time.
    TimesAreBounded,
    /// A doubt about clocks is over when all locks that existed when it began have ended.
    DoubtsEnd,
    /// The number of probes of a node within a given time is limited, whatever it answers.
    ProbesAreBounded,
    /// Where clients may fall back to the first node, a majority wins nothing while that node can be
    /// reached and does not grant.
    FirstNodeMustGrant,
    /// The first node counts as unreachable only if a try to connect has failed, or its connection broke, since it was asked.
    FirstNodeIsTried,
    /// A caller that the first node refused is not woken by nodes that have granted its attempt.
    FirstNodeMustTell,
    /// A lease is handed to another thread only while it is known to be ours.
    HandOverOnlyWhileHeld,
    /// A lease is handed over only with enough validity left.
    HandOverNeedsValidity,
    /// A lease is handed over only if its keys live no longer than the new holder would have asked for.
    HandOverKeepsToTerms,
    /// A lease that the nodes are to keep is not handed over, and a caller that wants its lock kept is handed none.
    KeptLocksAreNotHandedOver,
    /// Once another process has asked for the lock, the threads of this process neither hand it on nor join it.
    AskedLocksGoToOthers,
    /// The nodes keep a lock after its release only if it was held: not the keys of a failed attempt.
    OnlyHeldLocksAreKept,
    /// A caller that was handed a lease, and does not want it any more, gives it back.
    ChosenWhoLeavesPassesOn,
    /// A process lets go of a lock that its threads hand to each other, or join, again and again.
    TurnsEnd,
    /// A lease of several holders is given back by the last of them.
    LastHolderGivesBack,
    /// A thread takes a lock again only while it still holds it.
    LostLocksAreNotTakenAgain,
    /// A thread that shares a lock cannot get it exclusively: other holders may share it as well.
    SharersDoNotUpgrade,
    /// The nodes are told at once when an exclusive lock becomes a shared one.
    DowngradesAreTold,
    /// A downgrade ends the earlier rounds of extension: no more is sent for them, and the shared lock ignores their later
    /// answers.
    DowngradesRestartRounds,
    /// A holder that unlocks learns that its lock was not lost only once the nodes' answers say so.
    NoticesAwaitTheVerdict,
    /// An extension by one of several holders does not cut the validity of the others.
    ExtensionsCutNoOther,
    /// A caller that may share the lock with the holders of its process, but cannot join them, does not wait for them.
    SharersDoNotWait,
    /// Such a caller waits for a caller of its process that asks the nodes for a lock that both can hold.
    SharersWaitForAskers,
    /// Callers do not join a lease once a writer is known to wait for its end.
    WritersEndJoins,
    /// Callers that want different numbers of permits of a semaphore do not wait for each other in one local queue.
    PermitsQueueApart,
    /// A subscriber checks again what it must listen to, once the node has confirmed its last request.
    UnheededChangesAreLookedAt,
    /// A subscriber leaves a server that is not the one that the last probe of its node has shown.
    OtherServersAreLeft,
    /// A waiter tries once more when its subscriptions are confirmed.
    TryOnceSubscribed,
    /// A waiter tries again when nodes report a release.
    HeedsReleases,
    /// A waiter that would hear of a release tries again after a while, since messages may get lost.
    WaitersLookAgain,
    /// A waiter is woken when a majority of the nodes is free, not by the first message.
    WakeByMajority,
    /// A waiter that hears of a release from too few nodes tries again, if the others have not said that the lock is held.
    SilentNodesMayBeFree,
    /// A waiter that hears of a release from too few nodes tries again, if the others are not listened to.
    UnheardNodesMayBeFree,
    /// After a split vote or a release one node is asked first, and the others unless it refuses.
    OrderedTries,
    /// All locks with several names prefer the same node.
    SeveralNamesMeet,
    /// A caller that does not wait tries again after a split vote, since perhaps nobody has the lock.
    SplitVotesAreTriedAgain,
    /// A node that does not report releases that the other nodes have reported is not preferred.
    SilentNodesAreNotPreferred,
    /// After some refusals by the preferred node alone, all nodes are asked.
    AllAreAskedAgain,
    /// While no quorum is reached, all nodes are asked each time.
    AllAreAskedInAnOutage,
    /// A waiter that would starve in the usual order reserves the lock.
    WaitersReserve,
    /// A waiter withdraws its reservation when it stops waiting.
    ReservationsAreWithdrawn,
    /// A withdrawal goes behind the requests of its call that are in the same write.
    WithdrawalsGoLast,
    /// A waiter that reserves the lock leaves it to others now and then.
    ReservationsRest,
    /// A reservation lasts for two attempts of the full length at least.
    ReservationsOutliveAttempts,
    /// Only the first one of several callers of a process that wait behind each other reserves the lock.
    FirstCallersReserve,
    /// A caller whose attempt has reached no majority reserves nothing, and withdraws its reservation.
    ReservationsNeedQuorum,
    /// A process that gives a lock back leaves it to the waiters of other processes.
    GivesWay,
    /// A process does not take its own release for that of another process.
    OwnReleaseIsNoNews,
    /// The second message of a release is not taken for another release.
    SecondMessagesAreNoNews,
    /// If many waiters hear of a release, those that have waited longer come first.
    EarlierWaitersFirst,
    /// A caller in the queue of a fair lock keeps the ticket that it has.
    TicketsStay,
    /// A caller gives its ticket up if too few nodes know of it.
    TicketsNeedMajority,
    /// A caller comes back with its ticket once it reaches enough nodes again.
    TicketsAreKept,
    /// A caller that is refused a slot of a semaphore tries the slots that the refusal names.
    RefusalsNameFreeSlots,
    /// Requests whose connection was closed go out once more, over another connection.
    ReconnectsOnce,
    /// Batchable requests go behind all others of a write, since a batch may have to be made again.
    BatchesGoLast,
    /// Over a network, a write may follow another one that is not answered.
    WritesFollow,
    /// A clock that has moved invalidates the grants of requests that were on their way by then, too.
    DoubtsReachBack,
    /// Releases go out behind the requests that a silent node has not answered, on the same connection.
    FinalReleases,
    /// A release that a node has refused is sent again.
    RefusedReleasesAreKept,
    /// A node that is known to be down is not asked: its caller is told so at once.
    DownNodesAreNotAsked,
    /// A release for a node that is down is kept until the node is back.
    DownNodesGetReleases,
    /// Where clients wait for replicas, a grant counts only once enough replicas have it.
    GrantsAwaitReplicas,
    /// Replicas of another server than the one that granted say nothing about the grant.
    ReplicasAreOfTheGrantor,
}

impl Mechanism {
    #[cfg(not(test))]
    pub(crate) const fn is_on(self) -> bool {
        true
    }

    /// Returns true if no test of this thread has switched it off.
    #[cfg(test)]
    pub(crate) fn is_on(self) -> bool {
        switched_off::are_none_of(self)
    }
}

/// A rule, followed by the switch of its mechanism: `majority(nodes).if_off(Mechanism::Majority, 1)` is the value by the rule,
/// and 1 in a test that has switched the majority off.
pub(crate) trait Rule: Sized {
    /// Returns this value, or `instead` if a test of this thread has switched `mechanism` off.
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
        /// A bit for each mechanism that is off. They are per thread, so that tests do not disturb each other.
        static OFF: Cell<[u128; 2]> = const { Cell::new([0; 2]) };
    }

    pub(super) fn are_none_of(mechanism: Mechanism) -> bool {
        let (word, bit) = place(mechanism);
        OFF.get()[word] & bit == 0
    }

    /// Runs `test` with these mechanisms switched off on this thread.
    pub(crate) fn without<R>(mechanisms: &[Mechanism], test: impl FnOnce() -> R) -> R {
        let _restored = Restored(OFF.get());
        let mut off = OFF.get();
        for (word, bit) in mechanisms.iter().copied().map(place) {
            off[word] |= bit;
        }
        OFF.set(off);
        test()
    }

    /// Returns the index of the word that has the mechanism's bit, and that bit.
    fn place(mechanism: Mechanism) -> (usize, u128) {
        let number = mechanism as u32;
        ((number / u128::BITS) as usize, 1 << (number % u128::BITS))
    }

    /// Restores the earlier switches, also when the test panics.
    struct Restored([u128; 2]);

    impl Drop for Restored {
        fn drop(&mut self) {
            OFF.set(self.0);
        }
    }
}
