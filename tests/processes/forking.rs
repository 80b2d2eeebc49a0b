//! Processes made by `fork` while other threads of their parent run at any point of the code.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fork::Fork;
use quorlock::{Builder, ErrorKind, Guard, Mutex, OptionalGuard as _, Quorlock};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::helper::{Helper, PROMPT, say};
use crate::roles::{Role, in_static};
use crate::support::Servers;

const ROUNDS: usize = 60;
const BUSY_THREADS: usize = 4;

/// A child that has not ended by then waits for something that never comes.
const HANGS: Duration = Duration::from_secs(10);
/// A refused call waits for nothing, but the machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(5);

pub(crate) fn a_child_has_no_part_in_its_parents_locks() {
    let servers = Servers::start(3);
    let helper = Helper::start(&FORK, &servers);
    helper.expect("0 hung, 0 failed");
    helper.finish_within(PROMPT);
    servers.wait_no_keys();
}

pub(crate) fn children_of_a_process_that_has_not_locked_yet_lock_as_any_other() {
    let servers = Servers::start(3);
    let helper = Helper::start(&FORK_FIRST, &servers);
    helper.expect("0 hung, 0 failed");
    helper.finish_within(PROMPT);
    servers.wait_no_keys();
}

/// Forks again and again while threads lock, and reports the fate of the children.
pub(crate) static FORK: Role = Role {
    name: "fork",
    run: || {
        let locks = in_static();
        drop(locks.lock("all is connected").expect("healthy nodes"));
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for i in 0..BUSY_THREADS {
                let (locks, over) = (&locks, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        drop(locks.lock(format!("busy/{i}")).expect("healthy nodes"));
                        drop(locks.lock("busy").expect("healthy nodes"));
                        drop(locks.rw_lock("busy").read().expect("healthy nodes"));
                        let _ = locks.node_stats();
                    }
                });
            }
            let mut tally = Tally::default();
            for round in 0..ROUNDS {
                let name = format!("orders/{round}");
                let guard = Some(locks.lock(&name).expect("healthy nodes"));
                let written = locks.rw_lock(format!("configurations/{round}"));
                let writer = Some(written.write().expect("healthy nodes"));
                // The child takes its copy out; the parent's value is still here.
                let (guard, writer) = (RefCell::new(guard), RefCell::new(writer));
                tally.fork(|| {
                    let guard = guard.take().expect("it is there");
                    let writer = writer.take().expect("it is there");
                    let owner = writer.owner().to_owned();
                    let reader = writer.downgrade();
                    assert_eq!(reader.owner(), owner, "it is the parent's to downgrade");
                    closed(reader.check());
                    drop(reader);
                    let (client, handle) = (locks.clone(), locks.mutex(&name));
                    refused(&guard, &client, &handle);
                    match round % 3 {
                        0 => drop((guard, client, handle)),
                        1 => closed(guard.unlock()),
                        _ => closed(client.close(HANGS)),
                    }
                });
                let guard = guard.take().expect("it is there");
                guard.check().expect("nobody but us can give it back");
                guard.unlock().expect("it is ours");
                assert!(written.is_write_locked_by_current_thread());
                drop(writer.take());
            }
            over.store(true, Ordering::Relaxed);
            tally.say();
        });
    },
};

/// Forks before it builds a client.
pub(crate) static FORK_FIRST: Role = Role {
    name: "fork first",
    run: || {
        let lock = || {
            let locks = in_static();
            let guard = locks.lock("orders/42").expect("healthy nodes");
            guard.unlock().expect("healthy nodes");
            // Only the end of the process waits for the dropped guard's release.
            drop(locks.lock("orders/43").expect("healthy nodes"));
        };
        let mut tally = Tally::default();
        (0..5).for_each(|_| tally.fork(lock));
        lock();
        tally.say();
    },
};

/// Counts of the children by their fate.
#[derive(Default)]
struct Tally {
    hung: usize,
    failed: usize,
}

impl Tally {
    /// Makes a child run that and end like a program that returns from `main`. Waits for it.
    fn fork(&mut self, run: impl FnOnce()) {
        match fork::fork().expect("there is room for a process") {
            Fork::Child => {
                let start = Instant::now();
                let done = catch_unwind(AssertUnwindSafe(run)).is_ok();
                process::exit((!done || start.elapsed() > AT_ONCE).into());
            }
            Fork::Parent(pid) => match ended(Pid::from_raw(pid).expect("it is a process")) {
                None => self.hung += 1,
                Some(0) => {}
                Some(_) => self.failed += 1,
            },
        }
    }

    fn say(&self) {
        say(&format!("{} hung, {} failed", self.hung, self.failed));
    }
}

fn refused(guard: &Guard, client: &Quorlock, handle: &Mutex) {
    closed(client.try_lock("orders/0").optional().map(drop));
    closed(client.lock("others").map(drop));
    closed(handle.try_lock_for(HANGS).optional().map(drop));
    closed(client.admit().map(|_| ()));
    closed(Builder::from_env().and_then(|builder| builder.build()).map(drop));
    closed(guard.check());
    closed(guard.extend(HANGS));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(guard.lost().recv().is_err(), "it has ended");
    guard.on_lost(|_| panic!("nobody calls it"));
    assert!(guard.at_risk().recv().is_err(), "it has ended");
    guard.on_at_risk(|risk| panic!("nobody calls it: {risk}"));
    let stats = client.stats();
    assert!(stats.nodes.iter().all(|node| !node.connected));
    assert_eq!((stats.waiting, stats.holding), (0, 0));
    assert!(format!("{guard:?} {client:?} {handle:?}").contains("orders/"));
}

fn closed(result: Result<(), quorlock::Error>) {
    let error = result.expect_err("a child has no part in it");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("fork"), "{error}");
}

/// The exit code of the process. Returns `None` if it had to be killed.
fn ended(pid: Pid) -> Option<i32> {
    let start = Instant::now();
    let mut killed = false;
    loop {
        let waited = waitpid(Some(pid), WaitOptions::NOHANG).expect("it is a child of ours");
        if let Some((_, status)) = waited {
            // The process ended by itself, or by a signal of its own.
            let code = status.exit_status().or(status.terminating_signal());
            return code.filter(|_| !killed);
        }
        if !killed && start.elapsed() > HANGS {
            killed = true;
            kill_process(pid, Signal::KILL).expect("it is a child of ours");
        }
        thread::sleep(Duration::from_millis(1));
    }
}
