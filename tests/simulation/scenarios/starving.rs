//! Callers that would starve in plain order. Each of them gets its lock in a time that follows from the length of other holds.

use super::*;

/// Clients whose threads want locks again and again, each client with so many threads. No caller waits for longer than
/// `longest_wait`. TTLs, node timeouts and pauses differ, the nodes' clocks are hours apart, and one client begins late.
fn mix(seed: u64, clients: &[(usize, Loop)], longest_wait: Duration) -> Plan {
    let loops = (0_u64..).zip(clients).map(|(i, (_, wanted))| {
        let backoff =
            crate::core::base::Backoff { min: ms(5 + 5 * (i % 3)), max: ms(100 + 200 * (i % 3)) };
        let node_timeout = ms(150 + 50 * (i % 4));
        Setup { node_timeout, backoff, ..client(seconds(3 + i % 3), Habit::Loops(*wanted)) }
    });
    let mut plan = calm(seed, 3, &loops.collect::<Vec<_>>());
    plan.callers = clients.iter().map(|(callers, _)| *callers).collect();
    plan.names = 3;
    plan.permits = 4;
    plan.setups.iter_mut().for_each(|setup| setup.permits = 4);
    plan.local_queues = true;
    (plan.latency_ms, plan.stragglers) = (1, 0);
    plan.lasts = seconds(4);
    plan.longest_wait = Some(longest_wait);
    (plan.wall_offsets, plan.walls_agree) = (vec![0, 3 * 3_600_000, 9 * 3_600_000], false);
    let late = seed as usize % clients.len();
    plan.faults = vec![fault(Duration::ZERO, ms(300), Fault::Crashed { client: late })];
    plan
}

/// The same loop, with a rest of one second after each hold.
const fn seldom(wanted: Loop) -> Loop {
    Loop { rests: seconds(1), ..wanted }
}

/// Number of locks that were granted to that client.
fn grants(run: &Run, client: usize) -> usize {
    run.grants.iter().filter(|grant| grant.client == client).count()
}

/// Number of locks that were granted to anybody between these times.
fn grants_within(run: &Run, from: Duration, until: Duration) -> usize {
    run.grants.iter().filter(|grant| (from..until).contains(&grant.at)).count()
}

const MUTEX_A: Loop = Loop::of("mutex", 0b001);
const MUTEX_A_OR_B: Loop = Loop::of("mutex", 0b011);
const A_AND_B: Loop = Loop::of("multi_mutex", 0b011);
const B_AND_C: Loop = Loop::of("multi_mutex", 0b110);
const A_AND_C: Loop = Loop::of("multi_mutex", 0b101);
const READ_A: Loop = Loop::of("read", 0b001);
const WRITE_A: Loop = Loop::of("write", 0b001);
const ONE_PERMIT: Loop = Loop::of("semaphore", 0b001);
const ALL_PERMITS: Loop = Loop { permits: 4, ..ONE_PERMIT };

/// Five threads of one client take two names one by one, and another client wants both.
const BOTH_NAMES: Scenario = Scenario {
    runs: 8,
    plan: |seed| mix(seed, &[(5, MUTEX_A_OR_B), (1, seldom(A_AND_B))], ms(500)),
    happened: |run| grants(run, 1) >= 3 && grants(run, 0) > 500,
};

#[test]
fn a_caller_of_both_names_gets_in_beside_threads_that_take_them_one_by_one() {
    BOTH_NAMES.holds(1);
}

#[test]
fn without_reservations_a_caller_of_both_names_starves() {
    BOTH_NAMES.mostly_breaks(&[Mechanism::WaitersReserve], &["waits"]);
}

/// Three pairs of three names, and other callers that take the names one by one.
const PAIRS: Scenario = Scenario {
    runs: 8,
    plan: |seed| {
        let singles = Loop::of("mutex", 0b111);
        let clients = [(3, singles), (3, singles), (1, A_AND_B), (1, B_AND_C), (1, A_AND_C)];
        mix(seed, &clients, ms(700))
    },
    happened: |run| (2..5).all(|client| grants(run, client) > 20),
};

#[test]
fn callers_of_overlapping_pairs_get_in() {
    PAIRS.holds(1);
}

