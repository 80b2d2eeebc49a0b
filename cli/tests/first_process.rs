//! The program as the first process of a container: no signal ends that process by default, and it is given the orphans of all
//! others.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::process::Command;

use crate::program::{LIMIT, Running, World, children, runs, send};
use crate::support::wait_until;

/// Starts `quorlock run` with that script as the first process of its own space of process ids. Returns it with its id outside,
/// once the script has written the file `begun`. Prints the reason and returns `None` if this user may make no such space.
fn first_process(world: &World, script: &str) -> Option<(Running, u32)> {
    let found = apart(world, &["run", "job", "--", "sh", "-c", script])?;
    world.folder.line("begun");
    Some(found)
}

/// The same with any of the program's commands, once it has been started.
fn apart(world: &World, arguments: &[&str]) -> Option<(Running, u32)> {
    const APART: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let tried = Command::new("unshare").args(APART).arg("true").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("left out: no space of process ids of its own: {tried:?}");
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare
        .args(APART)
        .arg(env!("CARGO_BIN_EXE_quorlock"))
        .args(arguments)
        .env("QUORLOCK_NODES", world.servers.urls().join(","))
        .current_dir(world.folder.path(""));
    let running = Running::new(&mut unshare);
    let mut first = Vec::new();
    wait_until("it is started", LIMIT, || {
        first = children(running.id());
        first.len() == 1
    });
    Some((running, first[0]))
}

#[test]
fn the_first_process_of_a_container_ends_with_an_exit_code() {
    for (signal, number) in [("INT", 2), ("TERM", 15), ("QUIT", 3)] {
        let world = World::new();
        let script = "echo > begun; exec sleep 600";
        let Some((running, first)) = first_process(&world, script) else { return };
        send(signal, first);
        let (code, _, told) = running.end();
        assert_eq!(code, Some(128 + number), "{told}");
        world.servers.wait_no_keys();
    }
}

#[test]
fn the_first_process_of_a_container_asks_for_the_ends_of_orphans() {
    let world = World::new();
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 &); done; echo > begun; exec sleep 600";
    let Some((running, first)) = first_process(&world, script) else { return };
    wait_until("the command and the watchdog alone are left", LIMIT, || children(first).len() == 2);
    send("TERM", first);
    assert_eq!(running.end().0, Some(128 + 15));
}

/// Its masters hang, so that each command would take long.
#[test]
fn each_command_can_be_interrupted_as_the_first_process_of_a_container() {
    for command in [&["status", "job"][..], &["list"], &["doctor"], &["bench"]] {
        let mut world = World::new();
        world.servers.iter_mut().for_each(crate::support::Server::pause);
        let patient = ["--node-timeout", "5s", "--no-quorum-timeout", "60s"];
        let Some((running, first)) = apart(&world, &[command, &patient].concat()) else { return };
        wait_until("it ends", LIMIT, || {
            // The program may not listen yet, or may have ended just now.
            let _ = Command::new("kill").args(["-INT", &first.to_string()]).output();
            !runs(first)
        });
        let (code, _, told) = running.end();
        assert_eq!(code, Some(128 + 2), "{command:?}: {told}");
    }
}
