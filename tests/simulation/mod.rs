//! The simulator: many clients drive the shipped machines of `core/` and the shipped Lua, on
//! embedded nodes, through faults by the thousand. One thread, one seed, virtual time.
//!
//! It contains no rule of the protocol. It adds only a network, the nodes' processes, clocks, users that take locks,
//! and checkers of the guarantees to users. `worker.rs`, `fan_out.rs`, `claim.rs`, `held.rs`, `queue.rs`,
//! `fairness.rs`, `subscriptions.rs` and `caller.rs` carry requests and answers without threads, as the files of the
//! same or a similar name in `src/runtime/` do with threads.
//!
//! A plan comes from a seed, or it is one of the scripted `scenarios/`, whose delays differ from seed to seed.
//!
//! It is part of the library's own tests, since it needs access to the machines:
//!
//! ```sh
//! cargo test --all-features --lib simulation                              # as CI does
//! QUORLOCK_LONG_TESTS=1 cargo test --release --all-features --lib simulation  # all runs of each scenario
//! QUORLOCK_SIM_SEEDS=10000 cargo test --release --all-features --lib simulation::many -- --nocapture
//! QUORLOCK_SIM_SEED=4711 cargo test --all-features --lib simulation::one -- --nocapture
//! ```

#![allow(clippy::print_stdout, reason = "whoever runs it by hand wants to see figures and stories")]

mod admitting;
mod caller;
mod chance;
mod checkers;
mod claim;
mod client;
mod clock;
mod explore;
mod fairness;
mod fan_out;
mod faults;
mod held;
mod lock_id;
mod mutations;
mod network;
mod node;
mod operator;
mod plan;
mod queue;
mod scenarios;
mod setup;
mod shared;
mod shrink;
mod subscriptions;
mod switches;
mod worker;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use plan::Plan;
use switches::Switches;

/// Default number of seeds of a test run. Runs by hand use more.
const SEEDS: u64 = 200;
const LONG_SEEDS: u64 = 500;

/// Returns true if tests may take long. Each scenario then makes all its runs, and all random searches are made.
fn is_long() -> bool {
    std::env::var_os("QUORLOCK_LONG_TESTS").is_some()
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Returns the story of a failing run, shrunk as far as possible, with the seed.
fn failed(plan: &Plan, switches: Switches) -> String {
    let plan = shrink::shrink(plan, switches);
    let run = world::run(&plan, switches, true);
    format!("seed {}: {:#?}\n{}", plan.seed, plan, run.story.join("\n"))
}

#[test]
fn many_seeds_without_a_violation() {
    let seeds = from_environment("QUORLOCK_SIM_SEEDS").unwrap_or(if is_long() {
        LONG_SEEDS
    } else {
        SEEDS
    });
    let first = from_environment("QUORLOCK_SIM_FIRST").unwrap_or(0);
    let started = Instant::now();
    let next = AtomicU64::new(first);
    // Each run has a thread for itself, and shares no state with another run.
    let work = || {
        let mut counts = [0; 5];
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return counts;
            }
            let plan = Plan::from_seed(seed);
            let run = world::run(&plan, Switches::ALL_ON, false);
            assert!(run.violation.is_none(), "{}", failed(&plan, Switches::ALL_ON));
            let of_run = [run.grants.len(), run.batches, run.followed, run.unknown];
            let of_run = of_run.map(|count| count as u64).into_iter().chain([run.events]);
            counts.iter_mut().zip(of_run).for_each(|(sum, count)| *sum += count);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let [grants, batches, followed, unknown, events] = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().map(|thread| thread.join());
        let done = done.collect::<Result<Vec<_>, _>>().expect("a violation; it is told above");
        let sum = |all: [u64; 5], one: [u64; 5]| std::array::from_fn(|i| all[i] + one[i]);
        done.into_iter().fold([0; 5], sum)
    });
    assert!(grants > seeds, "the clients do nothing");
    assert!(batches > seeds, "nobody makes calls together");
    assert!(followed > seeds, "no write follows another one");
    assert!(unknown > seeds || seeds < 10, "no node forgets scripts");
    let took = started.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds, {events} events, {grants} grants, {batches} batches, {followed} writes behind unanswered ones, \
         {unknown} unknown scripts in {took:.1} s: {:.0} events a second",
        events as f64 / took
    );
}

/// The same seed gives the same run. Otherwise no failure could be investigated.
#[test]
fn one_seed_is_one_run() {
    let seed = from_environment("QUORLOCK_SIM_SEED");
    let plan = Plan::from_seed(seed.unwrap_or(7));
    let [first, second] = [(); 2].map(|()| world::run(&plan, Switches::ALL_ON, true).story);
    assert!(first == second);
    assert!(first.len() > 100 || seed.is_some(), "the clients do nothing");
    if seed.is_some() {
        println!("{plan:#?}\n{}", first.join("\n"));
    }
}
