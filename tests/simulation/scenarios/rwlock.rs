//! Readers and writers of one name, in several processes.

use super::*;
use crate::core::base::Backoff;

/// Settings of a client with that habit. `ttl` is in seconds, `node_timeout` in milliseconds.
fn habit(ttl: u64, node_timeout: u64, habit: Habit) -> Setup {
    Setup { node_timeout: ms(node_timeout), ..client(seconds(ttl), habit) }
}

/// Sets the nodes' clocks hours apart.
fn hours_apart(plan: Plan) -> Plan {
    Plan { wall_offsets: vec![0, 3 * 3_600_000, 9 * 3_600_000], walls_agree: false, ..plan }
}

/// Two clients with two readers each, and one with a writer, whose TTLs and node timeouts differ. They want the lock all the time.
fn busy(seed: u64) -> Plan {
    let clients = [
        habit(3, 200, Habit::Reads(ms(30))),
        habit(5, 350, Habit::Reads(ms(40))),
        habit(4, 150, Habit::Writes(ms(20))),
    ];
    let mut plan = hours_apart(calm(seed, 3, &clients));
    plan.callers = vec![2, 2, 1];
    plan.local_queues = true;
    plan.lasts = seconds(6);
    plan
}

/// Two clients of two threads each use one lock in all ways that users do, to read and to write.
fn any(seed: u64) -> Plan {
    let clients = [habit(3, 200, Habit::Anything), habit(2, 300, Habit::Anything)];
    let mut plan = hours_apart(calm(seed, 3, &clients));
    plan.callers = vec![2, 2];
    plan.kind = Some("rwlock");
    plan.local_queues = seed.is_multiple_of(2);
    plan.lasts = seconds(15);
    plan
}

fn count(run: &Run, what: &str) -> usize {
    run.story.iter().filter(|line| line.contains(what)).count()
}

const BUSY: Scenario = Scenario {
    runs: 10,
    plan: busy,
    happened: |run| count(run, "read 0: granted") > 20 && count(run, "write 0: granted") > 20,
};

const DOWNGRADED: Scenario =
    Scenario { runs: 60, plan: any, happened: |run| count(run, "is downgraded") > 0 };

/// One client reads for long, and one writes. Their pauses are long, so only releases wake them.
fn patient(seed: u64) -> Plan {
    let backoff = Backoff { min: seconds(2), max: seconds(8) };
    let clients = [
        Setup { backoff, ..habit(3, 200, Habit::Reads(ms(400))) },
        Setup { backoff, ..habit(5, 350, Habit::Writes(ms(20))) },
    ];
    let lasts = seconds(10);
    Plan { lasts, ..hours_apart(calm(seed, 3, &clients)) }
}

const PATIENT: Scenario =
    Scenario { runs: 10, plan: patient, happened: |run| count(run, "write 0: granted") > 24 };

/// Four writers, and a client that reads.
fn writing(seed: u64) -> Plan {
    let clients = [
        habit(3, 200, Habit::Writes(ms(20))),
        habit(5, 350, Habit::Writes(ms(30))),
        habit(4, 150, Habit::Reads(ms(20))),
    ];
    Plan { setups: clients.to_vec(), ..busy(seed) }
}

const WRITING: Scenario = Scenario {
    runs: 10,
    plan: writing,
    // Reads per write: a fifth without the reader's reservations, and a quarter with them.
    happened: |run| count(run, "read 0: granted") * 9 > count(run, "write 0: granted") * 2,
};

/// As [`any`], but requests over present connections are held up now and then, and arrive after later ones.
fn late(seed: u64) -> Plan {
    let mut plan = any(seed);
    let mut chance = Chance::new(seed);
    plan.may_end = vec![true, false];
    let mut from = ms(500);
    while from < plan.lasts {
        let until = from + chance.ms(300..4_000);
        let held = Fault::Held { client: chance.below(2), split: chance.below(3) };
        plan.faults.push(fault(from, until, held));
        from = until + chance.ms(200..2_000);
    }
    plan
}

const LATE: Scenario =
    Scenario { runs: 40, plan: late, happened: |run| count(run, "is downgraded") > 0 };

/// Nobody reads while somebody writes, nobody sleeps through a release, and both get in again and again.
#[test]
fn readers_and_writers_take_turns() {
    BUSY.holds(1);
}

#[test]
fn the_last_reader_wakes_who_waits_to_write() {
    PATIENT.holds(1);
}

#[test]
fn a_reader_gets_in_among_writers() {
    WRITING.holds(1);
}

#[test]
fn threads_read_what_they_write_and_downgrade_it() {
    DOWNGRADED.holds(3);
}

/// Replaces a piece of a script. Only the named `checkers` are active.
fn changed(
    piece: &'static str,
    instead: &'static str,
    checkers: &'static [&'static str],
) -> Switches {
    Switches { script: Some((piece, instead)), checkers, ..Switches::ALL_ON }
}

/// The last request of a holder that a node runs may be an older one.
#[test]
fn requests_that_come_late_leave_no_trace_of_what_was_downgraded() {
    LATE.holds(2);
}

