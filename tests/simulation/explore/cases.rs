//! The small sets that are explored.

use std::time::Duration;

use super::deviation::Troubles;
use crate::simulation::faults::{Fault, Scheduled};
use crate::simulation::plan::Plan;
use crate::simulation::scenarios::{calm, client};
use crate::simulation::setup::{Habit, Loop, Setup};

/// A set with its clients, and the troubles that they may have.
pub(super) struct Case {
    pub(super) plan: Plan,
    pub(super) troubles: Troubles,
    /// Largest number of troubles in one run.
    pub(super) deviations: usize,
    /// True if runs that differ only in the places of the nodes are made once.
    pub(super) nodes_are_alike: bool,
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The settings of all clients, but for their habits. The times are short compared with those of users, in about the same
/// relation to each other.
pub(super) const SETUP: Setup = Setup {
    max_ttl: ms(800),
    clock_tolerance: ms(50),
    node_timeout: ms(100),
    ..client(ms(600), Habit::Keeps)
};

/// Three nodes with equal clocks, and those clients. The run deviates until `lasts`.
pub(super) fn plan(setups: &[Setup], lasts: Duration) -> Plan {
    Plan {
        explored: true,
        stragglers: 0,
        rates_ppm: vec![0; setups.len() + 3],
        wall_offsets: vec![0; 3],
        permits: setups[0].permits,
        lasts,
        ..calm(0, 3, setups)
    }
}

/// Two clients that want the mutex at the same moment, and again and again. Each holds it long enough for a renewal.
pub(super) fn turns(lasts: Duration) -> Plan {
    plan(&[Setup { habit: Habit::Works(ms(250)), ..SETUP }; 2], lasts)
}

/// One client has the mutex, and another one has tried for it once.
pub(super) fn alone(habit: Habit, lasts: Duration) -> Plan {
    let holder = Setup { habit, ..SETUP };
    plan(&[holder, Setup { habit: Habit::TriesOnce(ms(0)), ..SETUP }], lasts)
}

/// Clients that want locks of those kinds, under one name, again and again.
pub(super) fn kinds(kinds: &[&'static str], permits: u32, lasts: Duration) -> Plan {
    let wants = |kind: &&'static str| {
        let habit = Loop { holds: ms(120), rests: ms(60), ..Loop::of(kind, 1) };
        Setup { permits, habit: Habit::Loops(habit), ..SETUP }
    };
    plan(&kinds.iter().map(wants).collect::<Vec<_>>(), lasts)
}

/// One node has a number that is that far ahead of the time: a client with wrong clocks has left it.
pub(super) fn with_large_number(mut plan: Plan, by: Duration) -> Plan {
    let fault = Fault::LargeNumber { node: 0, by };
    plan.faults.push(Scheduled { at: ms(10), lasts: ms(1), fault });
    plan
}

/// No client may end its old connections on the servers.
pub(super) fn without_ends(mut plan: Plan) -> Plan {
    plan.may_end.fill(false);
    plan
}
