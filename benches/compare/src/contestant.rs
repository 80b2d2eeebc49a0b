//! The libraries that are compared.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Builder, ErrorKind, Quorlock, Renewal};

use super::server::wait_until;

/// A way to lock names.
pub(crate) trait Contestant: Sync {
    /// A caller that wants the lock `name`, made on the thread that uses it.
    fn caller<'a>(&'a self, name: &str) -> Caller<'a>;

    /// Has that number of callers lock and unlock a name of their own each, for the time `span`. Returns the time of each lock with
    /// its unlock. `None`: callers are threads.
    fn without_threads(&self, _callers: usize, _span: Duration) -> Option<Vec<Duration>> {
        None
    }
}

/// Waits for the lock, runs the closure while it holds the lock, and gives the lock back.
pub(crate) type Caller<'a> = Box<dyn FnMut(&mut dyn FnMut()) + 'a>;

/// Number of unlocks that were not confirmed within the node timeout. They must not end a run, since a busy machine may stand still
/// for longer. The number is printed at the end.
pub(crate) static UNCONFIRMED: AtomicUsize = AtomicUsize::new(0);

/// This library.
pub(crate) struct Ours {
    pub(crate) locks: Quorlock,
    ending: Ending,
}

/// The way in which a guard ends.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Waits for the majority.
    Unlock,
    /// Does not wait.
    Drop,
}

/// The default settings.
pub(crate) fn all_on(builder: Builder) -> Builder {
    builder
}

/// Switches off the features that other clients lack.
pub(crate) fn bare(builder: Builder) -> Builder {
    builder.fencing(false).restart_quarantine(false).renewal(Renewal::Manual)
}

impl Ours {
    /// `prefix` separates clients with different settings.
    pub(crate) fn new(
        urls: Vec<String>,
        prefix: &str,
        settings: impl FnOnce(Builder) -> Builder,
        ending: Ending,
    ) -> Self {
        let builder = Quorlock::builder().nodes(urls).key_prefix(format!("{prefix}:"));
        let locks = settings(builder).build().expect("valid settings");
        wait_connected(&locks);
        // No lock can be held on servers that have just been started.
        wait_until("all nodes to be admitted", Duration::from_secs(10), || locks.admit().is_ok());
        Self { locks, ending }
    }
}

pub(crate) fn wait_connected(locks: &Quorlock) {
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
}

impl Contestant for Ours {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        let mutex = self.locks.mutex(name);
        let ending = self.ending;
        Box::new(move |inside| {
            let guard = mutex.lock().expect("healthy nodes");
            inside();
            match ending {
                Ending::Unlock => {
                    if let Err(error) = guard.unlock() {
                        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
                        UNCONFIRMED.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ending::Drop => drop(guard),
            }
        })
    }
}
