//! The rest of a command's group, when the command itself has ended.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::fs::File;
use std::process::Command;

use crate::program::{LIMIT, World, has_ended, read, runs, send};
use crate::support::reaper::Process;
use crate::support::wait_until;

/// A command whose first thread ends, and whose other thread goes on and ignores SIGTERM.
const THREADS: &str = "
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static void *rest(void *unused) { for (;;) pause(); return unused; }
int main(void) {
    pthread_t thread;
    signal(SIGTERM, SIG_IGN);
    pthread_create(&thread, 0, rest, 0);
    pthread_exit(0);
}
";

/// The system lists this process as one that has ended.
#[test]
fn a_process_whose_first_thread_has_ended_is_waited_for() {
    let world = World::new();
    world.folder.write("threads.c", THREADS);
    let mut compiler = Command::new("cc");
    compiler.args(["-pthread", "-o", "threads", "threads.c"]).current_dir(world.folder.path(""));
    if !compiler.status().is_ok_and(|status| status.success()) {
        eprintln!("left out: there is no C compiler");
        return;
    }
    let script = "./threads & echo $! > threads.pid; trap 'exit 5' TERM; echo $$ > pid; \
                  while :; do sleep 0.05; done";
    let mut program = world.program(&["run", "job", "--", "sh", "-c", script]);
    let told = File::create(world.folder.path("told")).expect("there is room");
    let mut running = Process::spawn(program.stderr(told)).expect("it starts");
    let leader = world.folder.line("pid").parse().expect("a process id");
    let threads: u32 = world.folder.line("threads.pid").parse().expect("a process id");
    wait_until("its first thread has ended", LIMIT, || {
        read(format!("/proc/{threads}/stat").as_ref()).contains(") Z ")
    });
    send("TERM", running.id());
    has_ended(leader);
    let named = format!("\"job\" is kept until all of the command has ended: process {threads} ");
    wait_until(&named, LIMIT, || read(&world.folder.path("told")).contains(&named));
    world.wait_renewed();
    send("KILL", threads);
    assert_eq!(running.wait().expect("it is ours").code(), Some(5));
    world.servers.wait_no_keys();
}

#[test]
fn a_second_signal_ends_the_rest() {
    let world = World::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ > rest; while :; do sleep 0.05; done' & \
                  trap 'exit 5' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let (running, leader) = world.hold_by(&["job", "--", "sh", "-c", script]);
    let rest = world.folder.line("rest").parse().expect("a process id");
    running.signal("TERM");
    has_ended(leader);
    assert!(runs(rest), "it does not heed the first one");
    wait_until("the rest has ended", LIMIT, || {
        // The program may not know yet that the command has ended, and then it passes this signal on like the first.
        running.signal("TERM");
        !runs(rest)
    });
    assert_eq!(running.end().0, Some(5));
    world.servers.wait_no_keys();
}
