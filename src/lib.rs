#![forbid(unsafe_code)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

//! Distributed locks for synchronous Rust: thread pools, batch jobs, command-line tools.
//!
//! A lock is held on a majority of independent Redis masters, so it survives the loss of a minority of them. The holder can
//! ask at any time how much longer its lock is valid.
//!
//! ```no_run
//! use std::time::Duration;
//! use quorlock::{OptionalGuard as _, Quorlock};
//!
//! let locks = Quorlock::builder()
//!     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .build()?;
//!
//! let guard = locks.lock("orders/42")?; // waits until the lock is free
//! guard.check()?; // before each step that must not happen twice
//! guard.unlock()?; // dropping the guard gives the lock back as well
//!
//! if let Some(_guard) = locks.try_lock_for("nightly-report", Duration::from_secs(2)).optional()? {
//!     println!("writing the report; nobody else does");
//! }
//! # Ok::<(), quorlock::Error>(())
//! ```
//!
//! # Where to begin
//!
//! 1. **A client**: [`Quorlock::builder`] or [`Builder::from_env`] names the masters, and [`Builder`] documents each setting
//!    with its default. Cloning a [`Quorlock`] is cheap. New masters grant their first lock after
//!    [`max_ttl`](Builder::max_ttl), which defaults to 10 s.
//! 2. **A lock**: [`lock`](Quorlock::lock) waits, [`try_lock`](Quorlock::try_lock) does not.
//!    [`lock_within`](Quorlock::lock_within) takes a [`Wait`]: a time limit, a channel that cancels the wait, or both.
//!    [`with_lock`](Quorlock::with_lock) runs a closure.
//! 3. **A result**: a call that takes a lock returns a [`Guard`] or an [`Error`]; `with_lock` returns the closure's result
//!    or a [`WithLockError`]. [`ErrorKind`] tells failures apart: [`Held`](ErrorKind::Held) by another caller
//!    ([`OptionalGuard::optional`] turns this one into `None`), [`NoQuorum`](ErrorKind::NoQuorum),
//!    [`Lost`](ErrorKind::Lost) and others.
//! 4. **A guard**: a [`Guard`] holds the lock, and the client renews the lock until the guard is dropped.
//!    [`check`](Guard::check) and [`remaining`](Guard::remaining) say whether the lock is still ours, and
//!    [`lost`](Guard::lost) and [`on_lost`](Guard::on_lost) report a loss. [`token`](Guard::token) is the [`FencingToken`]
//!    for the storage that the lock protects.
//!
//! # Kinds of locks
//!
//! | handle | method of `Quorlock` | guard | for |
//! |---|---|---|---|
//! | [`Mutex`] | [`mutex`](Quorlock::mutex) | [`Guard`] | one at a time |
//! | [`MultiMutex`] | [`multi_mutex`](Quorlock::multi_mutex) | [`Guard`] | several names, all or none |
//! | [`ReentrantMutex`] | [`reentrant_mutex`](Quorlock::reentrant_mutex) | [`ReentrantGuard`] | code whose caller may hold the lock already |
//! | [`RwLock`] | [`rw_lock`](Quorlock::rw_lock) | [`ReadGuard`], [`WriteGuard`] | many readers, one writer |
//! | [`FairMutex`] | [`fair_mutex`](Quorlock::fair_mutex) | [`Guard`] | callers in the order in which they asked |
//! | [`Semaphore`] | [`semaphore`](Quorlock::semaphore) | [`Guard`] | N at a time |
//! | [`RateLimit`] | [`rate_limit`](Quorlock::rate_limit) | none | N calls in any window |
//!
//! A [`Handle`] has settings of its own, such as `ttl`, `renewal`, `max_hold` and `min_hold`. Code that is generic over
//! kinds uses [`LockKind`] and [`LockGuard`].
//!
//! # Pages
//!
//! - [`guide`]: from the first lock to alerts, in eleven steps
//! - [`guarantees`]: each promise with its conditions, and the limits
//! - [`redlock`]: the published criticism of the algorithm, point by point
//! - [`operations`]: running the masters, access lists, changing a set
//! - [`program`]: the program `quorlock`, `flock` across machines
//! - [`defaults`]: each setting with its limits, and the reason for its default
//! - [`errors`]: each error, exit code and event, with the remedy
//! - [`servers`]: which servers and managed offers can be used
//! - [`migrating`]: coming from Redisson, redsync, ShedLock, rslock, redlock, flock or Consul
//! - [`tested`]: how the promises are tested, and the gaps
//! - [`embedded`]: nodes in the process, for unit tests
//!
//! # For operators
//!
//! [`Handle::holder`] and [`Quorlock::held_locks`] report the holders of locks, and [`Handle::force_unlock`] takes a lock
//! away from its holder. [`Builder::diagnose`] finds the problems of a set of masters. Events go to the logger (crate
//! `log`), or to the `tracing` subscriber if the program sets one. At the debug level, each call and each hold is a span.
//! [`Quorlock::stats`] has the figures of a client.
//!
//! # Features
//!
//! `tls` (`rediss://`), `serde` (settings from a file, tokens), `diagnosis` ([`Builder::diagnose`]), `metrics` (reports the
//! figures of each client to the recorder of the crate `metrics`), `embedded` (nodes in the process; needs a C compiler).
//! None is on by default. The program `quorlock` is in the crate `quorlock-cli`.

