//! A running test program.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::classes::{self, Class, Terms};
use crate::output::Output;
use crate::programs::{self, Program, Runs};
use crate::reaper::{Folder, Process};

/// A program that takes longer than this hangs, and is ended.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The variables that make tests take longer on request.
const LONG: [&str; 4] =
    ["QUORLOCK_LONG_TESTS", "QUORLOCK_SIM_SEEDS", "QUORLOCK_SOAK_SECONDS", "QUORLOCK_USED_NAMES"];

/// The niceness of programs that compute. They get a fifth of the processor share of the others.
const NICE: &str = "7";

/// A program that was started.
pub(crate) struct Job {
    program: Program,
    process: Process,
    log: PathBuf,
    began: Instant,
    /// True if the program was ended because it took too long.
    hung: bool,
}

/// The result of a program.
pub(crate) struct Report {
    pub(crate) program: Program,
    pub(crate) output: Output,
    pub(crate) took: Duration,
    /// Processor time in seconds, including all child processes that the program has waited for. Not available everywhere.
    pub(crate) processor: Option<f64>,
    /// The reason for the failure, if it is not a failed test.
    pub(crate) failure: Option<String>,
}

impl Job {
    /// Starts the program with the names of tests to run, and writes its output to a file in `logs`. If `nicely`,
    /// a program that computes has a low priority.
    pub(crate) fn start(
        program: Program,
        tests: &[String],
        logs: &Folder,
        nicely: bool,
    ) -> Result<Self, String> {
        let terms = classes::of(&program.name);
        let is_nice = nicely && terms.class == Class::Computes;
        let mut command = match &program.runs {
            Runs::Executable { path, folder } => {
                let mut command = match is_nice {
                    true => programs::command("nice"),
                    false => programs::command(path),
                };
                if is_nice {
                    command.args(["-n", NICE]).arg(path);
                }
                command.current_dir(folder);
                command
            }
            Runs::Documentation(arguments) => {
                let mut command = programs::cargo();
                command.args(["test", "--doc"]).args(arguments).arg("--");
                // A killed program leaves compiled programs behind, which are removed with this folder.
                command.env("TMPDIR", &**logs);
                command
            }
        };
        command.args(defaults(&terms, tests)).args(tests);
        let log = logs.join(&program.name);
        let mut start = || {
            let output = File::create(&log)?;
            let errors = output.try_clone()?;
            Process::spawn_group(command.stdin(Stdio::null()).stdout(output).stderr(errors))
        };
        let process =
            start().map_err(|error| format!("{} cannot be run: {error}", program.name))?;
        Ok(Self { program, process, log, began: Instant::now(), hung: false })
    }

    /// Returns true once the program has ended. Ends it if it takes too long.
    pub(crate) fn has_ended(&mut self) -> bool {
        let is_long = LONG.iter().any(|name| env::var_os(name).is_some());
        if self.began.elapsed() > LIMIT && !is_long && !self.hung {
            self.hung = true;
            let group = Pid::from_child(&self.process);
            // The program may have ended by itself just now.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.process)), options)
            .is_ok_and(|ended| ended.is_some())
    }

    /// The result of a program that has ended.
    pub(crate) fn report(mut self) -> Result<Report, String> {
        let took = self.began.elapsed();
        // The kernel keeps the times of a process until its end has been waited for.
        let processor = processor_seconds(self.process.id());
        let status = self.process.wait().map_err(|error| error.to_string())?;
        let text = fs::read(&self.log).unwrap_or_default();
        let output = Output::of(String::from_utf8_lossy(&text).into_owned(), status.success());
        let failure = failure(status, &output, self.hung);
        Ok(Report { program: self.program, output, took, processor, failure })
    }
}

/// Further arguments of a test program, without those that the user has given.
fn defaults(terms: &Terms, tests: &[String]) -> Vec<String> {
    let all = [
        // The output of successful tests is searched for panics of other threads.
        "--show-output".to_owned(),
        format!("--test-threads={}", terms.threads),
    ];
    let is_given = |name: &str| tests.iter().any(|given| given.split('=').next() == Some(name));
    all.into_iter().filter(|it| !is_given(it.split('=').next().unwrap_or_default())).collect()
}

/// The reason for a program's failure, apart from failed tests.
fn failure(status: ExitStatus, output: &Output, hung: bool) -> Option<String> {
    match status.signal() {
        _ if hung => Some(format!("it hangs: ended after {} min", LIMIT.as_secs() / 60)),
        Some(signal) => Some(format!("it was ended by signal {signal}")),
        None if !output.has_result() => Some(format!("it printed no test result: {status}")),
        None if status.success() || !output.failed.is_empty() => None,
        None => Some(status.to_string()),
    }
}

/// User and system time, of a process and of those that it has waited for. See `proc_pid_stat(5)`: `utime`, `stime`,
/// `cutime` and `cstime`, fields 14 to 17.
fn processor_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces. The third field follows it.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).flat_map(str::parse::<u64>).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: &str = "\nfailures:\n    one\n\ntest result: FAILED. 0 passed; 1 failed;\n";
    const GREEN: &str = "test result: ok. 1 passed; 0 failed;\n";

    fn why(status: i32, text: &str) -> Option<String> {
        let status = ExitStatus::from_raw(status);
        failure(status, &Output::of(text.to_owned(), status.success()), false)
    }

    #[test]
    fn a_program_fails_with_its_tests_or_for_a_reason() {
        // As in `waitpid`: the exit code is in the second byte, and a signal in the first one.
        assert_eq!(why(0, GREEN), None);
        assert_eq!(why(101 << 8, RED), None, "the test that failed is named");
        assert!(why(101 << 8, GREEN).is_some());
        assert!(why(0, "").is_some_and(|why| why.contains("no test result")));
        assert!(why(9, GREEN).is_some_and(|why| why.contains("signal 9")));
    }

    #[test]
    fn arguments_are_given_once() {
        let terms = classes::of("new");
        let given = |tests: &[&str]| {
            defaults(&terms, &tests.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(given(&["name"]), ["--show-output", "--test-threads=2"]);
        assert_eq!(given(&["--test-threads=1"]), ["--show-output"]);
        assert_eq!(given(&["--show-output", "--test-threads", "1"]), [""; 0]);
    }
}
