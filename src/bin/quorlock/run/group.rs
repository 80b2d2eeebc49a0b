//! The command as a process group of its own: its signals, its end, and the terminal.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, close, getpgid, getpgrp, getsid, tcgetpgrp, tcsetpgrp};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};

use super::program;
use crate::clock;
use crate::exit::{CANNOT_RUN, End, Failure};
use crate::options::Exec;

/// What the keeper writes when the command may begin.
const GO_ON: u8 = b'g';
const STOPPED_WITHIN: Duration = Duration::from_millis(10);

/// A command that runs.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// The terminal that this process was started on.
    terminal: Option<File>,
    /// What the command waits for.
    go_on: Option<OwnedFd>,
}

/// What has become of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// The user has suspended it.
    Suspended,
    /// It has ended, with that exit code as a shell has it.
    Ended(End),
}

impl Group {
    /// Starts the command, which waits until it is told to [go on](Self::go_on): nothing of it runs before somebody watches over
    /// its group.
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(&str, Option<OsString>)>,
    ) -> Result<Self, Failure> {
        let mut start = Command::new(this_program().map_err(Failure::own)?);
        // The writing end is ours alone, so that its end is that of this process.
        let (waits, go_on) = pipe_with(PipeFlags::CLOEXEC).map_err(Failure::own)?;
        fcntl_setfd(&waits, FdFlags::empty()).map_err(Failure::own)?;
        let number = waits.as_raw_fd().to_string();
        start.arg0("quorlock").args(["exec", &number, "--"]).args(command).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        let child = start.spawn().map_err(Failure::own)?;
        let leader = i32::try_from(child.id()).map(Pid::from_raw).map_err(Failure::own)?;
        Ok(Self { leader, terminal: File::open("/dev/tty").ok(), go_on: Some(go_on) })
    }

    /// Somebody watches over it.
    pub(super) fn go_on(&mut self) {
        if let Some(go_on) = self.go_on.take() {
            // It may have been killed before.
            let _ = rustix::io::write(&go_on, &[GO_ON]);
        }
    }

    pub(super) fn id(&self) -> i32 {
        self.leader.as_raw()
    }

    /// Sends all of them that signal. Of those that have ended there is nobody to tell.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Sends all of them that signal, and wakes those that are suspended for it.
    pub(super) fn end_by(&self, signal: Signal) {
        if getpgid(Some(self.leader)) != Ok(self.leader) {
            // It has left for another group.
            let _ = kill(self.leader, signal);
        }
        end_group(self.leader, signal);
    }

    /// What has become of it since this was asked last.
    pub(super) fn state(&self) -> State {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            return match waitpid(self.leader, Some(flags)) {
                Ok(WaitStatus::Exited(_, code)) => State::Ended(End::Code(code.to_le_bytes()[0])),
                Ok(WaitStatus::Signaled(_, signal, _)) => State::Ended(End::Signal(signal)),
                // It wants the terminal.
                Ok(WaitStatus::Stopped(_, Signal::SIGTTIN | Signal::SIGTTOU))
                    if self.lend_terminal() =>
                {
                    self.signal(Signal::SIGCONT);
                    State::Runs
                }
                // By SIGSTOP: somebody has suspended it, and has it go on. Nothing is to be done about that.
                Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => State::Runs,
                Ok(WaitStatus::Stopped(..)) => State::Suspended,
                Ok(_) => State::Runs,
                Err(Errno::EINTR) => continue,
                // Nobody else waits for it, so there is no other error than that it has ended.
                Err(_) => State::Ended(End::Code(CANNOT_RUN)),
            };
        }
    }

    /// Suspends this job like the command, until the user has both go on.
    pub(super) fn suspend_along(&self) {
        self.take_terminal_back();
        suspend();
        self.signal(Signal::SIGCONT);
    }

    /// Has the command in the foreground, if this process is. Not before it wants that: others of the same job, such as a pager,
    /// want the terminal as well. Until then Ctrl-C comes here, and is passed on.
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

/// Suspends the job that this process is in, until the user has it go on. Does nothing where no shell could do that: in the
/// group of the session's leader.
pub(super) fn suspend() {
    if getsid(None) != Ok(getpgrp()) {
        // All of them, as by Ctrl-Z: the shell waits for the last one.
        let _ = killpg(getpgrp(), Signal::SIGSTOP);
        // Another thread may have been stopped first.
        clock::pause(STOPPED_WITHIN);
    }
}

/// Makes that group the one in the foreground of the terminal.
fn give_terminal(terminal: &File, group: Pid) {
    // A process in the background may do so only with this signal blocked.
    let stops = SigSet::from_iter([Signal::SIGTTOU]);
    let _ = stops.thread_block();
    let _ = tcsetpgrp(terminal, group);
    let _ = stops.thread_unblock();
}

/// Sends the group a signal, and wakes it: a suspended process handles a signal only once it goes on.
pub(super) fn end_group(leader: Pid, signal: Signal) {
    let _ = killpg(leader, signal);
    let _ = killpg(leader, Signal::SIGCONT);
}

/// Whether any process of the group is left.
pub(super) fn is_left(leader: Pid) -> bool {
    killpg(leader, None) != Err(Errno::ESRCH)
}

/// The program that runs, under whatever name.
pub(super) fn this_program() -> io::Result<PathBuf> {
    // By a link: `killall quorlock` goes by the file's name, and must not end the watchdog along with the keeper.
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() }
}

/// Waits until the keeper has everything ready, and becomes the command.
pub(crate) fn exec(options: &Exec) -> Result<u8, Failure> {
    let mut told = [0];
    let pipe = File::open(format!("/dev/fd/{}", options.pipe));
    let read = pipe.and_then(|mut pipe| pipe.read(&mut told)).map_err(Failure::own)?;
    if (read, told) != (1, [GO_ON]) {
        return Err(Failure::own("the keeper of the lock was killed; the command does not begin"));
    }
    // It is nothing that the command should have.
    let _ = close(options.pipe);
    let (program, arguments) =
        options.command.split_first().ok_or_else(|| Failure::own("there is no command to run"))?;
    Err(program::cannot_run(program, &Command::new(program).args(arguments).exec()))
}
