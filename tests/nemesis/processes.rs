//! The processes of a run: the witness and the workers. Both are this program, started again in a role.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::support::reaper;
use crate::witness::Server;
use crate::worker::{self, Failure, Settings};

/// The environment variable that names the role of a process.
const ROLE: &str = "NEMESIS_ROLE";
const WITNESS: &str = "witness";
const WORKER: &str = "worker";
/// The environment variable with the folder of the witness's history.
const FOLDER: &str = "NEMESIS_FOLDER";

/// Generous, for busy machines.
const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);

/// Plays the role of this process. Returns `None` if the process has none.
pub(crate) fn play() -> Option<Result<(), Failure>> {
    let role = env::var(ROLE).ok()?;
    Some(match role.as_str() {
        WITNESS => play_witness(),
        WORKER => Settings::from_env().and_then(|settings| worker::run(&settings)),
        other => Err(format!("there is no role \"{other}\"").into()),
    })
}

#[allow(clippy::print_stdout, reason = "it tells where it listens")]
fn play_witness() -> Result<(), Failure> {
    let folder = env::var(FOLDER)?;
    let server = Server::bind("127.0.0.1:0", Path::new(&folder))?;
    println!("{}", server.address()?);
    Ok(server.serve()?)
}

/// A process of the run. It is killed when dropped, and does not outlive this one.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: reaper::Process,
}

impl Process {
    fn start(name: &str, role: &str, command: &mut Command) -> io::Result<Self> {
        command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = reaper::Process::spawn(command)?;
        Ok(Self { name: name.to_owned(), child })
    }

    pub(crate) fn worker(settings: &Settings) -> io::Result<Self> {
        let mut program = Command::new(env::current_exe()?);
        Self::start(&settings.worker, WORKER, program.envs(settings.to_env()))
    }

    /// Starts a worker that is expected to fail, and discards its output.
    pub(crate) fn silent_worker(settings: &Settings) -> io::Result<Self> {
        let mut program = Command::new(env::current_exe()?);
        let silent = program.envs(settings.to_env()).stderr(Stdio::null());
        Self::start(&settings.worker, WORKER, silent)
    }

    /// Starts the witness. Returns the process and its address.
    pub(crate) fn witness(folder: &Path) -> Result<(Self, String), Failure> {
        let folder = folder.to_str().ok_or("the path of the temporary files is no text")?;
        let mut program = Command::new(env::current_exe()?);
        let mut process = Self::start("the witness", WITNESS, program.env(FOLDER, folder))?;
        let output = process.child.stdout.take().ok_or("the witness has no output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address)?;
        match address.trim() {
            "" => Err("the witness has ended instead of listening".into()),
            address => Ok((process, address.to_owned())),
        }
    }

    /// Stops the process. Returns once it has stopped.
    pub(crate) fn stop(&self) -> Result<(), Failure> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let began = Instant::now();
        while waitid(WaitId::Pid(pid), options)?.is_none() {
            if began.elapsed() > LIMIT {
                return Err(format!("{} does not stop", self.name).into());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    pub(crate) fn wake(&self) -> Result<(), Failure> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill()?)
    }

    /// Fails if the process has ended, with success or not.
    pub(crate) fn expect_running(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("{} has ended: {status}", self.name).into()),
        }
    }

    /// Waits until the process has ended by itself. Fails if it did not succeed.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if began.elapsed() > LIMIT {
                return Err(format!("{} does not come to an end", self.name).into());
            }
            thread::sleep(POLL);
        };
        let ended = ExitStatus::success(&status);
        ended.then_some(()).ok_or_else(|| format!("{} failed: {status}", self.name).into())
    }
}
