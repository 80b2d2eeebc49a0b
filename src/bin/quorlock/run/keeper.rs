//! Keeps the lock while the command runs, and ends the command before the lock can be somebody else's.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, never, select};
use quorlock::{ErrorKind, LockGuard};

use super::ending::{Ending, MARGIN, Step};
use super::group::{Group, State};
use super::watchdog::Watchdog;
use crate::clock::Time;
use crate::exit::{End, Failure, LOST};
use crate::options::OnLost;
use crate::signals::ENDING;
use crate::tell::tell;

/// How often it looks whether the lock was renewed.
const LOOKS: Duration = Duration::from_millis(250);

/// What is run under the lock.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) command: &'a [OsString],
    pub(super) name: &'a OsStr,
    /// From SIGTERM to SIGKILL; `None`: a part of the validity.
    pub(super) grace: Option<Duration>,
    pub(super) on_lost: OnLost,
}

impl Job<'_> {
    /// Runs the command under that lock, and gives it back. Returns how the command has ended.
    pub(super) fn run<G: LockGuard>(
        &self,
        guard: G,
        signals: &Receiver<Signal>,
    ) -> Result<End, Failure> {
        let grace = self.grace_within(guard.remaining())?;
        let mut environment = vec![("QUORLOCK_NAME", Some(self.name.to_owned()))];
        environment.push(("QUORLOCK_TOKEN", guard.token().map(|token| token.to_string().into())));
        let group = Group::start(self.command, environment)?;
        let mut kept = Kept {
            job: self,
            grace,
            group,
            ending: self.ending(grace),
            is_lost: false,
            was_ended_by_watchdog: false,
        };
        let end = kept.keep(&guard, signals);
        kept.group.take_terminal_back();
        let has_begun = kept.ending.has_begun() || kept.was_ended_by_watchdog;
        let (end, unlocked) = (end?, guard.unlock());
        let is_lost = match unlocked {
            Ok(()) => has_begun,
            Err(error) if error.kind() == ErrorKind::Lost => true,
            Err(_) if has_begun => true,
            Err(error) => {
                tell(error);
                false
            }
        };
        if !is_lost {
            return Ok(end);
        }
        let what = format!("{} was lost, or about to be, while the command ran", self.shown());
        if self.on_lost == OnLost::Warn {
            tell(what);
            return Ok(end);
        }
        let code = end.code();
        Err(Failure::new(LOST, format!("{what}; the command has ended with {code}")))
    }

    /// The grace time with a lock that is valid for so long after each renewal.
    pub(super) fn grace_within(&self, validity: Duration) -> Result<Duration, Failure> {
        if self.on_lost == OnLost::Warn {
            return Ok(Duration::ZERO);
        }
        // A renewal is made when a third of the TTL is over. Before that is late, nothing must begin.
        let most = (validity * 11 / 20).checked_sub(MARGIN).filter(|most| !most.is_zero());
        let ms = Duration::as_millis;
        match (self.grace, most) {
            (_, None) => Err(Failure::own(format!(
                "the lock is valid for {} ms at a time, which is too short to end a command in; give a longer --ttl",
                ms(&validity)
            ))),
            (Some(grace), Some(most)) if grace > most => Err(Failure::own(format!(
                "--grace is {} ms, and a lock that is valid for {} ms at a time leaves {} ms for it; give a longer \
                 --ttl, or a shorter --grace",
                ms(&grace),
                ms(&validity),
                ms(&most)
            ))),
            (Some(grace), Some(_)) => Ok(grace),
            (None, Some(most)) => Ok(most.min(validity / 4)),
        }
    }

    fn ending(&self, grace: Duration) -> Ending {
        Ending::new(self.on_lost, grace, MARGIN)
    }

    fn shown(&self) -> String {
        self.name.to_string_lossy().escape_debug().collect()
    }
}

/// A command that runs under a lock.
struct Kept<'a> {
    job: &'a Job<'a>,
    grace: Duration,
    group: Group,
    ending: Ending,
    /// The library has said so.
    is_lost: bool,
    /// This process did not go on in time.
    was_ended_by_watchdog: bool,
}

impl Kept<'_> {
    /// Waits for the end of the command, and brings it about where the lock makes that necessary.
    fn keep(&mut self, guard: &impl LockGuard, signals: &Receiver<Signal>) -> Result<End, Failure> {
        let mut watchdog = self.watchdog()?;
        self.group.go_on();
        let nothing = never();
        let end = loop {
            match self.group.state() {
                State::Ended(end) => break end,
                State::Runs => {}
                State::Suspended => self.group.suspend_along(),
            }
            let now = Time::now();
            let valid_until = now.after(guard.remaining());
            let wait = self.step(now, valid_until);
            if watchdog.tell(valid_until, self.ending.kill_at()).is_err() {
                // It was killed.
                watchdog = self.watchdog()?;
                continue;
            }
            let lost = if self.is_lost { &nothing } else { guard.lost() };
            select! {
                recv(signals) -> signal => match signal {
                    // Also to a command that is suspended.
                    Ok(signal) if ENDING.contains(&signal) => self.group.end_by(signal),
                    Ok(Signal::SIGCHLD) | Err(_) => {}
                    Ok(signal) => self.group.signal(signal),
                },
                recv(lost) -> _ => self.is_lost = true,
                default(wait) => {}
            }
        };
        if self.ending.has_begun() && self.job.on_lost != OnLost::Warn {
            // Those that the command has started, and that have not heeded the signal.
            self.group.end_by(Signal::SIGKILL);
        }
        self.was_ended_by_watchdog = watchdog.end();
        Ok(end)
    }

    /// Does what is to be done now. Returns for how long there is nothing else to do.
    fn step(&mut self, now: Time, valid_until: Time) -> Duration {
        let name = self.job.shown();
        match self.ending.poll(now, valid_until, self.is_lost) {
            Step::Wait(until) => return until.map_or(LOOKS, |until| until.since(now).min(LOOKS)),
            Step::Warn => tell(format_args!("{name} is lost; the command runs on without it")),
            Step::Terminate => {
                self.group.end_by(Signal::SIGTERM);
                let why =
                    if self.is_lost { "is lost" } else { "is not renewed, and about to be lost" };
                tell(format_args!(
                    "{name} {why}; the command gets SIGTERM, and SIGKILL soon after"
                ));
            }
            Step::Kill => {
                self.group.end_by(Signal::SIGKILL);
                tell(format_args!("{name} is lost, or about to be; the command gets SIGKILL"));
            }
        }
        Duration::ZERO
    }

    fn watchdog(&self) -> Result<Watchdog, Failure> {
        Watchdog::start(self.group.id(), self.grace, self.job.on_lost).map_err(|error| {
            // Without one the command could be left behind.
            self.group.end_by(Signal::SIGKILL);
            Failure::own(format!(
                "the process that watches over the command cannot be started: {error}"
            ))
        })
    }
}
