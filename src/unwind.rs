//! The types that can still be used after a panic was caught around them.
//!
//! The compiler cannot see that they can: behind all of these types are mutexes without poisoning, and boxed causes. It is
//! true because no panic of a caller's code leaves their state half changed:
//! - The caller's code (closures of `with_lock`, names that are made by `as_ref`, callbacks of `on_lost` and the values they
//!   own, subscribers of our events) runs while none of our mutexes is locked.
//! - A call that unwinds on the way drops its part of the lock: its attempt sends the releases that are due, and the call
//!   leaves the local queue.
//! - A guard that unwinds gives its lock back. A guard that stays computes the time left of the lock by the clock, as
//!   always.
//! - Errors and faults never change once they are made.
//! - Embedded nodes are reached by connections and by handles, and run no caller's code.

use std::panic::{RefUnwindSafe, UnwindSafe};

#[cfg(feature = "embedded")]
use crate::embedded::Node;
use crate::error::{Error, NodeFault};
use crate::guard::Guard;
use crate::shared::Shared;

/// The same holds for a client, and for each handle that it returns.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl UnwindSafe for Guard {}
impl RefUnwindSafe for Guard {}

impl UnwindSafe for Error {}
impl RefUnwindSafe for Error {}

impl UnwindSafe for NodeFault {}
impl RefUnwindSafe for NodeFault {}

#[cfg(feature = "embedded")]
impl UnwindSafe for Node {}
#[cfg(feature = "embedded")]
impl RefUnwindSafe for Node {}
