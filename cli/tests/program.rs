//! Starts the program, and checks its output and its effects.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

pub(crate) use crate::support::reaper::runs;
use crate::support::reaper::{self, Process};
use crate::support::{Server, Servers, wait_until};

/// A limit for waits that a working program never reaches.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Time for the masters' answers on a busy machine.
const PATIENT: [&str; 2] = ["--node-timeout", "2s"];

/// Masters that grant locks at once, and a folder.
pub(crate) struct World {
    pub(crate) servers: Servers,
    pub(crate) folder: Folder,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same with these options for all clients of the masters.
    pub(crate) fn with(options: &[&str]) -> Self {
        let world = Self::of_new_masters();
        let admitted = world.output(&[&["admit", "--force"], options].concat());
        assert!(admitted.status.success(), "{}", told(&admitted));
        world
    }

    /// Returns a world with masters that grant no locks yet.
    pub(crate) fn of_new_masters() -> Self {
        Self { servers: Servers::start(3), folder: Folder::new() }
    }

    /// Returns true if a lock of that name was taken from its owner by another process, recently.
    pub(crate) fn was_given_back(&self, name: &str) -> bool {
        let pattern = format!("quorlock:{name}{{*}}:forced");
        let found = self.servers[0].command(&["KEYS", &pattern]);
        matches!(found, redis::Value::Array(found) if !found.is_empty())
    }

    /// Returns the program with those options, and with the masters in the environment.
    pub(crate) fn program(&self, options: &[&str]) -> Command {
        let mut program = program();
        program
            .args(options)
            .env("QUORLOCK_NODES", self.servers.urls().join(","))
            .current_dir(&*self.folder.0);
        program
    }

    /// Runs the program. A call that asks the masters only once gets time for their answers, unless `options` say otherwise.
    pub(crate) fn output(&self, options: &[&str]) -> Output {
        let (command, rest) = options.split_first().expect("a command");
        let patient = if asks_once(command, rest) { &PATIENT[..] } else { &[] };
        let options = [&[*command][..], patient, rest].concat();
        self.program(&options).output().expect("the program starts")
    }

    pub(crate) fn start(&self, options: &[&str]) -> Running {
        Running::new(&mut self.program(options))
    }

    /// Starts the program with a command that writes its process id, and then goes on for longer than any test. When this
    /// returns, all masters have the lock.
    pub(crate) fn hold(&self, options: &[&str]) -> (Running, u32) {
        let command = ["--", "sh", "-c", "echo $$ > pid; exec sleep 600"];
        self.hold_by(&[options, &command].concat())
    }

    /// Waits until the lock "job" has been renewed once more.
    pub(crate) fn wait_renewed(&self) {
        let left = || self.servers[0].pttl("quorlock:job");
        let mut before = left();
        wait_until("the lock is renewed", LIMIT, || {
            let left = left();
            std::mem::replace(&mut before, left) < left
        });
    }

    /// The same with a command that writes its process id to the file `pid`.
    pub(crate) fn hold_by(&self, options: &[&str]) -> (Running, u32) {
        // Removes the id of the previous command.
        let _ = fs::remove_file(self.folder.path("pid"));
        let running = self.start(&[&["run"], options].concat());
        let pid = self.folder.pid("pid");
        let command = options.iter().position(|option| *option == "--").expect("a command");
        self.wait_on_all(options[command - 1]);
        (running, pid)
    }

    /// Waits until all masters have the lock of that name. The program goes on once a majority has granted it.
    #[track_caller]
    pub(crate) fn wait_on_all(&self, name: &str) {
        let key = format!("quorlock:{name}");
        let has_key = |server: &Server| server.command(&["EXISTS", &key]) == redis::Value::Int(1);
        wait_until("all masters have the lock", LIMIT, || self.servers.iter().all(has_key));
    }
}

/// Returns true if that command asks the masters only once, and fails if they take longer than the node timeout.
fn asks_once(command: &str, options: &[&str]) -> bool {
    let is_single = match command {
        "run" => options.iter().any(|option| matches!(*option, "-n" | "--no-wait")),
        "admit" | "bench" | "doctor" | "leader" | "list" | "status" | "unlock" => true,
        _ => false,
    };
    is_single && !options.contains(&"--node-timeout")
}

