//! Keeps the lock while the command runs, and ends the command before the lock can be somebody else's.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, never, select};
use quorlock::{
    Error, ErrorKind, LockGuard, LossReason, MultiMutex, Quorlock, ReleaseRequest, Risk, RiskReason,
};

use super::ending::{Ending, MARGIN, Step};
use super::give_back::{GivesBack, Held};
use super::group::{Group, GroupState};
use super::lookup::{Lookup, Said};
use super::members::next_look;
use super::news::Away;
use super::orphans;
use super::watchdog::{BEGINS_WITHIN, Watchdog};
use super::why::Why;
use crate::clock::{self, Time};
use crate::exit::{CANNOT_RUN, End, Failure, LOST, NOT_FOUND};
use crate::options::{OnAsked, OnLost};
use crate::signals::{self, ENDING};
use crate::tell::tell;

/// Interval at which the keeper checks if the lock was renewed.
const LOOKS: Duration = Duration::from_millis(250);

/// Time limit for the message about a loss that the lock shows already.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Interval at which the keeper checks for the end of a process that was to become the command.
const LOOKS_AT_START: Duration = Duration::from_millis(20);
/// Time limit for the masters to name the holder of a lock that was lost, once the command has ended.
const SAID_WITHIN: Duration = Duration::from_secs(1);
/// A command that ends within this time after a signal has ended because of it.
const ENDS_SOON: Duration = Duration::from_secs(10);
/// A command that runs for less time does not listen for requests, since that costs a connection to each master.
const LISTENS_AFTER: Duration = Duration::from_secs(1);
/// Time that other processes of the command's group have to end before the keeper reports that it waits for them.
const END_WITHIN: Duration = Duration::from_secs(1);

/// The command that runs under the lock, and the options that concern it.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) client: &'a Quorlock,
    pub(super) command: &'a [OsString],
    pub(super) name: &'a OsStr,
    /// The names of the lock, in quotes, and the lock independent of its kind.
    pub(super) shown: &'a str,
    pub(super) any_kind: &'a MultiMutex,
    /// Time from SIGTERM to SIGKILL; `None`: a part of the validity.
    pub(super) grace: Option<Duration>,
    pub(super) on_lost: OnLost,
    pub(super) on_asked: OnAsked,
    /// True if a command that fails gives the lock back before the minimum time is over.
    pub(super) frees_failed: bool,
    /// Variables of the environment that the command does not inherit.
    pub(super) secrets: Vec<&'static str>,
    /// The data with which the watchdog gives the lock back, if this process is killed.
    pub(super) gives_back: Option<GivesBack>,
    /// True if the lock is a term of a leader. The command gets the number of the term.
    pub(super) is_elected: bool,
}

