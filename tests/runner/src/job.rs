//! A test program that runs.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::classes::{self, Class};
use crate::output::Output;
use crate::programs::{self, Program, Runs};
use crate::reaper::{Folder, Process};

/// A program that takes longer than this hangs, and is ended.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// The priority of programs that compute, as `nice` has it: a fifth of the others' share of a processor.
const NICE: &str = "7";

/// A program that was started.
pub(crate) struct Job {
    program: Program,
    process: Process,
    log: PathBuf,
    began: Instant,
    /// It was ended, since it took too long.
    hung: bool,
}

/// What came of a program.
pub(crate) struct Report {
    pub(crate) program: Program,
    pub(crate) output: Output,
    pub(crate) took: Duration,
    /// In seconds, with all processes that it has waited for; not known everywhere.
    pub(crate) processor: Option<f64>,
    /// Why it failed, besides the tests that failed.
    pub(crate) failure: Option<String>,
}

impl Job {
    /// Starts the program with the names of tests to run, and writes what it prints to a file in `logs`. If it
    /// computes, it leaves the processors to others where `nicely` says so.
    pub(crate) fn start(
        program: Program,
        tests: &[String],
        logs: &Folder,
        nicely: bool,
    ) -> Result<Self, String> {
        let terms = classes::of(&program.name);
        let is_nice = nicely && terms.class == Class::Computes;
        let mut command = match &program.runs {
            Runs::Executable(path) if is_nice => {
                let mut command = programs::command("nice");
                command.args(["-n", NICE]).arg(path);
                command
            }
            Runs::Executable(path) => programs::command(path),
            Runs::Documentation(arguments) => {
                let mut command = programs::cargo();
                command.args(["test", "--doc"]).args(arguments).arg("--");
                command
            }
        };
        // What tests print that pass: the panics of other threads are looked for in it.
        command.arg("--show-output").arg(format!("--test-threads={}", terms.threads)).args(tests);
        let log = logs.join(&program.name);
        let mut start = || {
            let output = File::create(&log)?;
            let errors = output.try_clone()?;
            Process::spawn(command.stdin(Stdio::null()).stdout(output).stderr(errors))
        };
        let process =
            start().map_err(|error| format!("{} cannot be run: {error}", program.name))?;
        Ok(Self { program, process, log, began: Instant::now(), hung: false })
    }

    /// Whether the program has ended. It is ended here if it takes too long.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.began.elapsed() > LIMIT && !self.hung {
            self.hung = true;
            let pid = Pid::from_child(&self.process);
            // It may have ended by itself just now.
            let _ = kill_process(pid, Signal::KILL);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.process)), options)
            .is_ok_and(|ended| ended.is_some())
    }

    /// What came of a program that has ended.
    pub(crate) fn report(mut self) -> Result<Report, String> {
        let took = self.began.elapsed();
        // As long as nobody has waited for it, the kernel knows what it has used.
        let processor = processor_seconds(self.process.id());
        let status = self.process.wait().map_err(|error| error.to_string())?;
        let text = fs::read(&self.log).unwrap_or_default();
        let output = Output::of(String::from_utf8_lossy(&text).into_owned());
        let failure = self.failure(status, &output);
        Ok(Report { program: self.program, output, took, processor, failure })
    }

    fn failure(&self, status: ExitStatus, output: &Output) -> Option<String> {
        match status.signal() {
            _ if self.hung => Some(format!("it hangs: ended after {} min", LIMIT.as_secs() / 60)),
            Some(signal) => Some(format!("it was ended by signal {signal}")),
            None if status.success() && output.has_result() => None,
            None if !output.has_result() => Some(format!("it printed no test result: {status}")),
            None if output.failed.is_empty() => Some(status.to_string()),
            None => None,
        }
    }
}

/// User and system time, of a process and of those that it has waited for. See `proc_pid_stat(5)`: `utime`, `stime`,
/// `cutime` and `cstime`, fields 14 to 17.
fn processor_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces in it. Behind it comes the third field.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).flat_map(str::parse::<u64>).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
