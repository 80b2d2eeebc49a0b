//! Helper processes, from both sides: this program, started again in a role.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::roles::Role;
use crate::support::reaper::Process;
use crate::support::{Servers, wait_until};

/// The environment variable that names the role of a helper. The tests run if it is not set.
const ROLE: &str = "QUORLOCK_TEST_ROLE";

/// Time limit of a helper's immediate actions: generous, for busy machines.
pub(crate) const PROMPT: Duration = Duration::from_secs(60);

/// The test's handle of a helper. The helper is killed when this is dropped, and does not outlive the test.
#[derive(Debug)]
pub(crate) struct Helper {
    role: &'static str,
    child: Process,
    orders: ChildStdin,
    words: Receiver<String>,
}

impl Helper {
    pub(crate) fn start(role: &Role, servers: &Servers) -> Self {
        Self::start_with(role, servers, &[])
    }

    /// Like [`start`](Self::start), with more environment variables.
    pub(crate) fn start_with(
        role: &Role,
        servers: &Servers,
        variables: &[(&str, &dyn AsRef<OsStr>)],
    ) -> Self {
        Self::start_at(role, servers, variables, None)
    }

    /// Like [`start_with`](Self::start_with), with a wall clock that is `wrong` by that much, in the
    /// syntax of the program faketime.
    pub(crate) fn start_at(
        role: &Role,
        servers: &Servers,
        variables: &[(&str, &dyn AsRef<OsStr>)],
        wrong: Option<&str>,
    ) -> Self {
        let program = program();
        let command = match wrong {
            None => Command::new(program),
            Some(wrong) => {
                let mut command = Command::new("faketime");
                // The library waits on the monotonic clock, and the kernel checks those deadlines.
                command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").args(["-f", wrong]).arg(program);
                command
            }
        };
        Self::run(command, role, &servers.urls(), variables)
    }

    /// Like [`start_with`](Self::start_with), on servers with the given addresses: for a test that has lent its servers.
    pub(crate) fn start_on(
        role: &Role,
        urls: &[String],
        variables: &[(&str, &dyn AsRef<OsStr>)],
    ) -> Self {
        Self::run(Command::new(program()), role, urls, variables)
    }

    /// Like [`start`](Self::start), in a process group of its own, as a shell makes for each command.
    pub(crate) fn start_apart(role: &Role, servers: &Servers) -> Self {
        let mut command = Command::new(program());
        command.process_group(0);
        Self::run(command, role, &servers.urls(), &[])
    }

    fn run(
        mut command: Command,
        role: &Role,
        urls: &[String],
        variables: &[(&str, &dyn AsRef<OsStr>)],
    ) -> Self {
        command.env(ROLE, role.name).env("QUORLOCK_NODES", urls.join(","));
        for (name, value) in variables {
            command.env(name, value);
        }
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Process::spawn(pipes).expect("this program can be started once more");
        let orders = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (tell, words) = mpsc::channel();
        // Reads from pipes have no time limit, so a thread reads. It ends with the helper.
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The receiver may be gone if the test has read enough.
                let _ = tell.send(line);
            }
        });
        Self { role: role.name, child, orders, words }
    }

    /// Waits until the helper [says](say) `word`.
    #[track_caller]
    pub(crate) fn expect(&self, word: &str) {
        assert_eq!(self.hear(), word, "from the helper \"{}\"", self.role);
    }

    /// Waits for the next line that the helper [says](say), and returns it.
    #[track_caller]
    pub(crate) fn hear(&self) -> String {
        let said = self.words.recv_timeout(PROMPT);
        said.unwrap_or_else(|error| panic!("nothing from the helper \"{}\": {error}", self.role))
    }

    /// Lets a helper go on that [waits](wait_for_go) for it.
    #[track_caller]
    pub(crate) fn go(&mut self) {
        writeln!(self.orders, "go").expect("the helper listens");
    }

    /// Gives the helper an [order](orders). Returns true if the helper is there to take it.
    pub(crate) fn order(&mut self, order: &str) -> bool {
        writeln!(self.orders, "{order}").is_ok()
    }

    /// The lines that the helper has [said](say), and the test has not read yet.
    pub(crate) fn said(&self) -> impl Iterator<Item = String> {
        self.words.try_iter()
    }

    /// All lines that the helper [says](say) until its end, which must come.
    #[track_caller]
    pub(crate) fn hear_out(&self) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            match self.words.recv_timeout(PROMPT) {
                Ok(line) => heard.push(line),
                Err(RecvTimeoutError::Disconnected) => return heard,
                Err(error) => panic!("no end of the helper \"{}\": {error}", self.role),
            }
        }
    }

    /// Ends the helper at once, by SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child of ours can be killed");
    }

    /// Stops the helper until [`wake`](Self::wake).
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal to the helper's process group, as a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let group = Pid::from_child(&self.child);
        kill_process_group(group, signal).expect("a child of ours gets signals");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child of ours gets signals");
    }

    /// Returns true if the helper has ended, with success or not.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the state of a child can be asked for").is_some()
    }

    /// Gives no more orders, and waits until the helper has ended by itself. Fails if it did not succeed.
    #[track_caller]
    pub(crate) fn finish_within(self, limit: Duration) {
        let Self { role, mut child, orders, words: _words } = self;
        drop(orders);
        let mut status = None;
        wait_until(&format!("the end of the helper \"{role}\""), limit, || {
            status = child.try_wait().expect("the state of a child can be asked for");
            status.is_some()
        });
        assert!(
            status.is_some_and(|status| status.success()),
            "the helper \"{role}\" failed: {status:?}"
        );
    }
}

fn program() -> PathBuf {
    std::env::current_exe().expect("the path of this program is known")
}

/// The role of this process, if it is a helper.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// On the helper's side: reports to the test that `word` is reached.
pub(crate) fn say(word: &str) {
    let mut output = io::stdout().lock();
    writeln!(output, "{word}").and_then(|()| output.flush()).expect("the test listens");
}

/// On the helper's side: the test's [orders](Helper::order), until the test has no more, or is gone.
pub(crate) fn orders() -> impl Iterator<Item = String> {
    io::stdin().lines().map(|line| line.expect("the test writes text"))
}

/// On the helper's side: waits until the test lets the helper go on. Fails if the test is gone, so
/// that no helper outlives its test.
pub(crate) fn wait_for_go() {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).expect("the test writes text");
    assert!(read > 0, "the test is gone");
}
