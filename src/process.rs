//! The identity of this process and of its threads.
//!
//! A child made by `fork` has all of its parent's memory, and none of its threads. If another thread held a lock in memory
//! at that moment, nobody gives it back in the child. So the child must not touch anything of a client that was built
//! before: all calls and drops of users check the process first. Nor can it build a client: `parking_lot` has one table of
//! sleeping threads for the whole process. In the child this table still names the parent's threads, whose memory is reused
//! for the child's own.

use std::cell::Cell;
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, ErrorKind};
use crate::ident::label_of;

/// The process that built the first client; 0 before that.
static BUILDER: AtomicU32 = AtomicU32::new(0);

/// The process that built a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    /// This process, which builds a client; `Closed` in a child of a process that has built one.
    pub(crate) fn builds() -> Result<Self, Error> {
        let me = process::id();
        match BUILDER.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(Self(me)),
            Err(builder) => Self(builder).check().map(|()| Self(me)),
        }
    }

    /// Returns true if this process has built a client.
    pub(crate) fn has_built() -> bool {
        BUILDER.load(Ordering::SeqCst) == process::id()
    }

    pub(crate) fn is_this(self) -> bool {
        self.0 == process::id()
    }

    /// Returns `Closed` in a child of the process.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_this() {
            return Ok(());
        }
        let message = "this process was forked from one that had built a client, and has none of its \
                       threads and connections; fork first and build the client in the child, \
                       or have the child start a program (exec). The parent keeps its locks";
        Err(Error::new(ErrorKind::Closed, message))
    }
}

/// The default label of this process's owner texts: its host and its process id.
pub(crate) fn default_label() -> String {
    label_of(&host(), process::id())
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    // Windows sets it for every process.
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// A thread of this process. No other thread of its lifetime has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadNumber(u64);

thread_local! {
    /// The value needs no drop, so it lives as long as its thread. `thread::current` panics when it is called too late in a
    /// thread's end, and locks may be taken in the destructors of thread-locals.
    static ME: Cell<Option<ThreadNumber>> = const { Cell::new(None) };
}

/// The calling thread; `None` if thread-locals are destroyed even when they need no drop.
pub(crate) fn this_thread() -> Option<ThreadNumber> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = |me: &Cell<Option<ThreadNumber>>| {
        let number = || ThreadNumber(NEXT.fetch_add(1, Ordering::Relaxed));
        let number = me.get().unwrap_or_else(number);
        me.set(Some(number));
        number
    };
    ME.try_with(number).ok()
}
