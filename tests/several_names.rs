//! Clients that want several of a few names at once, different ones each time and in any order. No client waits for ever,
//! and each gets its share.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::Quorlock;
use rand::seq::index;
use support::clients::patient;
use support::{Server, Servers, wait_until};

const CLIENTS: usize = 8;
const NAMES: usize = 10;
const EACH: usize = 3;
const LASTS: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(10);
/// Time for which each lock is held.
const WORK: Duration = Duration::from_millis(1);
/// A limit that is never reached: far longer than the waits for locks that are held for a millisecond.
const LIMIT: Duration = Duration::from_secs(30);

/// Takes locks until that time. Returns their number.
fn contend(locks: &Quorlock, is_held: &[AtomicBool; NAMES], until: Instant) -> u32 {
    let mut served = 0;
    while Instant::now() < until {
        let picked = index::sample(&mut rand::rng(), NAMES, EACH).into_vec();
        let lock = locks.multi_mutex(picked.iter().map(|name| format!("name/{name}")));
        let guard = lock.try_lock_for(LIMIT).expect("nobody holds one for long");
        for name in &picked {
            assert!(!is_held[*name].swap(true, Ordering::SeqCst), "two hold name {name}");
        }
        thread::sleep(WORK);
        guard.check().expect("it is ours");
        for name in &picked {
            is_held[*name].store(false, Ordering::SeqCst);
        }
        guard.unlock().expect("three nodes");
        served += 1;
    }
    served
}

#[test]
#[allow(clippy::print_stdout, reason = "how often each was served, for who asks with --nocapture")]
fn clients_of_several_names_are_served_alike_and_leave_nothing() {
    let servers = Servers::start(3);
    let is_held = [(); NAMES].map(|()| AtomicBool::new(false));
    // Each client has its own connections and queues, like one of another process.
    let clients: Vec<_> = (0..CLIENTS).map(|_| patient(&servers, TTL)).collect();
    let (is_held, until) = (&is_held, Instant::now() + LASTS);
    let served: Vec<_> = thread::scope(|scope| {
        let work = |locks| scope.spawn(move || contend(locks, is_held, until));
        let threads: Vec<_> = clients.iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    println!("each client was served so often in {LASTS:?}: {served:?}");
    servers.iter().for_each(leaves_nothing);
    let (least, most) = (served.iter().min(), served.iter().max());
    assert!(least.zip(most).is_some_and(|(least, most)| least * 3 >= *most), "{served:?}");
}

/// No key of a name is left on the server, long before the locks would have expired.
fn leaves_nothing(server: &Server) {
    let left = |key: &String| key.starts_with("quorlock:name/");
    wait_until("all was given back", TTL / 2, || !server.keys().iter().any(left));
}
