//! Callers of one fair lock, in several processes.

use super::*;

/// About four round trips: two of the earlier caller, and two of the later one, of which some may be quick.
const APART: Duration = ms(16);

/// Four clients of four threads each, which differ in TTL, node timeout and clocks, and start one after the other.
fn sixteen(seed: u64) -> Plan {
    let setups: [Setup; 4] = std::array::from_fn(|i| Setup {
        node_timeout: ms(150 + 50 * i as u64),
        ..client(seconds(3 + i as u64), Habit::Queues(ms(10 + 10 * i as u64)))
    });
    let mut plan = calm(seed, 3, &setups);
    (plan.wall_offsets[1], plan.wall_offsets[2]) = (40_000, 7_000_000);
    plan.walls_agree = false;
    plan.callers = vec![4; 4];
    // No message takes much longer than usual, because a slow request would get a late place.
    plan.stragglers = 0;
    plan.order = Some(APART);
    plan.lasts = seconds(10);
    plan
}

fn all_had_it(run: &Run) -> bool {
    (0..4).all(|one| run.grants.iter().filter(|grant| grant.client == one).count() > 20)
}

const SIXTEEN: Scenario = Scenario { runs: 6, plan: sixteen, happened: all_had_it };

/// As `sixteen`. Two processes are killed while their threads wait, and a master restarts empty.
fn killed(seed: u64) -> Plan {
    let mut plan = sixteen(seed);
    plan.faults = vec![
        fault(seconds(2), seconds(6), Fault::Crashed { client: 1 }),
        fault(seconds(3), seconds(4), Fault::Amnesia { node: (seed % 3) as usize }),
        fault(seconds(7), seconds(9), Fault::Crashed { client: 2 }),
    ];
    plan.lasts = seconds(14);
    plan
}

const KILLED: Scenario = Scenario {
    runs: 10,
    plan: killed,
    happened: |run| all_had_it(run) && tells(run, "client 1", "killed"),
};

/// As `sixteen`. While one master is down, a client reaches only one of the two others. It is the first one on that
/// node again and again, if it does not give up its place.
fn half_cut_off(seed: u64) -> Plan {
    let mut plan = sixteen(seed);
    let (from, until) = CUT_OFF;
    plan.faults = vec![
        fault(from, until, Fault::Down { node: 2 }),
        fault(from, until, Fault::Isolated { client: 1, split: 1 }),
    ];
    plan.lasts = seconds(14);
    // The client loses its place by that.
    plan.order = None;
    plan
}

const CUT_OFF: (Duration, Duration) = (seconds(2), seconds(12));

/// Once the client's entries on the other nodes have expired, the other clients have the lock as before.
fn others_go_on(run: &Run) -> bool {
    let (from, until) = (CUT_OFF.0 + seconds(4), CUT_OFF.1);
    let others = run.grants.iter().filter(|grant| grant.client != 1);
    others.filter(|grant| (from..until).contains(&grant.at)).count() > 60
}

const HALF_CUT_OFF: Scenario = Scenario { runs: 6, plan: half_cut_off, happened: others_go_on };

/// As `half_cut_off`, but that master is up, and in quarantine all the time. The client reaches it as well, so that
/// it hears of a majority.
fn half_cut_off_in_quarantine(seed: u64) -> Plan {
    let mut plan = half_cut_off(seed);
    let (from, until) = CUT_OFF;
    plan.faults = vec![
        fault(from - ms(1_000), from - ms(900), Fault::Amnesia { node: 1 }),
        fault(from, until, Fault::Isolated { client: 1, split: 2 }),
    ];
    plan
}

const HALF_CUT_OFF_IN_QUARANTINE: Scenario =
    Scenario { plan: half_cut_off_in_quarantine, ..HALF_CUT_OFF };

#[test]
fn a_caller_that_is_half_cut_off_blocks_nobody() {
    HALF_CUT_OFF.holds(1);
    HALF_CUT_OFF_IN_QUARANTINE.holds(1);
}

#[test]
fn without_giving_up_its_place_it_does() {
    let kept = Switches {
        off: &[Mechanism::TicketsNeedMajority],
        checkers: &["exclusion"],
        ..Switches::ALL_ON
    };
    HALF_CUT_OFF_IN_QUARANTINE.fails_under(kept);
}

/// A caller waits for a lock that is held. Then too few nodes can be reached for a while, and callers of another
/// client come. None of them finds the first caller in the queues.
fn outage(seed: u64) -> Plan {
    let setups = [seconds(8), ms(20), ms(20)]
        .map(|time| Setup { node_timeout: ms(150), ..client(seconds(5), Habit::Queues(time)) });
    let mut plan = calm(seed, 3, &setups);
    plan.callers = vec![1, 1, 6];
    // The others ask sooner than this client once the nodes are back.
    plan.setups[1].backoff = crate::core::base::Backoff { min: ms(400), max: ms(800) };
    // The client may connect late by chance, and does not give up.
    plan.setups[1].no_quorum_timeout = seconds(10);
    let (from, until) = (seconds(3), ms(5_500));
    plan.faults = vec![
        fault(Duration::ZERO, seconds(1), Fault::Crashed { client: 1 }),
        fault(Duration::ZERO, seconds(4), Fault::Crashed { client: 2 }),
    ];
    for (client, node) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
        plan.faults.push(fault(from, until, Fault::Cut { client, node }));
    }
    plan
}

fn first_is_first(run: &Run) -> bool {
    let [holds, waits, comes] = [0, 1, 2].map(|client| first_grant(run, client, Duration::ZERO));
    holds < waits && waits < comes && waits > Some(seconds(6))
}

const OUTAGE: Scenario = Scenario { runs: 40, plan: outage, happened: first_is_first };

#[test]
fn a_caller_that_waited_before_an_outage_is_first_after_it() {
    OUTAGE.holds(1);
}

#[test]
fn without_keeping_its_ticket_it_is_overtaken() {
    OUTAGE.fails(&[Mechanism::TicketsAreKept]);
}

#[test]
fn callers_get_a_fair_lock_in_the_order_in_which_they_came() {
    SIXTEEN.holds(1);
}

#[test]
fn so_they_do_while_others_are_killed_and_a_master_forgets_its_queue() {
    KILLED.holds(1);
}

#[test]
fn a_node_that_grants_another_than_its_lowest_ticket_is_found() {
    let any = Switches {
        script: Some(("local is_behind = first and first ~= QUEUED", "local is_behind = false")),
        checkers: &["order"],
        ..Switches::ALL_ON
    };
    SIXTEEN.breaks_under(any);
}

#[test]
fn a_ticket_that_changes_when_it_is_asked_for_again_is_found() {
    SIXTEEN.breaks(&[Mechanism::TicketsStay, Mechanism::TicketsAreKept], &["order"]);
}
