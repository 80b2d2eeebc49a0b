//! Releases that are queued must reach the nodes before the process ends.
//!
//! Dropping a guard only queues its releases, and worker threads die with the process. So dropping the last clone of a
//! client, and the normal end of the process, wait until the releases are answered, but no longer than the node timeout.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::core::base::Time;
use crate::process::Process;

struct Client {
    unanswered: Weak<AtomicUsize>,
    timeout: Duration,
}

static CLIENTS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// From now on the process, when it ends by returning from `main` or by `exit`, waits up to `timeout` for this client's
/// releases.
pub(crate) fn wait_for(unanswered: &Arc<AtomicUsize>, timeout: Duration) {
    let mut clients = CLIENTS.lock();
    clients.retain(|client| client.unanswered.strong_count() > 0);
    clients.push(Client { unanswered: Arc::downgrade(unanswered), timeout });
}

/// From now on the end of the process does not wait for these releases.
pub(crate) fn wait_no_more_for(unanswered: &Arc<AtomicUsize>) {
    CLIENTS
        .lock()
        .retain(|client| !std::ptr::eq(client.unanswered.as_ptr(), Arc::as_ptr(unanswered)));
}

/// Waits until everything counted by `unanswered` is answered, at most until `until`. Returns true if it is.
pub(crate) fn flush(unanswered: &AtomicUsize, until: Time) -> bool {
    clock::poll(until, || unanswered.load(Ordering::SeqCst) == 0)
}

dtor::declarative::dtor! {
    /// Called by the C library in `exit`, after `main` has returned, or when the library that contains this crate is
    /// unloaded. The threads of this process still run then.
    #[dtor(unsafe)]
    fn at_exit() {
        wait_for_all();
    }
}

fn wait_for_all() {
    // A forked child has its parent's hook, and its parent's list, whose mutex another thread may just have locked.
    if !Process::has_built() {
        return;
    }
    let clients = std::mem::take(&mut *CLIENTS.lock());
    let start = clock::now();
    for Client { unanswered, timeout } in clients {
        if let Some(unanswered) = unanswered.upgrade() {
            // All with one start: together they take as long as the slowest one may.
            flush(&unanswered, start.after(timeout));
        }
    }
}
