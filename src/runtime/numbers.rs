//! The numbers that are proposed for grants: what this process has seen, and the set's time.

use std::time::Duration;

use crossbeam_channel::never;
use parking_lot::Mutex;

use crate::clock;
use crate::core::{LastNumbers, Time, proposal, worth_waiting};
use crate::ident::Name;
use crate::node::{Node, NodeSet};
use crate::runtime::fan_out::{Interrupts, Woken};

/// What the attempts of one client share about fencing.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<LastNumbers>);

impl Numbers {
    /// The number to propose for a grant of `name`.
    pub(crate) fn propose(&self, name: &Name, set: &NodeSet) -> u64 {
        let last = self.0.lock().last(name.key());
        proposal(last, set.time_us(clock::now()))
    }

    /// Nodes have answered that number for `name`; 0 is none.
    pub(crate) fn saw(&self, name: &Name, number: u64) {
        if number > 0 {
            self.0.lock().saw(name.key(), number);
        }
    }
}

/// Waits until the set's time is known, where it is not yet and that is worth it: until `until` at
/// most. Before that no node grants anything to us either, since its clock has to be compared with others.
pub(crate) fn wait_for_clocks(nodes: &[Node], until: Time, interrupts: Interrupts<'_>) -> Woken {
    const PAUSE: Duration = Duration::from_micros(200);
    loop {
        let known = nodes.iter().filter(|node| node.clock().is_some()).count();
        let coming = nodes.iter().filter(|node| node.clock().is_none() && node.fault().is_none());
        let now = clock::now();
        if !worth_waiting(known, coming.count(), nodes.len()) || until <= now {
            return Woken::TimeUp;
        }
        let woken = interrupts.wait(&never(), now.after(PAUSE).min(until));
        if woken != Woken::TimeUp {
            return woken;
        }
    }
}
