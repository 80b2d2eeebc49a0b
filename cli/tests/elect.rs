//! `quorlock elect` runs a command on one host at a time, and `quorlock leader` names that host.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::time::{Duration, Instant};

use crate::program::{
    LIMIT, Running, World, ends_with, has_ended, is_ignored, printed, read, runs, send,
};
use crate::support::wait_until;

/// Long enough for a busy machine to renew in time.
const TTL: [&str; 2] = ["--ttl", "6s"];
const NAME: &str = "scheduler";

/// A host that stands for election. Its command writes its process id, the number of its term, and its host to the file `leads`.
fn stands(world: &World, host: &str) -> Running {
    let script = format!("echo $$ $QUORLOCK_TERM {host} >> leads; exec sleep 600");
    let options = ["--value", host, NAME, "--", "sh", "-c", &script];
    world.start(&[&["elect"][..], &TTL, &options].concat())
}

/// Returns the process id, the term and the host of the leader number `count`.
#[track_caller]
fn led(world: &World, count: usize) -> (u32, u64, String) {
    let mut led = Vec::new();
    wait_until("another host leads", LIMIT, || {
        let text = read(&world.folder.path("leads"));
        led = text.lines().map(str::to_owned).collect();
        led.len() >= count && text.ends_with('\n')
    });
    let words: Vec<_> = led[count - 1].split(' ').collect();
    let numbers = [words[0].parse(), words[1].parse()].map(|number| number.expect("a number"));
    (u32::try_from(numbers[0]).expect("a process id"), numbers[1], words[2].to_owned())
}

fn leader(world: &World) -> (Option<i32>, String) {
    let output = world.output(&["leader", NAME]);
    (output.status.code(), printed(&output).trim().to_owned())
}

#[test]
fn one_host_leads_and_another_one_follows_when_it_is_told_to_end() {
    let world = World::new();
    assert_eq!(leader(&world), (Some(1), String::new()), "nobody leads");
    let first = stands(&world, "one:8080");
    let (command, term, _) = led(&world, 1);
    let second = stands(&world, "two:8080");
    assert_eq!(leader(&world), (Some(0), "one:8080".to_owned()));
    let json = printed(&world.output(&["leader", "--json", NAME]));
    assert!(json.contains("\"value\": \"one:8080\"") && json.contains(&term.to_string()), "{json}");
    first.signal("TERM");
    let (next, next_term, host) = led(&world, 2);
    assert!(!runs(command), "the next one begins behind its end");
    assert!(next_term > term && host == "two:8080", "{next_term} {host}");
    assert_eq!(leader(&world), (Some(0), "two:8080".to_owned()));
    assert_eq!(first.end().0, Some(128 + 15));
    second.signal("TERM");
    has_ended(next);
    assert_eq!(second.end().0, Some(128 + 15));
    world.servers.wait_no_keys();
}

#[test]
fn a_host_whose_command_ends_stands_again() {
    let world = World::new();
    let script = "echo $$ $QUORLOCK_TERM one >> leads; exit 3";
    let options = ["elect", "--ttl", "1s", NAME, "--", "sh", "-c", script];
    let running = world.start(&options);
    let (_, first, _) = led(&world, 1);
    let (_, second, _) = led(&world, 2);
    assert!(second > first);
    running.signal("TERM");
    let (_, _, told) = running.end();
    assert!(told.contains("the command has ended with 3; this host stands again"), "{told}");
    assert!(told.contains(&format!("this host leads, in term {first}")), "{told}");
}

#[test]
fn a_leader_whose_masters_fail_ends_its_command_in_time_and_stands_again() {
    let mut world = World::new();
    let running = stands(&world, "one");
    let (command, term, _) = led(&world, 1);
    let cut = Instant::now();
    (0..2).for_each(|i| world.servers[i].pause());
    wait_until("the command has ended", LIMIT, || !runs(command));
    assert!(cut.elapsed() < Duration::from_secs(7), "it ran on behind its term");
    (0..2).for_each(|i| world.servers[i].resume());
    let (_, next, _) = led(&world, 2);
    assert!(next > term);
    running.signal("TERM");
    let (_, _, told) = running.end();
    assert!(told.contains("\"scheduler\" is at risk of being lost in"), "{told}");
    assert!(told.contains("this host stands again"), "{told}");
}

#[test]
fn a_leader_that_is_asked_hands_over_and_stands_again() {
    let world = World::new();
    let first = stands(&world, "one");
    let (command, _, _) = led(&world, 1);
    let second = stands(&world, "two");
    let output = world.output(&["unlock", "--ask", "--reason", "deploy", NAME]);
    ends_with(&output, 0);
    let (next, _, host) = led(&world, 2);
    assert!(!runs(command) && host == "two", "the next one begins behind its end");
    ends_with(&world.output(&["unlock", "--ask", NAME]), 0);
    let (_, _, host) = led(&world, 3);
    assert!(!runs(next) && host == "one", "it stands again");
    first.signal("TERM");
    let (code, _, told) = first.end();
    assert_eq!(code, Some(128 + 15), "{told}");
    let says = "\"scheduler\": asked to release it: deploy; the command gets SIGTERM";
    assert!(told.contains(says), "{told}");
    second.signal("TERM");
    let _ = second.end();
}

/// The command of the killed leader is ended before the next host leads.
#[test]
fn a_leader_that_is_killed_is_followed() {
    let world = World::new();
    let first = stands(&world, "one");
    let (command, term, _) = led(&world, 1);
    let second = stands(&world, "two");
    send("KILL", first.id());
    let (_, next, host) = led(&world, 2);
    assert!(!runs(command) && next > term && host == "two");
    second.signal("INT");
    let _ = (first.end(), second.end());
}

/// The command is a daemon that reads its settings again on SIGHUP, and ends some time later. The signal goes to all of its group,
/// each `sleep` included. An end within ten seconds would count as caused by the signal.
#[test]
fn a_signal_that_the_command_survives_does_not_end_it_all() {
    if is_ignored(1) {
        eprintln!("left out: SIGHUP is ignored here, as by nohup");
        return;
    }
    let world = World::new();
    let script = "trap 'echo >> heard' HUP; echo $$ $QUORLOCK_TERM one >> leads; [ -e heard ] && exec sleep 600; \
                  while ! [ -e heard ]; do sleep 0.05; done; \
                  for i in $(seq 220); do sleep 0.05; done";
    let running = world.start(&["elect", "--ttl", "2s", NAME, "--", "sh", "-c", script]);
    led(&world, 1);
    running.signal("HUP");
    led(&world, 2);
    running.signal("TERM");
    let (code, _, told) = running.end();
    assert_eq!(code, Some(128 + 15), "{told}");
    assert!(told.contains("this host stands again"), "{told}");
}

#[test]
fn bad_calls_are_refused() {
    let world = World::new();
    let long = "x".repeat(200);
    ends_with(&world.output(&["elect", "--value", &long, NAME, "--", "true"]), 125);
    ends_with(&world.output(&["elect", NAME, "--", "no-such-command"]), 127);
    ends_with(&world.output(&["elect", "--ttl", "100ms", NAME, "--", "true"]), 125);
    ends_with(&world.output(&["leader", ""]), 125);
}
