//! A second process that ends the command where its keeper cannot: it was killed, or is suspended.
//!
//! The keeper alone renews the lock. If it is killed, no other process tells the command that the lock ends. So the
//! keeper writes to a pipe until when the lock is valid, each time that it is renewed, and a word when the command has ended.
//! The end of the pipe without that word is the end of the keeper.
//!
//! ```text
//! valid MS    the lock is valid until then, on a clock that both processes read
//! kill MS     the command has had SIGTERM, and is killed then
//! over        the command has ended
//! ```

use std::io::{self, BufRead, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use quorlock::crossbeam_channel::{RecvTimeoutError, bounded};

use super::ending::{Ending, MARGIN, Step};
use super::group::{end_group, is_left, this_program};
use crate::clock::{self, Time};
use crate::exit::Failure;
use crate::options::{self, OnLost};
use crate::signals;
use crate::tell::{tell, write_by_a_thread};

/// A change of the end of validity by less is none: what is left is read a moment after the time.
const RENEWED_BY: Duration = Duration::from_millis(10);
/// How long a watchdog may take to end, and how often its end is looked for.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const POLLS: Duration = Duration::from_millis(1);
/// How often it looks whether the group has ended.
const LOOKS: Duration = Duration::from_millis(50);
/// How long a group that was killed may take to be gone. What then is left nobody can kill.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// The watchdog, as the keeper of the lock has it.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    pipe: ChildStdin,
    /// Until when the lock is valid, as it was told last.
    told: Option<Time>,
    told_end: bool,
}

impl Watchdog {
    /// Starts a process that watches over that group.
    pub(super) fn start(group: i32, grace: Duration, on_lost: OnLost) -> io::Result<Self> {
        let on_lost = match on_lost {
            OnLost::Warn => "warn",
            OnLost::Term => "term",
            OnLost::Kill => "kill",
        };
        let mut process = Command::new(this_program()?)
            .arg0("lock-watchdog") // not to be killed along with those that are called quorlock
            .args(["watchdog", &group.to_string(), &grace.as_millis().to_string(), on_lost])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // One that is suspended does not hold up the keeper.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { process, pipe, told: None, told_end: false })
    }

    /// The lock is valid until then; the command has been told to end, and is killed then, if it has been told. An error: the
    /// watchdog is gone, or does not go on.
    pub(super) fn tell(&mut self, valid_until: Time, kill_at: Option<Time>) -> io::Result<()> {
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

    /// The command has ended. Returns whether the watchdog has ended it.
    pub(super) fn end(mut self) -> bool {
        // It may have been killed before.
        let _ = writeln!(self.pipe, "over");
        drop(self.pipe);
        let until = Time::now().after(ENDS_WITHIN);
        loop {
            match self.process.try_wait() {
                Ok(None) if Time::now() < until => clock::pause(POLLS),
                Ok(Some(status)) => return status.code() == Some(HAS_ENDED_IT.into()),
                Ok(None) | Err(_) => break,
            }
        }
        // It is suspended. The command has ended, so there is nothing left for it to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
        false
    }
}

/// The exit code of a watchdog that has ended the command, as the keeper sees it.
const HAS_ENDED_IT: u8 = 1;

/// What the keeper has written.
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

/// The watchdog's own process.
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
    // The keeper does the same a moment earlier.
    let mut ending = Ending::new(options.on_lost, grace, MARGIN / 2);
    let mut valid_until: Option<Time> = None;
    let mut keeper_is_gone = false;
    let mut has_ended_it = false;
    loop {
        let now = Time::now();
        let step = match (keeper_is_gone, valid_until) {
            // Whatever `--on-lost` says: nobody renews the lock, and nobody waits for the command any more.
            (true, _) => {
                end(group, grace, options.on_lost);
                return Ok(HAS_ENDED_IT);
            }
            (false, Some(until)) => ending.poll(now, until, false),
            (false, None) => Step::Wait(None),
        };
        let wait = match step {
            Step::Wait(None) => Duration::MAX,
            Step::Wait(Some(until)) => until.since(now),
            Step::Warn => continue,
            Step::Terminate => {
                end_group(group, Signal::SIGTERM);
                tell("the keeper of the lock does not go on; the command gets SIGTERM");
                has_ended_it = true;
                continue;
            }
            Step::Kill => {
                end_group(group, Signal::SIGKILL);
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

/// Ends the group, whose keeper is gone.
fn end(group: Pid, grace: Duration, on_lost: OnLost) {
    if on_lost != OnLost::Kill {
        end_group(group, Signal::SIGTERM);
    }
    tell("the keeper of the lock was killed; the command is ended");
    if on_lost != OnLost::Kill {
        gone_within(group, grace);
    }
    end_group(group, Signal::SIGKILL);
    gone_within(group, GONE_WITHIN);
}

fn gone_within(group: Pid, time: Duration) {
    let until = Time::now().after(time);
    while is_left(group) && Time::now() < until {
        clock::pause(LOOKS);
    }
}