#[test]
fn without_reservations_a_writer_among_readers_starves() {
    BUSY.fails(&[Mechanism::WaitersReserve]);
}

#[test]
fn without_reservations_a_reader_among_writers_starves() {
    WRITING.fails_under(changed(
        "if #WAITER > 34 and",
        "if CLASS ~= 'r' and #WAITER > 34 and",
        &["exclusion"],
    ));
}

#[test]
fn a_write_beside_a_read_that_has_not_ended_is_found() {
    let beside = changed(
        "if (kind ~= 'none' or blocked) and not ours then",
        "if mode == 'write' and not ours then",
        &["exclusion"],
    );
    BUSY.breaks_under(beside);
}

#[test]
fn without_the_last_readers_message_who_waits_to_write_sleeps_on() {
    // The messages to our channel and to Redisson's.
    let piece = "local WORD = written == 1 and '1' or '0'";
    PATIENT.fails_under(changed(
        piece,
        "local CHANNEL, REDISSONS_CHANNEL, WORD = 'none', 'none', ''",
        &["exclusion"],
    ));
}

#[test]
fn without_that_rule_a_thread_that_reads_gets_the_lock_to_write() {
    DOWNGRADED.breaks(&[Mechanism::SharersDoNotUpgrade], &["again"]);
}

/// Clients use a lock in all ways that users do. Requests over present connections are held up now and then, so that
/// extensions arrive after all later requests of their holder. TTLs and time limits for answers differ, and clocks
/// are hours apart. A client begins late, nodes are out of reach of one client for a while, and operators force the
/// lock open.
fn held_up(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ 0x0_1d_3a);
    let setup = |ttl, node_timeout| habit(ttl, node_timeout, Habit::Anything);
    let clients = [setup(8, 150), setup(3, 400), setup(15, 250)];
    let mut plan = hours_apart(calm(seed, 3, &clients));
    plan.callers = vec![2, 1, 1];
    plan.kind = Some("rwlock");
    plan.local_queues = seed.is_multiple_of(2);
    plan.may_end = vec![seed.is_multiple_of(3), true, false];
    plan.lasts = seconds(25);
    let begins = chance.ms(500..5_000);
    plan.faults.push(fault(Duration::ZERO, begins, Fault::Crashed { client: 2 }));
    let mut from = ms(500);
    while from < plan.lasts {
        let until = from + chance.ms(500..4_000);
        let (client, node) = (chance.below(3), chance.below(3));
        plan.faults.push(fault(from, until, Fault::Held { client, split: chance.below(2) }));
        if chance.one_in(2) {
            let until = from + chance.ms(300..3_000);
            plan.faults.push(fault(from, until, Fault::Cut { client, node }));
        }
        if chance.one_in(4) {
            let (at, name) = (from + chance.ms(0..3_000), 0);
            plan.faults.push(super::at(at, Fault::Forced { client: chance.below(3), name }));
        }
        from = until + chance.ms(200..1_000);
    }
    plan
}

const HELD_UP: Scenario =
    Scenario { runs: 20, plan: held_up, happened: |run| count(run, "is downgraded") > 0 };

/// An extension of a write that arrives once its holder reads, or has given the read back, sets no key.
#[test]
fn no_renewal_of_before_restores_a_write_that_was_downgraded() {
    HELD_UP.holds(2);
}

/// A client writes for so long that it renews the lock, downgrades it, reads, and gives it back. Its requests over present
/// connections are held up from the renewal of the write on. They arrive once the read is given back, while nobody has the
/// lock. The other client begins late. It has longer locks, and waits longer for answers. Clocks are hours apart.
fn restored(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ 0x0d_09ad);
    let writes = client(seconds(6), Habit::Downgrades(ms(2_300), ms(500)));
    let late = habit(9, 350, Habit::TriesOnce(seconds(9)));
    let mut plan = hours_apart(calm(seed, 3, &[writes, late]));
    plan.may_end = vec![seed.is_multiple_of(2), true];
    plan.lasts = seconds(10);
    let (from, until) = (chance.ms(1_000..1_950), chance.ms(2_900..4_500));
    plan.faults = vec![
        fault(from, until, Fault::Held { client: 0, split: chance.below(2) }),
        fault(Duration::ZERO, seconds(8), Fault::Crashed { client: 1 }),
    ];
    if chance.one_in(2) {
        // A node that the write does not reach gets the read alone.
        let node = chance.below(3);
        plan.faults.push(fault(Duration::ZERO, ms(700), Fault::Cut { client: 0, node }));
    }
    plan
}

const RESTORED: Scenario = Scenario {
    runs: 40,
    plan: restored,
    happened: |run| tells(run, "extend of client 0", "(in flight)"),
};

/// As `restored`, but the client reads for longer, and an operator forces the lock open meanwhile. The held-up
/// requests arrive after that, and before the client gives the read back.
fn forced(seed: u64) -> Plan {
    let mut plan = restored(seed);
    let mut chance = Chance::new(seed ^ 0xf0_4ced);
    plan.setups[0].habit = Habit::Downgrades(ms(2_300), ms(1_500));
    plan.faults.retain(|it| !matches!(it.fault, Fault::Crashed { .. }));
    plan.faults[0].lasts = chance.ms(2_800..3_600) - plan.faults[0].at;
    plan.faults.push(at(chance.ms(2_400..2_700), Fault::Forced { client: 1, name: 0 }));
    plan
}

