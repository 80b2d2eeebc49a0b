//! The figures of the client process, from outside and from inside, and those of the masters.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::support::Server;

/// All figures at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Time since the load began.
    pub(crate) at: Duration,
    pub(crate) process: Process,
    pub(crate) heap: Heap,
    pub(crate) done: Done,
    pub(crate) masters: Masters,
}

/// The kernel's figures for the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
    /// Memory in bytes that is present, and not merely reserved.
    pub(crate) resident: u64,
}

/// The memory that the process has allocated and not freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heap {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
}

/// Counts of the clients' work since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) names: u64,
    pub(crate) grants: u64,
    /// The number of clients that came and went.
    pub(crate) clients: u64,
    /// The number of calls that reached their time limit, or were cancelled or closed.
    pub(crate) gave_up: u64,
    /// The number of lost locks whose loss was reported, as it must be.
    pub(crate) lost: u64,
    /// The number of calls that failed because of a master's fault.
    pub(crate) failed: u64,
}

/// The sums over the masters that are up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masters {
    /// The number of connections without those of the measurement.
    pub(crate) connections: u64,
    pub(crate) channels: u64,
    /// The number of cached scripts.
    pub(crate) scripts: u64,
    /// Memory in bytes, including Lua's.
    pub(crate) memory: u64,
    pub(crate) keys: u64,
}

/// Returns true if this system has the figures. Otherwise prints that the test is left out.
pub(crate) fn can_be_read() -> bool {
    let can = Path::new("/proc/self/fd").exists() && Path::new("/proc/self/status").exists();
    if !can {
        eprintln!("LEFT OUT: there is no /proc with the figures of a process");
    }
    can
}

impl Process {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Self {
            threads: number_after(&status, "Threads:"),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
            resident: number_after(&status, "VmRSS:") * 1_024,
        })
    }
}

impl Heap {
    /// Reads the heap of this process.
    pub(crate) fn of_this_process() -> Self {
        let stats = crate::HEAP.stats();
        // Other threads free memory between the two readings, which must not make the difference negative.
        let left = |came: usize, went: usize| came.saturating_sub(went) as u64;
        Self {
            bytes: left(stats.bytes_allocated, stats.bytes_deallocated),
            blocks: left(stats.allocations, stats.deallocations),
        }
    }
}

impl Masters {
    pub(crate) fn read<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Self {
        let mut all = Self::default();
        for server in servers.into_iter().filter(|server| server.is_up()) {
            let info = server.command(&["INFO"]);
            let info: String = redis::from_redis_value(info).expect("INFO is text");
            let number = |label| number_after(&info, label);
            // One connection is that of the measurement.
            all.connections += number("connected_clients:").saturating_sub(1);
            all.channels += number("pubsub_channels:");
            all.scripts += number("number_of_cached_scripts:");
            all.memory += number("used_memory:") + number("used_memory_lua:");
            // The line is "db0:keys=3,expires=2,..", and is missing if there are no keys.
            all.keys += if info.contains("\ndb0:") { number("db0:keys=") } else { 0 };
        }
        all
    }
}

/// The number after `label`, which begins a line.
fn number_after(text: &str, label: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let rest = lines.next().unwrap_or_else(|| panic!("there is no {label}")).trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("no number follows {label}"))
}

/// A report of the client process about itself: one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) heap: Heap,
    pub(crate) done: Done,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { heap, done } = self;
        let Done { names, grants, clients, gave_up, lost, failed } = done;
        write!(f, "{} {} {names} {grants} {clients} ", heap.bytes, heap.blocks)?;
        write!(f, "{gave_up} {lost} {failed}")
    }
}

impl Told {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        let [bytes, blocks, names, grants, clients, gave_up, lost, failed] =
            numbers.ok()?.try_into().ok()?;
        let done = Done { names, grants, clients, gave_up, lost, failed };
        Some(Self { heap: Heap { bytes, blocks }, done })
    }
}
