//! `quorlock elect`: a command of which one instance runs, on the host that leads.

use std::time::Duration;

use quorlock::{Leadership, Wait};

use super::TOLERANCE;
use super::give_back::GivesBack;
use super::keeper::{Job, grace_within, warned_before};
use super::program;
use super::waiting::Waiting;
use crate::exit::{End, Failure, HELD, LOST};
use crate::options::{Elect, OnLost};
use crate::set::{bytes, with_passwords};
use crate::signals;
use crate::tell::{quoted, tell, write_by_a_thread};

/// Stands for election, runs the command while this host leads, and stands again, until a signal comes that ends programs.
pub(crate) fn elect(options: &Elect) -> Result<End, Failure> {
    let Elect { name, value, ttl, grace, verbose, pass_passwords, command, set } = options;
    program::find(command)?;
    // Before any thread is there: each would get signals.
    let signals = signals::listen()?;
    write_by_a_thread().map_err(Failure::own)?;
    let configured = set.configured()?;
    let password = configured.asked_password.clone();
    let has_margin = configured.has_risk_margin;
    let client = configured.with_ttl().no_quorum_timeout(Duration::MAX).build()?;
    let value = value.as_ref().map_or(&b""[..], |value| bytes(value));
    let election = client.election(bytes(name)).value(value);
    let election = ttl.map_or(election.clone(), |ttl| election.ttl(ttl));
    let lives = election.lives_for();
    let validity = lives.saturating_sub(lives / 50 + TOLERANCE);
    let margin = warned_before(grace_within(*grace, OnLost::Term, validity)?, validity);
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
        grace: *grace,
        on_lost: OnLost::Term,
        frees_failed: false,
        secrets: if *pass_passwords { Vec::new() } else { with_passwords() },
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
        verbose: *verbose,
    };
    loop {
        let stands = |wait| election.campaign_within(wait).map(Leadership::into_guard);
        let guard = waiting.ask(stands)?;
        if let Some(term) = guard.token() {
            tell(format_args!("{shown}: this host leads, in term {term}"));
        }
        let ended = job.run(guard, &signals);
        if signals::that_came_to_end().is_some() {
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
    }
}
