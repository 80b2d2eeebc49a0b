//! `quorlock elect`: a command that runs on one host at a time, the leader.

use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::Receiver;
use quorlock::{Election, Leadership, Wait};

use super::TOLERANCE;
use super::give_back::GivesBack;
use super::keeper::{Job, grace_within, warned_before};
use super::program;
use super::waiting::Waiting;
use crate::clock::Time;
use crate::exit::{End, Failure, HELD, LOST};
use crate::options::{Elect, OnAsked, OnLost};
use crate::set::{bytes, with_passwords};
use crate::signals::{self, ends_the_wait};
use crate::tell::{quoted, tell, write_by_a_thread};

/// A host that led for less than this time pauses before it stands again.
const SHORT_TERM: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(1);

/// Stands for election, runs the command while this host leads, and stands again, until a signal comes that ends programs.
pub(crate) fn elect(options: &Elect) -> Result<End, Failure> {
    let Elect { name, value, ttl, keeping, command, set } = options;
    program::find(command)?;
    // Set up before any thread starts, since each thread would get signals.
    let signals = signals::listen()?;
    write_by_a_thread().map_err(Failure::own)?;
    let configured = set.configured()?;
    let password = configured.asked_password.clone();
    let has_margin = configured.has_risk_margin;
    let has_no_quorum_timeout = configured.has_no_quorum_timeout;
    let mut builder = configured.with_ttl();
    if !has_no_quorum_timeout {
        // The host stands for election regardless of the state of the masters.
        builder = builder.no_quorum_timeout(Duration::MAX);
    }
    let client = builder.build()?;
    let value = value.as_ref().map_or(&b""[..], |value| bytes(value));
    let election = client.election(bytes(name)).value(value);
    let election = ttl.map_or(election.clone(), |ttl| election.ttl(ttl));
    let lives = election.lives_for();
    let validity = lives.saturating_sub(lives / 50 + TOLERANCE);
    let margin = warned_before(grace_within(keeping.grace, OnLost::Term, validity)?, validity);
    let margin = margin.filter(|_| !has_margin);
    let election = margin.map_or(election.clone(), |margin| election.margin(margin));
    let shown = &quoted(bytes(name));
    let any_kind = &client.multi_mutex([bytes(name)]);
    let job = Job {
        client: &client,
        command,
        name,
        shown,
        any_kind,
        grace: keeping.grace,
        on_lost: OnLost::Term,
        on_asked: keeping.on_asked.unwrap_or(OnAsked::Term),
        frees_failed: false,
        secrets: if keeping.pass_passwords { Vec::new() } else { with_passwords() },
        gives_back: Some(GivesBack {
            set: set.clone(),
            password,
            names: vec![bytes(name).to_vec()],
        }),
        is_elected: true,
    };
    let waiting = Waiting {
        client: &client,
        signals: &signals,
        tries_once: false,
        wait: Wait::forever(),
        held_code: HELD,
        any_kind,
        shown,
        permits: None,
        verbose: keeping.verbose,
    };
    stand(&election, &waiting, &job)
}

/// Repeats standing for election and leading.
fn stand(election: &Election, waiting: &Waiting<'_>, job: &Job<'_>) -> Result<End, Failure> {
    let (shown, signals) = (job.shown, waiting.signals);
    loop {
        // Forgets a signal that the previous command has survived.
        signals::forget_ending();
        let stands = |wait| election.campaign_within(wait).map(Leadership::into_guard);
        let guard = waiting.ask(stands)?;
        if let Some(term) = guard.token() {
            tell(format_args!("{shown}: this host leads, in term {term}"));
        }
        let began = Time::now();
        let (ended, is_last) = job.run_once(guard, signals);
        if is_last {
            return ended;
        }
        match ended {
            Ok(end) => tell(format_args!(
                "{shown}: the command has ended with {}; this host stands again",
                end.code()
            )),
            Err(Failure { end: End::Code(LOST), message }) => {
                tell(format_args!("{message}; this host stands again"));
            }
            Err(failure) => return Err(failure),
        }
        // Slows hosts down that take turns because the command fails at once on each of them.
        if Time::now().since(began) < SHORT_TERM {
            pause(signals)?;
        }
    }
}

/// Waits for `PAUSE`, unless a signal comes that ends programs.
fn pause(signals: &Receiver<Signal>) -> Result<(), Failure> {
    let until = Time::now().after(PAUSE);
    while let Ok(signal) = signals.recv_timeout(until.since(Time::now())) {
        if ends_the_wait(signal) {
            return Err(Failure::interrupted(
                signal,
                "while it waited to stand for election again",
            ));
        }
    }
    Ok(())
}
