//! The process with the clients. It reports its figures each second under load, and at rest on request.

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

/// Starts the clients that stay, and loads them for the times that the two variables give. The first line of output is
/// the process id. The others are reports ([`Told`]): one each second under load, one at rest on request.
pub(crate) const CLIENTS: Role = Role { name: "clients", run };

/// The variable with the time in milliseconds in which buffers and tables grow to their final size.
pub(crate) const WARM_UP: &str = "QUORLOCK_SOAK_WARM_UP_MS";
/// The variable with the time in milliseconds under load that is judged.
pub(crate) const LOAD: &str = "QUORLOCK_SOAK_LOAD_MS";

/// The number of clients that stay.
pub(crate) const STAY: u64 = 2;

/// The output line of a process that does nothing until the test lets it go on.
pub(crate) const AT_REST: &str = "at rest";

/// The output line before the first report under load.
pub(crate) const LOAD_BEGINS: &str = "the load begins";

/// The output line after the last report under load.
pub(crate) const LOAD_ENDS: &str = "the load ends";

const EVERY: Duration = Duration::from_secs(1);

/// Time after which as many names are forgotten under load as are used: names of the last 15 s are remembered.
const FULL: Duration = Duration::from_secs(16);

fn run() {
    end_at_a_panic();
    say(&process::id().to_string());
    // The library makes some things once per process: they exist from now on.
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
    // The test still checks the keys of this process on the masters.
    wait_for_go();
}

/// Ends the process at a panic in a thread. Otherwise it would be noticed at the end of the load, an hour later.
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

/// Reports once the test asks, after it has measured the process from outside.
fn tell_when_asked(told: impl FnOnce() -> Told) {
    say(AT_REST);
    wait_for_go();
    tell(told());
}

fn tell(told: Told) {
    say(&told.to_string());
}

/// Runs all activities: for the time `without` reports, then with reports for `time`.
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

/// The smallest heap of the idle process. The measurement ends once the heap is down to `known`, the earlier heap at rest.
///
/// The value takes time to fall: a client remembers used names for 15 s, and other threads allocate now and then.
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
