//! The command that prints the password of the masters, run for new logins.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use quorlock::{Credentials, Quorlock};

use crate::children::Own;
use crate::clock::{self, Time};
use crate::signals;

/// Longest time that the command may take. While it runs, the master counts as down.
const LIMIT: Duration = Duration::from_secs(10);

/// Time between two looks if the command has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Longest output that is read.
const LONGEST: u64 = 64 * 1024;

/// Time for the second line, once the command has ended.
const SECOND_LINE: Duration = Duration::from_millis(200);

/// Time for logins once the command has ended: a client that was refused a login tries again within a second.
const LOGIN: Duration = Duration::from_millis(1_500);

/// The commands that run now, each the leader of its process group.
static RUNNING: Mutex<Running> = Mutex::new(Running { groups: Vec::new(), has_ended: false });

struct Running {
    groups: Vec<Pid>,
    /// True if this program is about to end: no further command starts.
    has_ended: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the commands that run, with their own processes. The program ends now.
pub(crate) fn end_all() {
    let mut running = locked(&RUNNING);
    running.has_ended = true;
    for group in &running.groups {
        let _ = killpg(*group, Signal::SIGKILL);
    }
}

/// The command, and the masters for which it has run.
pub(crate) struct Passwords {
    command: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// For each master: the time of the first end of the command, and its last answer with the time of the question.
    masters: BTreeMap<String, Master>,
    /// True if another client of this process is to get the same answers.
    are_shared: bool,
}

#[derive(Default)]
struct Master {
    first_end: Option<Time>,
    last: Option<(Time, Credentials)>,
}

impl State {
    /// Takes the last answer for that master, if another client of this process is to get it.
    fn take_shared(&mut self, node: &str, asked_at: Time) -> Option<Credentials> {
        let (at, last) = self.masters.entry(node.to_owned()).or_default().last.take()?;
        (self.are_shared && asked_at.since(at) < LIMIT).then_some(last)
    }

    /// Notes that the command has ended for that master, with that answer.
    fn has_ended(&mut self, node: &str, last: Option<(Time, Credentials)>) {
        let master = self.masters.entry(node.to_owned()).or_default();
        master.first_end.get_or_insert_with(Time::now);
        master.last = last;
    }

    /// Returns the time of the first end for each master; `None` if it has not ended for all of them.
    fn first_ends(&self) -> Option<Vec<Time>> {
        self.masters.values().map(|master| master.first_end).collect()
    }
}

impl Passwords {
    pub(crate) fn of(command: String) -> Self {
        Self { command, state: Mutex::default() }
    }

    /// Runs the command with the shell, with the URL of the master in `QUORLOCK_NODE`. The first line of its output is the password.
    /// The second one may be the number of seconds for which it is valid.
    ///
    /// The error names the command's end, and nothing that it has printed.
    pub(crate) fn ask(&self, node: &str) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
        let asked_at = Time::now();
        if let Some(last) = locked(&self.state).take_shared(node, asked_at) {
            return Ok(last);
        }
        let answer = run(&self.command, node, LIMIT);
        let answer = answer.map(|(password, valid_for)| {
            let credentials = Credentials::new(password);
            valid_for.into_iter().fold(credentials, Credentials::valid_for)
        });
        let last = answer.as_ref().ok().map(|credentials| (asked_at, credentials.clone()));
        locked(&self.state).has_ended(node, last);
        answer.map_err(|what| format!("the password command {what}").into())
    }

    /// Waits until most masters have let this client in, or the command has ended for each master, or has run for too long. A call
    /// that does not wait would fail while a slow command runs.
    pub(crate) fn wait(&self, client: &Quorlock) {
        let began = Time::now();
        // A signal ends the program, which the caller sees to.
        while !self.is_over(client, began) && signals::that_came_to_end().is_none() {
            clock::pause(LOOK);
        }
    }

    fn is_over(&self, client: &Quorlock, began: Time) -> bool {
        let nodes = client.node_stats();
        let connected = nodes.iter().filter(|node| node.connected).count();
        let now = Time::now();
        if connected > nodes.len() / 2 || now.since(began) >= LIMIT + LOGIN {
            return true;
        }
        let ends = locked(&self.state).first_ends();
        ends.is_some_and(|ends| now.since(ends.into_iter().max().unwrap_or(began)) >= LOGIN)
    }

