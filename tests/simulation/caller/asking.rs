//! One attempt of a call: the nodes are asked, and what their answers come to.

use super::call::Call;
use super::waiting::Pause;
use super::{BACKOFF, Caller, Doing};
use std::time::Duration;

use crate::core::{
    Attempt, Ballot, Basis, Conclusion, Judged, Judgement, Outcome, Patience, Quorum, Step,
    asking_order,
};
use crate::simulation::claim::Claim;
use crate::simulation::client::{Client, Cx};
use crate::simulation::held::Held;
use crate::simulation::subscriptions::Waiter;

impl Caller {
    /// Asks all nodes once, or one of them first.
    pub(super) fn attempt(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        call.asked += 1;
        let known = cx.shared.channels.borrow().is_known(call.name);
        if call.patience != Patience::Once && call.waiting.is_none() && known {
            // Others of its process have waited for it: as a rule, this one will have to.
            call.wait(client, cx);
            call.acquisition.is_contended();
        }
        if let Some(waiting) = &mut call.waiting {
            waiting.tracker.attempt_begins();
        }
        let names: Vec<_> = (0..cx.settings.nodes).map(|node| format!("node-{node}")).collect();
        let order = asking_order(format!("name-{}", call.name).as_bytes(), &names);
        let now = cx.now();
        let last = call.last.take();
        let answered = |node: usize| match &last {
            Some(last) => last.with(|last| last.has_vote_of(node)),
            None => !client.workers[node].is_down(),
        };
        let hears = |node| call.waiting.as_ref().is_none_or(|waiting| waiting.tracker.hears(node));
        let relies_on = |node| answered(node) && hears(node);
        let first = call.acquisition.preferred_node(&order, relies_on, now);
        let random = cx.net.chance.owner();
        let owner = call.acquisition.owner(random);
        let answer_by = call.acquisition.answer_by(cx.now(), cx.settings.node_timeout);
        client.callers[index].epoch = cx.net.fresh();
        let note = client.callers[index].note();
        let claim = Claim::new(client, cx, call.name, call.terms, owner, answer_by, note);
        match first {
            Some((first, until)) => {
                claim.attempt.with(|attempt| attempt.prefer(first));
                claim.ask(client, cx, |node| node == first);
                cx.remind(until.min(answer_by), note);
            }
            None => {
                claim.ask(client, cx, |_| true);
                cx.remind(answer_by, note);
            }
        }
        client.callers[index].doing = Doing::Attempting(call, claim);
    }

    /// The verdict is there, or the time for it is over.
    pub(super) fn answered(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        call: Call,
        mut claim: Claim,
    ) {
        let alone = claim.attempt.with(|attempt| attempt.preferred());
        let answer_by = call.acquisition.answer_by(cx.now(), cx.settings.node_timeout);
        if let Some(first) = alone.filter(|_| claim.attempt.reopen(answer_by)) {
            claim.answer_by = answer_by;
            claim.ask(client, cx, |node| node != first);
            cx.remind(answer_by, client.callers[index].note());
            client.callers[index].doing = Doing::Attempting(call, claim);
            return;
        }
        // The time of the node that was asked alone may be over since the others were asked.
        if cx.now() < claim.answer_by && !claim.attempt.with(|attempt| attempt.decided()) {
            client.callers[index].doing = Doing::Attempting(call, claim);
            return;
        }
        let decided = claim.attempt.with(|attempt| attempt.decided());
        match claim.attempt.with(Attempt::number_to_write_back).filter(|_| decided) {
            Some(number) => {
                client.callers[index].epoch = cx.net.fresh();
                let note = client.callers[index].note();
                let round = claim.write_back(client, cx, number, note);
                cx.remind(claim.answer_by, note);
                client.callers[index].doing = Doing::Confirming(call, claim, round);
            }
            None => Self::conclude(client, index, cx, call, claim),
        }
    }

