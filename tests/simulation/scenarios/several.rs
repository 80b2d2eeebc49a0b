//! Clients that want several of ten names at once, chosen anew each time, and want the next ones immediately.

use super::*;

const CLIENTS: usize = 8;
const NAMES: usize = 10;
const EACH: usize = 3;

/// Duration of the contention.
fn lasts() -> Duration {
    if is_long() { seconds(60) } else { seconds(20) }
}

fn eight(seed: u64) -> Plan {
    // Their TTLs and node timeouts differ, and so do all clocks.
    let setups: [Setup; CLIENTS] = std::array::from_fn(|i| Setup {
        node_timeout: ms(150 + 25 * (i as u64 % 3)),
        ..client(seconds(4 + i as u64 % 4), Habit::Picks(EACH, ms(2)))
    });
    let mut plan = calm(seed, 3, &setups);
    (plan.wall_offsets[1], plan.wall_offsets[2]) = (40_000, 7_000_000);
    plan.walls_agree = false;
    plan.names = NAMES;
    plan.lasts = lasts();
    plan
}

/// A fault every two seconds: of a node, of a client, or between them.
fn troubled(seed: u64) -> Plan {
    let mut plan = eight(seed);
    let mut chance = Chance::new(seed);
    let mut from = seconds(1);
    while from + seconds(3) < lasts() {
        let (node, client) = (chance.below(3), chance.below(CLIENTS));
        let what = match chance.below(8) {
            0 => Fault::Down { node },
            1 => Fault::Amnesia { node },
            2 => Fault::Hung { node },
            3 => Fault::Isolated { client, split: 0 },
            4 => Fault::AllRepliesLost { client },
            5 => Fault::Paused { client },
            6 => Fault::Crashed { client },
            _ => Fault::ResetAll { client },
        };
        plan.faults.push(fault(from, from + chance.ms(100..1_500), what));
        from += seconds(2);
    }
    plan
}

/// Number of locks that each client has had.
fn served(run: &Run) -> Vec<usize> {
    let of = |client| run.grants.iter().filter(|grant| grant.client == client).count();
    (0..CLIENTS).map(of).collect()
}

/// All clients have had locks more than 100 times a minute, and the least served one at least a third as often as the
/// most served one.
fn all_were_served(run: &Run) -> bool {
    let served = served(run);
    println!("{served:?}");
    let (least, most) = (served.iter().min(), served.iter().max());
    least.zip(most).is_some_and(|(least, most)| {
        least * 3 >= *most && *least as u64 * 60 > 100 * lasts().as_secs()
    })
}

const CALM: Scenario = Scenario { runs: 1, plan: eight, happened: all_were_served };
const TROUBLED: Scenario = Scenario { runs: 2, plan: troubled, happened: all_were_served };

/// Somebody deletes one of the three names of a lock, and another client takes that name. The holder finds out, and gives
/// the other two back.
const DELETED: Scenario = Scenario {
    runs: 10,
    plan: |seed| {
        let setup = |habit| client(seconds(15), habit);
        let setups = [setup(Habit::Picks(3, seconds(3_600))), setup(Habit::KeepsFrom(seconds(4)))];
        let mut plan = calm(seed, 3, &setups);
        (plan.names, plan.deleting) = (3, true);
        plan.faults = vec![at(seconds(5), Fault::Deleted { name: 0 })];
        plan
    },
    happened: |run| {
        tells(run, "client 0", "is told that it is lost")
            && first_grant(run, 1, seconds(5)).is_some()
    },
};

#[test]
fn what_is_left_of_a_lock_with_several_names_is_given_back() {
    DELETED.holds(1);
}

#[test]
fn without_releases_of_parts_the_other_names_stay_taken() {
    DELETED.breaks(&[Mechanism::ReleaseDenied], &["leaks"]);
}

#[test]
fn clients_of_several_names_are_served_alike() {
    CALM.holds(1);
}

#[test]
fn clients_of_several_names_are_served_alike_among_faults() {
    TROUBLED.holds(1);
}