    /// Gives each last answer to another client of this process as well, once.
    pub(crate) fn share(&self) {
        locked(&self.state).are_shared = true;
    }
}

/// The password, and the time for which it is valid, if the command says so.
type Printed = (String, Option<Duration>);

fn run(command: &str, node: &str, limit: Duration) -> Result<Printed, String> {
    let failed = |error: io::Error| format!("could not be run: {error}");
    let mut shell = Command::new("/bin/sh");
    let shell = shell.args(["-c", command]).env("QUORLOCK_NODE", node);
    let shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = {
        let mut running = locked(&RUNNING);
        if running.has_ended {
            return Err("was not run, since this program ends".to_owned());
        }
        let child = Own::spawn(shell).map_err(failed)?;
        running.groups.push(child.pid());
        child
    };
    let output = child.0.stdout.take();
    let (sender, lines) = mpsc::channel();
    let reader = move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        for _ in 0..2 {
            let mut line = String::new();
            let read = (&mut output).take(LONGEST).read_line(&mut line);
            // The receiver is gone if the command took too long.
            let _ = sender.send(read.map(|_| line));
        }
        // The command may print more, and must not be stopped by that.
        let _ = io::copy(&mut output, &mut io::sink());
    };
    let started = clock::spawn("password-command", reader);
    let status = wait(&mut child, limit).map_err(failed)?;
    started.map_err(failed)?;
    match status {
        None => return Err(format!("took more than {} s", limit.as_secs_f64())),
        Some(status) if !status.success() => return Err(format!("failed ({status})")),
        Some(_) => {}
    }
    // All that it has printed is in the pipe by now.
    let line = lines.recv_timeout(limit).map_err(|_| "could not be read")?;
    let line = line.map_err(|error| format!("could not be read: {error}"))?;
    let seconds = lines.recv_timeout(SECOND_LINE).ok().and_then(Result::ok);
    let seconds = seconds.and_then(|line| line.trim().parse::<u32>().ok());
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err("has printed no password".to_owned()),
        password => Ok((password.to_owned(), seconds.map(|s| Duration::from_secs(s.into())))),
    }
}

/// Waits for the command's end. `None`: it took too long, and was killed with its own processes.
fn wait(child: &mut Own, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Time::now().after(limit);
    let pid = child.pid();
    loop {
        {
            // Once its end is taken, its id may become that of another process.
            let mut running = locked(&RUNNING);
            let status = child.0.try_wait();
            let is_over = Time::now() >= until;
            if is_over && matches!(status, Ok(None)) {
                let _ = killpg(pid, Signal::SIGKILL);
            }
            if is_over || !matches!(status, Ok(None)) {
                running.groups.retain(|group| *group != pid);
            }
            if let Some(status) = status? {
                return Ok(Some(status));
            }
            if is_over {
                drop(running);
                child.0.wait()?;
                return Ok(None);
            }
        }
        clock::pause(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(command: &str) -> Result<String, String> {
        run(command, "redis://a", LIMIT).map(|(password, _)| password)
    }

    #[test]
    fn a_number_in_the_second_line_is_the_time_in_seconds() {
        let valid_for = |command| run(command, "redis://a", LIMIT).expect("a password").1;
        assert_eq!(valid_for("echo a; echo 900"), Some(Duration::from_secs(900)));
        for without in
            ["echo a", "echo a; echo for 900 s", "echo a; echo; echo 900", "echo a; echo -1"]
        {
            assert_eq!(valid_for(without), None, "{without}");
        }
    }

    #[test]
    fn the_first_line_is_the_password() {
        assert_eq!(printed("printf 'a b\\nc\\n'"), Ok("a b".to_owned()));
        assert_eq!(printed("echo $QUORLOCK_NODE"), Ok("redis://a".to_owned()));
    }

    #[test]
    fn a_command_that_fails_is_named_without_its_output() {
        let failed = printed("echo secret; exit 3").expect_err("it fails");
        assert!(failed.contains('3') && !failed.contains("secret"), "{failed}");
        assert_eq!(printed("true"), Err("has printed no password".to_owned()));
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let slow = run("sleep 60; echo late", "redis://a", Duration::from_millis(50));
        assert!(slow.is_err_and(|what| what.starts_with("took more than")));
    }

    #[test]
    fn a_long_output_blocks_nobody() {
        assert_eq!(
            printed("echo first; head -c 600000 /dev/zero | tr '\\0' x"),
            Ok("first".to_owned())
        );
    }
}
