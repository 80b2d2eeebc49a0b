//! The numbers that are proposed for grants: what this process has seen, and the set's time.

use parking_lot::Mutex;

use crate::clock;
use crate::core::{LastNumbers, proposal};
use crate::ident::Name;
use crate::node::NodeSet;

/// What the attempts of one client share about fencing.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<LastNumbers>);

impl Numbers {
    /// The number to propose for a grant of `name`.
    pub(crate) fn propose(&self, name: &Name, set: &NodeSet) -> u64 {
        let last = self.0.lock().last(name.key());
        proposal(last, set.time_us(clock::now()))
    }

    /// Several nodes have answered that number for `name`.
    pub(crate) fn saw(&self, name: &Name, number: u64) {
        self.0.lock().saw(name.key(), number);
    }
}
