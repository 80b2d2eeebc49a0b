//! Figures of the user's own masters.

use serde_json::Value;

use crate::program::{LIMIT, Running, World, ends_with, printed, told};
use crate::support::wait_until;

const MEASUREMENTS: [&str; 4] =
    ["uncontended", "different_locks", "one_lock_threads", "one_lock_clients"];

/// A busy machine answers late.
const PATIENT: [&str; 2] = ["--node-timeout", "5s"];

/// A run that has begun, and that would go on for longer than any test.
fn begun(world: &World, options: &[&str]) -> Running {
    let running = world.start(&[&["bench", "--seconds", "3600"], options].concat());
    let measures = |key: &String| key.contains("quorlock-bench/") && key.ends_with("/0");
    wait_until("it has a lock", LIMIT, || world.servers[0].keys().iter().any(measures));
    running
}

#[test]
fn it_prints_plausible_figures_and_leaves_nothing_but_tokens() {
    let world = World::new();
    let output = world
        .output(&[&["bench", "--json", "--seconds", "1", "--threads", "3"], &PATIENT[..]].concat());
    ends_with(&output, 0);
    assert_eq!(told(&output), "", "progress is for terminals");
    let json: Value = serde_json::from_str(&printed(&output)).expect("JSON");
    assert_eq!(json["masters"], 3);
    for measurement in MEASUREMENTS {
        let figures = &json["measurements"][measurement];
        assert_eq!(figures["failed"], 0, "{json}");
        assert!(figures["count"].as_u64() > Some(0), "{json}");
        assert!(figures["per_second"].as_f64() > Some(0.0), "{json}");
        for times in [&figures["lock_us"], &figures["unlock_us"]] {
            let times = ["p50", "p90", "p99", "p99_9", "max"].map(|it| times[it].as_f64());
            assert!(times[0] > Some(0.0) && times.is_sorted(), "{json}");
        }
    }
    world.servers.wait_no_keys();
    for server in world.servers.iter() {
        let all = "for _, key in ipairs(redis.call('KEYS', '*')) do \
                   if not key:find('quorlock-bench/', 1, true) then return key end end return ''";
        let other = server.command(&["EVAL", all, "0"]);
        let mark = "quorlock:{quorlock}:mark";
        assert_eq!(other, server.command(&["ECHO", mark]), "only the master's mark");
    }
}

#[test]
fn the_text_has_percentiles_and_bars() {
    let world = World::new();
    let output = world.output(
        &[&["bench", "--seconds", "1", "--threads", "2", "--locks", "5"], &PATIENT[..]].concat(),
    );
    ends_with(&output, 0);
    let text = printed(&output);
    assert_eq!(text.matches("p99.9").count(), MEASUREMENTS.len(), "{text}");
    assert!(text.contains("\n2 threads, 5 locks\n"), "{text}");
    assert!(text.contains(" %  ████"), "{text}");
}

#[test]
fn a_signal_ends_it_and_all_locks_are_given_back() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let world = World::new();
        let running = begun(&world, &[]);
        running.signal(signal);
        let (ended_with, printed, told) = running.end();
        assert_eq!(ended_with, Some(code), "{told}");
        assert_eq!(printed, "");
        world.servers.wait_no_keys();
    }
}

#[test]
fn masters_that_die_end_it() {
    let mut world = World::new();
    let running = begun(&world, &["--no-quorum-timeout", "300ms"]);
    (0..2).for_each(|i| world.servers[i].kill());
    let (code, _, told) = running.end();
    assert_eq!(code, Some(121), "{told}");
    assert!(told.contains("1 thread, 1 lock: after "), "{told}");
    assert!(told.contains(&world.servers[0].url()), "{told}");
}

#[test]
fn masters_in_quarantine_are_not_waited_for() {
    let mut world = World::new();
    world.servers.iter_mut().for_each(|server| server.restart_empty());
    let output = world.output(&["bench", "--seconds", "1"]);
    ends_with(&output, 122);
    assert_eq!(printed(&output), "");
}

#[test]
fn options_out_of_range_are_refused() {
    let world = World::new();
    for options in [
        ["--threads", "0"],
        ["--threads", "10000"],
        ["--seconds", "0"],
        ["--locks", "0"],
        ["--clients", "0"],
    ] {
        let output = world.output(&[&["bench"], &options[..]].concat());
        ends_with(&output, 125);
        assert!(told(&output).contains(options[0]), "{}", told(&output));
    }
}