/// Returns the program without settings from the environment of the test run.
pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    let all = std::env::vars_os().map(|(name, _)| name);
    let ours = all.filter(|name| name.to_string_lossy().starts_with("QUORLOCK_"));
    ours.for_each(|name| {
        program.env_remove(name);
    });
    program.stdin(Stdio::null());
    program
}

pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
pub(crate) fn ends_with(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
}

/// A running program. It is killed at the end of its test, if it has not ended.
pub(crate) struct Running(Process);

impl Running {
    pub(crate) fn new(program: &mut Command) -> Self {
        let pipes = program.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Process::spawn(pipes).expect("the program starts"))
    }

    pub(crate) fn signal(&self, signal: &str) {
        send(signal, self.0.id());
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the writing end of the program's input, if that is a pipe.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.0.stdin.take().expect("a pipe")
    }

    /// Waits for the end of the program. Returns its exit code, its output and its messages.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut status = None;
        wait_until("the program has ended", LIMIT, || {
            status = self.0.try_wait().expect("it is ours");
            status.is_some()
        });
        // Processes that the program has started may still have its pipes open, if they go on.
        let read = |pipe: Option<&mut dyn Read>| {
            let mut text = Vec::new();
            pipe.expect("a pipe").read_to_end(&mut text).expect("readable");
            String::from_utf8_lossy(&text).into_owned()
        };
        let printed = read(self.0.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
        let told = read(self.0.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        // The exit code of a shell.
        let signal = |status: ExitStatus| status.signal().map(|signal| 128 + signal);
        (status.and_then(|status| status.code().or_else(|| signal(status))), printed, told)
    }

    /// Returns the process that watches over the command.
    pub(crate) fn watchdog(&self) -> u32 {
        watchdog_of(self.0.id())
    }
}

/// Returns the process that watches over the command of that keeper.
pub(crate) fn watchdog_of(keeper: u32) -> u32 {
    let mut found = None;
    wait_until("there is a watchdog", LIMIT, || {
        found = children(keeper).into_iter().find(|child| is_watchdog(*child));
        found.is_some()
    });
    found.expect("it was found")
}

pub(crate) fn is_watchdog(process: u32) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.starts_with(b"lock-watchdog\0")
}

pub(crate) fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("a Linux machine").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().nth(1).and_then(|id| id.parse().ok()) == Some(parent)
    };
    ids.filter(is_child).collect()
}

/// Returns true if this process ignores the signal of that number, as after `nohup`. All processes that it starts ignore it too.
pub(crate) fn is_ignored(number: i32) -> bool {
    let status = read(Path::new("/proc/self/status"));
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set >> (number - 1) & 1 == 1
}

/// Sends a signal by the program `kill`.
pub(crate) fn send(signal: &str, process: u32) {
    let status = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
    assert!(status.expect("kill is there").success(), "{process} is there");
}

#[track_caller]
pub(crate) fn has_ended(process: u32) {
    wait_until("the command has ended", LIMIT, || !runs(process));
}

/// A folder for the files of one test.
pub(crate) struct Folder(reaper::Folder);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(reaper::Folder::create("quorlock-cli").expect("there is room"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("there is room");
        path
    }

    /// Returns the text of a file, once there is a line in it.
    #[track_caller]
    pub(crate) fn line(&self, name: &str) -> String {
        let mut text = String::new();
        wait_until("the command has written", LIMIT, || {
            text = read(&self.path(name));
            text.ends_with('\n')
        });
        text.trim().to_owned()
    }

    #[track_caller]
    fn pid(&self, name: &str) -> u32 {
        self.line(name).parse().expect("a process id")
    }
}

/// Copies a program by a separate process. A process that another thread starts meanwhile would have the file open for writing for
/// a moment, and the system runs no such file.
pub(crate) fn copy_file(from: &Path, to: &Path) {
    let status = Command::new("cp").args([from, to]).status();
    assert!(status.expect("cp is there").success(), "there is room for {}", to.display());
}

/// Returns the text of a file, or nothing if there is no such file.
pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}
