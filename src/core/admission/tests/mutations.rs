//! For each mechanism of admission, the failure without it.

use super::super::base::{Allowance, Basis, Mechanism, without};
use super::super::vote::{Extension, ExtensionVote, Renewed};
use super::model::{MAX_TTL, World, configuration};
use super::old_master::OLD_MASTER_WRITES;
use super::*;

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A majority of a settled set comes back empty while a lock is held. Returns true if another client
/// can have the lock within `time`.
fn locks_again_after(time: Duration) -> bool {
    let mut world = World::settled(3, 2);
    world.restart(0, false);
    world.restart(1, false);
    world.run(time);
    world.locks(1)
}

#[test]
fn without_the_quarantine_a_lock_that_was_forgotten_is_granted_again() {
    assert!(!locks_again_after(seconds(1)));
    assert!(locks_again_after(MAX_TTL + seconds(1)), "but not for ever");
    assert!(without(&[Mechanism::Quarantine], || locks_again_after(seconds(1))));
}

#[test]
fn without_the_full_time_a_longer_lock_of_others_is_granted_again() {
    let nearly = MAX_TTL - seconds(1);
    assert!(!locks_again_after(nearly));
    assert!(without(&[Mechanism::FullMaxTtl], || locks_again_after(nearly)));
}

/// A node is promoted, and its old master may grant for a while. Returns true if the node is admitted too early within `time`, and
/// true if it is admitted then.
fn admitted_after_a_promotion(time: Duration) -> (bool, bool) {
    let mut world = World::settled(3, 1);
    world.promote(0);
    world.run(time);
    (!world.early.is_empty(), world.takes(0, 0))
}

#[test]
fn without_the_time_of_old_masters_a_promoted_node_is_admitted_too_early() {
    let max_ttl = MAX_TTL + seconds(1);
    assert_eq!(admitted_after_a_promotion(max_ttl), (false, false));
    assert_eq!(admitted_after_a_promotion(max_ttl + OLD_MASTER_WRITES), (false, true));
    without(&[Mechanism::PromotionsOutlastOldMasters], || {
        assert_eq!(admitted_after_a_promotion(max_ttl), (true, true));
    });
}

/// The promoted node forgets its earlier replication id while it is in quarantine.
#[test]
fn without_the_memory_of_its_promotion_a_node_is_admitted_too_early() {
    let is_admitted_early = || {
        let mut world = World::settled(3, 1);
        world.promote(0);
        world.run(seconds(2));
        world.forget_backlog(0);
        world.run(MAX_TTL + seconds(1));
        !world.early.is_empty()
    };
    assert!(!is_admitted_early());
    assert!(without(&[Mechanism::PromotionsAreRemembered], is_admitted_early));
}

/// A majority is flushed while a lock is held. Returns true if a client that has noticed nothing yet
/// can have the lock.
fn locks_unaware_of_a_flush() -> bool {
    let mut world = World::settled(3, 2);
    world.flush(0);
    world.flush(1);
    world.locks(1)
}

#[test]
fn without_the_comparison_who_has_not_looked_is_granted_what_was_forgotten() {
    assert!(!locks_unaware_of_a_flush());
    assert!(without(&[Mechanism::MarkIsCompared], locks_unaware_of_a_flush));
}

/// A client decides that a quarantine is over. Before its change arrives, the node is flushed, and
/// another client begins the next quarantine.
fn a_late_end_ends_a_later_quarantine() -> bool {
    let mut world = World::settled(3, 2);
    world.reach(1, 0, false);
    world.flush(0);
    assert!(!world.takes(0, 0));
    world.visit(0);
    world.advance(MAX_TTL + seconds(2));
    // The first client asks for a probe, and gets it; then it asks for the end.
    assert!(world.ask(0, 0));
    world.flush(0);
    world.reach(1, 0, true);
    world.visit(1);
    for _ in 0..3 {
        world.arrive(0, 0);
        world.answer(0, 0);
        world.ask(0, 0);
    }
    !world.early.is_empty()
}

#[test]
fn without_the_old_value_a_late_change_undoes_what_has_happened_since() {
    assert!(!a_late_end_ends_a_later_quarantine());
    assert!(without(&[Mechanism::ChangesNameTheOldValue], a_late_end_ends_a_later_quarantine));
}

/// New processes come all the time. Each of them lives for less than a quarantine takes.
fn admitted_while_processes_come_and_go() -> bool {
    let mut world = World::new(3, &[]);
    for _ in 0..10 {
        let newcomer = World::new(3, &[configuration(3)]).clients;
        world.clients = newcomer;
        world.run(MAX_TTL / 4);
    }
    assert!(world.early.is_empty());
    world.locks(0)
}