/// Two clients read all the time, or take permits, and a third one wants the name for itself.
const BESIDE_SHARERS: Scenario = Scenario {
    runs: 24,
    plan: |seed| {
        let sharers = [READ_A, ONE_PERMIT][seed as usize % 2];
        let exclusive = ["mutex", "reentrant", "fair_mutex"][seed as usize / 2 % 3];
        let wanted = seldom(Loop::of(exclusive, 0b001));
        mix(seed, &[(4, sharers), (4, sharers), (1, wanted)], ms(400))
    },
    happened: |run| grants(run, 2) >= 3,
};

#[test]
fn a_caller_that_wants_the_lock_for_itself_gets_in_beside_those_who_share_it() {
    BESIDE_SHARERS.holds(1);
}

#[test]
fn without_reservations_it_starves_beside_those_who_share_it() {
    BESIDE_SHARERS.mostly_breaks(&[Mechanism::WaitersReserve], &["waits"]);
}

/// Eight callers take one of four permits, and another one wants all of them.
const SEVERAL_PERMITS: Scenario = Scenario {
    runs: 8,
    plan: |seed| mix(seed, &[(4, ONE_PERMIT), (4, ONE_PERMIT), (1, seldom(ALL_PERMITS))], ms(400)),
    happened: |run| grants(run, 2) >= 3,
};

#[test]
fn a_caller_of_all_permits_gets_in_beside_callers_of_one() {
    SEVERAL_PERMITS.holds(1);
}

#[test]
fn without_reservations_a_caller_of_all_permits_starves() {
    SEVERAL_PERMITS.mostly_breaks(&[Mechanism::WaitersReserve], &["waits"]);
}

/// A process with a new number of permits, next to two with the old one, whose holds overlap all the time.
const NEW_NUMBER: Scenario = Scenario {
    runs: 8,
    plan: |seed| {
        let mut plan =
            mix(seed, &[(8, ONE_PERMIT), (8, ONE_PERMIT), (1, seldom(ONE_PERMIT))], ms(400));
        plan.setups[2].permits = 3;
        plan.lasts = ms(2_500);
        plan
    },
    happened: |run| grants(run, 2) >= 2 && grants(run, 0) > 200,
};

#[test]
fn a_caller_with_a_new_number_of_permits_gets_in_beside_callers_with_the_old_one() {
    NEW_NUMBER.holds(1);
}

#[test]
fn without_reservations_a_caller_with_a_new_number_of_permits_starves() {
    NEW_NUMBER.mostly_breaks(&[Mechanism::WaitersReserve], &["waits"]);
}

/// Callers of all kinds want one name.
const ALL_KINDS: Scenario = Scenario {
    runs: 8,
    plan: |seed| {
        let clients = [
            (2, READ_A),
            (2, WRITE_A),
            (2, MUTEX_A),
            (1, Loop::of("reentrant", 0b001)),
            (2, Loop::of("fair_mutex", 0b001)),
            (2, ONE_PERMIT),
            (1, A_AND_B),
        ];
        mix(seed, &clients, ms(1_000))
    },
    happened: |run| (0..7).all(|client| grants(run, client) > 5),
};

#[test]
fn callers_of_all_kinds_get_the_same_name() {
    ALL_KINDS.holds(1);
}

/// Four clients with a caller of each kind. Each client wants a different three of four names.
const FOUR_NAMES: Scenario = Scenario {
    runs: 8,
    plan: |seed| {
        let of = |client: u32| (7, Loop::of_each_kind(0b1111 & !(1 << client)));
        let mut plan = mix(seed, &[of(0), of(1), of(2), of(3)], ms(600));
        plan.names = 4;
        plan.lasts = seconds(2);
        plan
    },
    happened: |run| (0..4).all(|client| grants(run, client) > 100),
};

#[test]
fn callers_of_all_kinds_get_four_names() {
    FOUR_NAMES.holds(1);
}

/// The first caller in the queue of a fair lock gives back its keys on too few nodes. Callers of other kinds were
/// refused because of these keys, and no queue calls them.
#[test]
fn a_release_that_tells_nobody_but_the_queue_is_slept_through() {
    let tells = "redis.pcall('PUBLISH', CHANNEL, first ==";
    let tells_no_others = "local _ = first ~= QUEUED and redis.pcall('PUBLISH', CHANNEL, first ==";
    FOUR_NAMES.breaks_under(Switches {
        script: Some((tells, tells_no_others)),
        checkers: &["waits"],
        ..Switches::ALL_ON
    });
}

