//! Releases that are queued must reach the nodes before the process ends.
//!
//! Dropping a guard only queues its releases, and worker threads die with the process. So the end
//! of the last clone of a client, and the process' own normal end, wait until they are answered; in
//! any case no longer than the node timeout.

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

/// From now on the process, when it ends by returning from `main` or by `exit`, waits up to
/// `timeout` for this client's releases.
pub(crate) fn wait_for(unanswered: &Arc<AtomicUsize>, timeout: Duration) {
    let mut clients = CLIENTS.lock();
    clients.retain(|client| client.unanswered.strong_count() > 0);
    clients.push(Client { unanswered: Arc::downgrade(unanswered), timeout });
}

/// From now on the end of the process does not wait for them.
pub(crate) fn wait_no_more_for(unanswered: &Arc<AtomicUsize>) {
    CLIENTS
        .lock()
        .retain(|client| !std::ptr::eq(client.unanswered.as_ptr(), Arc::as_ptr(unanswered)));
}

/// Waits until everything that is counted by `unanswered` is answered, at most until `until`. Says
/// whether it is.
pub(crate) fn flush(unanswered: &AtomicUsize, until: Time) -> bool {
    clock::poll(until, || unanswered.load(Ordering::SeqCst) == 0)
}

dtor::declarative::dtor! {
    /// Called by the C library in `exit`, after `main` has returned, or when the library that this crate is
    /// part of is unloaded. The threads of this process still run then.
    #[dtor(unsafe)]
    fn at_exit() {
        wait_for_all();
    }
}

fn wait_for_all() {
    // A child by fork has its parent's hook, and its parent's list, which somebody may just have locked.
    if !Process::has_built() {
        return;
    }
    let clients = std::mem::take(&mut *CLIENTS.lock());
    let start = clock::now();
    for Client { unanswered, timeout } in clients {
        if let Some(unanswered) = unanswered.upgrade() {
            // From one start: all of them together take as long as the slowest one may.
            flush(&unanswered, start.after(timeout));
        }
    }
}
