//! A client waits for a lock, and would ask for it by itself only after seconds. Its holder gives it back.

use super::*;
use crate::core::base::Backoff;

/// Times at which the second client wants the lock, and at which its holder gives it back in runs without other trouble.
const WANTED: Duration = seconds(2);
const RELEASED: Duration = seconds(3);

/// Pauses of the waiting client: longer than any lock may take to change hands.
const LONG: Backoff = Backoff { min: seconds(3), max: seconds(5) };

/// The first client gives the lock back at that time, and comes again seconds later.
fn given_back(seed: u64, at: Duration) -> Plan {
    let holder = client(seconds(5), Habit::Keeps);
    let waits = Setup { backoff: LONG, habit: Habit::KeepsFrom(WANTED), ..holder };
    let mut plan = calm(seed, 3, &[holder, waits]);
    // The checker then watches for the lock to be free.
    plan.pair = true;
    plan.latency_ms = 20;
    plan.stragglers = 0;
    plan.faults = vec![fault(at, at + seconds(6), Fault::Dropped { client: 0 })];
    plan
}

/// The waiting client has got the lock soon, and has not had it before.
fn soon_served(run: &Run) -> bool {
    let first = first_grant(run, 1, Duration::ZERO);
    first.is_some_and(|first| WANTED < first && first < RELEASED + ms(600))
}

/// The nodes announce the release to the client.
const TOLD: Scenario =
    Scenario { runs: 20, plan: |seed| given_back(seed, RELEASED), happened: soon_served };

#[test]
fn a_release_wakes_the_one_that_waits() {
    TOLD.holds(1);
}

#[test]
fn without_heeding_what_nodes_tell_a_release_is_slept_through() {
    TOLD.mostly_breaks(&[Mechanism::HeedsReleases], &["waits"]);
}

/// The lock is given back after the client was refused, and before any node has confirmed its subscription. The client is far away,
/// so the time between the two is long enough to be hit in each run.
const SUBSCRIBING: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = given_back(seed, WANTED + Chance::new(seed).ms(100..120));
        let far = |node| Fault::Slow { client: 1, node, by: ms(20) };
        plan.faults.extend((0..3).map(|node| fault(Duration::ZERO, seconds(9), far(node))));
        plan
    },
    happened: soon_served,
};

#[test]
fn a_release_before_the_subscription_is_found() {
    SUBSCRIBING.holds(1);
}

#[test]
fn without_one_more_try_a_release_before_the_subscription_is_slept_through() {
    // The attempt that makes a reservation would find it as well.
    let off = &[Mechanism::TryOnceSubscribed, Mechanism::WaitersReserve, Mechanism::WritesFollow];
    SUBSCRIBING.mostly_breaks(off, &["waits"]);
}

/// The connections over which the nodes announce releases break, and the lock is given back before there are others.
const MISSED: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = given_back(seed, RELEASED);
        plan.faults.push(at(RELEASED - ms(1), Fault::ResetAll { client: 1 }));
        plan
    },
    happened: soon_served,
};

#[test]
fn a_release_between_two_subscriptions_is_found() {
    MISSED.holds(1);
}

#[test]
fn without_one_more_try_a_release_between_two_subscriptions_is_slept_through() {
    MISSED.mostly_breaks(&[Mechanism::TryOnceSubscribed], &["waits"]);
}

/// The holder has its key on two nodes, and its release reaches the one that is asked first. The third node's answers
/// to the waiting client come too late.
const REACHES_ONE: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = given_back(seed, RELEASED);
        let all_the_time = |it| fault(Duration::ZERO, seconds(9), it);
        plan.faults.extend([
            // Otherwise it may announce the waiter's own clean-up to the waiter.
            all_the_time(Fault::SubscribersRefused { node: 2 }),
            all_the_time(Fault::Cut { client: 0, node: 2 }),
            all_the_time(Fault::Slow { client: 1, node: 2, by: ms(20) }),
            fault(RELEASED - ms(1), seconds(9), Fault::Cut { client: 0, node: 0 }),
        ]);
        plan
    },
    happened: soon_served,
};

/// The holder has its key on two nodes, one of which announces releases. The third one is far from the waiting
/// client, or cut off from it. In every other run it announces nothing either.
const TOLD_BY_ONE: Scenario = Scenario {
    runs: 80,
    plan: |seed| {
        let mut plan = given_back(seed, RELEASED);
        let all_the_time = |it| fault(Duration::ZERO, seconds(9), it);
        plan.faults.extend([
            all_the_time(Fault::SubscribersRefused { node: 1 }),
            all_the_time(Fault::Cut { client: 0, node: 2 }),
            all_the_time(match seed / 2 % 6 {
                0 => Fault::Cut { client: 1, node: 2 },
                far => Fault::Slow { client: 1, node: 2, by: ms(20 * far) },
            }),
        ]);
        if seed % 2 == 0 {
            plan.faults.push(all_the_time(Fault::SubscribersRefused { node: 2 }));
        }
        plan
    },
    happened: soon_served,
};

#[test]
fn a_release_that_one_node_tells_is_found() {
    REACHES_ONE.holds(1);
    TOLD_BY_ONE.holds(1);
}

#[test]
fn a_release_that_one_node_tells_is_slept_through_without_counting_those_that_may_be_free() {
    let off = &[Mechanism::SilentNodesMayBeFree, Mechanism::UnheardNodesMayBeFree];
    REACHES_ONE.fails(off);
    TOLD_BY_ONE.breaks(&[Mechanism::UnheardNodesMayBeFree], &["waits"]);
}
