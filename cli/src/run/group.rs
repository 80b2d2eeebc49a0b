//! The command as a process group of its own: its signals, its end, and the terminal.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{Pid, close, getpgid, getpgrp, tcgetpgrp, tcsetpgrp};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, waitpid};

use super::{members, program};
use crate::exit::{CANNOT_RUN, End, Failure};
use crate::options::Exec;
use crate::signals::suspend;

/// Byte that the keeper writes when the command may begin.
const GO_ON: u8 = b'g';
/// Bytes from the process that becomes the command: before it does, and if it cannot.
const BEGINS: u8 = b'b';
const CANNOT: u8 = b'c';

/// A command that runs.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// The terminal that this process was started on.
    terminal: Option<File>,
    /// The pipe for which the command waits.
    go_on: Option<OwnedFd>,
    /// The pipe with the reports of the process that becomes the command.
    begins: OwnedFd,
    /// The end of the command. Other processes of its group may be left.
    ended: Option<End>,
}

/// The state of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupState {
    Runs,
    /// The user has suspended it.
    Suspended,
    /// It has ended. The exit code is that of a shell.
    Ended(End),
}

impl Group {
    /// Starts a process that becomes the command once it is told to [go on](Self::go_on). Nothing of the command runs before the
    /// watchdog watches over its group.
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(&str, Option<OsString>)>,
    ) -> Result<Self, Failure> {
        let mut start = Command::new(this_program().map_err(cannot_start)?);
        // Only this process has the writing end, so the pipe ends when this process does.
        let (waits, go_on) = pipe_with(PipeFlags::CLOEXEC).map_err(cannot_start)?;
        fcntl_setfd(&waits, FdFlags::empty()).map_err(cannot_start)?;
        let (begins, tells) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(cannot_start)?;
        fcntl_setfd(&tells, FdFlags::empty()).map_err(cannot_start)?;
        let pipes = [&waits, &tells].map(|pipe| pipe.as_raw_fd().to_string());
        start.arg0("quorlock").arg("exec").args(&pipes).arg("--").args(command).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        let child = start.spawn().map_err(cannot_start)?;
        let leader = i32::try_from(child.id()).map(Pid::from_raw).map_err(cannot_start)?;
        Ok(Self {
            leader,
            terminal: File::open("/dev/tty").ok(),
            go_on: Some(go_on),
            begins,
            ended: None,
        })
    }

    /// Lets the command begin, once the watchdog watches over it.
    pub(super) fn go_on(&mut self) {
        if let Some(go_on) = self.go_on.take() {
            // The process may have been killed before.
            let _ = rustix::io::write(&go_on, &[GO_ON]);
        }
    }

    /// Returns true if the command has begun. Only valid after its end: the system may have refused to run it, or it was killed
    /// before.
    pub(super) fn has_begun(&self) -> bool {
        let mut told = [0; 2];
        rustix::io::read(&self.begins, &mut told) == Ok(1) && told[0] == BEGINS
    }

    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    /// Sends that signal to all of the group. An error means that all of it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Sends that signal to all of the group, and wakes suspended processes so that they handle it. Returns false if this user may
    /// send it to none of them.
    pub(super) fn end_by(&self, signal: Signal) -> bool {
        let has_left = self.ended.is_none() && getpgid(Some(self.leader)) != Ok(self.leader);
        let leader_has_it = has_left && kill(self.leader, signal).is_ok();
        end_group(self.leader, signal) || leader_has_it
    }

    /// Returns true if another process of its group lives. Only valid after the end of the command.
    pub(super) fn is_left(&self) -> bool {
        members::reap(self.leader);
        members::is_left(self.leader)
    }

    /// Names the living processes of the group, and a way to end those that take no signal from this user; `None` if none is known.
    pub(super) fn what_is_left(&self) -> Option<String> {
        let group = self.leader;
        let living = || {
            let names = members::living(group).unwrap_or_else(|| "something".to_owned());
            let how = "another signal to this process, or kill -s KILL --";
            members::is_left(group).then(|| {
                format!(
                    "{names} of the command's process group, still running; end it by {how} -{group}"
                )
            })
        };
        out_of_reach(group).or_else(living)
    }

    /// Returns true if a process of the group takes no signal from this user.
    pub(super) fn is_out_of_reach(&self) -> bool {
        members::out_of_reach(self.leader).is_some()
    }

    /// Returns the state of the command. A suspension is reported once.
    pub(super) fn state(&mut self) -> GroupState {
        let state = self.ended.map_or_else(|| self.look(), GroupState::Ended);
        if let GroupState::Ended(end) = state {
            self.ended = Some(end);
        }
        state
    }

    fn look(&self) -> GroupState {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        let status = loop {
            match waitpid(rustix::process::Pid::from_raw(self.leader.as_raw()), options) {
                Ok(Some((_, status))) => break status,
                Ok(None) => return GroupState::Runs,
                Err(rustix::io::Errno::INTR) => {}
                // No other thread waits for this process, so the only possible error is that it has ended.
                Err(_) => return GroupState::Ended(End::Code(CANNOT_RUN)),
            }
        };
        if let Some(code) = status.exit_status() {
            return GroupState::Ended(End::Code(code.to_le_bytes()[0]));
        }
        if let Some(number) = status.terminating_signal() {
            return GroupState::Ended(End::by_signal(number));
        }
        match status.stopping_signal().and_then(|number| Signal::try_from(number).ok()) {
            // The command wants the terminal.
            Some(Signal::SIGTTIN | Signal::SIGTTOU) if self.lend_terminal() => {
                self.signal(Signal::SIGCONT);
                GroupState::Runs
            }
            // SIGSTOP comes from somebody who will also resume the command, so there is nothing to do.
            Some(Signal::SIGSTOP) | None => GroupState::Runs,
            Some(_) => GroupState::Suspended,
        }
    }

    /// Suspends this job like the command, until the user resumes both.
    pub(super) fn suspend_along(&self) {
        self.take_terminal_back();
        suspend();
        self.signal(Signal::SIGCONT);
    }

    /// Brings the command to the foreground, if this process is there. Called only when the command wants the terminal,
    /// since others of the same job, such as a pager, want it as well. Until then this process gets Ctrl-C, and passes it on.
    fn lend_terminal(&self) -> bool {
        let lends = |terminal: &&File| tcgetpgrp(terminal) == Ok(getpgrp());
        let lent = self.terminal.as_ref().filter(lends);
        lent.map(|terminal| give_terminal(terminal, self.leader)).is_some()
    }

    pub(super) fn take_terminal_back(&self) {
        let is_lent = |terminal: &&File| tcgetpgrp(terminal) == Ok(self.leader);
        if let Some(terminal) = self.terminal.as_ref().filter(is_lent) {
            give_terminal(terminal, getpgrp());
        }
    }
}

