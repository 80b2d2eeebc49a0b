//! The program on a terminal, which the program `script` provides.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::{LIMIT, Running, World, has_ended, read};
use crate::support::wait_until;

/// Runs the program on a terminal of its own, with that input; `None`: `script` is missing. The terminal's output is in the file
/// `shown`.
#[allow(clippy::print_stdout, reason = "what is left out is told")]
pub(crate) fn on_terminal(
    world: &World,
    line: &str,
) -> Option<(Running, std::process::ChildStdin)> {
    let is_there = Command::new("script").arg("--version").output().is_ok();
    if !is_there {
        println!("left out: there is no program `script`: {line}");
        return None;
    }
    // Replaces the shell that `script` starts: `SHELL` decides if that one would wait, and end by Ctrl-C.
    let line = format!("exec {}", line.replace("quorlock", env!("CARGO_BIN_EXE_quorlock")));
    let mut script = Command::new("sh");
    script.args(["-c", "exec script -qec \"$0\" /dev/null > shown", &line]);
    script.current_dir(world.folder.path(""));
    script.env("QUORLOCK_NODES", world.servers.urls().join(",")).stdin(Stdio::piped());
    let mut running = Running::new(&mut script);
    let typed = running.stdin();
    Some((running, typed))
}

#[test]
fn the_command_reads_what_is_typed() {
    let world = World::new();
    let line = "quorlock run job -- sh -c 'echo > begun; read word; echo $word > read'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    world.folder.line("begun");
    typed.write_all(b"hello\n").expect("a terminal");
    assert_eq!(world.folder.line("read"), "hello");
    assert_eq!(running.end().0, Some(0));
    world.servers.wait_no_keys();
}

#[test]
fn an_interrupt_is_for_the_command() {
    let world = World::new();
    // A shell that is interrupted just before its `read` waits for input, and runs the trap only then.
    let line = "quorlock run job -- sh -c 'trap \"echo > got; exit 5\" INT; echo > begun; \
                while :; do sleep 0.05; done'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    world.folder.line("begun");
    typed.write_all(b"\x03").expect("a terminal");
    world.folder.line("got");
    assert_eq!(running.end().0, Some(5));
    world.servers.wait_no_keys();
}

#[test]
fn a_wait_on_a_terminal_is_interrupted() {
    let world = World::new();
    let (held, _) = world.hold(&["job"]);
    let line = "quorlock run job -- echo never";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    // A shell in front of it would lose an interrupt that comes just before its `exec`.
    wait_until("it says that it waits", LIMIT, || {
        read(&world.folder.path("shown")).contains("held by")
    });
    typed.write_all(b"\x03").expect("a terminal");
    assert_eq!(running.end().0, Some(130));
    held.signal("TERM");
    held.end();
    world.servers.wait_no_keys();
}

/// A user suspends the command, gets the shell back, and resumes both.
#[test]
fn a_command_is_suspended_and_goes_on() {
    let world = World::new();
    let line = "bash --norc -ic 'set -m; quorlock run job -- sh -c \"echo \\$\\$ > pid; read word\"; \
                echo $? > suspended; while ! [ -e fg ]; do sleep 0.05; done; fg; echo $? > ended'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    let command = world.folder.line("pid").parse().expect("a process id");
    typed.write_all(b"\x1a").expect("a terminal");
    world.folder.line("suspended");
    let stat = read(format!("/proc/{command}/stat").as_ref());
    assert!(stat.contains(") T "), "{stat}");
    world.folder.write("fg", "");
    typed.write_all(b"word\n").expect("a terminal");
    assert_eq!(world.folder.line("ended"), "0");
    has_ended(command);
    running.end();
}

/// A command in the background that wants to read is suspended, as by any shell, and the shell keeps its terminal.
#[test]
fn a_command_in_the_background_does_not_take_the_terminal() {
    let world = World::new();
    let line = "bash --norc -ic 'set -m; quorlock run job -- sh -c \"echo \\$\\$ > pid; read word; echo \\$word > read\" & echo $! > keeper; \
                while ! [ -e go ]; do sleep 0.05; done; read mine; echo $mine > mine; jobs > jobs; fg; echo $? > ended'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    world.folder.line("pid");
    // This process follows the command. The shell hears of that once the last of its threads is suspended.
    let keeper: u32 = world.folder.line("keeper").parse().expect("a process id");
    wait_until("it is suspended", LIMIT, || {
        let threads = std::fs::read_dir(format!("/proc/{keeper}/task")).expect("it is there");
        let mut stats = threads.flatten().map(|thread| read(&thread.path().join("stat")));
        stats.all(|stat| stat.contains(") T "))
    });
    world.folder.write("go", "");
    typed.write_all(b"for the shell\n").expect("a terminal");
    assert_eq!(world.folder.line("mine"), "for the shell");
    assert!(world.folder.line("jobs").contains("Stopped"), "{}", world.folder.line("jobs"));
    typed.write_all(b"for the command\n").expect("a terminal");
    assert_eq!(world.folder.line("read"), "for the command");
    assert_eq!(world.folder.line("ended"), "0");
    running.end();
}

/// An example is `ssh -t HOST quorlock run ..`: there is no shell that could resume the command.
#[test]
fn without_a_shell_nothing_is_suspended() {
    let world = World::new();
    let line = "quorlock run job -- sh -c 'echo > begun; read word; echo $word > read'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    world.folder.line("begun");
    typed.write_all(b"\x1a").expect("a terminal");
    typed.write_all(b"goes on\n").expect("a terminal");
    assert_eq!(world.folder.line("read"), "goes on");
    assert_eq!(running.end().0, Some(0));
}

/// An example is a pager that shows the output.
#[test]
fn others_of_the_job_may_read_what_is_typed() {
    let world = World::new();
    let line = "bash --norc -ic 'set -m; quorlock run job -- sh -c \"echo > begun; echo out\" | \
                sh -c \"read word < /dev/tty; cat > out; echo \\$word > read\"'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    world.folder.line("begun");
    typed.write_all(b"word\n").expect("a terminal");
    assert_eq!(
        (world.folder.line("read"), world.folder.line("out")),
        ("word".to_owned(), "out".to_owned())
    );
    assert_eq!(running.end().0, Some(0));
}

/// An interrupt is meant for the whole loop. The command becomes `sleep`. A shell that is interrupted while it starts a process
/// waits for that process, which is still a shell and may have lost the signal.
#[test]
fn an_interrupt_ends_the_loop_in_which_the_command_is() {
    let world = World::new();
    let line = "bash -c 'for i in 1 2 3; do quorlock run job -- sh -c \"echo >> begun; exec sleep 600\"; done; echo > over'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    world.folder.line("begun");
    typed.write_all(b"\x03").expect("a terminal");
    assert_eq!(running.end().0, Some(130));
    assert_eq!(read(&world.folder.path("begun")), "\n", "once");
    assert!(!world.folder.path("over").exists());
    world.servers.wait_no_keys();
}

#[test]
fn what_is_measured_is_shown_on_a_terminal() {
    let world = World::new();
    let line = "quorlock bench --seconds 2 --node-timeout 5s";
    let Some((running, _typed)) = on_terminal(&world, line) else { return };
    let (code, ..) = running.end();
    let shown = read(&world.folder.path("shown"));
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("\r1 thread, 1 lock: 0."), "{shown}");
}
