//! The lock of a program that was killed: the watchdog gives it back, and never too early.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::io::Write;
use std::process::{Command, Output};

use crate::program::{LIMIT, Running, World, ends_with, has_ended, read, runs, send, watchdog_of};
use crate::support::{Server, wait_until};
use crate::terminal::on_terminal;

/// A TTL that is longer than any test waits.
const LONG: [&str; 4] = ["--max-ttl", "5m", "--ttl", "5m"];

fn world() -> World {
    World::with(&LONG[..2])
}

fn hold(world: &World, options: &[&str]) -> (Running, u32) {
    world.hold(&[&LONG[..], options].concat())
}

/// Asks once for a lock, without competitors.
fn takes(world: &World, name: &str) -> Output {
    let options = ["run", "-n", "--node-timeout", "5s", "--max-ttl", "5m", name, "--", "true"];
    world.output(&options)
}

#[test]
fn a_lock_of_any_kind_is_free_as_soon_as_the_command_has_ended() {
    let world = world();
    for options in [
        &["job"][..],
        &["--kind", "fair", "job"],
        &["--kind", "read", "job"],
        &["--kind", "write", "job"],
        &["--kind", "semaphore", "--permits", "2", "job"],
        &["--also", "another", "job"],
    ] {
        let (running, command) = hold(&world, options);
        running.watchdog();
        running.signal("KILL");
        has_ended(command);
        wait_until("the lock is free", LIMIT, || {
            world.servers.iter().all(|server| server.keys().is_empty())
        });
        let (_, _, told) = running.end();
        assert!(told.contains("the lock is given back"), "{options:?}: {told}");
        ends_with(&takes(&world, "job"), 0);
    }
}

/// The names are as long and as many as possible.
#[test]
fn a_lock_with_long_names_is_free_as_well() {
    let world = world();
    let names: Vec<_> = (0..16).map(|i| format!("{i:x}").repeat(4_096)).collect();
    let also = names[1..].iter().flat_map(|name| ["--also", name]);
    let options: Vec<_> = also.chain([names[0].as_str()]).collect();
    let (running, command) = hold(&world, &options);
    running.watchdog();
    running.signal("KILL");
    has_ended(command);
    wait_until("the lock is free", LIMIT, || world.servers[0].keys().is_empty());
}

/// Readers, and holders of other permits, keep theirs.
#[test]
fn what_others_have_of_a_lock_stays_theirs() {
    let world = world();
    for options in [
        ["--kind", "read", "config"].as_slice(),
        &["--kind", "semaphore", "--permits", "2", "config"],
    ] {
        let (other, others_command) = hold(&world, options);
        let (running, command) = hold(&world, options);
        let fields = |server: &Server| server.command(&["HLEN", "quorlock:config"]);
        // The first field has the mode, or the number of permits.
        let both = redis::Value::Int(1 + 2);
        wait_until("all masters have both", LIMIT, || {
            world.servers.iter().all(|server| fields(server) == both)
        });
        running.watchdog();
        running.signal("KILL");
        has_ended(command);
        wait_until("its part is given back", LIMIT, || fields(&world.servers[0]) != both);
        running.end();
        assert!(runs(others_command));
        ends_with(&takes(&world, "config"), 120);
        other.signal("TERM");
        assert_eq!(other.end().0, Some(128 + 15), "it was not lost");
        world.servers.wait_no_keys();
    }
}

