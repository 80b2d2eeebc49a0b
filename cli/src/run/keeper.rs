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

/// How often it looks whether the lock was renewed.
const LOOKS: Duration = Duration::from_millis(250);

/// How often it looks whether the process has ended that was to become the command.
const LOOKS_AT_START: Duration = Duration::from_millis(20);
/// How long the masters may take to say who holds a lock that was lost, once the command has ended.
const SAID_WITHIN: Duration = Duration::from_secs(1);
/// A command that ends within this time of a signal has ended because of it.
const ENDS_SOON: Duration = Duration::from_secs(10);
/// A command that runs for less does not listen for requests: that costs a connection to each master.
const LISTENS_AFTER: Duration = Duration::from_secs(1);
/// How long others of the command's group may take to end until it says that it waits for them.
const END_WITHIN: Duration = Duration::from_secs(1);

/// What is run under the lock.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) client: &'a Quorlock,
    pub(super) command: &'a [OsString],
    pub(super) name: &'a OsStr,
    /// The names of the lock, in quotes, and the lock, whatever its kind is.
    pub(super) shown: &'a str,
    pub(super) any_kind: &'a MultiMutex,
    /// From SIGTERM to SIGKILL; `None`: a part of the validity.
    pub(super) grace: Option<Duration>,
    pub(super) on_lost: OnLost,
    pub(super) on_asked: OnAsked,
    /// A command that fails gives the lock back without the minimum.
    pub(super) frees_failed: bool,
    /// Variables of the environment that the command does not inherit.
    pub(super) secrets: Vec<&'static str>,
    /// With that the watchdog gives the lock back, if this process is killed.
    pub(super) gives_back: Option<GivesBack>,
    /// The lock is a term of a leader, whose number the command is told.
    pub(super) is_elected: bool,
}

impl Job<'_> {
    /// Runs the command under that lock, and gives it back. Returns how the command has ended.
    pub(super) fn run<G: LockGuard>(
        &self,
        guard: G,
        signals: &Receiver<Signal>,
    ) -> Result<End, Failure> {
        self.run_once(guard, signals).0
    }

    /// The same. Also returns whether that was the last time: a signal came that ends it all, or the command cannot be run.
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
        // A loss that the release has found.
        lost.try_iter().for_each(|reason| kept.handle_lost(reason));
        kept.outcome(end, unlocked)
    }

    /// Starts the command, which waits until somebody watches over it.
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
    /// The library has said so.
    is_lost: bool,
    /// The library has warned that too few masters confirm its renewals, and the lock has not recovered since.
    is_unconfirmed: bool,
    /// The library may still tell something of a risk, and of requests to give the lock up.
    hears_of_risk: bool,
    hears_asks: bool,
    /// Why the command was ended, or is left to run without the lock.
    why: Option<Why>,
    /// By a SIGTERM to this process, which was passed on.
    was_terminated: bool,
    /// When it was told so last by any signal that ends programs, and whether it has ended soon after that. Some take SIGHUP for
    /// something else.
    told_to_end_at: Option<Time>,
    was_told_to_end: Option<bool>,
    /// When it got SIGTERM because somebody asks for the lock, and whether it has ended soon after that.
    asked_to_end_at: Option<Time>,
    ends_as_asked: Option<bool>,
    /// A signal came that was to end all of it.
    was_told: bool,
    /// Why nobody watches over the command any more. It was killed.
    unwatched: Option<Failure>,
    /// Since when others of its group go on although the command has ended, and when to look for them again.
    others_since: Option<Time>,
    look_at_others: Time,
    /// The words about the lock that the user was told beside them.
    told_of_others: Option<&'static str>,
    /// This process did not go on in time.
    was_ended_by_watchdog: bool,
}

impl Kept<'_> {
    /// Waits for the end of the command, and brings it about where the lock makes that necessary.
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
            let valid_until = now.after(guard.remaining());
            let wait = self.step(now, valid_until, guard.ends_by_max_hold()).min(most);
            let kill_at = self.ending.kill_at();
            if watchdog.as_mut().is_some_and(|it| it.tell(valid_until, kill_at).is_err()) {
                // It was killed, or is suspended. One that has never watched cannot be started.
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
                        // Without one the command could be left behind.
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
                    // Also to a command that is suspended.
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

    /// The process that was to become the command ends, and nothing of the command has run.
    fn does_not_begin(&mut self) {
        self.group.end_by(Signal::SIGKILL);
        while !matches!(self.group.state(), GroupState::Ended(_)) {
            clock::pause(LOOKS_AT_START);
        }
    }

    /// Tells the command to end, as this process was told.
    fn pass_on(&mut self, signal: Signal) {
        // The rest of a command that has ended had its chance.
        let signal = if self.others_since.is_some() { Signal::SIGKILL } else { signal };
        self.look_at_others = Time::now();
        self.was_terminated |= signal == Signal::SIGTERM;
        // Some programs take SIGHUP for something else, and go on.
        self.was_told |= signal != Signal::SIGHUP;
        self.told_to_end_at = Some(Time::now());
        self.end_by(signal);
    }

    fn end_by(&mut self, signal: Signal) {
        self.group.end_by(signal);
        self.tell_if_out_of_reach(self.kept());
    }

    /// The command has ended. Returns false while others of its group go on that were to end like the command: whoever gets the
    /// lock would meet them. Processes that it leaves in the background when it ends by itself are not waited for. Nor are they
    /// after Ctrl-C, Ctrl-\ and the end of the terminal: a shell, or `nohup`, has these ignored by what is put there. But what
    /// could not be told is waited for after any of them.
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
                    // They have not heeded the signal, or it was not for them.
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

    /// Says what goes on although it was told to end, and what becomes of the `lock`: once for each of these.
    fn tell_of_others(&mut self, lock: &'static str) {
        if self.told_of_others == Some(lock) {
            return;
        }
        if let Some(what) = self.group.what_is_left() {
            self.told_of_others = Some(lock);
            tell(format_args!("{} {lock}: {what}", self.job.shown));
        }
    }

    /// The library has found that the lock is lost.
    fn handle_lost(&mut self, reason: LossReason) {
        self.why = Some(Why::after(self.why, reason));
    }

    /// The library has told that the lock is at risk, or not any more; `None`: it tells nothing more.
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

    /// Somebody asks for the lock; `None`: nobody can any more. It is given up once all of the command has ended.
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

    /// The masters have said who holds a lock that is lost, or have not.
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

    /// Does what is to be done now. Returns for how long there is nothing else to do.
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
        // Not again behind the SIGTERM.
        if why != Why::MaxHold && (step != Step::Kill || self.job.on_lost == OnLost::Kill) {
            self.lookup.ask();
        }
        Duration::ZERO
    }

    /// Returns the end of `quorlock run`, where the command has ended so, and the lock was given back with that result.
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
            // It was told when it was so, if the command ran on after that.
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

    /// The watchdog that is there before the command begins, with time left for its end.
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

/// The grace time with a lock that is valid for so long after each renewal.
pub(super) fn grace_within(
    grace: Option<Duration>,
    on_lost: OnLost,
    validity: Duration,
) -> Result<Duration, Failure> {
    if on_lost == OnLost::Warn {
        return Ok(Duration::ZERO);
    }
    // A renewal is made when a third of the TTL is over. Before that is late, nothing must begin.
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

/// How long before the end of such a lock the user is warned, so that it is before SIGTERM; `None`: by default.
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

    /// The library counts up to half of the validity.
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
