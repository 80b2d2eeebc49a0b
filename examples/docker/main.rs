//! The Docker harness: workers contend for locks over five masters, each of them its own host, while the nemesis
//! kills, pauses, wipes and cuts off masters and workers. `scripts/docker.sh` runs it. README.md describes how to
//! replace the workers by another service.
//!
//! This program has several roles. In containers it is the witness and the workers, which are those of
//! `tests/nemesis`. On the host it makes the faults, by the command `docker` alone, and judges the history at the
//! end.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

mod engine;
mod fault;
mod hosts;
mod nemesis;
mod plan;
mod run;
mod table;

#[path = "../../tests/nemesis/judge/mod.rs"]
mod judge;
#[allow(dead_code, reason = "made for other tests as well")]
#[path = "../../tests/support/kinds.rs"]
mod kinds;
#[path = "../../tests/nemesis/witness/mod.rs"]
mod witness;
#[path = "../../tests/nemesis/worker/mod.rs"]
mod worker;

/// The reason for which this program ends with exit status 1.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The port of the witness, in its container.
const WITNESS_PORT: &str = "7000";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match play(&arguments) {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("docker harness: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn play(arguments: &[String]) -> Result<ExitCode, Failure> {
    let role: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match role.as_slice() {
        ["nemesis", rest @ ..] => return run::run(&plan::Plan::read(rest)?),
        ["witness"] => {
            // The working directory belongs to the container.
            witness::Server::bind(&format!("0.0.0.0:{WITNESS_PORT}"), Path::new("."))?.serve()?;
        }
        ["worker"] => {
            let settings = worker::Settings::from_env()?;
            run::holds_within(run::PATIENCE, "the witness to listen", || {
                Ok(TcpStream::connect(&settings.witness).is_ok())
            })?;
            worker::run(&settings)?;
        }
        ["wipe", folder] => wipe(Path::new(folder))?,
        _ => return Err("scripts/docker.sh runs this, in several roles".into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes all files in a folder.
fn wipe(folder: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
