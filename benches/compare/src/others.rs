//! The crates `rslock` and `redlock`.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redlock::RedLock;
use rslock::LockManager;
use tokio::runtime::Runtime;

use super::contestant::{Caller, Contestant};

const TTL: Duration = Duration::from_secs(30);

/// The crate `rslock`, which is asynchronous.
///
/// One manager for all callers, as its documentation shows it: they share its connection to each node,
/// which makes it fast. The connections live on a runtime with a thread for each core. Callers are
/// threads, and run their own calls with `block_on`, so that a call wakes no other thread but those of the
/// connections' tasks. Its guard releases nothing when it is dropped, so there is no figure for lock and
/// drop; and `release` waits for all nodes.
pub(crate) struct Rslock {
    manager: LockManager,
    runtime: Runtime,
}

impl Rslock {
    pub(crate) fn new(urls: Vec<String>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().build().expect("threads can be started");
        Self { manager: LockManager::new(urls), runtime }
    }

    /// Sets short pauses between attempts. The default is three attempts with pauses of up to 200 ms,
    /// after which `acquire` begins again.
    pub(crate) fn impatient(mut self, pause: Duration) -> Self {
        self.manager.set_retry(u32::MAX, pause);
        self
    }
}

impl Contestant for Rslock {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        let key = format!("rslock:{name}");
        Box::new(move |inside| {
            let acquire = self.manager.acquire(key.as_str(), TTL);
            let guard = self.runtime.block_on(acquire).expect("it tries until it has the lock");
            inside();
            self.runtime.block_on(guard.release());
        })
    }
}

/// The crate `rslock` with tasks as callers, all of them and its connections on one thread: its best form.
pub(crate) struct RslockTasks(Rslock);

impl RslockTasks {
    pub(crate) fn new(urls: Vec<String>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("there are file descriptors");
        let tasks = Self(Rslock { manager: LockManager::new(urls), runtime });
        // The manager connects with its first lock.
        tasks.caller("first")(&mut || {});
        tasks
    }
}

impl Contestant for RslockTasks {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        self.0.caller(name)
    }

    fn without_threads(&self, callers: usize, span: Duration) -> Option<Vec<Duration>> {
        let until = Instant::now() + span;
        let task = async |caller: usize| {
            let key = format!("rslock:own/{caller}");
            let mut times = Vec::new();
            while Instant::now() < until {
                let start = Instant::now();
                let guard = self.0.manager.acquire(key.as_str(), TTL).await;
                guard.expect("it tries until it has the lock").release().await;
                times.push(start.elapsed());
            }
            times
        };
        let all = self.0.runtime.block_on(join_all((0..callers).map(task)));
        Some(all.into_iter().flatten().collect())
    }
}

/// The crate `redlock`, which makes a connection for each request, and asks one node after the other.
pub(crate) struct Redlock(RedLock);

impl Redlock {
    pub(crate) fn new(urls: Vec<String>) -> Self {
        Self(RedLock::new(urls))
    }
}

impl Contestant for Redlock {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        let key = format!("redlock:{name}").into_bytes();
        Box::new(move |inside| {
            let ttl_ms = TTL.as_millis() as usize;
            let guard = self.0.acquire(&key, ttl_ms).expect("all nodes are there");
            inside();
            drop(guard); // waits for all nodes, one after the other
        })
    }
}
