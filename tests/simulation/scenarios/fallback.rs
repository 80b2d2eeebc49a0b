//! Clients that fall back to the first node, and what happens to that node while somebody holds a lock
//! there alone.

use super::*;

/// When the first client wants the lock, and something happens to the first node; and when the others come
/// back for the second client.
const WANTED: Duration = seconds(3);
const HARMED: Duration = seconds(5);
const BACK: Duration = seconds(6);

/// Both clients reach nothing but the first node for a while. The first one falls back to it and keeps the
/// lock; it never reaches the others again. The second one does, and wants the lock all the time.
fn harmed(seed: u64, harm: Fault, lasts: Duration) -> Plan {
    let fall_back_after = Some(ms(500));
    let holder = Setup { fall_back_after, ..client(seconds(5), Habit::KeepsFrom(WANTED)) };
    let other = Setup { habit: Habit::Contends, ..holder };
    let mut plan = calm(seed, 3, &[holder, other]);
    let mut chance = Chance::new(seed);
    plan.faults = vec![
        fault(seconds(2), seconds(20), Fault::Isolated { client: 0, split: 1 }),
        fault(seconds(2), BACK, Fault::Isolated { client: 1, split: 1 }),
    ];
    let harmed = HARMED + chance.ms(0..500);
    plan.faults.push(fault(harmed, harmed + lasts, harm));
    plan
}

/// The first client has fallen back, and the second one is granted nothing before all is healed.
fn the_holder_is_respected(run: &Run) -> bool {
    let held = run.grants.iter().any(|grant| grant.client == 0 && grant.at < HARMED);
    let first = first_grant(run, 1, HARMED);
    held && tells(run, "client 0", "falls back") && first.is_none_or(|first| first > seconds(20))
}

const RESTARTS: Scenario = Scenario {
    runs: 30,
    plan: |seed| harmed(seed, Fault::Amnesia { node: 0 }, ms(20)),
    happened: the_holder_is_respected,
};

const IS_FLUSHED: Scenario = Scenario {
    runs: 30,
    plan: |seed| harmed(seed, Fault::Flushed { node: 0 }, ms(20)),
    happened: the_holder_is_respected,
};

const IS_FULL: Scenario = Scenario {
    runs: 30,
    plan: |seed| harmed(seed, Fault::Full { node: 0 }, seconds(13)),
    happened: the_holder_is_respected,
};

const CLOCK_JUMPS: Scenario = Scenario {
    runs: 30,
    plan: |seed| harmed(seed, Fault::ClockJumps { node: 0, by: seconds(60) }, ms(20)),
    happened: |run| tells(run, "client 0", "falls back"),
};

/// The first node is away for so long that clients pause between their tries to connect; and the others come
/// back for the second client when it is up again, or a moment later.
fn away(seed: u64) -> Plan {
    let mut plan = harmed(seed, Fault::Amnesia { node: 0 }, seconds(3));
    plan.setups.iter_mut().for_each(|setup| setup.ttl = seconds(10));
    plan.ttl = seconds(10);
    let up = plan.faults[2].at + plan.faults[2].lasts;
    let back = up + Chance::new(seed ^ 0xbac).ms(5..300);
    plan.faults[1].lasts = back - plan.faults[1].at;
    plan
}

const IS_AWAY: Scenario = Scenario { runs: 30, plan: away, happened: the_holder_is_respected };

const PASSED_OVER: &[Mechanism] = &[Mechanism::FirstNodeIsTried];

const OUTVOTED: &[Mechanism] = &[Mechanism::FirstNodeMustGrant];

#[test]
fn a_majority_does_not_outvote_a_first_node_that_restarts() {
    RESTARTS.holds(1);
}

#[test]
fn without_its_grant_a_majority_outvotes_a_first_node_that_restarts() {
    RESTARTS.mostly_breaks(OUTVOTED, &["exclusion"]);
}

#[test]
fn a_pause_between_tries_does_not_pass_over_a_first_node_that_is_back() {
    IS_AWAY.holds(1);
}

#[test]
fn without_a_try_a_pause_passes_over_a_first_node_that_is_back() {
    IS_AWAY.breaks(PASSED_OVER, &["exclusion"]);
}

#[test]
fn a_majority_does_not_outvote_a_first_node_that_is_flushed() {
    IS_FLUSHED.holds(2);
}

#[test]
fn without_its_grant_a_majority_outvotes_a_first_node_that_is_flushed() {
    IS_FLUSHED.mostly_breaks(OUTVOTED, &["exclusion"]);
}

#[test]
fn a_majority_does_not_outvote_a_first_node_that_is_full() {
    IS_FULL.holds(2);
}

#[test]
fn without_its_grant_a_majority_outvotes_a_first_node_that_is_full() {
    IS_FULL.mostly_breaks(OUTVOTED, &["exclusion"]);
}

#[test]
fn a_majority_does_not_outvote_a_first_node_whose_clock_jumps() {
    CLOCK_JUMPS.holds(1);
}

#[test]
fn without_its_grant_a_majority_outvotes_a_first_node_whose_clock_jumps() {
    CLOCK_JUMPS.mostly_breaks(OUTVOTED, &["exclusion"]);
}
