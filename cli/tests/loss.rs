//! The command does not run without its lock, regardless of faults of the masters or of the program itself.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::Duration;

use crate::program::{LIMIT, World, children, ends_with, has_ended, is_watchdog, read, runs, send};
use crate::support::{Server, wait_until};

/// Long enough for a busy machine, and short enough for a test that waits for its end.
const TTL: [&str; 2] = ["--ttl", "5s"];
/// The same, with keys that outlive the validity by 1 s. A busy machine may delay the end of a command for that time.
const TOLERANT: [&str; 4] = ["--ttl", "5s", "--clock-tolerance", "1s"];
/// The same, with the longest time for SIGTERM that such a lock allows.
const GRACE: [&str; 2] = ["--grace", "1500ms"];
/// A command that ignores SIGTERM.
const STUBBORN: &str = "trap 'echo told >> told' TERM; echo $$ > pid; while :; do sleep 0.05; done";

/// Cuts two of three masters off: they do not answer any more.
fn cut(world: &mut World) {
    (0..2).for_each(|i| world.servers[i].pause());
}

/// A world for [`TOLERANT`] clients.
fn tolerant() -> World {
    World::with(&TOLERANT[2..])
}

/// Waits for the end of the command. It must come before a master forgets the key, since keys outlive the validity.
#[track_caller]
fn ends_before_its_key(command: u32, server: &Server, key: &str) {
    wait_until("the command has ended", LIMIT, || {
        let left = server.pttl(key);
        let runs = runs(command);
        assert!(!runs || left > 0, "the command runs, and the key has ended");
        !runs
    });
}

#[test]
fn a_command_is_told_and_killed_before_the_lock_can_be_somebody_elses() {
    let mut world = tolerant();
    let job = ["job", "--", "sh", "-c", STUBBORN];
    let options = [&TOLERANT[..], &GRACE, &job].concat();
    let (running, command) = world.hold_by(&options);
    cut(&mut world);
    ends_before_its_key(command, &world.servers[2], "quorlock:job");
    assert_eq!(read(&world.folder.path("told")), "told\n", "once, and before it was killed");
    (0..2).for_each(|i| world.servers[i].resume());
    let (code, _, told) = running.end();
    assert_eq!(code, Some(123), "{told}");
    assert!(told.contains("\"job\" is not renewed, and is about to be lost"), "{told}");
    // The silent masters are named in the answers to a question that the program asked after the cut.
    let silent = told.lines().find(|line| line.contains("no quorum to say who holds"));
    let names_both = |line: &str| (0..2).all(|i| line.contains(&world.servers[i].url()));
    assert!(silent.is_some_and(names_both), "{told}");
    // They are named in the warning too, which goes to the mail of a cron job.
    let warned = told.lines().find(|line| line.contains("\"job\" is at risk of being lost in"));
    assert!(warned.is_some_and(names_both), "{told}");
    world.servers.wait_no_keys();
}

#[test]
fn what_the_command_has_started_ends_with_it() {
    let mut world = World::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done' & wait";
    let options = [&TTL[..], &["job", "--", "sh", "-c", script]].concat();
    let (running, grandchild) = world.hold_by(&options);
    cut(&mut world);
    has_ended(grandchild);
    (0..2).for_each(|i| world.servers[i].resume());
    assert_eq!(running.end().0, Some(123));
}

#[test]
fn on_lost_says_what_happens() {
    let mut world = tolerant();
    let wait = "trap 'echo told >> told' TERM; echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; exit 4";
    let warned = [&TOLERANT[..], &["--on-lost", "warn", "job", "--", "sh", "-c", wait]].concat();
    let (running, command) = world.hold_by(&warned);
    let killed = [&TOLERANT[..], &["--on-lost", "kill", "other", "--", "sh", "-c"]].concat();
    let script = "trap 'echo told >> told' TERM; echo $$ > other; while :; do sleep 0.05; done";
    let other = world.start(&[&["run"], &killed[..], &[script]].concat());
    let other_command = world.folder.line("other").parse().expect("a process id");
    world.wait_on_all("other");
    cut(&mut world);
    ends_before_its_key(other_command, &world.servers[2], "quorlock:other");
    wait_until("the lock is over", LIMIT, || world.servers[2].pttl("quorlock:job") < 0);
    (0..2).for_each(|i| world.servers[i].resume());
    assert_eq!(other.end().0, Some(123));
    assert!(runs(command));
    world.folder.write("go", "");
    let (code, _, told) = running.end();
    assert_eq!((code, read(&world.folder.path("told"))), (Some(4), String::new()), "{told}");
    let lost = "\"job\" is lost: too few nodes confirmed its renewals, and its validity ended; the command runs on";
    assert!(told.contains(lost), "{told}");
}

