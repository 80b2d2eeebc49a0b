//! An event warns of a thread that waits for its own lock. Alone in its program, since it subscribes to
//! the whole process.

mod support;

use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use parking_lot::Mutex;
use quorlock::ErrorKind;
use support::clients::patient;
use support::events::{self, told};
use support::{Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(20);
/// Long enough for a busy machine to keep every lock of the test alive.
const TTL: Duration = Duration::from_secs(20);

/// The number of warnings for the lock with that name.
fn warnings(name: &str) -> usize {
    told(&["WARN", name, "took itself", "drop the guard first", "spawn_blocking"])
}

#[test]
fn a_thread_that_waits_for_itself_is_told() {
    events::remember();
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    // Gives a lock back once its thread has been warned; in any case, so that no test waits for ever.
    let given_back = Mutex::new(None);
    let give_back = |before: usize| {
        let _guard = given_back.lock().take();
        wait_until("it is told", LIMIT, || warnings("jobs/given-back") > before);
    };
    thread::scope(|scope| {
        // Two threads wait all the time: one for itself, and one for another thread.
        let (stop, stopped) = bounded::<()>(0);
        let for_itself = scope.spawn(|| {
            let stopped = stopped;
            let _guard = locks.lock("jobs/all-the-time").expect("three nodes");
            locks.lock_within("jobs/all-the-time", &stopped).map(drop)
        });
        let other = locks.lock("jobs/another-thread").expect("three nodes");
        let for_another = scope.spawn(|| locks.lock("jobs/another-thread").map(drop));

        // A clone is the same client.
        *given_back.lock() = Some(locks.clone().lock("jobs/given-back").expect("three nodes"));
        for before in 0..2 {
            let give_back = &give_back;
            scope.spawn(move || give_back(before));
            let next = locks.lock("jobs/given-back").expect("it is no error");
            // This time the lock was handed over, and its new thread may wait for itself as well.
            *given_back.lock() = Some(next);
        }
        drop(given_back.lock().take());
        assert_eq!(warnings("jobs/given-back"), 2, "once a call: {:?}", events::all());

        let guard = locks.lock("jobs/cancelled").expect("three nodes");
        let (cancel, cancelled) = bounded::<()>(0);
        scope.spawn(move || {
            // The drop of the sender cancels the wait.
            let _cancel = cancel;
            wait_until("it is told", LIMIT, || warnings("jobs/cancelled") > 0);
        });
        let error = locks.lock_within("jobs/cancelled", &cancelled).expect_err("it is ours");
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        // With a deadline the wait ends by itself.
        let again = locks.try_lock_for("jobs/cancelled", Duration::from_millis(1_600));
        assert!(again.is_err_and(|error| error.is_held()));
        assert_eq!(warnings("jobs/cancelled"), 1, "{:?}", events::all());
        guard.unlock().expect("three nodes");

        wait_until("it is told", LIMIT, || warnings("jobs/all-the-time") > 0);
        assert_eq!(warnings("jobs/all-the-time"), 1, "once a call: {:?}", events::all());
        drop(stop);
        let error = for_itself.join().expect("no panic").expect_err("it is its own");
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert!(!for_another.is_finished());
        assert_eq!(warnings("jobs/another-thread"), 0, "{:?}", events::all());
        other.unlock().expect("three nodes");
        for_another.join().expect("no panic").expect("three nodes");
    });
    servers.wait_no_keys();
}
