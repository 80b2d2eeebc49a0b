//! The Docker engine, by the command `docker`.

use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;

/// Time limit of one command. Each takes one second at most, on a machine that is not overloaded.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `docker` with these arguments, and returns its output.
pub(crate) fn docker(arguments: &[&str]) -> Result<String, Failure> {
    let output = output_of(arguments)
        .map_err(|error| format!("`docker {}` cannot be run: {error}", arguments.join(" ")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`docker {}` failed: {}", arguments.join(" "), said.trim()).into())
}

/// Runs a command, and ends it if it takes longer than [`LIMIT`].
fn output_of(arguments: &[&str]) -> io::Result<Output> {
    let child = Command::new("docker")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_child(&child);
    let (tell, ended) = mpsc::channel();
    // A thread, since the standard library has no wait for processes with a limit. The thread ends with
    // the process.
    thread::spawn(move || tell.send(child.wait_with_output()));
    ended.recv_timeout(LIMIT).unwrap_or_else(|_| {
        kill_process(pid, Signal::KILL)?;
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no end after {LIMIT:?}")))
    })
}
