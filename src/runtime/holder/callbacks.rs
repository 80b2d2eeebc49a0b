//! The due calls for one holder, by a thread that may be blocked in them.

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) type Call = Box<dyn FnOnce() + Send>;

/// The due calls for one holder.
#[must_use = "somebody waits to be called"]
pub(crate) struct Callbacks(Vec<Call>);

impl Callbacks {
    pub(crate) fn new(calls: Vec<Call>) -> Self {
        Self(calls)
    }

    /// Returns true if there is nothing to call.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls them one after the other; one that panics does not stop the others.
    pub(crate) fn call(self) {
        for call in self.0 {
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
    }
}