mod client;
mod clock;
mod config;
mod core;
mod credentials;
#[cfg(feature = "diagnosis")]
mod diagnosis;
mod election;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
#[cfg(all(test, feature = "embedded"))]
#[allow(dead_code, unreachable_pub, reason = "the tests in the crate use a part of it")]
#[path = "../tests/support/events.rs"]
mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(test, not(fuzzing)))]
mod fuzzing;
mod guard;
mod handle;
mod holders;
mod ident;
mod kinds;
mod lock_guard;
#[cfg(feature = "metrics")]
mod metrics;
mod node;
mod observe;
// The pages of the manual. Where the file links to another file, the module links to an item or another module. If a link has
// two addresses, the first one counts.
pub mod defaults {
    //! [another client]: crate::migrating
    //! [guarantees and limits]: crate::guarantees
    //! [operations]: crate::operations
    //! [the program]: crate::program
    //!
    #![doc = include_str!("../docs/defaults.md")]
}
pub mod guide {
    //! [coming from another lock]: crate::migrating
    //! [defaults and why]: crate::defaults
    //! [errors and events]: crate::errors#events
    //! [examples]: https://docs.rs/crate/quorlock
    //! [guarantees and limits]: crate::guarantees
    //! [operations]: crate::operations
    //! [testing code that locks]: crate::embedded
    //! [the program]: crate::program
    //!
    #![doc = include_str!("../docs/guide.md")]
}
pub mod errors {
    //! [Access lists]: crate::operations#access-lists
    //! [Changes with all clients stopped]: crate::operations#changes-with-all-clients-stopped
    //! [Jobs on a schedule]: crate::operations#jobs-on-a-schedule
    //! [Masters with replicas]: crate::operations#masters-with-replicas
    //! [Setting up]: crate::operations#setting-up
    //! [The first seconds]: crate::operations#the-first-seconds
    //! [When the clock of a master was set]: crate::operations#when-the-clock-of-a-master-was-set
    //!
    #![doc = include_str!("../docs/errors.md")]
}
pub mod migrating {
    //! [defaults and why]: crate::defaults
    //! [guarantees and limits]: crate::guarantees
    //! [operations]: crate::operations
    //!
    #![doc = include_str!("../docs/migrating.md")]
}
pub mod guarantees {
    //! [how it is tested]: crate::tested
    //! [operations]: crate::operations
    //! [servers]: crate::servers
    //!
    #![doc = include_str!("../docs/guarantees.md")]
}
pub mod operations {
    //! [A failover behind one address]: crate::servers#a-failover-behind-one-address
    //! [`admit_if_unused`]: crate::Quorlock::admit_if_unused
    //! [`Builder::diagnose`]: crate::Builder::diagnose
    //! [`Builder::owner_label`]: crate::Builder::owner_label
    //! [Defaults and why]: crate::defaults
    //! [`docs/observability/README.md`]: https://docs.rs/crate/quorlock/latest/source/docs/observability/README.md
    //! [`docs/program.md`]: crate::program#as-a-service
    //! [`docs/speed.md`]: https://docs.rs/crate/quorlock/latest/source/docs/speed.md
    //! [`docs/tested.md`]: crate::tested#outages
    //! [Errors and events]: crate::errors#events
    //! [`Guard::asked`]: crate::Guard::asked
    //! [`Handle::ask_to_release`]: crate::Handle::ask_to_release
    //! [`Handle::force_unlock`]: crate::Handle::force_unlock
    //! [`Handle::holder`]: crate::Handle::holder
    //! [limits of the guarantees]: crate::guarantees#limits
    //! [`lua/README.md`]: https://docs.rs/crate/quorlock/latest/source/lua/README.md
    //! [`Quorlock::admit`]: crate::Quorlock::admit
    //! [`Quorlock::held_locks`]: crate::Quorlock::held_locks
    //! [`Quorlock::stats`]: crate::Quorlock::stats
    //! [`restart_quarantine(false)`]: crate::Builder::restart_quarantine
    //! [Steps of clocks]: crate::guarantees#steps-of-clocks
    //! [third step of the guide]: crate::guide#3-the-first-cron-job
    //! [usable servers]: crate::servers
    //!
    #![doc = include_str!("../OPERATIONS.md")]
}
pub mod program {
    #![doc = include_str!("../docs/program.md")]
}
pub mod servers {
    //! [guarantees and limits]: crate::guarantees
    //! [operations]: crate::operations
    //!
    #![doc = include_str!("../docs/servers.md")]
}
pub mod tested {
    //! [fuzz targets]: https://docs.rs/crate/quorlock
    //! [guarantees]: crate::guarantees
    //! [invariants]: https://docs.rs/crate/quorlock/latest/source/docs/invariants.md
    //! [test your own service]: https://docs.rs/crate/quorlock
    //! [the Docker page]: https://docs.rs/crate/quorlock
    //!
    #![doc = include_str!("../docs/tested.md")]
}
pub mod redlock {
    #![doc = include_str!("../docs/redlock.md")]
}
/// Tests the code of pages that are not a part of the documentation.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/testing.md")]
    mod testing {}
}
mod optional;
mod process;
mod random;
mod rate_limit;
mod release_request;
mod risk;
mod runtime;
mod rw_lock;
mod semaphore;
mod settings;
mod shared;
#[cfg(all(test, feature = "embedded"))]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod spans;
mod stats;
mod terms;
mod token;
mod unwind;
mod wait;
mod with_lock;