const FORCED: Scenario = Scenario {
    runs: 80,
    plan: forced,
    happened: |run| tells(run, "extend of client 0", "(in flight)"),
};

#[test]
fn no_renewal_of_before_restores_a_write_that_was_given_back_as_a_read() {
    RESTORED.holds(4);
}

#[test]
fn no_renewal_of_before_restores_a_write_that_was_taken_by_force_from_who_reads() {
    FORCED.holds(4);
}

/// No client gives back a write that was restored like that.
#[test]
fn without_the_look_at_the_tombstone_an_old_renewal_restores_the_write() {
    let look = "forced = redis.pcall('GET', TOMBSTONE)";
    let not = "forced = false; redis.pcall('GET', TOMBSTONE)";
    RESTORED.breaks_under(changed(look, not, &["late"]));
    FORCED.breaks_under(changed(look, not, &["forced"]));
}

#[test]
fn without_the_tombstone_of_a_downgrade_an_old_renewal_restores_the_write_behind_a_force() {
    FORCED.breaks_under(changed("set(WRITE_TOMBSTONE, '1', lives + OUTLIVES)", "", &["forced"]));
}

/// A node may have got the read, and never the write. It keeps no tombstone of a downgrade.
#[test]
fn without_the_tombstone_of_its_release_an_old_renewal_restores_the_write() {
    let leaves = "redis.call('SET', WRITE_TOMBSTONE, '1', 'PX', TOMBSTONE_TTL)";
    RESTORED.breaks_under(changed(leaves, "", &["late"]));
}

/// A client reads for so long that it renews the lock. For a while it does not reach a node, which it gets with a
/// later renewal. A writer is granted that node first: its way to the second node is slow, and it does not reach the
/// third one. Another reader's way to the second node is slow as well. TTLs and time limits for answers differ, and
/// clocks are hours apart.
fn contested(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ 0xb0_07);
    let clients = [
        habit(1, 200, Habit::Reads(ms(700))),
        habit(3, 400, Habit::Writes(ms(300))),
        habit(5, 250, Habit::Reads(ms(200))),
    ];
    let mut plan = hours_apart(calm(seed, 3, &clients));
    plan.lasts = seconds(12);
    let mut from = ms(300);
    while from < plan.lasts {
        let until = from + chance.ms(1_500..2_500);
        let first = chance.below(3);
        let (second, third) = ((first + 1) % 3, (first + 2) % 3);
        let mended = from + chance.ms(300..1_200);
        let slow = |client, by| Fault::Slow { client, node: second, by };
        plan.faults.extend([
            fault(from, mended, Fault::Cut { client: 0, node: first }),
            fault(from, until, slow(1, chance.ms(50..150))),
            fault(from, until, Fault::Cut { client: 1, node: third }),
            fault(from, until, slow(2, chance.ms(50..120))),
        ]);
        from = until + chance.ms(100..400);
    }
    plan
}

const CONTESTED: Scenario = Scenario {
    runs: 20,
    plan: contested,
    happened: |run| count(run, "write 0: granted") > 2 && count(run, "read 0: granted") > 5,
};

#[test]
fn no_read_is_repaired_into_a_write() {
    CONTESTED.holds(1);
}

const NOT_FREE: &str = "if not is_read and redis.call('TYPE', LOCK).ok ~= 'none' then";

#[test]
fn a_read_that_is_repaired_into_a_write_is_found() {
    CONTESTED.breaks_under(changed(NOT_FREE, "if false then", &["nodes"]));
}

/// Two clients read all the time. Their locks live for 3 s and for 5 s. Two of the three nodes lose their data at once.
fn restarting(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ 0x2e_57a2);
    let reads = Habit::Reads(seconds(3_600));
    let clients = [habit(3, 200, reads), habit(5, 350, reads)];
    let mut plan = hours_apart(calm(seed, 3, &clients));
    plan.lasts = seconds(12);
    let when = chance.ms(4_000..6_000);
    let first = chance.below(3);
    let both = [first, (first + 1) % 3];
    plan.faults = both.map(|node| at(when, Fault::Amnesia { node })).to_vec();
    plan
}

const RESTARTING: Scenario = Scenario {
    runs: 20,
    plan: restarting,
    happened: |run| {
        count(run, "read 0: granted") >= 2 && count(run, "is told that it is lost") == 0
    },
};

#[test]
fn reads_of_several_clients_outlive_nodes_that_restart() {
    RESTARTING.holds(1);
}

/// Otherwise the larger number of the other read would block the repair of this one.
#[test]
fn without_the_numbers_of_reads_they_end_each_other() {
    let told = "elseif told[1] and tonumber(told[1]) == known then";
    RESTARTING.fails_under(changed(told, "elseif false then", &["exclusion"]));
}