impl Job<'_> {
    /// Runs the command under that lock, and gives the lock back. Returns the end of the command.
    pub(super) fn run<G: LockGuard>(
        &self,
        guard: G,
        signals: &Receiver<Signal>,
    ) -> Result<End, Failure> {
        self.run_once(guard, signals).0
    }

    /// The same. Also returns true if that was the last run: a signal came that ends it all, or the command cannot be run.
    pub(super) fn run_once<G: LockGuard>(
        &self,
        guard: G,
        signals: &Receiver<Signal>,
    ) -> (Result<End, Failure>, bool) {
        match self.start(&guard).inspect_err(|_| guard.waive_min_hold()) {
            Ok(mut kept) => {
                let ended = self.keep(&mut kept, guard, signals);
                let cannot_run = matches!(ended, Ok(End::Code(CANNOT_RUN | NOT_FOUND)));
                let is_last = kept.was_told || cannot_run && !kept.group.has_begun();
                (ended, is_last)
            }
            Err(failure) => {
                let is_last = failure.end != End::Code(LOST);
                (Err(failure), is_last)
            }
        }
    }

    fn keep<G: LockGuard>(
        &self,
        kept: &mut Kept<'_>,
        guard: G,
        signals: &Receiver<Signal>,
    ) -> Result<End, Failure> {
        let end = kept.keep(&guard, signals);
        kept.group.take_terminal_back();
        let failed = end.as_ref().map_or(true, |end| end.code() != 0);
        if !kept.group.has_begun() || self.frees_failed && failed {
            guard.waive_min_hold();
        }
        let (lost, end) = (guard.lost().clone(), end?);
        let unlocked = guard.unlock();
        // The release may have found a loss.
        lost.try_iter().for_each(|reason| kept.handle_lost(reason));
        kept.outcome(end, unlocked)
    }

    /// Starts the command, which waits until the watchdog watches over it.
    fn start(&self, guard: &impl LockGuard) -> Result<Kept<'_>, Failure> {
        let grace = grace_within(self.grace, self.on_lost, guard.remaining());
        // A term that was granted late has too little time left; the next one has more.
        let late = |failure| Failure { end: End::Code(LOST), ..failure };
        let grace = if self.is_elected { grace.map_err(late) } else { grace }?;
        let mut environment: Vec<_> = self.secrets.iter().map(|secret| (*secret, None)).collect();
        environment.push(("QUORLOCK_NAME", Some(self.name.to_owned())));
        let token = guard.token().map(|token| OsString::from(token.to_string()));
        environment.push(("QUORLOCK_TERM", token.clone().filter(|_| self.is_elected)));
        environment.push(("QUORLOCK_TOKEN", token));
        let group = Group::start(self.command, environment)?;
        Ok(Kept {
            job: self,
            grace,
            group,
            ending: self.ending(grace),
            held: self.gives_back.as_ref().map(|it| it.of(guard.owner())),
            lookup: Lookup::new(self.any_kind.clone()),
            is_lost: false,
            promised_until: Time::now(),
            is_unconfirmed: false,
            hears_of_risk: true,
            hears_asks: self.on_asked != OnAsked::Ignore,
            asked_to_end_at: None,
            ends_as_asked: None,
            why: None,
            was_terminated: false,
            was_told: false,
            told_to_end_at: None,
            was_told_to_end: None,
            unwatched: None,
            others_since: None,
            look_at_others: Time::now(),
            told_of_others: None,
            was_ended_by_watchdog: false,
        })
    }

    fn ending(&self, grace: Duration) -> Ending {
        Ending::new(self.on_lost, grace, MARGIN)
    }
}

/// A command that runs under a lock.
struct Kept<'a> {
    job: &'a Job<'a>,
    grace: Duration,
    group: Group,
    ending: Ending,
    /// The lock, for the watchdog.
    held: Option<Held>,
    /// The question to the masters, once the lock is lost.
    lookup: Lookup,
    /// True once the library has reported the loss.
    is_lost: bool,
    /// The end of validity at the last look.
    promised_until: Time,
    /// True after the library has warned that too few masters confirm its renewals, until the lock recovers.
    is_unconfirmed: bool,
    /// True while the library may still report risks, and requests to give the lock up.
    hears_of_risk: bool,
    hears_asks: bool,
    /// The reason for which the command was ended, or goes on without the lock.
    why: Option<Why>,
    /// True if this process got SIGTERM, and passed it on.
    was_terminated: bool,
    /// Time of the last signal that was passed on to end the command, and true if the command has ended soon after that. Some
    /// programs do not end at SIGHUP.
    told_to_end_at: Option<Time>,
    was_told_to_end: Option<bool>,
    /// Time of the SIGTERM for a request to give the lock up, and true if the command has ended soon after that.
    asked_to_end_at: Option<Time>,
    ends_as_asked: Option<bool>,
    /// True if a signal came that was to end all of it.
    was_told: bool,
    /// The reason for which no watchdog watches over the command any more. The command was killed.
    unwatched: Option<Failure>,
    /// Time since which other processes of the group go on after the end of the command, and the time of the next check for them.
    others_since: Option<Time>,
    look_at_others: Time,
    /// The state of the lock in the last report about those processes.
    told_of_others: Option<&'static str>,
    /// True if this process was stuck, and the watchdog ended the command.
    was_ended_by_watchdog: bool,
}

