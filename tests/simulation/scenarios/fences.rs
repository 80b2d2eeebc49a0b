//! Fences expire, while clocks are set and nodes forget. Processes come one after the other: each takes the lock
//! once, and ends. So a process knows earlier numbers only from the nodes, or from their clocks.

use super::*;

/// Life of a process: longer than a node is in quarantine.
const LIFE: Duration = seconds(40);
/// Time that is longer than the life of any fence in these runs, by any clock, if its lock is not taken again.
const EXPIRED: Duration = seconds(640);
/// Time after which every fence is still there.
const KEPT: Duration = seconds(480);

/// Settings for a set of `nodes`, and locks of that TTL.
fn setup(nodes: usize, ttl: Duration, habit: Habit) -> Setup {
    // Nodes are probed seldom, since the runs are long.
    Setup { nodes, clock_tolerance: seconds(2), ..client(ttl, habit) }
}

/// Lets processes live one after the other, the first one for `first`, the others for [`LIFE`]. `between` returns the
/// pause before the next process, and the faults in it, each with its time after the end of the last process.
fn one_after_the_other(
    mut plan: Plan,
    visits: usize,
    first: Duration,
    mut between: impl FnMut(usize) -> (Duration, Vec<(Duration, Fault)>),
) -> Plan {
    // Clocks drift apart by less than the tolerance in the time in which no process notes it.
    plan.rates_ppm.iter_mut().for_each(|rate| *rate /= 9);
    let clients = plan.callers.len();
    let mut gone = vec![Duration::ZERO; clients];
    let (mut now, mut faults) = (Duration::ZERO, Vec::new());
    for visit in 0..visits {
        let client = visit % clients;
        if visit > 0 {
            let (pause, happens) = between(visit);
            faults.extend(happens.into_iter().map(|(after, fault)| at(now + after, fault)));
            now += pause;
            faults.push(fault(gone[client], now, Fault::Crashed { client }));
        }
        now += if visit == 0 { first } else { LIFE };
        gone[client] = now;
    }
    for (client, gone) in gone.into_iter().enumerate() {
        faults.push(fault(gone, now + ms(1), Fault::Crashed { client }));
    }
    plan.faults = faults;
    plan
}

/// Processes that take the lock for a moment, each with a TTL of its own.
fn visitors(seed: u64, nodes: usize) -> Plan {
    let habit = Habit::Visits(seconds(3_600));
    let setups = [8, 12, 20].map(|ttl| setup(nodes, seconds(ttl), habit));
    calm(seed, nodes, &setups)
}

fn set_back(nodes: usize, after: Duration, by: Duration) -> Vec<(Duration, Fault)> {
    (0..nodes).map(|node| (after, Fault::WallClockBack { node, by })).collect()
}

/// Number of grants, and number of those that came so late that no earlier fence was left.
fn grants(run: &Run) -> (usize, usize) {
    let late = run.grants.windows(2).filter(|pair| pair[1].at - pair[0].at > EXPIRED);
    (run.grants.len(), late.count())
}

/// One node at a time forgets, or has its clock set, forwards or back, by less or more than ten minutes.
const SINGLE_NODES: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let mut plan = visitors(seed, 3);
        plan.time_goes_on = true;
        let mut chance = Chance::new(seed);
        one_after_the_other(plan, 9, LIFE, |_| {
            let pause = chance.pick(&[seconds(30), KEPT, EXPIRED, EXPIRED * 2]);
            let (node, by) = (chance.below(3), chance.ms(60_000..1_200_000));
            let happens = match chance.below(5) {
                0 => Some(Fault::Amnesia { node }),
                1 => Some(Fault::Flushed { node }),
                2 => Some(Fault::ClockJumps { node, by }),
                3 => Some(Fault::WallClockBack { node, by }),
                _ => None,
            };
            (pause, happens.map(|fault| (pause / 2, fault)).into_iter().collect())
        })
    },
    happened: |run| {
        let (all, late) = grants(run);
        all >= 9 && late > 0
    },
};

/// All clocks are set back: by up to an hour while the fences are there, and by less than ten minutes once they
/// have expired.
const ALL_CLOCKS: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let mut chance = Chance::new(seed);
        let nodes = chance.pick(&[1, 3]);
        one_after_the_other(visitors(seed, nodes), 9, LIFE, |visit| {
            // In turn, fences are still there, or have expired.
            let (pause, most_ms) =
                if visit % 2 == 1 { (KEPT, 3_600_000) } else { (EXPIRED, 590_000) };
            (pause, set_back(nodes, pause - seconds(1), chance.ms(60_000..most_ms)))
        })
    },
    happened: |run| {
        let (all, late) = grants(run);
        all >= 9 && late >= 3
    },
};

/// A lock is held for about as long as an unrefreshed fence lives, and given back before it is renewed again. Then
/// all clocks are set back, to before it was granted.
const LONG_HELD: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let held = Chance::new(seed).ms(618_000..632_000);
        let holder = setup(3, seconds(20), Habit::Works(held));
        let next = setup(3, seconds(8), Habit::Visits(seconds(3_600)));
        let plan = calm(seed, 3, &[holder, next]);
        one_after_the_other(plan, 2, held + seconds(5), |_| {
            (KEPT, set_back(3, seconds(60), held + KEPT + seconds(60)))
        })
    },
    happened: |run| grants(run).0 >= 2,
};

/// A limit of the guarantee: the clock of a single server is set back by an hour, and no earlier fence is left.
const AN_HOUR_BACK: Scenario = Scenario {
    runs: 10,
    plan: |seed| {
        one_after_the_other(visitors(seed, 1), 2, LIFE, |_| {
            (EXPIRED, set_back(1, EXPIRED - seconds(1), seconds(3_600)))
        })
    },
    happened: |_| true,
};

#[test]
fn tokens_rise_beyond_fences_while_single_nodes_forget_and_have_their_clocks_set() {
    SINGLE_NODES.holds(1);
}

#[test]
fn without_the_sets_time_tokens_fall_once_fences_have_expired() {
    SINGLE_NODES.mostly_breaks(&[Mechanism::FenceClockFloor], &["tokens"]);
}

#[test]
fn tokens_rise_while_all_clocks_are_set_back_by_less_than_fences_outlive_their_locks() {
    ALL_CLOCKS.holds(1);
}

#[test]
fn without_fences_that_outlive_their_locks_tokens_fall() {
    ALL_CLOCKS.mostly_breaks(&[Mechanism::FencesOutliveLocks], &["tokens"]);
}

/// After the clocks were set back, numbers are ahead of the time. Their fence must live until the time has caught up.
#[test]
fn with_fences_that_end_sooner_for_a_later_lock_tokens_fall() {
    let script = Some(("left + 1000 - fence_ttl >= 0", "false"));
    let checkers = &["tokens"];
    ALL_CLOCKS.breaks_under(Switches { script, checkers, ..Switches::ALL_ON });
}

#[test]
fn a_lock_that_is_held_for_long_keeps_its_fence() {
    LONG_HELD.holds(1);
}

#[test]
fn without_refreshing_fences_the_token_after_a_long_lock_falls() {
    let script = Some(("redis.call('PEXPIRE', FENCE, fence_ttl)", ""));
    let checkers = &["tokens"];
    LONG_HELD.breaks_under(Switches { script, checkers, ..Switches::ALL_ON });
}

#[test]
fn a_single_server_that_is_set_back_by_an_hour_gives_smaller_tokens() {
    AN_HOUR_BACK.mostly_breaks(&[], &["tokens"]);
}
