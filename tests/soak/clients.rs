//! The process with the clients. It reports its figures once a second, and at rest when it is asked.

use std::panic;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use quorlock::crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::activities::{self, Activity, Clients};
use crate::figures::{Done, Heap, Told};
use crate::helper::{say, wait_for_go};
use crate::leak::Leak;
use crate::roles::Role;

/// Starts the clients that stay, and loads them for as long as the two variables say. The first line is its
/// process id. The others are reports ([`Told`]): one each second under load, one at rest when it is asked.
pub(crate) const CLIENTS: Role = Role { name: "clients", run };

/// The time in milliseconds in which buffers and tables grow to the size that they keep.
pub(crate) const WARM_UP: &str = "QUORLOCK_SOAK_WARM_UP_MS";
/// The time in milliseconds under load that is judged.
pub(crate) const LOAD: &str = "QUORLOCK_SOAK_LOAD_MS";

/// How many clients stay.
pub(crate) const STAY: u64 = 2;

/// Its word for: nothing happens until the test says to go on.
pub(crate) const AT_REST: &str = "at rest";

/// Its word before the first report under load.
pub(crate) const LOAD_BEGINS: &str = "the load begins";

/// Its word after the last report under load.
pub(crate) const LOAD_ENDS: &str = "the load ends";

const EVERY: Duration = Duration::from_secs(1);

/// From then on as many names are forgotten under load as are used: those of 15 s are remembered.
const FULL: Duration = Duration::from_secs(16);

fn run() {
    end_at_a_panic();
    say(&process::id().to_string());
    // The library makes some things once for a process: they are there from now on.
    let first = activities::client();
    drop(first.lock("first").expect("healthy masters"));
    drop(first);
    tell_when_asked(|| Told { heap: Heap::of_this_process(), done: Done::default() });

    let clients = Clients::start(Leak::of_this_process());
    load(&clients, Duration::ZERO, duration(WARM_UP));
    let mut known = 0;
    tell_when_asked(|| {
        let told = at_rest(&clients, 0);
        known = told.heap.bytes;
        told
    });

    load(&clients, FULL, duration(LOAD));
    tell_when_asked(|| at_rest(&clients, known));

    let done = clients.done();
    drop(clients);
    tell_when_asked(|| Told { heap: Heap::of_this_process(), done });
    // The test still looks for what this process holds on the masters.
    wait_for_go();
}

/// Otherwise a panic in a thread would be noticed when the load ends, an hour later.
fn end_at_a_panic() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        default(info);
        process::abort();
    }));
}

fn duration(variable: &str) -> Duration {
    let ms = std::env::var(variable).ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(ms.unwrap_or_else(|| panic!("{variable} is set")))
}

/// The test looks at the process from outside first.
fn tell_when_asked(told: impl FnOnce() -> Told) {
    say(AT_REST);
    wait_for_go();
    tell(told());
}

fn tell(told: Told) {
    say(&told.to_string());
}

/// All activities, with reports for that `time`, after one without.
fn load(clients: &Clients, without: Duration, time: Duration) {
    let (stop, stopped) = bounded(0);
    thread::scope(|scope| {
        for activity in &activities::ALL {
            for thread in 0..activity.threads {
                let stopped = stopped.clone();
                let run = move || repeat(activity, thread, clients, &stopped);
                let name = activity.name.to_owned();
                thread::Builder::new().name(name).spawn_scoped(scope, run).expect("a thread");
            }
        }
        thread::sleep(without);
        say(LOAD_BEGINS);
        let start = Instant::now();
        let mut next = start + EVERY;
        while next <= start + time {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            tell(Told { heap: Heap::of_this_process(), done: clients.done() });
            next += EVERY;
        }
        drop(stop);
    });
    say(LOAD_ENDS);
}

fn repeat(activity: &Activity, thread: u64, clients: &Clients, stopped: &Receiver<()>) {
    let mut turn = thread;
    while stopped.recv_timeout(activity.pause) == Err(RecvTimeoutError::Timeout) {
        (activity.turn)(clients, turn);
        turn += activity.threads;
    }
}

/// The smallest heap while nothing is done. It ends once it is down to `known`, the heap at rest of before.
///
/// A client forgets the names that it has used within 15 s, and other threads allocate now and then.
fn at_rest(clients: &Clients, known: u64) -> Told {
    const LONGEST: Duration = Duration::from_secs(20);
    const PAUSE: Duration = Duration::from_millis(20);
    let start = Instant::now();
    let mut heap = Heap::of_this_process();
    while heap.bytes > known && start.elapsed() < LONGEST {
        thread::sleep(PAUSE);
        let now = Heap::of_this_process();
        if now.bytes < heap.bytes {
            heap = now;
        }
    }
    Told { heap, done: clients.done() }
}
