//! The wait for the lock, and its end.

use crate::program::{LIMIT, World, ends_with, printed, told};
use crate::support::wait_until;

#[test]
fn the_second_waits_for_the_end_of_the_first() {
    let world = World::new();
    let wait = "echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; echo first >> order";
    let (first, _) = world.hold_by(&["job", "--", "sh", "-c", wait]);
    let second = world.start(&["run", "job", "--", "sh", "-c", "echo second >> order"]);
    wait_until("the second one listens", LIMIT, || listens(&world));
    world.folder.write("go", "");
    assert_eq!((first.end().0, second.end().0), (Some(0), Some(0)));
    assert_eq!(crate::program::read(&world.folder.path("order")), "first\nsecond\n");
    world.servers.wait_no_keys();
}

/// Returns true if any client is subscribed to releases on the masters.
fn listens(world: &World) -> bool {
    let channels = world.servers[0].command(&["PUBSUB", "CHANNELS"]);
    matches!(channels, redis::Value::Array(found) if !found.is_empty())
}

#[test]
fn a_lock_that_is_held_has_an_exit_code_of_its_own_or_a_chosen_one() {
    let world = World::new();
    let _held = world.hold(&["job"]);
    for (options, code) in [
        (&["--no-wait"][..], 120),
        (&["-n", "-E", "75"], 75),
        // Time for the masters to name the holder, on a busy machine as well.
        (&["--wait", "2s"], 120),
        (&["-w", "2s", "--conflict-exit-code", "0"], 0),
    ] {
        let output = world.output(&[&["run"], options, &["job", "--", "echo", "never"]].concat());
        ends_with(&output, code);
        assert_eq!((printed(&output), told(&output)), (String::new(), String::new()));
    }
}

/// A cron job with a wrong number would lose each time without a message.
#[test]
fn another_number_of_permits_is_told_where_the_lock_is_held() {
    let world = World::new();
    let of = |permits| ["--kind", "semaphore", "--permits", permits, "job"];
    let _held = world.hold(&of("1"));
    let run = |permits| {
        let output = world.output(&[&["run", "-n"], &of(permits)[..], &["--", "true"]].concat());
        ends_with(&output, 120);
        told(&output)
    };
    assert_eq!(run("1"), "");
    let text = run("7");
    assert!(text.contains("\"job\" has 1 permits") && text.contains(" 7 here"), "{text}");
}

#[test]
fn a_wait_that_is_interrupted_leaves_nothing_behind() {
    // Signals with a number and no name are passed on as SIGTERM.
    let signals = [
        ("INT", "SIGINT", 2),
        ("TERM", "SIGTERM", 15),
        ("ALRM", "SIGALRM", 14),
        ("XCPU", "SIGXCPU", 24),
        ("PWR", "SIGPWR", 30),
        ("40", "SIGTERM", 15),
    ];
    for (signal, name, number) in signals {
        let world = World::new();
        let (held, _) = world.hold(&["--kind", "fair", "job"]);
        let waiting = world.start(&["run", "--kind", "fair", "job", "--", "echo", "never"]);
        wait_until("it listens", LIMIT, || listens(&world));
        ["USR1", "WINCH", "URG"].iter().for_each(|harmless| waiting.signal(harmless));
        waiting.signal(signal);
        let (code, printed, told) = waiting.end();
        assert_eq!((code, printed), (Some(128 + number), String::new()), "{told}");
        assert!(told.contains(&format!("{name} came while it waited for the lock")), "{told}");
        held.signal("TERM");
        assert_eq!(held.end().0, Some(128 + 15));
        world.servers.wait_no_keys();
    }
}

#[test]
fn no_quorum_and_quarantine_have_codes_of_their_own() {
    let mut world = World::new();
    (0..2).for_each(|i| world.servers[i].kill());
    let output = world.output(&["run", "--no-quorum-timeout", "300ms", "job", "--", "true"]);
    ends_with(&output, 121);
    assert!(told(&output).contains(&world.servers[0].url()), "{}", told(&output));
    (0..3).for_each(|i| world.servers[i].restart_empty());
    let options = ["run", "--no-wait", "job", "--", "true"];
    let mut output = world.output(&options);
    // Waits until the client has probed a majority of the masters.
    wait_until("they are in quarantine", LIMIT, || {
        output = world.output(&options);
        output.status.code() != Some(121)
    });
    ends_with(&output, 122);
    ends_with(&world.output(&["admit", "--force"]), 0);
    ends_with(&world.output(&options), 0);
}

/// By default the library gives up after 10 s. The program tells of the outage a moment later.
#[test]
fn an_outage_is_waited_for_as_long_as_the_user_has_said() {
    let mut world = World::new();
    (0..2).for_each(|i| world.servers[i].pause());
    let start = |options: &[&str]| {
        world.start(&[&["run"], options, &["job", "--", "sh", "-c", "echo ran >> ran"]].concat())
    };
    let waiting = [start(&[]), start(&["--wait", "5m"])];
    let soon_over = start(&["--wait", "1s"]);
    let gives_up = start(&["--no-quorum-timeout", "15s", "--wait", "5m"]);
    for (running, after) in [(soon_over, "1 s"), (gives_up, "15 s")] {
        let (code, _, told) = running.end();
        assert_eq!(code, Some(121), "after {after}: {told}");
    }
    (0..2).for_each(|i| world.servers[i].resume());
    for running in waiting {
        let (code, _, told) = running.end();
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("s: 2 of 3 masters cannot be used: "), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert_eq!(crate::program::read(&world.folder.path("ran")), "ran\nran\n");
    world.servers.wait_no_keys();
}

/// The interrupt may come while the masters are asked, or while they grant the lock, and nobody else has it.
#[test]
fn an_interrupt_at_any_moment_leaves_nothing_behind() {
    let world = World::new();
    for kind in ["mutex", "fair", "read", "write", "semaphore"] {
        for delay_ms in 0..12 {
            let permits = if kind == "semaphore" { &["--permits", "2"][..] } else { &[] };
            let keeps = ["--min-hold", "1h", "--free-failed"];
            let keeps = if matches!(kind, "read" | "semaphore") { &[][..] } else { &keeps };
            let options =
                [&["run", "--kind", kind], permits, keeps, &["job", "--", "sleep", "600"]].concat();
            let running = world.start(&options);
            std::thread::sleep(std::time::Duration::from_millis(delay_ms * 2));
            running.signal("TERM");
            assert_eq!(running.end().0, Some(128 + 15));
            // Keys that are left behind would live longer than this wait.
            world.servers.wait_no_keys();
        }
    }
}
