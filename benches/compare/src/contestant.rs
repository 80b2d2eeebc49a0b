//! Those who are compared.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Builder, ErrorKind, Quorlock, Renewal};

use super::server::wait_until;

/// A way to lock names.
pub(crate) trait Contestant: Sync {
    /// Somebody who wants the lock `name`, made on the thread that uses it.
    fn caller<'a>(&'a self, name: &str) -> Caller<'a>;

    /// Has so many callers lock and unlock a name of their own each, for as long as `span`, and returns how long each of these took.
    /// `None`: callers are threads.
    fn without_threads(&self, _callers: usize, _span: Duration) -> Option<Vec<Duration>> {
        None
    }
}

/// Waits for the lock, runs what it is given while it holds it, and gives it back.
pub(crate) type Caller<'a> = Box<dyn FnMut(&mut dyn FnMut()) + 'a>;

/// How many unlocks were not confirmed within the node timeout. That must not end a run: a busy machine
/// may stand still for longer. It is told at the end.
pub(crate) static UNCONFIRMED: AtomicUsize = AtomicUsize::new(0);

/// This library.
pub(crate) struct Ours {
    pub(crate) locks: Quorlock,
    ending: Ending,
}

/// How a guard ends.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Waits for the majority.
    Unlock,
    /// Does not wait.
    Drop,
}

/// Everything as it is without any settings.
pub(crate) fn all_on(builder: Builder) -> Builder {
    builder
}

/// Without what other clients have not got.
pub(crate) fn bare(builder: Builder) -> Builder {
    builder.fencing(false).restart_quarantine(false).renewal(Renewal::Manual)
}

impl Ours {
    /// `prefix` keeps clients apart whose settings differ.
    pub(crate) fn new(
        urls: Vec<String>,
        prefix: &str,
        settings: impl FnOnce(Builder) -> Builder,
        ending: Ending,
    ) -> Self {
        let builder = Quorlock::builder().nodes(urls).key_prefix(format!("{prefix}:"));
        let locks = settings(builder).build().expect("valid settings");
        wait_connected(&locks);
        // Nothing is held on servers that have just been started.
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