#[test]
fn a_lock_that_is_forced_open_ends_the_command_at_once() {
    let world = World::new();
    let (running, command) = world.hold(&["job"]);
    ends_with(&world.output(&["unlock", "--force", "job"]), 0);
    ends_with(&world.output(&["run", "-w", "5s", "job", "--", "true"]), 0);
    has_ended(command);
    let (code, _, told) = running.end();
    assert_eq!(code, Some(123), "{told}");
    let reason = "\"job\" is lost: its keys were gone from a majority of the nodes";
    assert!(told.contains(reason), "{told}");
    let says = |url: &String| told.lines().any(|line| line.trim().starts_with(url));
    assert!(world.servers.urls().iter().all(says), "node by node: {told}");
}

/// The exit code is that of `timeout`: nothing was lost.
#[test]
fn the_command_is_ended_after_max_hold() {
    let world = World::new();
    let options = [&TTL[..], &["--max-hold", "4s", "job", "--", "sh", "-c", STUBBORN]].concat();
    let (running, command) = world.hold_by(&options);
    has_ended(command);
    let (code, _, told) = running.end();
    assert_eq!(code, Some(124), "{told}");
    assert!(told.contains("\"job\" reaches its --max-hold"), "{told}");
    assert!(!told.contains("lost"), "{told}");
    world.servers.wait_no_keys();
}

#[test]
fn a_lock_that_is_lost_before_its_max_hold_is_lost() {
    let world = World::new();
    let (running, command) = world.hold(&["--max-hold", "10m", "job"]);
    ends_with(&world.output(&["unlock", "--force", "job"]), 0);
    has_ended(command);
    assert_eq!(running.end().0, Some(123));
}

#[test]
fn the_command_of_a_program_that_was_killed_is_ended_and_the_lock_goes_on_to_the_next() {
    let world = World::new();
    let options = [&TTL[..], &["job", "--", "sh", "-c", STUBBORN]].concat();
    let (running, command) = world.hold_by(&options);
    let watchdog = running.watchdog();
    running.signal("KILL");
    has_ended(command);
    assert_eq!(read(&world.folder.path("told")), "told\n");
    has_ended(watchdog);
    ends_with(&world.output(&["run", "job", "--", "true"]), 0);
}

/// The program gets no processor time: because of the user, a debugger, or a busy machine.
#[test]
fn the_command_of_a_program_that_does_not_go_on_is_ended_before_the_lock_can_be_somebody_elses() {
    let world = tolerant();
    let job = ["job", "--", "sh", "-c", STUBBORN];
    let options = [&TOLERANT[..], &GRACE, &job].concat();
    let (running, command) = world.hold_by(&options);
    running.watchdog();
    running.signal("STOP");
    ends_before_its_key(command, &world.servers[0], "quorlock:job");
    assert_eq!(read(&world.folder.path("told")), "told\n", "once, and before it was killed");
    wait_until("the lock is over", LIMIT, || world.servers[0].pttl("quorlock:job") < 0);
    assert!(!world.was_given_back("job"), "its keeper may go on");
    running.signal("CONT");
    let (code, _, told) = running.end();
    assert_eq!(code, Some(123), "{told}");
    let words = "the keeper of the lock is stuck; the command gets SIGTERM";
    assert!(told.contains(words), "{told}");
}

#[test]
fn a_watchdog_that_was_killed_is_replaced() {
    let world = World::new();
    let (running, command) = world.hold(&TTL.iter().chain(&["job"]).copied().collect::<Vec<_>>());
    let first = running.watchdog();
    send("KILL", first);
    wait_until("there is another one", LIMIT, || running.watchdog() != first);
    assert!(runs(command));
    let second = running.watchdog();
    running.signal("KILL");
    has_ended(command);
    has_ended(second);
}