#[test]
fn without_joining_a_quarantine_never_ends_while_processes_come_and_go() {
    assert!(admitted_while_processes_come_and_go());
    assert!(!without(&[Mechanism::QuarantineIsJoined], admitted_while_processes_come_and_go));
}

/// The clock of a restarted node is set forward during its quarantine.
fn early_by_a_clock_that_is_set(nodes: usize) -> bool {
    let mut world = World::settled(nodes, 1);
    world.restart(0, false);
    world.run(seconds(1));
    world.servers[0].clock_ms = 3_600_000;
    world.run(seconds(3));
    !world.early.is_empty()
}

#[test]
fn without_the_sets_time_a_node_with_a_wrong_clock_admits_early() {
    assert!(!early_by_a_clock_that_is_set(3));
    assert!(without(&[Mechanism::EndsByTheSetsTime], || early_by_a_clock_that_is_set(3)));
}

#[test]
fn a_single_node_that_is_not_watched_admits_early() {
    assert!(!early_by_a_clock_that_is_set(1));
    // Noticing the step would prevent it as well.
    without(&[Mechanism::ClocksAreWatched], || {
        assert!(!early_by_a_clock_that_is_set(1));
        assert!(without(&[Mechanism::FewClocksAreWatched], || early_by_a_clock_that_is_set(1)));
    });
}

/// One of two clocks, which was behind, is set right during the quarantine.
fn early_with_two_clocks() -> bool {
    let mut world = World::settled(2, 1);
    world.servers[0].clock_ms = -60_000;
    world.restart(1, false);
    world.cut(0, 0);
    world.run(seconds(1));
    world.servers[0].clock_ms = 0;
    world.cut(0, 0);
    world.run(seconds(3));
    !world.early.is_empty()
}

#[test]
fn two_nodes_that_are_not_watched_admit_early() {
    assert!(!early_with_two_clocks());
    // Noticing the step would prevent it as well, as would the mark, which says where the clock was.
    let others =
        [Mechanism::ClocksAreWatched, Mechanism::ClocksAreNoted, Mechanism::TimeIsCorrected];
    without(&others, || {
        assert!(!early_with_two_clocks());
        assert!(without(&[Mechanism::FewClocksAreWatched], early_with_two_clocks));
    });
}

/// One node of a set in use comes back empty, and a client with a longer `max_ttl` is the first to see
/// it. Returns true if both clients find nodes that take them for their own.
fn two_configurations_side_by_side() -> bool {
    let longer = Configuration { max_ttl: MAX_TTL * 2, ..configuration(3) };
    let mut world = World::settled(3, 1);
    let newcomer = World::new(3, &[longer]).clients;
    world.clients.extend(newcomer);
    world.reach(0, 2, false);
    world.restart(2, false);
    world.run(MAX_TTL * 3);
    world.locks(0) && world.takes(1, 2)
}

#[test]
fn without_the_verdict_on_the_set_two_configurations_live_side_by_side() {
    assert!(!two_configurations_side_by_side());
    // The missing comparison of its clock with others would keep the node from granting as well.
    without(&[Mechanism::ClocksAreNoted], || {
        assert!(!two_configurations_side_by_side());
        assert!(without(&[Mechanism::ConfigurationIsOfTheSet], two_configurations_side_by_side));
    });
}

/// The nodes of a majority come back empty one after the other while a lock is held and renewed.
/// Returns true if each round of renewal is confirmed by the nodes whose answers count.
fn a_holder_outlives_one_restart_after_the_other() -> bool {
    let mut world = World::settled(3, 1);
    let mut has_key = [true; 3];
    for node in 0..2 {
        world.restart(node, false);
        has_key[node] = false;
        world.visit(0);
        // The first round repairs, and the second one counts.
        for _ in 0..2 {
            let start = Time::default();
            let mut round = Extension::new(
                3,
                start,
                start.after(MAX_TTL),
                MAX_TTL,
                Basis::Majority,
                Allowance::FOR_DRIFT,
            );
            for (node, has_key) in has_key.iter_mut().enumerate() {
                if !world.clients[0].admission.serves_holders(node) {
                    super::super::vote::Ballot::fail(
                        &mut round,
                        node,
                        super::super::vote::Failure::NotSent,
                    );
                } else if std::mem::replace(has_key, true) {
                    super::super::vote::Ballot::vote(&mut round, node, ExtensionVote::Extended);
                } else {
                    super::super::vote::Ballot::vote(&mut round, node, ExtensionVote::Repaired);
                }
            }
            if !matches!(round.result(start), Renewed::Until(..)) {
                return false;
            }
        }
    }
    true
}

#[test]
fn without_nodes_in_quarantine_a_holder_loses_its_lock_to_restarts() {
    assert!(a_holder_outlives_one_restart_after_the_other());
    assert!(!without(&[Mechanism::HoldersInQuarantine], || {
        a_holder_outlives_one_restart_after_the_other()
    }));
}
