//! The test programs: cargo builds them, and lists their paths.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// One test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The file in `tests/`, or the library, program or example that has the tests.
    pub(crate) name: String,
    pub(crate) runs: Runs,
}

#[derive(Clone, Debug)]
pub(crate) enum Runs {
    /// With the package's folder, in which cargo would run the program.
    Executable { path: PathBuf, folder: PathBuf },
    /// Tests of the documentation, which cargo runs with these arguments.
    Documentation(Vec<String>),
}

/// Arguments of cargo that choose among test programs. With one of these the documentation is tested only if it is
/// named.
const CHOICES: [&str; 10] = [
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--bench",
    "--benches",
    "--all-targets",
];

/// Builds the programs that `cargo test` would run with those arguments.
pub(crate) fn build(arguments: &[String]) -> Result<Vec<Program>, String> {
    let only_documentation = arguments.iter().any(|argument| argument == "--doc");
    let is_choice = |argument: &String| {
        let name = argument.split('=').next().unwrap_or_default();
        CHOICES.contains(&name)
    };
    let mut programs = Vec::new();
    if !only_documentation {
        programs = executables(arguments)?;
    }
    if only_documentation || !arguments.iter().any(is_choice) {
        let others = arguments.iter().filter(|argument| *argument != "--doc").cloned().collect();
        let name = "documentation".to_owned();
        programs.push(Program { name, runs: Runs::Documentation(others) });
    }
    Ok(programs)
}

/// A command of the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command without the variables that cargo has set for this program. A change in each of them would make build
/// scripts run again.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

fn executables(arguments: &[String]) -> Result<Vec<Program>, String> {
    let mut build = cargo();
    build.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
    let output = build.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err("the tests cannot be built".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(messages.lines().filter_map(program).collect())
}

/// The test program in a message of cargo.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["profile"]["test"] == Value::Bool(true);
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let name = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    // Only the library and the files in `tests/` have names of their own.
    let name = match kind {
        "lib" | "test" => name.to_owned(),
        "bin" => format!("{name} (program)"),
        other => format!("{name} ({other})"),
    };
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Program { name, runs: Runs::Executable { path: path.into(), folder } })
}
