//! A second process that ends the command if its keeper cannot, because the keeper was killed or is suspended.
//!
//! The keeper alone renews the lock. If it is killed, no other process tells the command that the lock ends. So the keeper writes
//! the end of validity to a pipe at each renewal, and a word when the command has ended. If the pipe ends without that word, the
//! keeper has ended. Then the watchdog ends the command, and gives the lock back once nothing of the command lives.
//!
//! ```text
//! valid MS    the lock is valid until then, on a clock that both processes read
//! kill MS     the command has had SIGTERM, and is killed then
//! over        the command has ended
//! ```

use std::io::{self, BufRead, Write, stdin, stdout};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};
use quorlock::crossbeam_channel::{RecvTimeoutError, bounded};
use rustix::io::Errno;

use super::ending::{Ending, MARGIN, Step};
use super::give_back::Held;
use super::group::{end_group, out_of_reach, this_program};
use super::members::{Leader, is_left, living, next_look};
use crate::clock::{self, Time};
use crate::exit::Failure;
use crate::options::{self, OnLost};
use crate::signals;
use crate::tell::{tell, write_by_a_thread};

/// Smallest change of the end of validity that is written. The time left is read a moment after the clock.
const RENEWED_BY: Duration = Duration::from_millis(10);
/// Time limit for the end of a watchdog, and the interval at which it is checked.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const POLLS: Duration = Duration::from_millis(1);
/// Time limit for a watchdog to begin, on a busy machine.
pub(super) const BEGINS_WITHIN: Duration = Duration::from_secs(10);
/// The byte that it writes when it begins to watch.
const WATCHES: u8 = b'w';
/// Time limit for the end of a group that was killed. Nobody can kill a process that is left after that.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// The watchdog, on the keeper's side.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    pipe: ChildStdin,
    /// The pipe to which it writes once it watches.
    begins: ChildStdout,
    pub(super) watches: bool,
    /// The end of validity that was written last.
    told: Option<Time>,
    told_end: bool,
}

