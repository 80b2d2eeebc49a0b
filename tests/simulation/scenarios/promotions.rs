//! A master that was a replica for a moment, although no connection to it has ended; and a replica that takes over while the old
//! master lives on.

use super::*;

/// The first client holds a lock on two of three nodes. One of these forgets it, like a master that was a replica of
/// an outdated copy, and the holder is cut off from it. The other client stays connected to that node, and wants the
/// lock. Returns the time of the promotion as well.
fn promoted(seed: u64) -> (Plan, Duration) {
    let holder = client(seconds(6), Habit::Keeps);
    // The clients need not agree on the TTL of their locks, nor on their time limit for answers.
    let other = Setup { node_timeout: ms(350), ..client(seconds(9), Habit::Contends) };
    let mut plan = calm(seed, 3, &[holder, other]);
    let promoted = seconds(4) + Chance::new(seed).ms(0..1_000);
    plan.faults = vec![
        fault(Duration::ZERO, seconds(40), Fault::Cut { client: 0, node: 2 }),
        fault(promoted - ms(500), seconds(40), Fault::Cut { client: 1, node: 1 }),
        fault(promoted - ms(10), seconds(40), Fault::Cut { client: 0, node: 0 }),
        at(promoted, Fault::Promoted { node: 0 }),
    ];
    (plan, promoted)
}

/// The holder had the lock when the other client could have got it, and that client has begun a quarantine.
fn was_found_out(run: &Run) -> bool {
    let held = run.grants.iter().any(|grant| grant.client == 0);
    held && tells(run, "node 0: change of client 1", "")
}

/// The other client reaches a second node only after its next probe of the nodes.
const SCENARIO: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let (mut plan, promoted) = promoted(seed);
        let cut = Fault::Cut { client: 1, node: 2 };
        plan.faults.push(fault(promoted - ms(500), promoted + ms(1_500), cut));
        plan
    },
    happened: was_found_out,
};

#[test]
fn a_master_that_was_a_replica_for_a_moment_is_found_out_by_the_next_probe() {
    SCENARIO.holds(2);
}

#[test]
fn without_the_replication_id_in_probes_it_makes_two_holders() {
    SCENARIO.breaks(&[Mechanism::ReplicationIdsAreCompared], &["exclusion"]);
}

/// Behind a proxy, the other client reaches two nodes all the time: its next attempt meets the other server.
const RELAYED: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let (mut plan, _) = promoted(seed);
        plan.relayed = true;
        plan.may_end.fill(false);
        plan
    },
    happened: was_found_out,
};

#[test]
fn behind_a_proxy_no_grant_of_another_server_counts() {
    RELAYED.holds(2);
}

#[test]
fn without_the_end_of_relayed_connections_it_makes_two_holders() {
    RELAYED.breaks(&[Mechanism::RelayedConnectionsEnd], &["exclusion"]);
}

/// A partition parts the two clients: the first one reaches the first node's old master and the second node, and the other client
/// the replica that was promoted in the place of that master, and the third node. The old master takes writes until `stops` after
/// the promotion, or all the time.
fn parted(seed: u64, clients: [Setup; 2], stops: Option<Duration>) -> Plan {
    let mut plan = calm(seed, 3, &clients);
    let (from, until) = (seconds(8) + Chance::new(seed).ms(0..5_000), seconds(60));
    plan.faults = vec![
        fault(from, until, Fault::TakenOver { node: 0, clients: 1 }),
        fault(from, until, Fault::Cut { client: 0, node: 2 }),
        fault(from, until, Fault::Cut { client: 1, node: 1 }),
    ];
    plan.faults.extend(stops.map(|after| at(from + after, Fault::OldMasterStops)));
    plan
}

/// The holder is the first client.
const WITH_OLD_MASTER: [Setup; 2] =
    [client(seconds(20), Habit::Keeps), client(seconds(9), Habit::Contends)];

/// The holder is the second client. Its keys on the old master and on the second node end, and the first client wants the lock there
/// while the old master takes writes.
const WITH_REPLICA: [Setup; 2] = [
    Setup { node_timeout: ms(350), ..client(seconds(9), Habit::Contends) },
    client(seconds(6), Habit::Keeps),
];

/// The `holder` had the lock before the partition, and the other client got it there.
fn both_had_it(run: &Run, holder: usize) -> bool {
    let granted = |client, from, until| {
        let mut grants = run.grants.iter().filter(|grant| grant.client == client);
        grants.any(|grant| (from..until).contains(&grant.at))
    };
    granted(holder, Duration::ZERO, seconds(8)) && granted(1 - holder, seconds(13), seconds(60))
}

/// Nothing keeps the old master from granting.
const PARTED: Scenario = Scenario {
    runs: 20,
    plan: |seed| parted(seed, WITH_OLD_MASTER, None),
    happened: |run| both_had_it(run, 0),
};

#[test]
fn an_old_master_that_lives_on_and_takes_writes_makes_two_holders() {
    PARTED.mostly_breaks(&[], &["exclusion"]);
}

/// The old master takes no writes any more once its replica has been silent for 10 s. It finds that out a little later.
const STOPS: Option<Duration> = Some(ms(12_100));

const STOPPED: Scenario = Scenario {
    runs: 20,
    plan: |seed| parted(seed, WITH_OLD_MASTER, STOPS),
    happened: |run| both_had_it(run, 0),
};

#[test]
fn an_old_master_that_stops_in_time_makes_no_two_holders() {
    STOPPED.holds(1);
}

#[test]
fn without_a_longer_quarantine_of_promoted_nodes_it_makes_two_holders() {
    STOPPED.mostly_breaks(&[Mechanism::PromotionsOutlastOldMasters], &["exclusion"]);
}

const HOLDER_WITH_REPLICA: Scenario = Scenario {
    runs: 20,
    plan: |seed| parted(seed, WITH_REPLICA, STOPS),
    happened: |run| both_had_it(run, 1),
};

#[test]
fn a_holder_with_the_promoted_replica_loses_the_lock_before_the_old_master_grants_it() {
    HOLDER_WITH_REPLICA.holds(1);
}

#[test]
fn without_waiting_for_the_old_master_a_promoted_node_makes_two_holders() {
    HOLDER_WITH_REPLICA.mostly_breaks(&[Mechanism::HoldersOutlastOldMasters], &["exclusion"]);
}
