//! The kinds of locks. A kind consists of a folder in `lua/`, a file in this folder, and a line in the list below.

use crate::handle::sealed;
#[cfg(test)]
use crate::kinds::contract::kind::Kind;

pub(crate) mod contract;
mod fair;
mod multi;
mod mutex;
mod reentrant;
mod rwlock;
mod semaphore;

pub use fair::{Fair, FairMutex};
pub use multi::{AllNames, MultiMutex};
pub use mutex::{Exclusive, Mutex};
pub use reentrant::{Reentrant, ReentrantGuard, ReentrantMutex};
pub use rwlock::{ReadGuard, Reading, WriteGuard, Writing};
pub use semaphore::Permits;

/// Calls the macro `$with` with every kind, each followed by a comma. Code that must exist for each kind uses this
/// list, in the tests as well.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_kind {
    ($with:ident) => {
        $with! {
            $crate::Exclusive, $crate::AllNames, $crate::Reentrant, $crate::Reading, $crate::Writing,
            $crate::Fair, $crate::Permits,
        }
    };
}

macro_rules! labels {
    ($($kind:ty,)*) => {
        vec![$(<$kind as sealed::Kind>::kind().label),*]
    };
}

/// The label of every kind.
pub(crate) fn labels() -> Vec<&'static str> {
    for_each_kind!(labels)
}

#[cfg(test)]
macro_rules! list {
    ($($kind:ty,)*) => {
        Box::new([$(<$kind as sealed::Kind>::kind()),*])
    };
}

/// Every kind.
#[cfg(test)]
pub(crate) static KINDS: std::sync::LazyLock<Box<[&Kind]>> =
    std::sync::LazyLock::new(|| for_each_kind!(list));

/// The exclusive lock, for tests about that kind.
#[cfg(all(test, feature = "embedded"))]
pub(crate) static EXCLUSIVE: &Kind = &mutex::KIND;

/// The names of a lock without a prefix, for tests.
#[cfg(test)]
pub(crate) fn names(of: &[&[u8]]) -> crate::ident::Names {
    let names = of.iter().map(|name| crate::ident::Name::new(b"", name));
    crate::ident::Names::new(of.len(), names).expect("good names")
}

#[cfg(test)]
mod tests;
