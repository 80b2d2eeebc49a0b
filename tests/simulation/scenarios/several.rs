//! Clients that want several of ten names at once, others each time, and want the next ones at once.

use super::*;

const CLIENTS: usize = 8;
const NAMES: usize = 10;
const EACH: usize = 3;
const LASTS: Duration = seconds(60);

fn eight(seed: u64) -> Plan {
    let setups = [client(seconds(5), Habit::Picks(EACH, ms(2))); CLIENTS];
    let mut plan = calm(seed, 3, &setups);
    plan.names = NAMES;
    plan.lasts = LASTS;
    plan
}

/// A fault every two seconds: of a node, of a client, or between them.
fn troubled(seed: u64) -> Plan {
    let mut plan = eight(seed);
    let mut chance = Chance::new(seed);
    let mut from = seconds(1);
    while from + seconds(3) < LASTS {
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

/// How often each client had a lock.
fn served(run: &Run) -> Vec<usize> {
    let of = |client| run.grants.iter().filter(|grant| grant.client == client).count();
    (0..CLIENTS).map(of).collect()
}

/// All clients have had locks often, and the least served one a third of the most served one's.
fn all_were_served(run: &Run) -> bool {
    let served = served(run);
    println!("{served:?}");
    let (least, most) = (served.iter().min(), served.iter().max());
    least.zip(most).is_some_and(|(least, most)| least * 3 >= *most && *least > 100)
}

const CALM: Scenario = Scenario { runs: 2, plan: eight, happened: all_were_served };
const TROUBLED: Scenario = Scenario { runs: 4, plan: troubled, happened: all_were_served };

#[test]
fn clients_of_several_names_are_served_alike() {
    CALM.holds(1);
}

#[test]
fn clients_of_several_names_are_served_alike_among_faults() {
    TROUBLED.holds(1);
}