    /// All that is to be heard of an attempt was heard.
    pub(super) fn conclude(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        mut claim: Claim,
    ) {
        claim.saw_numbers(client);
        let now = cx.now();
        let quorum_health = cx.shared.quorum_health();
        let judged = claim.attempt.with(|attempt| quorum_health.judge(attempt, now));
        let Judged::Concluded(Judgement { conclusion, basis, quorum }) = judged else {
            // It looks again and again, as a thread does, until the answers are there or their time is over.
            const MOMENT: Duration = Duration::from_millis(1);
            client.callers[index].doing = Doing::Hearing(call, claim);
            return client.callers[index].remind(cx, now.after(MOMENT));
        };
        if Self::disagrees(cx) {
            // A node was heard of meanwhile. A lock that was won all the same is given back.
            client.release(cx, &claim, call.terms.ttl);
            call.leave(client, cx);
            return Self::refused(client, index, cx);
        }
        claim.attempt.with(|attempt| {
            let covered = call.waiting.as_mut().is_some_and(|Waiter { tracker, .. }| {
                tracker.attempt_ended(attempt);
                tracker.is_covered()
            });
            call.acquisition.tried(attempt, now, covered);
        });
        call.last = Some(claim.attempt.clone());
        let (random, set_time) = (cx.net.chance.share(), cx.shared.set_time(now));
        let ready_in = cx.shared.admission.borrow().ready_in(now, set_time);
        let (step, settled) = if conclusion == Conclusion::NotAdmitted {
            let step = call.acquisition.not_admitted(ready_in, claim.started, now, random);
            (step, ready_in.is_some())
        } else {
            let step = call.acquisition.concluded(conclusion, claim.started, now, random);
            (step, quorum == Quorum::Reached)
        };
        if let Step::Finish(outcome @ Outcome::Granted { valid_until, number }) = step {
            claim.number = number;
            claim.granted_at = cx.net.now;
            // Its time for an answer is over, or the way to it has failed since it was asked.
            let tried =
                now >= claim.answer_by || cx.net.link(cx.client, 0).failed_at >= claim.began;
            claim.without_first = tried && !claim.attempt.reached_first.get();
            cx.shared.note_quorum(quorum, claim.started, now);
            if basis == Basis::FirstNode {
                let (who, short) = (cx.client, claim.short());
                cx.net.tell(|| format!("client {who}, caller {index}: {short} falls back"));
            }
            let (ticket, refused) = (call.ticket, call.refused);
            let held = Held::begin(client, cx, claim, basis, valid_until, ticket, refused);
            let now = cx.net.now;
            let until = cx.clock.when(valid_until);
            cx.net.checks.granted(&held.claim, 0, until, now);
            return Self::finish(client, index, cx, call, outcome, Some(held));
        }
        if !cx.net.switches.keeps_lost_attempts {
            client.release(cx, &claim, call.terms.ttl);
        }
        if !call.acquisition.cut_short(conclusion, now) {
            call.gave_way = false;
            call.refused |= matches!(conclusion, Conclusion::Held { .. });
            client.concluded(cx, call.name, conclusion);
        }
        cx.shared.note_quorum(quorum, claim.started, now);
        let (who, now) = (cx.client, cx.net.now);
        let held = matches!(conclusion, Conclusion::Held { .. });
        if settled || held {
            call.reached = now;
        } else if matches!(step, Step::Wait(_)) {
            let timeout = cx.settings.no_quorum_timeout;
            cx.net.checks.unreached(who, call.reached, timeout, false, now);
        }
        match step {
            Step::Finish(outcome) => Self::finish(client, index, cx, call, outcome, None),
            Step::Wait(until) => {
                if held && call.waiting.is_none() {
                    call.wait(client, cx);
                }
                // A few tries are quick, after split votes.
                call.hurries = until.since(cx.now()) < BACKOFF.min;
                let pause = if held { Pause::TimeOrWake(until) } else { Pause::Time };
                Self::pause(client, index, cx, call, pause, until);
            }
        }
    }
}