/// Brings that group to the foreground of the terminal.
fn give_terminal(terminal: &File, group: Pid) {
    // A process in the background may do so only while it blocks this signal.
    let stops = SigSet::from_iter([Signal::SIGTTOU]);
    let _ = stops.thread_block();
    let _ = tcsetpgrp(terminal, group);
    let _ = stops.thread_unblock();
}

/// Sends the group a signal, and wakes it: a suspended process handles a signal only after it is resumed. Returns true if a process
/// of the group gets it.
pub(super) fn end_group(leader: Pid, signal: Signal) -> bool {
    let sent = killpg(leader, signal);
    let _ = killpg(leader, Signal::SIGCONT);
    sent.is_ok()
}

/// Names the living processes of the group that take no signal from this user, and a way to end them.
pub(super) fn out_of_reach(leader: Pid) -> Option<String> {
    let names = members::out_of_reach(leader)?;
    Some(format!(
        "{names} of the command may not be ended by this user; end it as that user, or as root: kill -s KILL \
         -- -{leader}"
    ))
}

fn cannot_start(error: impl Display) -> Failure {
    Failure::own(format!("the command cannot be started: {error}"))
}

/// The path of this program, independent of its name.
pub(super) fn this_program() -> io::Result<PathBuf> {
    // The link hides the file's name from `killall quorlock`, which must not end the watchdog along with the keeper.
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() }
}

/// Waits until the keeper is ready, and becomes the command.
pub(crate) fn exec(options: &Exec) -> Result<u8, Failure> {
    let mut told = [0];
    let pipe = File::open(format!("/dev/fd/{}", options.pipe));
    let read = pipe.and_then(|mut pipe| pipe.read(&mut told)).map_err(Failure::own)?;
    if (read, told) != (1, [GO_ON]) {
        return Err(Failure::own("the keeper of the lock was killed; the command does not begin"));
    }
    // Closed by the system when the command begins.
    let begins = File::options().write(true).open(format!("/dev/fd/{}", options.begins));
    let mut begins = begins.map_err(Failure::own)?;
    // The command must not inherit these pipes.
    let _ = (close(options.pipe), close(options.begins));
    let (program, arguments) =
        options.command.split_first().ok_or_else(|| Failure::own("there is no command to run"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    // An error means that the keeper was killed. Then the watchdog ends the command.
    let _ = begins.write(&[BEGINS]);
    let error = command.exec();
    let _ = begins.write(&[CANNOT]);
    Err(program::cannot_begin(program, &error))
}
