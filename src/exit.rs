//! Releases that are queued must be written before the process ends.
//!
//! Dropping a guard only queues its releases, and worker threads die with the process. So the end
//! of the last clone of a client, and the process' own normal end, wait until they are written; in
//! any case no longer than the node timeout.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::quorum::Time;

struct Client {
    unwritten: Weak<AtomicUsize>,
    timeout: Duration,
}

static CLIENTS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// From now on the process, when it ends by returning from `main` or by `exit`, waits up to
/// `timeout` for this client's releases.
pub(crate) fn wait_for(unwritten: &Arc<AtomicUsize>, timeout: Duration) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // No room for another hook (the C library guarantees 32): the drop of the client still
        // waits, only clients in statics lose.
        let _ = shutdown_hooks::add_shutdown_hook(at_exit);
    });
    let mut clients = CLIENTS.lock();
    clients.retain(|client| client.unwritten.strong_count() > 0);
    clients.push(Client { unwritten: Arc::downgrade(unwritten), timeout });
}

/// Waits until everything that is counted by `unwritten` is written, at most until `until`. Says
/// whether it is.
pub(crate) fn flush(unwritten: &AtomicUsize, until: Time) -> bool {
    clock::poll(until, || unwritten.load(Ordering::SeqCst) == 0)
}

extern "C" fn at_exit() {
    let clients = std::mem::take(&mut *CLIENTS.lock());
    let start = clock::now();
    for Client { unwritten, timeout } in clients {
        if let Some(unwritten) = unwritten.upgrade() {
            // From one start: all of them together take as long as the slowest one may.
            flush(&unwritten, start.after(timeout));
        }
    }
}