impl Watchdog {
    /// Starts a process that watches over that group. It gives back the lock `held`, if this process is killed.
    pub(super) fn start(
        group: Pid,
        grace: Duration,
        on_lost: OnLost,
        held: Option<&Held>,
    ) -> io::Result<Self> {
        let on_lost = match on_lost {
            OnLost::Warn => "warn",
            OnLost::Term => "term",
            OnLost::Kill => "kill",
        };
        // Without this pipe the lock ends with its TTL.
        let held = held.and_then(|held| held.in_a_pipe().ok());
        let (group, grace) = (group.to_string(), grace.as_millis().to_string());
        let mut process = Command::new(this_program()?)
            .arg0("lock-watchdog") // not to be killed along with those that are called quorlock
            .args(["watchdog", &group, &grace, on_lost, &getpid().to_string()])
            .args(held.as_ref().map(|pipe| pipe.as_raw_fd().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // A suspended watchdog must not block the keeper.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let begins = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        rustix::io::ioctl_fionbio(&begins, true)?;
        Ok(Self { process, pipe, begins, watches: false, told: None, told_end: false })
    }

    /// Waits until the watchdog watches, at most until that time.
    pub(super) fn wait_until_it_watches(&mut self, until: Time) -> io::Result<()> {
        loop {
            self.look()?;
            if self.watches {
                return Ok(());
            } else if Time::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            clock::pause(POLLS);
        }
    }

    /// Checks if it watches. An error: it never will. A watchdog that may start no threads ends without a word.
    fn look(&mut self) -> io::Result<()> {
        let mut said = [0];
        match rustix::io::read(&self.begins, &mut said) {
            _ if self.watches => {}
            Ok(1) => self.watches = true,
            Ok(_) => return Err(io::Error::other("it has ended at once")),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) fn id(&self) -> Pid {
        // Process ids are 31 bits wide.
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// Writes the end of validity, or once the time at which the command is killed, if it has been told to end. An error: the
    /// watchdog is gone, or is suspended.
    pub(super) fn tell(&mut self, valid_until: Time, kill_at: Option<Time>) -> io::Result<()> {
        self.look()?;
        if self.process.try_wait()?.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let is_known = |told: Time| told <= valid_until && valid_until.since(told) < RENEWED_BY;
        match kill_at {
            Some(kill_at) if !std::mem::replace(&mut self.told_end, true) => {
                writeln!(self.pipe, "kill {}", kill_at.as_ms())
            }
            None if !self.told.is_some_and(is_known) => {
                self.told = Some(valid_until);
                writeln!(self.pipe, "valid {}", valid_until.as_ms())
            }
            _ => Ok(()),
        }
    }

    /// Kills the watchdog, since another one replaces it. The old one would take the end of its pipe for the end of this process.
    pub(super) fn dismiss(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Tells the watchdog that the command has ended. Returns true if the watchdog has ended the command.
    pub(super) fn end(mut self) -> bool {
        if writeln!(self.pipe, "over").is_err() {
            // It was killed, or is suspended behind a full pipe. It must not take the end of the pipe for the end of this process.
            self.dismiss();
            return false;
        }
        let until = Time::now().after(ENDS_WITHIN);
        loop {
            match self.process.try_wait() {
                Ok(None) if Time::now() < until => clock::pause(POLLS),
                Ok(Some(status)) => return status.code() == Some(HAS_ENDED_IT.into()),
                Ok(None) | Err(_) => break,
            }
        }
        // It is suspended. The command has ended, so the watchdog has nothing left to do.
        self.dismiss();
        false
    }
}

/// The exit code of a watchdog that has ended the command, as the keeper sees it.
const HAS_ENDED_IT: u8 = 1;

/// A message from the keeper.
enum Word {
    ValidUntil(Time),
    KillAt(Time),
    Over,
}

impl Word {
    fn read(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
        let time = || Some(Time::from_ms(number.parse().ok()?));
        match word {
            "valid" => Some(Self::ValidUntil(time()?)),
            "kill" => Some(Self::KillAt(time()?)),
            "over" => Some(Self::Over),
            _ => None,
        }
    }
}

/// The main function of the watchdog's process.
pub(crate) fn watchdog(options: &options::Watchdog) -> Result<u8, Failure> {
    signals::block_signals();
    write_by_a_thread().map_err(Failure::own)?;
    let group = Pid::from_raw(options.group);
    let grace = Duration::from_millis(options.grace_ms);
    let (sender, words) = bounded(1);
    let reads = move || {
        let lines = stdin().lock().lines().map_while(Result::ok);
        for word in lines.filter_map(|line| Word::read(&line)) {
            if sender.send(word).is_err() {
                return;
            }
        }
    };
    clock::spawn("keeper", reads).map_err(Failure::own)?;
    let command = Watched { group, leader: Leader::of(group) };
    // Written after everything that can fail. An error means that the keeper is gone, which shows below.
    let _ = stdout().write_all(&[WATCHES]).and_then(|()| stdout().flush());
    // The keeper does the same a moment earlier.
    let mut ending = Ending::new(options.on_lost, grace, MARGIN / 2);
    let mut valid_until: Option<Time> = None;
    let mut keeper_is_gone = false;
    let mut has_ended_it = false;
    loop {
        let now = Time::now();
        let step = match (keeper_is_gone, valid_until) {
            // Regardless of `--on-lost`: nobody renews the lock, and nobody waits for the command any more.
            (true, _) => {
                command.end(grace_left(grace, valid_until, now), options.on_lost);
                give_back(options, &command, valid_until.unwrap_or(now));
                return Ok(HAS_ENDED_IT);
            }
            (false, Some(until)) => ending.poll(now, until, false),
            (false, None) => Step::Wait(None),
        };
        let wait = match step {
            Step::Wait(None) => Duration::MAX,
            Step::Wait(Some(until)) => until.since(now),
            Step::Warn => continue,
            Step::Terminate | Step::Kill => {
                let (signal, gets) = match step {
                    Step::Kill => (Signal::SIGKILL, "SIGKILL"),
                    _ => (Signal::SIGTERM, "SIGTERM"),
                };
                if command.end_by(signal) && !has_ended_it {
                    tell(format_args!("the keeper of the lock is stuck; the command gets {gets}"));
                }
                command.tell_out_of_reach();
                has_ended_it = true;
                continue;
            }
        };
        match words.recv_timeout(wait.min(Duration::from_secs(1))) {
            Ok(Word::ValidUntil(until)) => valid_until = Some(until),
            Ok(Word::KillAt(at)) => {
                ending = Ending::new(OnLost::Kill, Duration::ZERO, Duration::ZERO);
                valid_until = Some(at.after(MARGIN / 2));
            }
            Ok(Word::Over) => return Ok(if has_ended_it { HAS_ENDED_IT } else { 0 }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => keeper_is_gone = true,
        }
    }
}

/// Returns the time that the command still has from SIGTERM to SIGKILL: no longer than the lock is valid. The keeper may have been
/// killed just before it was to kill the command.
fn grace_left(grace: Duration, valid_until: Option<Time>, now: Time) -> Duration {
    valid_until.map_or(grace, |until| grace.min(until.before(MARGIN / 2).since(now)))
}

/// The command: a group of processes, and its first process, even outside of the group.
struct Watched {
    group: Pid,
    leader: Leader,
}

impl Watched {
    /// Sends all of the command a signal. Returns true if a process of it gets the signal.
    fn end_by(&self, signal: Signal) -> bool {
        let leader_has_it = self.leader.end_outside(signal);
        end_group(self.group, signal) || leader_has_it
    }

    /// Returns true if a process of the command lives.
    fn is_left(&self) -> bool {
        is_left(self.group) || self.leader.is_outside()
    }

    /// Ends the command, after its keeper has ended.
    fn end(&self, grace: Duration, on_lost: OnLost) {
        let (signal, gets) = match on_lost {
            OnLost::Kill => (Signal::SIGKILL, "SIGKILL"),
            OnLost::Term | OnLost::Warn => (Signal::SIGTERM, "SIGTERM, and SIGKILL soon after"),
        };
        if self.end_by(signal) {
            tell(format_args!("the keeper of the lock was killed; the command gets {gets}"));
        }
        if on_lost != OnLost::Kill && out_of_reach(self.group).is_none() {
            self.gone_within(grace);
        }
        self.end_by(Signal::SIGKILL);
        if !self.tell_out_of_reach() && !self.gone_within(GONE_WITHIN) {
            let what = living(self.group).unwrap_or_else(|| "a process".to_owned());
            tell(format_args!("{UNKEPT}, but {what} of the command was killed and has not ended"));
        }
    }

    /// Names the processes that this user may not end. Returns true if there are any.
    fn tell_out_of_reach(&self) -> bool {
        let what = out_of_reach(self.group);
        if let Some(what) = &what {
            tell(format_args!("{UNKEPT}, but {what}"));
        }
        what.is_some()
    }

    /// Returns true once all of the command has gone, or false if a process of it is left after that time.
    fn gone_within(&self, time: Duration) -> bool {
        let begun = Time::now();
        loop {
            let waited = Time::now().since(begun);
            if !self.is_left() {
                return true;
            } else if waited >= time {
                return false;
            }
            clock::pause(next_look(waited).min(time - waited));
        }
    }
}

const UNKEPT: &str = "nobody renews the lock now, and others may get it";

/// Gives back the lock, which nobody renews any more, and which ends at `over_at`. Does nothing while a process of the command
/// lives, or while its keeper does: a suspended keeper could believe later that it has the lock. The masters compare the owner, so
/// a lock that has another owner by now stays as it is.
fn give_back(options: &options::Watchdog, command: &Watched, over_at: Time) {
    let Some(pipe) = options.gives_back else { return };
    if command.is_left() || !has_ended(Pid::from_raw(options.keeper)) {
        return;
    }
    let given_back =
        Held::of_pipe(pipe).map_err(Failure::own).and_then(|held| held.give_back(over_at));
    match given_back {
        Ok(()) => tell("the command has ended, and the lock is given back"),
        Err(Failure { message, .. }) => {
            tell(format_args!("the lock is not given back, and ends by itself: {message}"));
        }
    }
}

/// Returns true once that process, the parent of this one, has ended: then this one has another parent.
fn has_ended(keeper: Pid) -> bool {
    let until = Time::now().after(ENDS_WITHIN);
    while getppid() == keeper && Time::now() < until {
        clock::pause(POLLS);
    }
    getppid() != keeper
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_whose_keeper_was_killed_is_killed_before_its_lock_ends() {
        let at = Time::from_ms;
        let ms = Duration::from_millis;
        let left = |until: u64, now| grace_left(ms(3_000), Some(at(until)), at(now));
        assert_eq!(left(60_000, 1_000), ms(3_000));
        assert_eq!(left(4_000, 3_000), ms(1_000) - MARGIN / 2);
        assert_eq!(left(4_000, 4_000), Duration::ZERO);
        assert_eq!(grace_left(ms(3_000), None, at(0)), ms(3_000));
    }
}
