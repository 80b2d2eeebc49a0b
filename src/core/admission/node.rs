//! One client's knowledge of one node's admission.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time};
use super::clocks::milliseconds;
use super::mark::{Configuration, Identity, Mark, MarkState, Noted};
use super::node_clock::NodeClock;
use super::old_master::OLD_MASTER_WRITES;
use super::probe::{Forgot, NextProbe, PROBE_AGAIN, Probe, ProbeJudgement, Role};
use super::servers::Servers;
use super::unused::Past;

/// One node, as one client knows it.
#[derive(Debug)]
pub(super) struct Knowledge {
    /// The configuration that the node's mark must state for this client to use the node.
    pub(super) configuration: Configuration,
    /// The servers that answer under its address.
    pub(super) servers: Servers,
    /// The last probe over the present connection.
    pub(super) seen: Option<Seen>,
    /// True if the last probe does not hold any more.
    pub(super) doubted: bool,
    /// The run of the server that was last reached under this address. It is kept while the node cannot
    /// be reached: that server has had its vote, whatever address it has now.
    pub(super) run_id: Option<String>,
    /// True if a probe of that run has shown an earlier replication id. The server forgets that id with its backlog.
    pub(super) was_promoted: bool,
    /// The time at which that was first seen, and the identity: a later promotion of that run has another replication id.
    promoted_at: Option<(Identity, Time)>,
    /// True if its old master may still take writes, as far as the last probe shows.
    pub(super) old_master_may_write: bool,
    /// True if the last probe of that run showed a mark.
    had_mark: bool,
    /// The reason why the node may have forgotten locks, if this client has seen it.
    pub(super) forgot: Option<Forgot>,
    /// The quarantine that this client has begun.
    pub(super) begun: Option<u64>,
    /// The quarantine that must be ended now, by order.
    pub(super) by_order: Option<u64>,
    /// The node's clock, from whatever server and connection it was read.
    pub(super) clock: NodeClock,
    /// The last mark that this client asked the node to take.
    pub(super) asked_for: Option<String>,
    /// The quarantine that is watched, and the start of the watch.
    watch: Option<(u64, Time)>,
}

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) probe: Probe,
    pub(super) judgement: ProbeJudgement,
    /// The time of the answer.
    pub(super) at: Time,
}

impl Seen {
    /// Returns the next probe: at the time `due`, and at the latest 1 s after the last one.
    pub(super) fn again(&self, due: Option<Time>, now: Time) -> NextProbe {
        let again = self.at.after(PROBE_AGAIN);
        let then = due.map_or(again, |due| again.min(due));
        if then <= now { NextProbe::Ask(None) } else { NextProbe::Wait(then) }
    }

    /// Returns the approximate time of the node's own clock, in milliseconds.
    pub(super) fn node_time_ms(&self, now: Time) -> u64 {
        self.probe.clock.read_ms().saturating_add(milliseconds(now.since(self.at)))
    }
}

impl Knowledge {
    pub(super) fn new(configuration: Configuration) -> Self {
        Self {
            configuration,
            servers: Servers::default(),
            seen: None,
            doubted: false,
            run_id: None,
            was_promoted: false,
            promoted_at: None,
            old_master_may_write: false,
            had_mark: false,
            forgot: None,
            begun: None,
            by_order: None,
            clock: NodeClock::default(),
            asked_for: None,
            watch: None,
        }
    }

