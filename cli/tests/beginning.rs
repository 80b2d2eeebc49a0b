//! A failure between the grant and the command's first instruction leaves the lock free for other hosts.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::program::{LIMIT, Running, World, children, copy_file, ends_with, runs, send, told};
use crate::support::wait_until;

/// Runs a job that one of many hosts is to do once.
fn run(world: &World, options: &[&str], command: &[&str]) -> Output {
    let patient = ["run", "-n", "--node-timeout", "5s", "--min-hold", "1h"];
    world.output(&[&patient, options, &["job", "--"], command].concat())
}

/// Writes a program with that text.
fn program(world: &World, name: &str, text: impl AsRef<[u8]>) {
    let (file, path) = (world.folder.path("text"), world.folder.path(name));
    fs::write(&file, text).expect("there is room");
    copy_file(&file, &path);
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
}

/// Returns the program `true` with a missing loader; `None` if the program has no loader.
fn without_loader() -> Option<Vec<u8>> {
    let (from, to) = (b"/ld-linux", b"/no-linux");
    let mut bytes = fs::read("/bin/true").expect("it is there");
    let at = bytes.windows(from.len()).position(|part| part == from)?;
    bytes[at..at + to.len()].copy_from_slice(to);
    Some(bytes)
}

#[test]
fn a_command_that_the_system_does_not_run_frees_the_lock() {
    let world = World::new();
    program(&world, "busy", "#!/bin/sh\n");
    // Written by a separate process: a process that another test starts would have the file open for a moment.
    let mut writes = Command::new("sh");
    writes.args(["-c", "exec 3>> busy; echo > open; exec sleep 600"]);
    let writes = Running::new(writes.current_dir(world.folder.path("")));
    world.folder.line("open");
    let output = run(&world, &[], &["./busy"]);
    ends_with(&output, 126);
    assert!(told(&output).contains("\"./busy\" cannot be run: "), "{}", told(&output));
    world.servers.wait_no_keys();
    writes.signal("KILL");
    writes.end();

    world.folder.write("interpreter", "");
    program(&world, "script", "#!./interpreter\n");
    ends_with(&run(&world, &[], &["./script"]), 126);
    world.servers.wait_no_keys();

    if let Some(text) = without_loader() {
        program(&world, "lost", text);
        let output = run(&world, &[], &["./lost"]);
        ends_with(&output, 127);
        assert!(
            told(&output).contains("its interpreter or its loader does not exist"),
            "{}",
            told(&output)
        );
        world.servers.wait_no_keys();
    } else {
        eprintln!("left out: /bin/true names no loader");
    }
    ends_with(&run(&world, &[], &["./busy"]), 0);
    ends_with(&run(&world, &[], &["true"]), 120);
}

/// The C library would have the shell read the file. In a namespace of its own the program sees that there are no emulators.
#[test]
fn a_program_for_another_machine_is_not_run() {
    const MACHINE: std::ops::Range<usize> = 18..20;
    let world = World::new();
    let mut bytes = fs::read("/bin/true").expect("it is there");
    // No machine has that number.
    bytes[MACHINE].copy_from_slice(&[0xfe, 0xca]);
    program(&world, "foreign", bytes);
    let apart = |line: &str| {
        let lists = "/proc/sys/fs/binfmt_misc";
        let mount = format!("mount -t binfmt_misc none {lists} && [ $(ls {lists} | wc -l) = 2 ]");
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", &format!("{mount} && {line}")]);
        unshare.env("QUORLOCK_NODES", world.servers.urls().join(","));
        unshare.current_dir(world.folder.path("")).output().expect("unshare is there")
    };
    if !apart("true").status.success() {
        eprintln!("left out: this user may not mount, or this machine emulates others");
        return;
    }
    let quorlock = env!("CARGO_BIN_EXE_quorlock");
    let run = "run -n --node-timeout 5s --min-hold 1h job -- ./foreign";
    let output = apart(&format!("exec {quorlock} {run}"));
    ends_with(&output, 126);
    assert!(told(&output).contains("for another kind of machine"), "{}", told(&output));
    world.servers.wait_no_keys();
}

#[test]
fn a_command_on_a_file_system_without_programs_frees_the_lock() {
    let world = World::new();
    fs::create_dir(world.folder.path("data")).expect("there is room");
    let mount = "mount -t tmpfs -o noexec none data && cp /bin/true data";
    let apart = |line: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", &format!("{mount} && {line}")]);
        unshare.env("QUORLOCK_NODES", world.servers.urls().join(","));
        unshare.current_dir(world.folder.path(""));
        unshare.output()
    };
    let tried = apart("true");
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("left out: no file system of its own: {tried:?}");
        return;
    }
    let run = format!(
        "exec {} run -n --node-timeout 5s --min-hold 1h job -- data/true",
        env!("CARGO_BIN_EXE_quorlock")
    );
    ends_with(&apart(&run).expect("it starts"), 126);
    world.servers.wait_no_keys();
}

