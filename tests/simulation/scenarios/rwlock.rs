//! Readers and writers of one name, in several processes.

use super::*;
use crate::core::Backoff;

/// Clients of two readers each and one writer, whose TTLs and clocks differ. They want the lock all the time.
fn busy(seed: u64) -> Plan {
    let clients = [
        client(seconds(3), Habit::Reads(ms(30))),
        client(seconds(5), Habit::Reads(ms(40))),
        client(seconds(4), Habit::Writes(ms(20))),
    ];
    let mut plan = calm(seed, 3, &clients);
    plan.wall_offsets = vec![0, 40_000, 7_000_000];
    plan.walls_agree = false;
    plan.callers = vec![2, 2, 1];
    plan.local_queues = true;
    plan.lasts = seconds(6);
    plan
}

/// Two clients of two threads each do whatever users do with one lock, to read and to write.
fn any(seed: u64) -> Plan {
    let habit = Habit::Anything;
    let mut plan = calm(seed, 3, &[client(seconds(3), habit), client(seconds(2), habit)]);
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

/// One reads for long, and one writes. Their pauses are long, so it is releases that wake them.
fn patient(seed: u64) -> Plan {
    let backoff = Backoff { min: seconds(2), max: seconds(8) };
    let clients = [
        Setup { backoff, ..client(seconds(3), Habit::Reads(ms(400))) },
        Setup { backoff, ..client(seconds(5), Habit::Writes(ms(20))) },
    ];
    let lasts = seconds(10);
    Plan { lasts, ..calm(seed, 3, &clients) }
}

const PATIENT: Scenario =
    Scenario { runs: 10, plan: patient, happened: |run| count(run, "write 0: granted") > 16 };

/// Four writers, and a client that reads.
fn writing(seed: u64) -> Plan {
    let clients = [
        client(seconds(3), Habit::Writes(ms(20))),
        client(seconds(5), Habit::Writes(ms(30))),
        client(seconds(4), Habit::Reads(ms(20))),
    ];
    Plan { setups: clients.to_vec(), ..busy(seed) }
}

const WRITING: Scenario = Scenario {
    runs: 10,
    plan: writing,
    happened: |run| count(run, "read 0: granted") * 2 > count(run, "write 0: granted"),
};

/// As [`any`], and what clients write over their present connections is held up now and then, and arrives behind what
/// they write later.
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

/// A piece of a script is another one, and some of the `checkers` look.
fn changed(
    piece: &'static str,
    instead: &'static str,
    checkers: &'static [&'static str],
) -> Switches {
    Switches { script: Some((piece, instead)), checkers, ..Switches::ALL_ON }
}

/// The holder's last word to a node may be an older one.
#[test]
fn requests_that_come_late_leave_no_trace_of_what_was_downgraded() {
    LATE.holds(2);
}

#[test]
fn without_the_mark_of_a_writer_that_waits_it_starves() {
    BUSY.fails_under(changed("following == 'write' and not ours", "false", &["exclusion"]));
}

#[test]
fn without_the_mark_of_a_reader_that_waits_it_starves() {
    WRITING.fails_under(changed("following == 'read' and not ours", "false", &["exclusion"]));
}

#[test]
fn a_write_beside_a_read_that_has_not_ended_is_found() {
    let beside = changed(
        "if kind ~= 'none' and not ours then",
        "if mode == 'write' and not ours then",
        &["exclusion"],
    );
    BUSY.breaks_under(beside);
}

#[test]
fn without_the_last_readers_message_who_waits_to_write_sleeps_on() {
    // The one to ours, and the one to Redisson's.
    let piece = "    local told = redis.pcall('PUBLISH', ARGV[3], ARGV[1])
    local theirs = redis.pcall('PUBLISH', ARGV[4], written == 1 and '1' or '0')";
    PATIENT.fails_under(changed(piece, "local told, theirs = 0, 0", &["exclusion"]));
}

#[test]
fn without_that_rule_a_thread_that_reads_gets_the_lock_to_write() {
    DOWNGRADED.breaks(&[Mechanism::SharersDoNotUpgrade], &["again"]);
}
