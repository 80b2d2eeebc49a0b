//! The nemesis: faults of all kinds against real masters and client processes, and a witness that does not trust
//! the library. Named after the part of Jepsen that makes the faults.
//!
//! As a test it runs for half a minute. As a program it runs for the given time, and exits with 1 if it
//! has seen a violation:
//!
//! ```text
//! cargo test --release --test nemesis -- --seconds 600
//! ```
//!
//! | argument | meaning |
//! |---|---|
//! | `--seconds N` | duration of the faults |
//! | `--seed N` | seed of the faults; random by default, and printed |
//! | `--client NAME` | `right`, or one that is wrong: `single`, `no-quarantine`, `fallback` |
//! | `--script NAME` | instead of `--seconds`: the scripted faults that expose this client |
//! | `--masters N`, `--workers N`, `--threads N` | 5 masters, 4 workers with 3 threads each |
//! | `--names N` | number of names, for which locks of all kinds contend; 4 |
//! | `--max-ttl-ms N` | the longest TTL, and so the length of a quarantine; 3000 |
//! | `--apart` | one fault at a time, so that each outage has one cause |
//! | `--beyond` | more faults at a time than the guarantees cover; violations are printed, and do not fail the run |
//! | `--judge FILE` | instead of `--seconds`: judges a history that was kept, by the rules of the other arguments |
//! | `--picture FILE` | draws the run, as SVG |

mod checks;
mod judge;
mod links;
mod plan;
mod probes;
mod processes;
mod program;
mod run;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod witness;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use run::Options;
use scripts::{SCRIPTS, Script};
use support::kinds;

#[allow(clippy::print_stderr, reason = "it says why it ends")]
fn main() -> ExitCode {
    let done = processes::play().map(|played| played.map(|()| true)).or_else(program::from_args);
    match done {
        Some(Ok(true)) => ExitCode::SUCCESS,
        Some(Ok(false)) => ExitCode::FAILURE,
        Some(Err(error)) => {
            eprintln!("nemesis: {error}");
            ExitCode::FAILURE
        }
        None => tests(),
    }
}

fn tests() -> ExitCode {
    let arguments = Arguments::from_args();
    let checks = checks::all().into_iter().map(|(name, check)| {
        Trial::test(name, move || {
            check();
            Ok(())
        })
    });
    let mut trials: Vec<_> = checks.collect();
    trials.push(Trial::test("run::the_right_client_withstands_all_faults", withstands_all));
    for script in SCRIPTS {
        let wrong = format!("run::{}::the_wrong_client_is_found_out", script.client);
        trials.push(Trial::test(wrong, || is_found_out(script)));
        let right = format!("run::{}::the_right_client_passes_its_script", script.client);
        trials.push(Trial::test(right, || passes(script)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Duration of the random faults in the test.
const SHORT: Duration = Duration::from_secs(20);

fn withstands_all() -> Result<(), Failed> {
    let options = Options { seed: u64::from(rand::random::<u32>()), ..Options::default() };
    let plan = plan::random(program::extent(&options, SHORT));
    let verdict = run::run(&options, &plan, |_, _| {})?;
    let seed = options.seed;
    verdict.is_good().then_some(()).ok_or_else(|| format!("seed {seed}\n{verdict}").into())
}

fn is_found_out(script: &Script) -> Result<(), Failed> {
    let verdict = program::scripted(script, script.client, |_, _| {})?;
    let found = verdict.violations.iter().any(|it| {
        use judge::Violation::{TooManyPermits, TwoInside};
        matches!(it, TwoInside { .. } | TooManyPermits { .. })
    });
    found
        .then_some(())
        .ok_or_else(|| format!("nobody was found inside with another\n{verdict}").into())
}

fn passes(script: &Script) -> Result<(), Failed> {
    let verdict = program::scripted(script, "right", |_, _| {})?;
    verdict.is_good().then_some(()).ok_or_else(|| verdict.to_string().into())
}
