//! Ten hosts start a job at the same minute, by clocks that differ by a second, on masters that are killed. The job
//! is done once each time if the masters keep its lock for a while (`min_hold`).
//!
//! The hosts are processes of this program, started again. The test counts their reports that they are about to do
//! the job, and asks neither the library nor the masters. `QUORLOCK_SCHEDULE_SEED` repeats a plan.

#[allow(dead_code, reason = "the program `processes` asks more of these helpers")]
#[path = "../processes/helper.rs"]
mod helper;
mod host;
mod judge;
mod plan;
mod roles;
mod run;
mod settings;
#[path = "../support/mod.rs"]
mod support;

use libtest_mimic::{Arguments, Failed, Trial};

use judge::{Figures, Verdict};
use plan::Plan;
use settings::Settings;

const ROUNDS: usize = 50;
/// The number of rounds that is enough to expose a wrong client.
const FEW: usize = 12;

const SEED: &str = "QUORLOCK_SCHEDULE_SEED";

fn main() {
    if let Some(role) = helper::role() {
        return roles::play(&role);
    }
    let arguments = Arguments::from_args();
    let tests = vec![
        Trial::test("a_job_is_done_once_while_masters_and_hosts_are_killed", is_done_once),
        Trial::test("hosts_that_start_at_one_instant_and_wait_do_a_job_once", at_one_instant),
        Trial::test("without_min_hold_a_job_is_done_twice", without_min_hold),
        Trial::test("without_quarantine_a_job_is_done_twice", without_quarantine),
        Trial::test("rounds_are_judged", || {
            judge::judges_rounds();
            Ok(())
        }),
    ];
    libtest_mimic::run(&arguments, tests).exit();
}

fn is_done_once() -> Result<(), Failed> {
    let figures = run("right", |seed| Plan::random(seed, ROUNDS), Settings::RIGHT)?;
    let wrong = figures.count(Verdict::Twice) + figures.count(Verdict::Missed);
    let shows_something = figures.done > ROUNDS / 2
        && figures.count(Verdict::NoMajority) > 0
        && figures.killed_hosts > 0;
    match (wrong, shows_something) {
        (0, true) => Ok(()),
        (0, false) => Err(format!("this run shows nothing: {figures}").into()),
        _ => Err(figures.in_full().into()),
    }
}

/// All hosts ask at once, so votes are split. A host that tries once may be refused then, like all others. A host that
/// waits tries again.
fn at_one_instant() -> Result<(), Failed> {
    let settings = Settings { waits: true, ..Settings::RIGHT };
    let figures = run("at one instant", |seed| Plan::at_one_instant(seed, FEW), settings)?;
    let once = figures.count(Verdict::Once) == FEW;
    once.then_some(()).ok_or_else(|| figures.in_full().into())
}

/// The same plan exposes hosts whose lock is free as soon as the job is done.
fn without_min_hold() -> Result<(), Failed> {
    let settings = Settings { min_hold: false, ..Settings::RIGHT };
    let figures = run("without min_hold", |seed| Plan::random(seed, FEW), settings)?;
    is_found(&figures)
}

/// A majority of the masters forgets the lock, and grants it again at once.
fn without_quarantine() -> Result<(), Failed> {
    let settings = Settings { quarantine: false, ..Settings::RIGHT };
    let figures = run("without quarantine", |seed| Plan::forgetful(seed, FEW), settings)?;
    is_found(&figures)
}

fn is_found(figures: &Figures) -> Result<(), Failed> {
    let found = figures.count(Verdict::Twice) > 0;
    found.then_some(()).ok_or_else(|| format!("no job was done twice: {figures}").into())
}

#[allow(clippy::print_stdout, reason = "the figures, and what repeats them")]
fn run(name: &str, plan: impl Fn(u64) -> Plan, settings: Settings) -> Result<Figures, Failed> {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().map_err(|error| format!("{SEED} takes a number: {error}"))?,
        Err(_) => u64::from(rand::random::<u32>()),
    };
    println!("{name}: {SEED}={seed}");
    let figures = run::run(&plan(seed), settings);
    println!("{name}: {figures}");
    Ok(figures)
}
