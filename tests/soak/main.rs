//! A process that locks for a long time does not grow: its threads, file descriptors and memory, and
//! its keys on the masters.
//!
//! The clients run in a process of their own, which is this program started again. It is watched from outside,
//! so that the measurement does not count itself. `QUORLOCK_SOAK_SECONDS` sets the duration of
//! the load; `judge.rs` defines "flat".
//!
//! Each deliberate leak in the clients proves that the judge finds that kind of leak.

mod activities;
mod clients;
mod faults;
mod figures;
#[allow(dead_code, reason = "these helpers are asked for less than those of the other program")]
#[path = "../processes/helper.rs"]
mod helper;
mod judge;
mod judge_tests;
mod leak;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod watch;

use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use leak::Leak;
use watch::Plan;

/// Counts the memory that is allocated. The resident memory depends on the allocator and the kernel as well.
#[global_allocator]
static HEAP: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

const SECONDS: &str = "QUORLOCK_SOAK_SECONDS";

/// Enough for some thousand names and some dozen clients, and short enough for each run of all tests.
const USUAL: Duration = Duration::from_secs(30);

fn main() {
    if let Some(role) = helper::role() {
        return roles::play(&role);
    }
    let arguments = Arguments::from_args();
    let mut tests = vec![
        Trial::test("threads_descriptors_and_memory_stay_flat", stays_flat),
        leaks("a_client_that_keeps_names_is_seen", Leak::Names, &["heap at rest"]),
        leaks(
            "clients_that_are_kept_are_seen",
            Leak::Clients,
            &["threads at rest", "descriptors at rest", "threads under load", "connections"],
        ),
        leaks(
            "guards_that_are_kept_are_seen",
            Leak::Guards,
            &["threads at rest", "heap at rest", "keys"],
        ),
    ];
    tests.extend(judge_tests::all());
    libtest_mimic::run(&arguments, tests).exit();
}

fn stays_flat() -> Result<(), Failed> {
    if !figures::can_be_read() {
        return Ok(());
    }
    let load = match std::env::var(SECONDS) {
        Ok(seconds) => Duration::from_secs(
            seconds.parse().map_err(|error| format!("{SECONDS} takes a number: {error}"))?,
        ),
        Err(_) => USUAL,
    };
    let plan = Plan {
        warm_up: watch::WARM_UP,
        load,
        fault_every: Some((load / 8).clamp(Duration::from_secs(3), Duration::from_secs(30))),
        settle: Duration::from_secs(30),
        leak: None,
        print: true,
    };
    let complaints = judge::judge(&watch::watch(&plan));
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}

/// The judge must complain about all these figures.
fn leaks(name: &str, leak: Leak, figures: &'static [&'static str]) -> Trial {
    Trial::test(name, move || {
        if !figures::can_be_read() {
            return Ok(());
        }
        let plan = Plan {
            warm_up: Duration::from_secs(3),
            load: Duration::from_secs(10),
            fault_every: None,
            settle: Duration::from_secs(3),
            leak: Some(leak),
            print: false,
        };
        let complaints = judge::judge(&watch::watch(&plan));
        for figure in figures {
            let seen = complaints.iter().any(|complaint| complaint.starts_with(figure));
            if !seen {
                let found = complaints.join("\n");
                return Err(format!("nobody complains of \"{figure}\", but of\n{found}").into());
            }
        }
        Ok(())
    })
}
