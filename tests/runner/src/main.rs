//! Runs all tests of quorlock, many programs side by side. `scripts/test.sh` starts it.
//!
//! `cargo test` runs one test program after the other, and stops at the first failure. Most of these tests
//! wait for servers, so a machine is idle most of that time. This program makes cargo build the test programs, and starts
//! them itself ([`classes`] defines which may run side by side). It prints the output of each program, and at the end a table
//! and the names of the failed tests.
//!
//! ```text
//! scripts/test.sh [--busy] [ARGUMENTS OF CARGO TEST] [-- NAMES OF TESTS]
//! ```
//!
//! `--busy` keeps two processors busy meanwhile: a stable test passes then as well.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

mod classes;
mod job;
mod output;
mod programs;
#[path = "../../support/reaper.rs"]
mod reaper;
mod schedule;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, thread};

use job::Job;
use programs::Program;
use reaper::Folder;
use schedule::Schedule;
use table::Table;

/// The number of processors that `--busy` keeps busy.
const BUSY_LOOPS: usize = 2;

/// Time between two checks of the running programs.
const LOOK: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments of this program.
struct Arguments {
    busy: bool,
    /// Arguments for `cargo test`, which builds.
    cargo: Vec<String>,
    /// Arguments for each test program.
    tests: Vec<String>,
}

impl Arguments {
    fn parse(given: impl Iterator<Item = String>) -> Self {
        let mut parsed = Self { busy: false, cargo: Vec::new(), tests: Vec::new() };
        let mut given = given.peekable();
        while let Some(argument) = given.next_if(|argument| argument != "--") {
            let is_value =
                parsed.cargo.last().is_some_and(|last| WITH_VALUE.contains(&last.as_str()));
            match argument.as_str() {
                "--busy" => parsed.busy = true,
                // A plain word is the name of a test, as for cargo.
                name if !is_value && !name.starts_with('-') => parsed.tests.push(argument),
                _ => parsed.cargo.push(argument),
            }
        }
        parsed.tests.extend(given.skip(1));
        parsed
    }
}

/// The arguments of `cargo test` that are followed by a value.
const WITH_VALUE: [&str; 17] = [
    "--package",
    "-p",
    "--exclude",
    "--test",
    "--bin",
    "--example",
    "--bench",
    "--features",
    "-F",
    "--target",
    "--target-dir",
    "--profile",
    "--jobs",
    "-j",
    "--color",
    "--config",
    "--manifest-path",
];

/// Runs all tests. Returns true if all passed.
fn run() -> Result<bool, String> {
    let arguments = Arguments::parse(env::args().skip(1));
    if arguments.cargo.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!(
            "scripts/test.sh [--busy] [ARGUMENTS OF CARGO TEST] [-- ARGUMENTS OF TEST PROGRAMS]"
        );
        return Ok(true);
    }
    let began = Instant::now();
    let programs = programs::build(&arguments.cargo)?;
    let mut table = Table::new(began.elapsed());
    if arguments.busy {
        println!("{BUSY_LOOPS} busy loops run beside the tests");
        for _ in 0..BUSY_LOOPS {
            thread::spawn(|| {
                loop {
                    std::hint::spin_loop();
                }
            });
        }
    }
    run_all(programs, &arguments, &mut table)?;
    Ok(table.end())
}

/// Starts each program as soon as the schedule lets it run, until all have ended.
fn run_all(programs: Vec<Program>, arguments: &Arguments, table: &mut Table) -> Result<(), String> {
    let logs = Folder::create("quorlock-tests")
        .map_err(|error| format!("no folder among the temporary files: {error}"))?;
    let mut schedule = Schedule::new(programs);
    let mut running: Vec<Job> = Vec::new();
    loop {
        while let Some(program) = schedule.next() {
            // Beside busy loops, a program at a low priority would hardly make progress.
            running.push(Job::start(program, &arguments.tests, &logs, !arguments.busy)?);
        }
        if running.is_empty() {
            let left = schedule.left();
            let is_done = left.is_empty().then_some(());
            return is_done.ok_or_else(|| format!("there is no room for {}", left.join(", ")));
        }
        thread::sleep(LOOK);
        for job in running.extract_if(.., |job| job.has_ended()) {
            let report = job.report()?;
            schedule.has_ended(&report.program);
            table.add(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &str) -> (bool, String, String) {
        let Arguments { busy, cargo, tests } =
            Arguments::parse(given.split_whitespace().map(str::to_owned));
        (busy, cargo.join(" "), tests.join(" "))
    }

    #[test]
    fn names_of_tests_go_to_the_programs_and_all_else_to_cargo() {
        let expected = |busy, cargo: &str, tests: &str| (busy, cargo.to_owned(), tests.to_owned());
        assert_eq!(parsed("--busy --lib"), expected(true, "--lib", ""));
        assert_eq!(parsed("--test wake name"), expected(false, "--test wake", "name"));
        assert_eq!(parsed("--test=wake -- --exact a"), expected(false, "--test=wake", "--exact a"));
        assert_eq!(parsed("name -- --busy"), expected(false, "", "name --busy"));
    }

    #[test]
    fn all_programs_have_room() {
        let names = classes::names().chain(["new"]);
        let program = |name: &str| Program {
            name: name.to_owned(),
            runs: programs::Runs::Documentation(Vec::new()),
        };
        for name in names {
            let mut schedule = Schedule::new(vec![program(name)]);
            assert!(schedule.next().is_some() && schedule.left().is_empty(), "{name}");
        }
    }
}