/// These signals are not passed on, since they report a fault of the program itself.
#[test]
fn the_signals_of_faults_free_the_lock_as_well() {
    for signal in ["ABRT", "TRAP", "SYS"] {
        let world = world();
        // Without a core dump.
        let line = format!(
            "ulimit -c 0; exec {} run {} job -- sh -c 'echo $$ > pid; exec sleep 600'",
            env!("CARGO_BIN_EXE_quorlock"),
            LONG.join(" ")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(world.folder.path(""));
        shell.env("QUORLOCK_NODES", world.servers.urls().join(","));
        let running = Running::new(&mut shell);
        let command = world.folder.line("pid").parse().expect("a process id");
        running.watchdog();
        running.signal(signal);
        has_ended(command);
        wait_until("the lock is free", LIMIT, || world.servers[0].keys().is_empty());
        running.end();
    }
}

/// An example is the signal for a file that may grow no further: the watchdog may write to one.
#[test]
fn no_signal_but_one_keeps_the_watchdog_from_its_work() {
    let world = world();
    let (running, command) = hold(&world, &["job"]);
    let watchdog = running.watchdog();
    for signal in ["XFSZ", "TERM", "ALRM", "ABRT", "SYS", "TSTP", "TTOU", "USR1", "40"] {
        send(signal, watchdog);
    }
    running.signal("KILL");
    has_ended(command);
    wait_until("the lock is free", LIMIT, || world.servers[0].keys().is_empty());
    let (_, _, told) = running.end();
    assert!(told.contains("the lock is given back"), "{told}");
}

/// The command is a member of the keeper's group then.
#[test]
fn a_command_that_has_left_its_group_is_ended_as_well() {
    let world = world();
    let script = "import os, time\nos.setpgid(0, os.getpgid(os.getppid()))\n\
                  open('pid', 'w').write(str(os.getpid()) + '\\n')\ntime.sleep(600)";
    if !Command::new("python3").arg("--version").output().is_ok_and(|it| it.status.success()) {
        eprintln!("left out: there is no python3");
        return;
    }
    let options = [&LONG[..], &["job", "--", "python3", "-c", script]].concat();
    let (running, command) = world.hold_by(&options);
    running.watchdog();
    running.signal("KILL");
    has_ended(command);
    wait_until("the lock is free", LIMIT, || world.servers[0].keys().is_empty());
}

/// The lock is about to end, by the clock of the watchdog.
#[test]
fn a_command_that_is_killed_since_its_keeper_is_suspended_is_told_of() {
    let world = World::new();
    let options = ["--ttl", "3s", "--on-lost", "kill", "job"];
    let (running, command) = world.hold(&options);
    running.watchdog();
    running.signal("STOP");
    has_ended(command);
    running.signal("CONT");
    let (code, _, told) = running.end();
    assert_eq!(code, Some(123), "{told}");
    assert!(told.contains("is stuck; the command gets SIGKILL"), "{told}");
}

/// Nobody knows if the job was done.
#[test]
fn a_minimum_stands_unless_failed_jobs_free_the_lock() {
    let world = world();
    let job = ["--min-hold", "1h", "job"];
    let (running, command) = hold(&world, &job);
    let watchdog = running.watchdog();
    running.signal("KILL");
    has_ended(command);
    has_ended(watchdog);
    assert!(!world.was_given_back("job"));
    assert!(world.servers[0].pttl("quorlock:job") > 0);
    ends_with(
        &world.output(&["unlock", "--force", "--node-timeout", "5s", "--max-ttl", "5m", "job"]),
        0,
    );
    let (running, command) = hold(&world, &[&["--free-failed"], &job[..]].concat());
    running.watchdog();
    running.signal("KILL");
    has_ended(command);
    wait_until("the lock is free", LIMIT, || world.servers[0].keys().is_empty());
}

/// The lock has another owner by then.
#[test]
fn a_lock_that_somebody_else_has_by_then_stays_theirs() {
    let world = world();
    // The program is suspended before it hears of the loss of its lock.
    let stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let options = [&LONG[..], &["--grace", "5s", "job", "--", "sh", "-c", stubborn]].concat();
    let (running, command) = world.hold_by(&options);
    let watchdog = running.watchdog();
    running.signal("STOP");
    ends_with(
        &world.output(&["unlock", "--force", "--node-timeout", "5s", "--max-ttl", "5m", "job"]),
        0,
    );
    // The last master may be told a moment later, and would refuse the next owner until then.
    wait_until("the lock is free", LIMIT, || {
        world.servers.iter().all(|server| server.get("quorlock:job").is_none())
    });
    let (next, nexts_command) = hold(&world, &["job"]);
    let owner = world.servers[0].get("quorlock:job");
    running.signal("KILL");
    has_ended(command);
    has_ended(watchdog);
    assert_eq!(world.servers[0].get("quorlock:job"), owner);
    assert!(runs(nexts_command));
    next.signal("TERM");
    assert_eq!(next.end().0, Some(128 + 15), "it was not lost");
    world.servers.wait_no_keys();
}

/// The password is on no command line and in no environment, but the watchdog needs it.
#[test]
fn a_password_that_was_asked_for_gives_the_lock_back() {
    let world = world();
    let server = Server::start_with(&["--requirepass", "secret"]);
    let line = format!(
        "quorlock run --no-quarantine {} --ask-password --node {} job -- sh -c 'echo $PPID > keeper; exec sleep 600'",
        LONG.join(" "),
        server.url()
    );
    let Some((running, mut typed)) = on_terminal(&world, &line) else { return };
    let shown = || read(&world.folder.path("shown"));
    wait_until("it asks for the password", LIMIT, || shown().contains("Password of the masters: "));
    typed.write_all(b"secret\n").expect("a terminal");
    let keeper = world.folder.line("keeper").parse().expect("a process id");
    let watchdog = watchdog_of(keeper);
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("/proc/{watchdog}/{file}")).expect("it runs");
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"), "{file}");
    }
    send("KILL", keeper);
    wait_until("the lock is free", LIMIT, || server.keys().is_empty());
    assert!(!shown().contains("secret"), "{}", shown());
    running.end();
}

/// The masters are gone as well.
#[test]
fn a_lock_that_cannot_be_given_back_ends_by_itself_and_that_is_told() {
    let mut world = World::new();
    let (running, command) = world.hold(&["--ttl", "5s", "job"]);
    running.watchdog();
    (0..2).for_each(|i| world.servers[i].kill());
    running.signal("KILL");
    has_ended(command);
    let (_, _, told) = running.end();
    let says = "the lock is not given back, and ends by itself: no quorum";
    assert!(told.contains(says) && told.contains(&world.servers[0].url()), "{told}");
}
