//! Another process of this program, as if it ran on another machine.

#![allow(dead_code, reason = "compiled into several examples, and each uses only a part of it")]

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use crossbeam_channel::{Receiver, unbounded};
use rustix::process::Pid;

use crate::masters::{Failure, Masters};

/// Time limit of every wait. Each takes about one second at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A process that is killed when this is dropped.
pub(crate) struct Copy {
    process: Child,
    orders: ChildStdin,
    /// The lines that the process prints. The channel ends with the process.
    lines: Receiver<String>,
}

impl Copy {
    /// Starts a process with those arguments, on the same masters.
    pub(crate) fn start(
        masters: &Masters,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        masters.pass_on_to(&mut command);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let orders = process.stdin.take().ok_or("the process has no input")?;
        let output = process.stdout.take().ok_or("the process has no output")?;
        Ok(Self { process, orders, lines: lines_of(output) })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Waits for the next line that the process prints.
    pub(crate) fn hear(&self) -> Result<String, Failure> {
        let line = self.lines.recv_timeout(PATIENCE);
        Ok(line.map_err(|_| "another process of this program says nothing")?)
    }

    /// Lets a process go on that [waits](wait_for_go) for it.
    pub(crate) fn go(&mut self) -> io::Result<()> {
        writeln!(self.orders, "go")
    }

    /// Ends the process at once, as a power cut would.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Waits until the process has ended by itself, with success.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let status = self.process.wait()?;
        status.success().then_some(()).ok_or_else(|| format!("a process failed: {status}").into())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // The process has ended already, unless something went wrong. A stopped process can be killed, too.
        let _: io::Result<()> = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the process that started this one lets it go on. Fails if that process has ended.
pub(crate) fn wait_for_go() -> Result<(), Failure> {
    match io::stdin().read_line(&mut String::new())? {
        0 => Err("the process that started this one has ended".into()),
        _ => Ok(()),
    }
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = unbounded();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