/// The program was suspended until its pipe was full. A watchdog that is resumed later must not take the end of that pipe for the
/// end of the program.
#[test]
fn a_watchdog_that_is_replaced_ends_no_command() {
    let world = World::new();
    let (running, command) = world.hold(&TTL.iter().chain(&["job"]).copied().collect::<Vec<_>>());
    let first = running.watchdog();
    send("STOP", first);
    // The watchdog reads on until all of its threads have stopped.
    wait_until("it is suspended", LIMIT, || {
        let threads = fs::read_dir(format!("/proc/{first}/task")).expect("it is there");
        let is_stopped = |thread: fs::DirEntry| read(&thread.path().join("stat")).contains(") T ");
        threads.flatten().all(is_stopped)
    });
    let mut pipe = OpenOptions::new();
    let pipe = pipe.write(true).custom_flags(nix::libc::O_NONBLOCK);
    let mut pipe = pipe.open(format!("/proc/{first}/fd/0")).expect("a pipe of this user");
    for size in [4_096, 1] {
        while pipe.write(&vec![b'\n'; size]).is_ok() {}
    }
    let second = || children(running.id()).into_iter().find(|it| is_watchdog(*it) && *it != first);
    wait_until("there is another one", LIMIT, || second().is_some());
    drop(pipe);
    if runs(first) {
        send("CONT", first);
    }
    has_ended(first);
    assert!(runs(command));
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
    world.servers.wait_no_keys();
}

/// The pipe is full, or the terminal is halted (Ctrl-S): messages wait, but signals do not.
#[test]
fn a_command_is_ended_also_where_nobody_reads_what_is_told() {
    let world = World::new();
    let chatty = "echo $$ > pid; trap '' PIPE; while :; do echo line; done >&2";
    let (running, command) = world.hold_by(&["job", "--", "sh", "-c", chatty]);
    wait_until("the pipe is full", LIMIT, || {
        read(format!("/proc/{command}/wchan").as_ref()).contains("pipe")
    });
    ends_with(&world.output(&["unlock", "--force", "job"]), 0);
    has_ended(command);
    assert_eq!(running.end().0, Some(123));

    let (running, command) = world.hold_by(&["job", "--", "sh", "-c", chatty]);
    wait_until("the pipe is full", LIMIT, || {
        read(format!("/proc/{command}/wchan").as_ref()).contains("pipe")
    });
    running.watchdog();
    running.signal("KILL");
    has_ended(command);
}

#[test]
fn a_watchdog_that_is_suspended_holds_up_nobody() {
    let world = World::new();
    let script = "echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; exit 6";
    let (running, _) = world.hold_by(&["job", "--", "sh", "-c", script]);
    let watchdog = running.watchdog();
    send("STOP", watchdog);
    world.folder.write("go", "");
    assert_eq!(running.end().0, Some(6));
    world.servers.wait_no_keys();
    has_ended(watchdog);
}

/// The kill may come at any time: nothing of the command runs before the watchdog watches over it.
#[test]
fn the_command_of_a_program_that_is_killed_at_its_start_is_ended_or_does_not_begin() {
    let world = World::new();
    // The last delay is long enough for the command to begin.
    for delay_ms in (0..60).map(Some).chain([None]) {
        let name = format!("job-{}", delay_ms.unwrap_or(60));
        let script = format!("echo > {name}; sleep 600");
        let running = world.start(&["run", &name, "--", "sh", "-c", &script]);
        match delay_ms {
            Some(delay_ms) => thread::sleep(Duration::from_millis(delay_ms)),
            None => _ = world.folder.line(&name),
        }
        running.signal("KILL");
    }
    wait_until("no process of them runs", LIMIT, || !any_is_left(&world));
}

/// Returns true if any process runs in the folder of this test.
fn any_is_left(world: &World) -> bool {
    let folder = std::fs::canonicalize(world.folder.path("")).expect("it is there");
    let processes = std::fs::read_dir("/proc").expect("a Linux machine").flatten();
    let runs_there = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
            && id.is_some_and(runs)
    };
    processes.into_iter().any(runs_there)
}