#[test]
fn a_job_that_fails_is_free_for_another_host_if_the_user_says_so() {
    let world = World::new();
    for command in ["exit 7", "kill -TERM $$"] {
        run(&world, &["--free-failed"], &["sh", "-c", command]);
        world.servers.wait_no_keys();
    }
    ends_with(&run(&world, &[], &["sh", "-c", "exit 7"]), 7);
    ends_with(&run(&world, &["--free-failed"], &["true"]), 120);
}

/// The program is stopped as soon as it has started the process that is to become the command, and is told to end. Nothing of the
/// command runs.
#[test]
fn a_command_whose_end_comes_before_its_beginning_does_not_begin() {
    let world = World::new();
    let options =
        ["run", "--min-hold", "1h", "job", "--", "sh", "-c", "echo > ran; exec sleep 600"];
    for _ in 0..10 {
        let running = world.start(&options);
        wait_until("it has started something", LIMIT, || !children(running.id()).is_empty());
        running.signal("STOP");
        let has_no_watchdog = children(running.id()).len() == 1;
        running.signal("TERM");
        running.signal("CONT");
        let (code, _, told) = running.end();
        assert_eq!(code, Some(128 + 15), "{told}");
        let ran = fs::remove_file(world.folder.path("ran")).is_ok();
        if has_no_watchdog {
            assert!(!ran, "it ran");
            world.servers.wait_no_keys();
        } else {
            // The command may have begun, and then the lock is kept.
            ends_with(&world.output(&["unlock", "--force", "job"]), 0);
        }
    }
}

/// The watchdog was killed, and no other one can be started.
#[test]
fn a_command_that_nobody_can_watch_over_is_ended_before_the_lock_is_given_back() {
    let world = World::new();
    let script = "echo $$ > pid; exec sleep 600";
    let (running, command) = world.hold_by(&["job", "--", "sh", "-c", script]);
    let watchdog = running.watchdog();
    let id = running.id().to_string();
    let limited = Command::new("prlimit").args(["--nofile=3:3", "--pid", &id]).status();
    if !limited.is_ok_and(|status| status.success()) {
        eprintln!("left out: there is no prlimit");
        return;
    }
    send("KILL", watchdog);
    let (code, _, told) = running.end();
    assert_eq!(code, Some(125), "{told}");
    let words = "the process that watches over the command cannot be started";
    assert!(told.contains(words), "{told}");
    assert!(!runs(command), "the lock was given back before");
    world.servers.wait_no_keys();
}

/// This is the state of a container that may have few threads. The user has no other process, and each limit lets the program come
/// further.
#[test]
fn a_process_that_may_start_no_further_one_frees_the_lock() {
    const USER: u32 = 54_321;

    let world = World::new();
    copy_file(env!("CARGO_BIN_EXE_quorlock").as_ref(), &world.folder.path("quorlock"));
    fs::set_permissions(world.folder.path("quorlock"), Permissions::from_mode(0o755))
        .expect("it is ours");
    fs::set_permissions(world.folder.path(""), Permissions::from_mode(0o777)).expect("it is ours");
    let mut told_before = Vec::new();
    for most in 1..200 {
        let limit = format!("--nproc={most}:{most}");
        let mut job = Command::new("prlimit");
        job.args([&limit, "./quorlock", "run", "-n", "--node-timeout", "5s", "--min-hold", "1h"])
            .args(["job", "--", "sh", "-c", "echo >> ran"])
            .env("QUORLOCK_NODES", world.servers.urls().join(","))
            .current_dir(world.folder.path(""))
            .uid(USER);
        let output = match job.output() {
            Ok(output) => output,
            Err(error) => {
                eprintln!("left out: no process of another user, or no prlimit: {error}");
                return;
            }
        };
        if output.status.success() {
            assert_eq!(told(&output), "", "with {most} nobody watches over it");
            break;
        }
        assert!(!world.folder.path("ran").exists(), "with {most} it ran: {}", told(&output));
        world.servers.wait_no_keys();
        told_before.push(told(&output));
    }
    assert!(world.folder.path("ran").exists(), "it never ran: {told_before:?}");
    assert!(!told_before.iter().any(|told| told.contains("panicked")), "{told_before:?}");
    let words = "the process that watches over the command cannot be started";
    assert!(told_before.iter().any(|told| told.contains(words)), "{told_before:?}");
}
