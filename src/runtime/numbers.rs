//! The numbers that are proposed for grants: what this process has seen, and the set's time.

use parking_lot::Mutex;

use crate::clock;
use crate::core::base::Time;
use crate::core::vote::{LastNumbers, Proposal};
use crate::ident::Names;
use crate::node::NodeSet;

/// What the attempts of one client share about fencing.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<LastNumbers>);

impl Numbers {
    /// The number to propose for a grant of the lock with these names.
    pub(crate) fn propose(&self, names: &Names, set: &NodeSet) -> Proposal {
        let last = self.0.lock().last_of(names.keys());
        let (set_time_us, several_us) = set.times_us(clock::now());
        Proposal::new(last, set_time_us, several_us)
    }

    /// Forgets the names that were not used for long, and returns whether any is left.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        self.0.lock().tidy(now)
    }

    /// Several nodes have answered that number for the lock with these names.
    pub(crate) fn saw(&self, names: &Names, number: u64) {
        let (now, mut numbers) = (clock::now(), self.0.lock());
        names.keys().for_each(|key| numbers.saw(key, number, now));
    }
}