impl Kept<'_> {
    /// Waits for the end of the command, and ends it if the lock requires that.
    fn keep(&mut self, guard: &impl LockGuard, signals: &Receiver<Signal>) -> Result<End, Failure> {
        let started = self.first_watchdog(guard);
        let told_before = signals::that_came_to_end();
        let mut watchdog = match (started, told_before) {
            (Ok(watchdog), None) => Some(watchdog),
            (started, told_before) => {
                self.does_not_begin();
                self.was_told = told_before.is_some();
                started?.end();
                return Ok(told_before.map_or(End::Code(CANNOT_RUN), End::Signal));
            }
        };
        self.group.go_on();
        let (nothing, no_risk, no_request) = (never(), never(), never());
        let began = Time::now();
        let end = loop {
            let watched_by = watchdog.as_ref().map(Watchdog::id);
            orphans::reap([self.group.leader()].into_iter().chain(watched_by));
            let now = Time::now();
            let mut most = LOOKS;
            match self.group.state() {
                GroupState::Ended(end) if self.has_ended_wholly(now) => break end,
                GroupState::Ended(_) => most = most.min(self.look_at_others.since(now)),
                GroupState::Runs => {}
                GroupState::Suspended => self.group.suspend_along(),
            }
            let valid_until = self.valid_until(guard, now);
            let wait = self.step(now, valid_until, guard.ends_by_max_hold()).min(most);
            let kill_at = self.ending.kill_at();
            if watchdog.as_mut().is_some_and(|it| it.tell(valid_until, kill_at).is_err()) {
                // The watchdog was killed, or is suspended. One that has never watched cannot be replaced.
                let has_watched = watchdog.as_ref().is_some_and(|it| it.watches);
                watchdog.take().into_iter().for_each(Watchdog::dismiss);
                let another = if has_watched {
                    self.watchdog()
                } else {
                    Err(io::Error::other("it ended at once"))
                };
                watchdog = match another.map_err(cannot_be_watched) {
                    Ok(watchdog) => Some(watchdog),
                    Err(failure) => {
                        // Without a watchdog the command could outlive the lock.
                        self.unwatched = Some(failure);
                        self.end_by(Signal::SIGKILL);
                        None
                    }
                };
                continue;
            }
            let lost = if self.is_lost { &nothing } else { guard.lost() };
            let risk = if self.hears_of_risk { guard.at_risk() } else { &no_risk };
            let listens = self.hears_asks && now.since(began) >= LISTENS_AFTER;
            let asked = if listens { guard.asked() } else { &no_request };
            let said = self.lookup.said();
            select! {
                recv(signals) -> signal => match signal {
                    // This includes a command that is suspended.
                    Ok(signal) if ENDING.contains(&signal) => self.pass_on(signal),
                    Ok(Signal::SIGCHLD | Signal::SIGXFSZ) | Err(_) => {}
                    Ok(signal) => self.group.signal(signal),
                },
                recv(lost) -> reason => {
                    self.is_lost = true;
                    reason.iter().for_each(|reason| self.handle_lost(*reason));
                }
                recv(risk) -> risk => self.handle_risk(risk.ok().as_ref()),
                recv(asked) -> request => self.handle_asked(request.ok().as_ref()),
                recv(said) -> said => self.handle_said(said.ok()),
                default(wait) => {}
            }
        };
        self.was_ended_by_watchdog = watchdog.is_some_and(Watchdog::end);
        if self.lookup.is_asking() {
            let said = self.lookup.said().recv_timeout(SAID_WITHIN);
            self.handle_said(said.ok());
        }
        self.unwatched.take().map_or(Ok(end), Err)
    }

    /// Kills the process that was to become the command. Nothing of the command has run.
    fn does_not_begin(&mut self) {
        self.group.end_by(Signal::SIGKILL);
        while !matches!(self.group.state(), GroupState::Ended(_)) {
            clock::pause(LOOKS_AT_START);
        }
    }

    /// Passes on a signal that was to end this process.
    fn pass_on(&mut self, signal: Signal) {
        // After the end of the command itself, the rest of its group gets SIGKILL: it had its chance.
        let signal = if self.others_since.is_some() { Signal::SIGKILL } else { signal };
        self.look_at_others = Time::now();
        self.was_terminated |= signal == Signal::SIGTERM;
        // Some programs do not end at SIGHUP.
        self.was_told |= signal != Signal::SIGHUP;
        self.told_to_end_at = Some(Time::now());
        self.end_by(signal);
    }

    fn end_by(&mut self, signal: Signal) {
        self.group.end_by(signal);
        self.tell_if_out_of_reach(self.kept());
    }

    /// Returns true if the command has ended, and all of its group that was to end. The next holder of the lock would meet
    /// processes that go on. Processes that the command leaves in the background when it ends by itself are not waited for. After
    /// Ctrl-C, Ctrl-\ and the end of the terminal they are not waited for either, since a shell or `nohup` makes background
    /// processes ignore these signals. But processes that this user cannot signal are waited for in each of these cases.
    fn has_ended_wholly(&mut self, now: Time) -> bool {
        let is_ended = self.ending.has_begun() && self.job.on_lost != OnLost::Warn;
        let told_at = self.told_to_end_at;
        let is_soon = |told_at: Option<Time>| told_at.is_some_and(|at| now.since(at) <= ENDS_SOON);
        let was_told_to_end = *self.was_told_to_end.get_or_insert_with(|| is_soon(told_at));
        let asked_at = self.asked_to_end_at;
        let ends_as_asked = *self.ends_as_asked.get_or_insert_with(|| is_soon(asked_at));
        self.was_told |= was_told_to_end;
        let may_wait = is_ended || was_told_to_end || ends_as_asked || self.unwatched.is_some();
        if may_wait && now < self.look_at_others {
            return false;
        }
        let waits = is_ended
            || self.was_terminated
            || ends_as_asked
            || self.unwatched.is_some()
            || was_told_to_end && self.group.is_out_of_reach();
        let waited = self.others_since.map_or(Duration::ZERO, |since| now.since(since));
        self.look_at_others = now.after(next_look(waited));
        if !waits || !self.group.is_left() {
            return true;
        }
        match self.others_since {
            None => {
                self.group.take_terminal_back();
                if is_ended {
                    // They have ignored the signal, or did not get it.
                    self.group.end_by(Signal::SIGKILL);
                }
                self.others_since = Some(now);
            }
            Some(_) if waited >= END_WITHIN => self.tell_of_others(self.kept()),
            Some(_) => {}
        }
        false
    }

    fn kept(&self) -> &'static str {
        if self.is_lost { "is lost" } else { "is kept until all of the command has ended" }
    }

    fn tell_if_out_of_reach(&mut self, lock: &'static str) {
        if self.group.is_out_of_reach() {
            self.tell_of_others(lock);
        }
    }

    /// Reports processes that go on although they were to end, and the state of the `lock`: once for each state.
    fn tell_of_others(&mut self, lock: &'static str) {
        if self.told_of_others == Some(lock) {
            return;
        }
        if let Some(what) = self.group.what_is_left() {
            self.told_of_others = Some(lock);
            tell(format_args!("{} {lock}: {what}", self.job.shown));
        }
    }

    /// Returns the end of the lock's validity. A lock that ends early was taken by force, its keys were deleted, or the machine was
    /// suspended. The message with the reason may come a moment later. Without it, the command would get no grace time.
    fn valid_until(&mut self, guard: &impl LockGuard, now: Time) -> Time {
        let valid_until = now.after(guard.remaining());
        let ends_early = valid_until <= now && now < self.promised_until && !self.is_lost;
        self.promised_until = valid_until;
        // `check` sends the message, if nobody has.
        if ends_early
            && guard.check().is_err()
            && let Ok(reason) = guard.lost().recv_timeout(TOLD_WITHIN)
        {
            self.is_lost = true;
            self.handle_lost(reason);
        }
        valid_until
    }

    /// Handles a loss that the library has found.
    fn handle_lost(&mut self, reason: LossReason) {
        self.why = Some(Why::after(self.why, reason));
    }

    /// Handles a report of the library that the lock is at risk, or has recovered; `None`: there are no more reports.
    fn handle_risk(&mut self, risk: Option<&Risk>) {
        self.hears_of_risk = risk.is_some();
        if let Some(risk) = risk {
            let reason = match risk {
                Risk::AtRisk { reason, .. } => Some(*reason),
                _ => None,
            };
            self.is_unconfirmed = reason.is_some_and(|reason| reason != RiskReason::Late);
            tell(format_args!("{} is {risk}", self.job.shown));
        }
    }

    /// Handles a request for the lock; `None`: there are no more requests. The lock is given up once all of the command has ended.
    fn handle_asked(&mut self, request: Option<&ReleaseRequest>) {
        self.hears_asks = request.is_some();
        let Some(request) = request else { return };
        // Many programs take a second SIGTERM for an order to end at once.
        let is_first = self.asked_to_end_at.is_none() && self.others_since.is_none();
        let ends = self.job.on_asked == OnAsked::Term && is_first;
        let then = if ends { "; the command gets SIGTERM" } else { "" };
        tell(format_args!("{}: {request}{then}", self.job.shown));
        if ends {
            self.asked_to_end_at = Some(Time::now());
            self.end_by(Signal::SIGTERM);
        }
    }

    /// Handles the masters' answer to the question for the holder of a lost lock; `None`: there is no answer.
    fn handle_said(&mut self, said: Option<Said>) {
        self.lookup.taken();
        match said {
            Some(Ok(report)) => {
                let masters = self.job.client.node_stats();
                let away = Away::all(&masters);
                if !away.is_empty() {
                    tell(Away::told(&away, masters.len()));
                }
                tell(format_args!("the masters say: {report}"));
            }
            Some(Err(error)) => tell(error),
            None => {}
        }
    }

    /// Does everything that is due. Returns the time until the next check.
    fn step(&mut self, now: Time, valid_until: Time, ends_by_max_hold: bool) -> Duration {
        let step = self.ending.poll(now, valid_until, self.is_lost);
        if let Step::Wait(until) = step {
            return until.map_or(LOOKS, |until| until.since(now).min(LOOKS));
        }
        let of_now = match step {
            _ if ends_by_max_hold => Why::MaxHold,
            Step::Warn if self.is_unconfirmed => Why::Lost(LossReason::Unconfirmed),
            Step::Warn => Why::Lost(LossReason::Expired),
            _ => Why::NotRenewed,
        };
        let why = *self.why.get_or_insert(of_now);
        let name = self.job.shown;
        match step {
            Step::Wait(_) => {}
            Step::Warn => tell(format_args!("{name} {why}; the command runs on without it")),
            Step::Terminate => {
                if self.group.end_by(Signal::SIGTERM) {
                    tell(format_args!(
                        "{name} {why}; the command gets SIGTERM, and SIGKILL soon after"
                    ));
                }
                self.tell_if_out_of_reach(why.in_short());
            }
            Step::Kill => {
                if self.group.end_by(Signal::SIGKILL) {
                    tell(format_args!("{name} {why}; the command gets SIGKILL"));
                }
                self.tell_if_out_of_reach(why.in_short());
            }
        }
        // Not asked again at the SIGKILL after a SIGTERM.
        if why != Why::MaxHold && (step != Step::Kill || self.job.on_lost == OnLost::Kill) {
            self.lookup.ask();
        }
        Duration::ZERO
    }

    /// Returns the end of `quorlock run`, given the end of the command and the result of the release.
    fn outcome(&self, end: End, unlocked: Result<(), Error>) -> Result<End, Failure> {
        let was_ended = self.ending.has_begun() || self.was_ended_by_watchdog;
        let found = match unlocked {
            Ok(()) => None,
            Err(error) if error.kind() == ErrorKind::Lost => Some(error),
            Err(_) if was_ended => None,
            Err(error) => {
                tell(error);
                None
            }
        };
        let (name, on_lost) = (self.job.shown, self.job.on_lost);
        let (code, what) = match (self.why, found) {
            (Some(why), _) => (why.code(), format!("{name} {why}")),
            (None, Some(error)) => (LOST, error.to_string()),
            (None, None) if self.was_ended_by_watchdog => {
                let why = "was not renewed in time, because quorlock was suspended or too slow";
                (LOST, format!("{name} {why}"))
            }
            (None, None) => return Ok(end),
        };
        if on_lost == OnLost::Warn {
            // It was reported at the time of the loss, if the command ran on after that.
            if !self.ending.has_begun() {
                tell(what);
            }
            return Ok(end);
        }
        Err(Failure::new(code, format!("{what}; the command has ended with {}", end.code())))
    }

    fn watchdog(&self) -> io::Result<Watchdog> {
        let (group, on_lost) = (self.group.leader(), self.job.on_lost);
        Watchdog::start(group, self.grace, on_lost, self.held.as_ref())
    }

    /// Starts the watchdog, before the command begins. Fails if too little time is left to end the command.
    fn first_watchdog(&self, guard: &impl LockGuard) -> Result<Watchdog, Failure> {
        let mut watchdog = self.watchdog().map_err(cannot_be_watched)?;
        let time = || guard.remaining().saturating_sub(self.grace + MARGIN);
        let until = Time::now().after(time().min(BEGINS_WITHIN));
        if let Err(error) = watchdog.wait_until_it_watches(until) {
            watchdog.dismiss();
            return Err(cannot_be_watched(error));
        }
        if time().is_zero() {
            watchdog.dismiss();
            let name = self.job.shown;
            return Err(Failure::new(
                LOST,
                format!("{name} is lost, or about to be, before the command could begin"),
            ));
        }
        Ok(watchdog)
    }
}