pub use client::Quorlock;
pub use config::{Builder, Fallback, Renewal};
pub use core::base::HoldClass;
pub use core::hold::{LossReason, RiskReason};
pub use core::operate::{HeldAs, KeyLayout, LockState};
pub use core::vote::FencingToken;
pub use credentials::Credentials;
/// The channels of [`Guard::lost`], [`Guard::at_risk`], [`Guard::asked`] and [`Wait::cancelled_by`], in the version that this
/// crate uses.
#[doc(no_inline)]
pub use crossbeam_channel;
#[cfg(feature = "diagnosis")]
pub use diagnosis::{Check, Diagnosis, Finding, NodeDiagnosis, Severity};
pub use election::{Candidate, Election, Leader, Leadership, Leaving, Observer};
pub use error::{Error, ErrorKind, NodeFault};
pub use guard::{Guard, Mode};
pub use handle::{Handle, LockKind, OneName};
pub use holders::{
    HeldLocks, Holder, HolderReport, Incomplete, NameReport, NodeAnswer, NodeReport,
};
pub use ident::Owner;
pub use kinds::*;
pub use lock_guard::LockGuard;
pub use optional::OptionalGuard;
pub use rate_limit::RateLimit;
pub use release_request::ReleaseRequest;
pub use risk::Risk;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use settings::Settings;
pub use stats::{
    AttemptStats, CallStats, KindStats, LabelStats, LocalGrantStats, LossStats, NodeCondition,
    NodeStats, RenewalStats, Stats, Times, WakeUpStats,
};
pub use terms::{Term, set_terms};
pub use token::InvalidToken;
pub use wait::Wait;
pub use with_lock::WithLockError;
