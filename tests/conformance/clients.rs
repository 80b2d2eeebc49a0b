//! Clients that want a kind of lock, by one name that stands for all names of the lock.

use quorlock::Quorlock;

use crate::support::kinds::{AnyGuard, AnyHandle, AnyKind};
use crate::support::wait_until;
use crate::world::TTL;

/// The maximum of names that a lock of these tests has.
const MOST_NAMES: usize = 3;

/// The names of one lock, as many as its kind takes.
pub(crate) fn names(kind: &dyn AnyKind, name: &str) -> Vec<String> {
    let further = ["/b", "/c"].iter().map(|end| format!("{name}{end}"));
    let names = [name.to_owned()].into_iter().chain(further);
    names.take(kind.most_names().min(MOST_NAMES)).collect()
}

pub(crate) fn handle(
    kind: &dyn AnyKind,
    locks: &Quorlock,
    names: &[impl AsRef<[u8]>],
) -> Box<dyn AnyHandle> {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    kind.of(locks, &names)
}

/// Waits until a caller of the client was refused a lock, and listens for its release.
fn wait_until_it_listens(locks: &Quorlock) {
    wait_until("a caller waits", TTL / 2, || {
        locks.node_stats().iter().any(|node| node.listened_to > 0)
    });
}

/// A client, and the kind of lock that it wants.
pub(crate) struct Client {
    pub(crate) locks: Quorlock,
    kind: &'static dyn AnyKind,
}

impl Client {
    pub(crate) fn new(locks: Quorlock, kind: &'static dyn AnyKind) -> Self {
        Self { locks, kind }
    }

    pub(crate) fn handle(&self, name: &str) -> Box<dyn AnyHandle> {
        handle(self.kind, &self.locks, &names(self.kind, name))
    }

    /// Locks a lock that is free, or becomes free. There is no time limit that a busy machine could exceed.
    pub(crate) fn lock(&self, name: &str) -> Box<dyn AnyGuard> {
        self.handle(name).lock().expect("a majority is healthy")
    }

    /// Waits until a caller of this client waits for a lock.
    pub(crate) fn waits(&self) {
        wait_until_it_listens(&self.locks);
    }

    pub(crate) fn try_lock(&self, name: &str) -> Option<Box<dyn AnyGuard>> {
        self.handle(name).try_lock().expect("a majority is healthy")
    }
}

/// A client whose locks exclude those of another kind under the same names. It may need several locks for one of the
/// other kind, if its own have fewer names.
pub(crate) struct Rival {
    locks: Quorlock,
    kind: &'static dyn AnyKind,
    excludes: &'static dyn AnyKind,
}

impl Rival {
    pub(crate) fn new(
        locks: Quorlock,
        kind: &'static dyn AnyKind,
        excludes: &'static dyn AnyKind,
    ) -> Self {
        Self { locks, kind, excludes }
    }

    fn handles(&self, name: &str) -> Vec<Box<dyn AnyHandle>> {
        let names = names(self.excludes, name);
        let locks = names.chunks(self.kind.most_names());
        locks.map(|names| handle(self.kind, &self.locks, names)).collect()
    }

    /// Takes all these locks, and waits for those that are held.
    pub(crate) fn lock(&self, name: &str) -> Vec<Box<dyn AnyGuard>> {
        let handles = self.handles(name);
        handles.iter().map(|handle| handle.lock().expect("a majority is healthy")).collect()
    }

    /// Waits until a caller of this client waits for a lock.
    pub(crate) fn waits(&self) {
        wait_until_it_listens(&self.locks);
    }

    /// Returns true if all these locks are free. They are given back for certain.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        self.tries(name).all(|guard| {
            guard.map(|guard| guard.unlock().expect("a majority is healthy")).is_some()
        })
    }

    /// The lock with this one name, if it is free.
    pub(crate) fn try_name(&self, name: &[u8]) -> Option<Box<dyn AnyGuard>> {
        handle(self.kind, &self.locks, &[name]).try_lock().expect("held is no error")
    }

    /// Returns true if none of these locks is free.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.tries(name).all(|guard| guard.is_none())
    }

    fn tries(&self, name: &str) -> impl Iterator<Item = Option<Box<dyn AnyGuard>>> {
        let handles = self.handles(name).into_iter();
        handles.map(|handle| handle.try_lock().expect("held is no error"))
    }
}

/// Gives the locks back.
pub(crate) fn unlock(guards: Vec<Box<dyn AnyGuard>>) {
    guards.into_iter().for_each(|guard| guard.unlock().expect("a majority is healthy"));
}