/// Returns the grace time for a lock with that validity after each renewal.
pub(super) fn grace_within(
    grace: Option<Duration>,
    on_lost: OnLost,
    validity: Duration,
) -> Result<Duration, Failure> {
    if on_lost == OnLost::Warn {
        return Ok(Duration::ZERO);
    }
    // A renewal is due when a third of the TTL is over. The end of the command must not begin before that renewal is late.
    let most = (validity * 11 / 20).checked_sub(MARGIN).filter(|most| !most.is_zero());
    let ms = Duration::as_millis;
    match (grace, most) {
        (_, None) => Err(Failure::own(format!(
            "the lock is valid for {} ms at a time, too short to end a command; use a longer --ttl, or, if --max-hold is shorter than the TTL, a longer --max-hold",
            ms(&validity)
        ))),
        (Some(grace), Some(most)) if grace > most => Err(Failure::own(format!(
            "--grace is {} ms, but a lock that is valid for {} ms at a time leaves only {} ms; use a longer \
             --ttl, or a shorter --grace",
            ms(&grace),
            ms(&validity),
            ms(&most)
        ))),
        (Some(grace), Some(_)) => Ok(grace),
        (None, Some(most)) => Ok(most.min(validity / 4)),
    }
}

/// Returns the time before the end of the lock at which the user is warned, so that the warning precedes SIGTERM; `None`: the
/// default.
pub(super) fn warned_before(grace: Duration, validity: Duration) -> Option<Duration> {
    let before_sigterm = grace + MARGIN + validity / 10;
    (before_sigterm > validity / 3).then_some(before_sigterm)
}

fn cannot_be_watched(error: io::Error) -> Failure {
    Failure::own(format!("the process that watches over the command cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library limits the margin to half of the validity.
    #[test]
    fn the_user_is_warned_before_the_command_is_told_to_end() {
        let ms = Duration::from_millis;
        for validity in [ms(900), ms(1_860), ms(4_000), ms(9_800), ms(60_000)] {
            for percent in [0, 10, 25, 40] {
                let grace = validity * percent / 100;
                let usual = validity / 3;
                let warned = warned_before(grace, validity).unwrap_or(usual).min(validity / 2);
                let in_time = warned > grace + MARGIN || grace + MARGIN >= validity / 2;
                assert!(warned >= usual && in_time, "{grace:?} of {validity:?}: {warned:?}");
            }
        }
        assert_eq!(warned_before(ms(2_450), ms(9_800)), Some(ms(3_680)), "by default");
        assert_eq!(warned_before(Duration::ZERO, ms(9_800)), None);
    }
}