#[test]
fn without_withdrawals_some_kind_waits_for_long() {
    ALL_KINDS.mostly_breaks(&[Mechanism::ReservationsAreWithdrawn], &["waits"]);
}

/// One client reads for long. A writer comes now and then, and gives up soon: its deadline is over, or it is cancelled. Another
/// client reads now and then.
const GIVES_UP: Scenario = Scenario {
    runs: 8,
    plan: |seed| {
        let reads = Loop { holds: seconds(3), ..READ_A };
        let cancels = seed.is_multiple_of(2);
        let writes = Loop { patience: Some(ms(30)), cancels, rests: ms(1_500), ..WRITE_A };
        let visits = Loop { rests: ms(50), ..READ_A };
        mix(seed, &[(2, reads), (1, writes), (1, visits)], ms(500))
    },
    happened: |run| grants(run, 2) > 20,
};

#[test]
fn a_writer_that_gives_up_keeps_no_reader_out() {
    GIVES_UP.holds(1);
}

#[test]
fn without_withdrawals_a_writer_that_gave_up_keeps_readers_out() {
    GIVES_UP.mostly_breaks(&[Mechanism::ReservationsAreWithdrawn], &["waits"]);
}

/// As `GIVES_UP`, and the writers' client is closed or killed. Nodes remember a killed writer for 2 s. A caller
/// behind it waits that long, and for earlier callers: a writer waits for reads of 3 s, and a reader waits for such a
/// writer, which may be killed at the end of its own wait.
const KILLED: Scenario = Scenario {
    runs: 8,
    plan: |seed| {
        let mut chance = Chance::new(seed);
        let mut plan = (GIVES_UP.plan)(seed);
        plan.setups[1].habit = Habit::Loops(WRITE_A);
        plan.longest_wait = Some(ms(5_300));
        let mut from = ms(500);
        while from < plan.lasts {
            let which = chance.pick(&[Fault::Crashed { client: 1 }, Fault::Dropped { client: 1 }]);
            let until = from + chance.ms(10..300);
            plan.faults.push(fault(from, until, which));
            from = until + chance.ms(10..800);
        }
        plan
    },
    happened: |run| grants(run, 2) > 2,
};

#[test]
fn a_writer_that_is_killed_keeps_others_out_for_as_long_as_nodes_remember_it() {
    KILLED.holds(1);
}

/// A client that waits for its lock reaches one node only, for as long as the run lasts. Another node is down, so the
/// other clients need the node that it reaches. Nodes remember its reservation for 2 s.
const ONE_NODE_LEFT: Scenario = Scenario {
    runs: 16,
    plan: |seed| {
        let wants = [WRITE_A, READ_A, MUTEX_A, ALL_PERMITS][seed as usize % 4];
        let waits = Loop { holds: ms(30), ..wants };
        let others = [(2, MUTEX_A), (2, Loop::of("fair_mutex", 0b001)), (1, WRITE_A)];
        let mut plan = mix(seed, &[&[(2, waits)], &others[..]].concat(), ms(3_500));
        plan.setups[0].no_quorum_timeout = seconds(60);
        plan.lasts = seconds(14);
        plan.faults = vec![
            fault(seconds(1), seconds(14), Fault::Isolated { client: 0, split: 1 }),
            fault(seconds(1), seconds(14), Fault::Down { node: 2 }),
        ];
        plan
    },
    happened: |run| grants_within(run, seconds(4), seconds(14)) > 900,
};

#[test]
fn a_client_that_reaches_no_majority_keeps_nobody_out() {
    ONE_NODE_LEFT.holds(1);
}

#[test]
fn without_a_majority_a_reservation_keeps_others_out() {
    ONE_NODE_LEFT.fails(&[Mechanism::ReservationsNeedQuorum]);
}

/// Times at which a process is cut off, and the time from then until it goes on.
const CUT_OFF: [Duration; 5] = [seconds(1), seconds(6), seconds(11), seconds(16), seconds(21)];
const GOES_ON_AFTER: Duration = ms(3_500);

