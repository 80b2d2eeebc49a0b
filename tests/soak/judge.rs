//! Definition of a flat run.
//!
//! **At rest** the figures are exact. A client has one thread and one connection for each node, and one more
//! thread. Their numbers after the load are those before it, and they are zero once the clients are
//! gone. The heap at rest stays the same within [`HEAP_AT_REST`] for any duration of the load. Half a minute
//! uses about 10,000 names, so it finds a leak of ten bytes a name; an hour finds a tenth of a byte. The
//! margin is for buffers and tables that are reused: a rare event enlarges one that the warm-up left small.
//!
//! **Under load** figures vary: calls that wait have threads, clients come and go, masters restart.
//! So the median of the last third is compared with that of the first third. A median ignores the seconds
//! around a fault. A leak grows during the middle third. This comparison finds memory that grows under load and
//! is freed at rest. It also bounds the resident memory, which the allocator keeps at rest.
//!
//! **The masters** end without connections, without channels, and without keys except the fences. They hold
//! no script of a single lock. Their memory without the fences is the same as at the beginning.

use crate::clients::STAY;
use crate::figures::{Done, Sample};
use crate::watch::{MASTERS, Rest, Run};

/// Limit in bytes for the growth of the heap at rest. Half a minute added 4 KiB, and 42 minutes added 27 KiB.
pub(crate) const HEAP_AT_REST: u64 = 64 * KIB;

/// Limit in bytes for the growth of all masters' memory. Their statistics and Lua vary by 1 MiB.
pub(crate) const MASTERS_MEMORY: u64 = 3 * MIB;

/// Limit for the total of scripts that the masters cache: more than `lua/` has, times the number of masters.
pub(crate) const SCRIPTS: u64 = 20 * MASTERS;

/// Limit for the calls of a thousand that masters' faults make fail. Two of three masters are available at any time,
/// so hardly any call fails.
const FAILED: u64 = 20;

const KIB: u64 = 1_024;
const MIB: u64 = 1_024 * KIB;

/// Limit for the growth of a figure under load: a percentage, and a fixed amount.
struct Bound {
    name: &'static str,
    of: fn(&Sample) -> u64,
    percent: u64,
    more: u64,
}

/// The number of visiting clients is random, so the fixed amounts are about those of one client.
const BOUNDS: [Bound; 4] = [
    Bound { name: "threads", of: |sample| sample.process.threads, percent: 10, more: 4 },
    Bound { name: "descriptors", of: |sample| sample.process.descriptors, percent: 10, more: 6 },
    Bound { name: "resident memory", of: |sample| sample.process.resident, percent: 10, more: MIB },
    Bound { name: "heap", of: |sample| sample.heap.bytes, percent: 10, more: 256 * KIB },
];

/// The complaints about a run. Each begins with the name of its figure.
pub(crate) fn judge(run: &Run) -> Vec<String> {
    [at_rest(run), under_load(run), of_masters(run), of_the_run(run)].concat()
}

fn at_rest(run: &Run) -> Vec<String> {
    let mut complaints = Complaints::default();
    let stages = [
        ("before the load", STAY, &run.rest_before),
        ("after the load", STAY, &run.rest_after),
        ("without clients", 0, &run.gone),
    ];
    for (when, clients, sample) in stages {
        let expected = Rest::of_clients(clients, &run.fresh.process);
        let found = sample.process;
        complaints.unless_equal("threads at rest", when, found.threads, expected.threads);
        complaints.unless_equal(
            "descriptors at rest",
            when,
            found.descriptors,
            expected.descriptors,
        );
        let connections = sample.masters.connections;
        complaints.unless_equal("connections of masters", when, connections, expected.connections);
    }
    let stages = [
        ("after the load", &run.rest_after, &run.rest_before),
        ("without clients", &run.gone, &run.fresh),
    ];
    for (when, after, before) in stages {
        let most = before.heap.bytes + HEAP_AT_REST;
        complaints.if_above("heap at rest", when, after.heap.bytes, most);
    }
    complaints.0
}

fn under_load(run: &Run) -> Vec<String> {
    let mut complaints = Complaints::default();
    let third = run.load.len() / 3;
    for Bound { name, of, percent, more } in BOUNDS {
        let first = median(run.load[..third].iter().map(of));
        let last = median(run.load[run.load.len() - third..].iter().map(of));
        let most = first + first * percent / 100 + more;
        let when = format!("in the last third, after {first} in the first one");
        complaints.if_above(&format!("{name} under load"), &when, last, most);
    }
    complaints.0
}

fn of_masters(run: &Run) -> Vec<String> {
    let mut complaints = Complaints::default();
    complaints.unless_equal("keys", "that no lock may leave", run.keys_left, 0);
    complaints.unless_equal("channels", "without clients", run.gone.masters.channels, 0);
    complaints.if_above("scripts of masters", "without clients", run.gone.masters.scripts, SCRIPTS);
    let most = run.fresh.masters.memory + MASTERS_MEMORY;
    complaints.if_above("memory of masters", "without keys", run.emptied.memory, most);
    complaints.0
}

/// Complains if too little has happened for the figures to mean anything.
fn of_the_run(run: &Run) -> Vec<String> {
    const SAMPLES: usize = 9;
    let mut complaints = Complaints::default();
    if run.load.len() < SAMPLES {
        complaints
            .0
            .push(format!("samples: {}, and at least {SAMPLES} are needed", run.load.len()));
    }
    let (before, after) = (run.rest_before.done, run.rest_after.done);
    let counts = |done: Done| {
        let Done { names, grants, clients, gave_up, lost, .. } = done;
        [
            ("names", names),
            ("grants", grants),
            ("clients", clients),
            ("waiters that gave up", gave_up),
            ("losses", lost),
        ]
    };
    for ((name, before), (_, after)) in counts(before).into_iter().zip(counts(after)) {
        if after <= before {
            complaints.0.push(format!("{name}: none under load, so it was no load"));
        }
    }
    let most = (after.grants - before.grants) * FAILED / 1_000;
    complaints.if_above("failed calls", "under load", after.failed - before.failed, most);
    complaints.0
}

#[derive(Default)]
struct Complaints(Vec<String>);

impl Complaints {
    fn unless_equal(&mut self, figure: &str, when: &str, found: u64, expected: u64) {
        if found != expected {
            self.0.push(format!("{figure}, {when}: {found} instead of {expected}"));
        }
    }

    fn if_above(&mut self, figure: &str, when: &str, found: u64, most: u64) {
        if found > most {
            self.0.push(format!("{figure}, {when}: {found}, and at most {most} would be flat"));
        }
    }
}

/// The upper median, or 0 if there are no figures.
pub(crate) fn median(figures: impl Iterator<Item = u64>) -> u64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or(0)
}
