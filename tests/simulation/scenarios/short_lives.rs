//! All nodes come back empty, and no client lives for as long as their quarantine.

use super::*;

/// Time at which all nodes lose their data, and range in which locks must be granted again: after a quarantine of 30
/// s, by clocks that are nearly right. One client must begin the quarantine, and another one, which checks once a
/// second, must end it.
const EMPTY: Duration = seconds(5);
const READY: std::ops::Range<Duration> = ms(5_000 + 29_700)..ms(5_000 + 31_500);

/// Four clients, each of which is killed every 1 s to 20 s, and started again soon.
const SCENARIO: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let contender = Setup { max_ttl: seconds(30), ..client(seconds(5), Habit::Contends) };
        let mut plan = calm(seed, 3, &[contender; 4]);
        let mut chance = Chance::new(seed);
        plan.faults = (0..3).map(|node| at(EMPTY, Fault::Amnesia { node })).collect();
        for client in 0..4 {
            let mut born = Duration::ZERO;
            while born < seconds(45) {
                let killed = born + chance.ms(1_000..20_000);
                // No client is killed while it may hold the first lock.
                let killed = if READY.contains(&killed) { READY.end } else { killed };
                born = killed + chance.ms(1..300);
                plan.faults.push(fault(killed, born, Fault::Crashed { client }));
            }
        }
        plan
    },
    happened: |run| {
        let first = |client| first_grant(run, client, EMPTY + seconds(1));
        let first = (0..4).filter_map(first).min();
        first.is_some_and(|first| READY.contains(&first))
    },
};

/// The other clients run most of the time, so one of them always sees the end.
#[test]
fn locks_are_granted_again_after_a_quarantine_that_nobody_lived_through() {
    SCENARIO.holds(1);
}

#[test]
fn without_joining_no_lock_is_granted_while_processes_come_and_go() {
    let switches = Switches {
        off: &[Mechanism::QuarantineIsJoined],
        checkers: &["exclusion"],
        ..Switches::ALL_ON
    };
    let late = (0..SCENARIO.runs).find(|seed| {
        let run = world::run(&(SCENARIO.plan)(*seed), switches, false);
        !(SCENARIO.happened)(&run)
    });
    println!("seed {late:?} is late");
    assert!(late.is_some(), "locks are granted in time without it");
}