    pub(super) fn probed(&mut self, probe: Probe, now: Time) {
        let judgement = match ProbeJudgement::of(&probe, &self.configuration) {
            ProbeJudgement::Forgetful(Forgot::Mark) => {
                ProbeJudgement::Forgetful(self.why_without_mark(probe.identity.run_id()))
            }
            judgement => judgement,
        };
        self.had_mark = probe.mark.is_some();
        let mark = match judgement {
            ProbeJudgement::Ours(_) | ProbeJudgement::Renamed(_) => {
                probe.mark.as_deref().and_then(Mark::parse)
            }
            _ => None,
        };
        self.clock.noted = mark.as_ref().map(|mark| mark.noted);
        if self.clock.noted.is_some() {
            self.clock.note_sent = None;
        }
        // The mark of an earlier run counts too: a server that restarts goes on with the machine's
        // clock.
        let noted_ms = probe.mark.as_deref().and_then(Mark::parse).and_then(|mark| {
            (mark.configuration == self.configuration).then_some(mark.noted.ahead_ms)
        });
        self.clock.last_noted_ms = noted_ms.or(self.clock.last_noted_ms);
        let quarantine = mark.and_then(|mark| mark.state.quarantine_id());
        // Probes need not be close together: a quarantine that has begun anew in between has another
        // id.
        self.watch = quarantine.map(|id| match self.watch {
            Some((watched, since)) if watched == id => (id, since),
            _ => (id, now),
        });
        match &judgement {
            ProbeJudgement::Forgetful(forgot) => self.forgot = Some(*forgot),
            ProbeJudgement::Ours(MarkState::Admitted) => self.forgot = None,
            _ => {}
        }
        if probe.changed {
            self.asked_for = None;
        }
        self.servers.sighted(&probe);
        let is_same_run = self.run_id.as_deref() == Some(probe.identity.run_id());
        let was_promoted = is_same_run && self.was_promoted;
        self.was_promoted =
            probe.promoted || was_promoted.if_off(Mechanism::PromotionsAreRemembered, false);
        let is_promoted = self.was_promoted && probe.role == Role::Master;
        let before = self.promoted_at.take().filter(|(identity, _)| *identity == probe.identity);
        self.promoted_at =
            is_promoted.then(|| before.unwrap_or_else(|| (probe.identity.clone(), now)));
        let may_write = |at: &(Identity, Time)| probe.clock.sent.since(at.1) < OLD_MASTER_WRITES;
        self.old_master_may_write = self.promoted_at.as_ref().is_some_and(may_write);
        self.run_id = Some(probe.identity.run_id().to_owned());
        self.doubted = false;
        self.seen = Some(Seen { probe, judgement, at: now });
    }

    /// Returns true if another connection has led to another server since this one was asked last.
    pub(super) fn is_another_server_there(&self) -> bool {
        let run_id = self.run_id.as_deref();
        run_id.is_some_and(|run_id| self.servers.another_was_seen_after(run_id))
    }

    /// Returns the reason why the node has no mark, as far as this client has known the node before.
    fn why_without_mark(&self, run_id: &str) -> Forgot {
        match &self.run_id {
            None => Forgot::Mark,
            Some(before) if before != run_id => Forgot::Run,
            Some(_) if self.had_mark => Forgot::Flush,
            // The last probe showed no mark either, so the reason is the same.
            Some(_) => self.forgot.unwrap_or(Forgot::Mark),
        }
    }

    /// Returns the time for which the quarantine `id` has been watched.
    pub(super) fn watched(&self, id: u64, now: Time) -> Duration {
        self.watch
            .filter(|(watched, _)| *watched == id)
            .map_or(Duration::ZERO, |(_, since)| now.since(since))
    }

    /// Returns the quarantine that was seen, if any, and what is known of the node's past.
    pub(super) fn quarantine(&self) -> Option<(u64, Past)> {
        let (id, _) = self.watch.filter(|_| self.seen.is_some())?;
        let is_new = self.begun == Some(id) && self.forgot == Some(Forgot::Mark);
        let past = if is_new && !self.was_promoted { Past::New } else { Past::Unknown };
        Some((id, past))
    }

    /// Returns the mark of this client's configuration for the server that was probed.
    pub(super) fn mark(&self, probe: &Probe, noted: Noted, state: MarkState) -> Mark {
        let configuration = self.configuration.clone();
        Mark { configuration, identity: probe.identity.clone(), noted, state }
    }
}
