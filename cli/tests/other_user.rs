//! A command, or a part of it, that runs as another user: the program may send it no signals, and says so.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::program::{
    LIMIT, Running, World, copy_file, ends_with, has_ended, is_ignored, read, runs, send,
};
use crate::support::wait_until;

/// The user of the program, and the user of the command.
const USER: u32 = 65_534;
const OTHER: u32 = 1;
/// Starts a shell as the other user, in the folder of [`world`].
const AS_OTHER: &str = "./as-other --reuid=1 --clear-groups sh -c";

/// Returns a folder in which a user with few rights finds the program, and `as-other`, which runs a command as another user, like
/// `sudo`. Prints the reason and returns `None` if this is not possible.
fn world() -> Option<World> {
    let world = World::new();
    let setpriv =
        ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|it| Path::new(it).exists());
    let Some(setpriv) =
        setpriv.filter(|_| fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0))
    else {
        eprintln!(
            "left out: without root's rights and `setpriv` there is no command of another user"
        );
        return None;
    };
    let may = |file: &str, mode| {
        fs::set_permissions(world.folder.path(file), Permissions::from_mode(mode))
            .expect("it is ours");
    };
    may("", 0o777);
    copy_file(env!("CARGO_BIN_EXE_quorlock").as_ref(), &world.folder.path("quorlock"));
    copy_file(setpriv.as_ref(), &world.folder.path("as-other"));
    may("quorlock", 0o755);
    may("as-other", 0o4755);
    let line = format!("{AS_OTHER} 'id -ru'");
    let mut id = Command::new("sh");
    id.args(["-c", &line]).current_dir(world.folder.path("")).uid(USER);
    let id = id.output().expect("sh is there");
    if String::from_utf8_lossy(&id.stdout).trim() != OTHER.to_string() {
        eprintln!("left out: programs of this folder run as nobody else ({id:?})");
        return None;
    }
    Some(world)
}

/// A process of the other user. It is killed at the end of its test.
struct Other(u32);

impl Drop for Other {
    fn drop(&mut self) {
        if runs(self.0) {
            send("KILL", self.0);
        }
    }
}

/// Starts `quorlock run job` with that script, as the user with few rights. Its messages go to the file `told`. Returns it with the
/// process that has written its id to the file `pid`.
fn hold(world: &World, script: &str) -> (Running, Other) {
    let mut program = Command::new("sh");
    program
        .args(["-c", "exec ./quorlock run job -- sh -c \"$0\" 2> told", script])
        .env("QUORLOCK_NODES", world.servers.urls().join(","))
        .current_dir(world.folder.path(""))
        .uid(USER);
    let running = Running::new(&mut program);
    (running, Other(world.folder.line("pid").parse().expect("a process id")))
}

fn told(world: &World) -> String {
    read(&world.folder.path("told"))
}

#[track_caller]
fn wait_told(world: &World, words: &str) {
    wait_until(words, LIMIT, || told(world).contains(words));
}

fn is_held(world: &World) -> bool {
    world.servers.iter().all(|server| server.pttl("quorlock:job") > 0)
}

#[test]
fn a_command_that_cannot_be_ended_is_named_and_waited_for() {
    let Some(world) = world() else { return };
    let script = format!("exec {AS_OTHER} 'echo $$ > pid; exec sleep 600 > log 2>&1'");
    let (running, command) = hold(&world, &script);
    ends_with(&world.output(&["unlock", "--force", "job"]), 0);
    let id = command.0;
    let named =
        format!("\"job\" is lost: process {id} (of user 1) of the command may not be ended");
    wait_told(&world, &named);
    assert!(runs(id));
    drop(command);
    assert_eq!(running.end().0, Some(123));
    let told = told(&world);
    assert!(told.contains(&format!("kill -s KILL -- -{id}")), "{told}");
    assert!(!told.contains("gets SIG"), "{told}");
}

#[test]
fn a_lock_is_kept_while_a_part_of_the_command_cannot_be_ended() {
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        if is_ignored(code - 128) {
            eprintln!("left out, since this process ignores it: SIG{signal}");
            continue;
        }
        let Some(world) = world() else { return };
        let script = format!(
            "ulimit -c 0; echo $$ > leader; {AS_OTHER} 'echo $$ > pid; exec sleep 600 > log 2>&1' & \
             while :; do sleep 0.05; done"
        );
        let (running, part) = hold(&world, &script);
        let leader = world.folder.line("leader").parse().expect("a process id");
        running.signal(signal);
        has_ended(leader);
        world.wait_renewed();
        let named = format!(
            "\"job\" is kept until all of the command has ended: process {} (of user 1)",
            part.0
        );
        wait_told(&world, &named);
        assert!(runs(part.0) && is_held(&world), "{signal}");
        drop(part);
        assert_eq!(running.end().0, Some(code), "{}", told(&world));
        world.servers.wait_no_keys();
    }
}

#[test]
fn a_command_that_cannot_be_ended_is_named_when_the_program_is_killed() {
    let Some(world) = world() else { return };
    let script = format!("exec {AS_OTHER} 'echo $$ > pid; exec sleep 600 > log 2>&1'");
    let (running, command) = hold(&world, &script);
    let watchdog = running.watchdog();
    running.signal("KILL");
    running.end();
    wait_told(&world, &format!("others may get it, but process {} (of user 1)", command.0));
    has_ended(watchdog);
    assert!(runs(command.0));
    assert!(!world.was_given_back("job"), "the command goes on");
}
