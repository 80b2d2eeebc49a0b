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

/// Whether anybody has the masters tell of releases.
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
        (&["--wait", "300ms"], 120),
        (&["-w", "300ms", "--conflict-exit-code", "0"], 0),
    ] {
        let output = world.output(&[&["run"], options, &["job", "--", "echo", "never"]].concat());
        ends_with(&output, code);
        assert_eq!((printed(&output), told(&output)), (String::new(), String::new()));
    }
}

#[test]
fn a_wait_that_is_interrupted_leaves_nothing_behind() {
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let world = World::new();
        let (held, _) = world.hold(&["--kind", "fair", "job"]);
        let waiting = world.start(&["run", "--kind", "fair", "job", "--", "echo", "never"]);
        wait_until("it listens", LIMIT, || listens(&world));
        waiting.signal(signal);
        let (code, printed, told) = waiting.end();
        assert_eq!((code, printed), (Some(128 + number), String::new()), "{told}");
        assert!(told.contains(&format!("SIG{signal} came while it waited for the lock")), "{told}");
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
    // Until the client has looked at a majority of the masters.
    wait_until("they are in quarantine", LIMIT, || {
        output = world.output(&options);
        output.status.code() != Some(121)
    });
    ends_with(&output, 122);
    ends_with(&world.output(&["admit"]), 0);
    ends_with(&world.output(&options), 0);
}

/// Also where it comes while the masters are asked, and nobody else has the lock.
#[test]
fn an_interrupt_at_any_moment_leaves_nothing_behind() {
    let world = World::new();
    for kind in ["mutex", "fair", "read", "write", "semaphore"] {
        for delay_ms in 0..12 {
            let permits = if kind == "semaphore" { &["--permits", "2"][..] } else { &[] };
            let options =
                [&["run", "--kind", kind], permits, &["job", "--", "sleep", "600"]].concat();
            let running = world.start(&options);
            std::thread::sleep(std::time::Duration::from_millis(delay_ms * 2));
            running.signal("TERM");
            assert_eq!(running.end().0, Some(128 + 15));
            // Keys would stay for longer than this waits.
            world.servers.wait_no_keys();
        }
    }
}