/// A process of eight callers is cut off, and stopped until 3.5 s are over, five times. When it goes on, it finds
/// answers that took as long. Its holds are short, so it is asking for the lock at many of these times.
const STOPPED: Scenario = Scenario {
    runs: 16,
    plan: |seed| {
        let mut chance = Chance::new(seed);
        let waits = Loop { holds: ms(3), rests: ms(1), ..WRITE_A };
        let others = [(2, MUTEX_A), (2, READ_A), (1, WRITE_A), (2, ONE_PERMIT)];
        let mut plan = mix(seed, &[&[(8, waits)], &others[..]].concat(), seconds(6));
        plan.setups.iter_mut().for_each(|setup| setup.node_timeout = ms(500));
        (plan.lasts, plan.latency_ms) = (seconds(26), 2);
        plan.faults.clear();
        for from in CUT_OFF {
            let cut_off = Fault::Isolated { client: 0, split: chance.below(2) };
            plan.faults.push(fault(from, from + chance.ms(200..800), cut_off));
            let stopped = Fault::Paused { client: 0 };
            plan.faults.push(fault(from + chance.ms(100..900), from + GOES_ON_AFTER, stopped));
        }
        plan
    },
    happened: |run| {
        let goes_on = CUT_OFF.map(|from| from + GOES_ON_AFTER);
        let counts = goes_on.map(|from| grants_within(run, from, from + ms(1_400)));
        counts.iter().all(|count| *count > 100)
    },
};

#[test]
fn a_process_that_was_stopped_keeps_nobody_out_when_it_goes_on() {
    STOPPED.holds(1);
}

#[test]
fn without_these_rules_a_process_that_was_stopped_keeps_others_out() {
    STOPPED.fails(&[
        Mechanism::WritesFollow,
        Mechanism::VagueBoundsAreReplaced,
        Mechanism::FirstCallersReserve,
        Mechanism::ReservationsNeedQuorum,
    ]);
}

/// A node whose clock was set back keeps the key of a dead holder for longer than the other nodes. Contenders prefer
/// that node.
const STALE_KEY: Scenario = Scenario {
    runs: 4,
    plan: |seed| {
        let keeps = Loop { holds: seconds(3_600), ..MUTEX_A };
        let clients = [(1, keeps), (1, MUTEX_A), (2, MUTEX_A), (1, MUTEX_A)];
        let mut plan = mix(seed, &clients, seconds(8));
        plan.lasts = seconds(12);
        let back = Fault::WallClockBack { node: 1, by: seconds(60) };
        plan.faults = vec![fault(seconds(1), ms(1_001), back)];
        plan.faults.push(fault(seconds(1), seconds(20), Fault::Crashed { client: 0 }));
        for client in 1..4 {
            plan.faults.push(fault(Duration::ZERO, ms(500), Fault::Crashed { client }));
        }
        plan
    },
    happened: |run| (1..4).all(|client| grants(run, client) > 350),
};

#[test]
fn a_node_that_keeps_a_key_for_too_long_keeps_nobody_waiting() {
    STALE_KEY.holds(1);
}

#[test]
fn a_preferred_node_that_keeps_a_key_for_too_long_makes_callers_starve() {
    STALE_KEY.fails(&[Mechanism::SilentNodesAreNotPreferred]);
}

/// One name is held for long. A client wants it together with a second one, which others want all the time.
const LONG_HOLD: Scenario = Scenario {
    runs: 4,
    plan: |seed| {
        let keeps = Loop { holds: seconds(3_600), ..MUTEX_A };
        let mut plan = mix(
            seed,
            &[
                (1, keeps),
                (2, Loop::of("mutex", 0b010)),
                (1, Loop { patience: Some(seconds(15)), ..A_AND_B }),
            ],
            seconds(16),
        );
        plan.lasts = seconds(14);
        plan
    },
    happened: |run| run.longest_waits[&1] < seconds(9),
};

#[test]
fn a_long_hold_of_one_name_closes_the_others_for_a_while_only() {
    LONG_HOLD.holds(1);
}

#[test]
fn without_rests_a_long_hold_of_one_name_closes_the_others() {
    LONG_HOLD.fails(&[Mechanism::ReservationsRest]);
}
