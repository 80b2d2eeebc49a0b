//! The small sets that are explored.

use std::time::Duration;

use super::place::Places;
use super::trouble::Troubles;
use crate::core::base::Backoff;
use crate::simulation::faults::{Fault, Scheduled};
use crate::simulation::plan::Plan;
use crate::simulation::scenarios::{calm, client};
use crate::simulation::setup::{Habit, Loop, Setup};

/// A set with its clients, and the troubles that they may have.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) plan: Plan,
    /// Time from which on runs deviate, until that of the plan.
    pub(super) from: Duration,
    pub(super) troubles: Troubles,
    /// Those of them that may follow another one in the same run.
    pub(super) further: Troubles,
    /// The messages in front of which they may come.
    pub(super) places: Places,
    /// Largest number of troubles in one run.
    pub(super) deviations: usize,
    /// True if runs that differ only in the places of the nodes are made once.
    pub(super) nodes_are_alike: bool,
    /// Number of threads that make runs. Each has its own switches of mechanisms.
    pub(super) threads: usize,
}

impl Case {
    /// All that may happen to the locks of the plan's clients, once these are connected.
    pub(super) const fn of(plan: Plan, deviations: usize) -> Self {
        Self {
            plan,
            from: SETTLED,
            troubles: Troubles::EVERY,
            further: Troubles::ALL,
            places: Places::LOCKS,
            deviations,
            nodes_are_alike: true,
            threads: 1,
        }
    }
}

/// Time at which the clients' connections are made and their nodes' clocks known. The first calls begin just after it.
pub(super) const SETTLED: Duration = ms(24);

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

/// Messages take no time, so that each write is answered before the next one.
pub(super) fn near(plan: Plan) -> Plan {
    Plan { latency_ms: 0, ..plan }
}

/// As `turns`. The second client has other terms, begins later, and is less patient with its nodes. All clocks differ.
pub(super) fn mixed(lasts: Duration) -> Plan {
    let first = Setup { habit: Habit::Works(ms(250)), ..SETUP };
    let habit = Habit::Loops(Loop { holds: ms(90), rests: ms(40), ..Loop::of("mutex", 1) });
    let second = Setup { ttl: ms(450), node_timeout: ms(60), backoff: SLOW, habit, ..SETUP };
    Plan {
        rates_ppm: vec![4_500, -4_500, -4_500, 4_500, 0],
        wall_offsets: vec![0, 43, 17],
        ..plan(&[first, second], lasts)
    }
}

/// Pauses that are longer than those of the other clients.
const SLOW: Backoff = Backoff { min: ms(20), max: ms(300) };

/// As `turns`, with clocks of the clients that are as fast as they may be compared with those of the nodes, or as slow.
pub(super) fn apart(lasts: Duration) -> [Plan; 2] {
    let fast = [4_900, 4_900, -4_900, -4_900, -4_900];
    [fast, fast.map(|rate| -rate)].map(|rates| Plan { rates_ppm: rates.to_vec(), ..turns(lasts) })
}

/// Two threads of one client and one of another one, that want the mutex again and again.
pub(super) fn threads(lasts: Duration) -> Plan {
    let habit = Habit::Loops(Loop { holds: ms(30), rests: ms(15), ..Loop::of("mutex", 1) });
    let plan = plan(&[Setup { habit, ..SETUP }; 2], lasts);
    Plan { callers: vec![2, 1], local_queues: true, ..plan }
}

/// As `turns`, on nodes that nobody has used before.
pub(super) fn new_set(lasts: Duration) -> Plan {
    Plan { new_set: true, ..turns(lasts) }
}

/// The first node loses its data at the beginning.
pub(super) fn with_amnesia(mut plan: Plan) -> Plan {
    let fault = Fault::Amnesia { node: 0 };
    plan.faults.push(Scheduled { at: ms(20), lasts: ms(1), fault });
    plan
}

/// Proxies keep connections open when a node is restarted, and the nodes refuse `INFO` in scripts.
pub(super) fn relayed(plan: Plan) -> Plan {
    without_ends(Plan { relayed: true, ..plan })
}

/// One client has the mutex again and again. Another one wants it, each time for so many microseconds at most.
pub(super) fn patience(us: u64) -> Plan {
    let works = Loop { holds: ms(60), rests: ms(30), ..Loop::of("mutex", 1) };
    let gives_up = Loop { patience: Some(Duration::from_micros(us)), ..works };
    let setups = [works, gives_up].map(|habit| Setup { habit: Habit::Loops(habit), ..SETUP });
    plan(&setups, ms(300))
}
