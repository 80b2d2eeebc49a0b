//! The command as a process group of its own: its signals, its end, and the terminal.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, stdin};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::exit::{CANNOT_RUN, Failure, NOT_FOUND, SIGNAL};

/// A command that runs.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// The terminal is ours to lend: quorlock was started in the foreground of it.
    has_terminal: bool,
}

/// What has become of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// The user has suspended it.
    Suspended,
    /// It has ended, with that exit code as a shell has it.
    Ended(u8),
}

impl Group {
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(&str, Option<OsString>)>,
    ) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| {
            Failure::own("there is no command to run; write it behind the name of the lock")
        })?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.spawn().map_err(|error| cannot_run(program, &error))?;
        let leader = i32::try_from(child.id()).map(Pid::from_raw).map_err(Failure::own)?;
        let has_terminal = stdin().is_terminal() && tcgetpgrp(stdin()) == Ok(getpgrp());
        let group = Self { leader, has_terminal };
        group.lend_terminal();
        Ok(group)
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
        end_group(self.leader, signal);
    }

    /// What has become of it since this was asked last.
    pub(super) fn state(&self) -> State {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            return match waitpid(self.leader, Some(flags)) {
                Ok(WaitStatus::Exited(_, code)) => State::Ended(code.to_le_bytes()[0]),
                Ok(WaitStatus::Signaled(_, signal, _)) => State::Ended(after_signal(signal)),
                // It wants the terminal, which it had not got yet.
                Ok(WaitStatus::Stopped(_, Signal::SIGTTIN | Signal::SIGTTOU))
                    if self.has_terminal =>
                {
                    self.lend_terminal();
                    self.signal(Signal::SIGCONT);
                    State::Runs
                }
                Ok(WaitStatus::Stopped(..)) => State::Suspended,
                Ok(_) => State::Runs,
                Err(Errno::EINTR) => continue,
                // Nobody else waits for it, so there is no other error than that it has ended.
                Err(_) => State::Ended(CANNOT_RUN),
            };
        }
    }

    /// Suspends this process like the command, until the user has both go on.
    pub(super) fn suspend_along(&self) {
        if !self.has_terminal {
            return;
        }
        self.take_terminal_back();
        // The shell sees that, and has the terminal from now on.
        let _ = raise(Signal::SIGSTOP);
    }

    /// The user has had this process go on in the foreground, or in the background.
    pub(super) fn resume(&self) {
        if self.has_terminal && tcgetpgrp(stdin()) == Ok(getpgrp()) {
            self.lend_terminal();
        }
        self.signal(Signal::SIGCONT);
    }

    /// The command is in the foreground: Ctrl-C is for it, and it may read.
    fn lend_terminal(&self) {
        if self.has_terminal {
            give_terminal(self.leader);
        }
    }

    pub(super) fn take_terminal_back(&self) {
        if self.has_terminal {
            give_terminal(getpgrp());
        }
    }
}

/// Makes that group the one in the foreground of the terminal.
fn give_terminal(group: Pid) {
    // A process in the background may do so only with this signal blocked.
    let stops = SigSet::from_iter([Signal::SIGTTOU]);
    let _ = stops.thread_block();
    let _ = tcsetpgrp(stdin(), group);
    let _ = stops.thread_unblock();
}

/// The exit code of what a signal has ended.
pub(super) fn after_signal(signal: Signal) -> u8 {
    SIGNAL.saturating_add((signal as i32).to_le_bytes()[0])
}

/// Who is suspended hears a signal when it goes on.
pub(super) fn end_group(leader: Pid, signal: Signal) {
    let _ = killpg(leader, signal);
    let _ = killpg(leader, Signal::SIGCONT);
}

/// Whether any process of the group is left.
pub(super) fn is_left(leader: Pid) -> bool {
    killpg(leader, None) != Err(Errno::ESRCH)
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    let program = Path::new(program).display();
    match error.kind() {
        ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("there is no command {program}")),
        _ => Failure::new(CANNOT_RUN, format!("{program} cannot be run: {error}")),
    }
}

/// Makes sure that there is such a command, before a lock is taken for it that `--min-hold` would keep.
pub(super) fn find(program: &OsStr) -> Result<(), Failure> {
    let is_path = Path::new(program).components().count() > 1;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = match is_path {
        true => vec![Path::new(program).to_owned()],
        false => std::env::split_paths(&path).map(|folder| folder.join(program)).collect(),
    };
    let files =
        places.iter().filter_map(|place| fs::metadata(place).ok()).filter(fs::Metadata::is_file);
    let modes: Vec<_> = files.map(|file| file.permissions().mode()).collect();
    match (modes.iter().any(|mode| mode & 0o111 != 0), modes.as_slice()) {
        (true, _) => Ok(()),
        (false, []) => Err(cannot_run(program, &ErrorKind::NotFound.into())),
        (false, _) => Err(cannot_run(program, &ErrorKind::PermissionDenied.into())),
    }
}
