//! The end of an attempt: the judgement of its answers, and the next step.

use super::super::base::Time;
use super::super::vote::{Attempt, Conclusion, Grant, HEAR_OUT, Judged, Judgement};
use super::attempts::Step;
use super::queue_place::PlaceNews;
use super::state::{AfterSubscribing, AttemptStage, CallState, Sleep};
use super::{
    Acquire, Action, CallEvent, Failed, Obstacle, Outcome, Patience, SharedAttempt, Surroundings,
};

impl<C: SharedAttempt> Acquire<C> {
    /// Judges the attempt once all requests are answered, or its time is over.
    pub(super) fn heard(&mut self, claim: C, around: &mut impl Surroundings) {
        let number = claim.with(|attempt| attempt.number_of_several());
        if number > 0 {
            self.actions.push_back(Action::SawNumber(number));
        }
        self.judge(claim, around);
    }

    pub(super) fn judge(&mut self, claim: C, around: &mut impl Surroundings) {
        let (now, health) = (around.now(), around.quorum_health());
        let says_no = around.first_says_no();
        let judged = claim.with(|attempt| {
            attempt.first_says_no(says_no);
            health.judge(attempt, now)
        });
        let judgement = match judged {
            Judged::Concluded(judgement) => judgement,
            Judged::HearFirst | Judged::HearAll => {
                self.state = CallState::Attempting(claim, AttemptStage::AwaitingAnswers);
                return;
            }
        };
        let until = match judgement.conclusion {
            Conclusion::Unreachable => self.started.after(HEAR_OUT).min(self.answer_by),
            // The user has to change something, so the error must name the faults of all nodes.
            Conclusion::Rejected => self.answer_by,
            _ => now,
        };
        if now < until && claim.with(|attempt| attempt.awaits_answers()) {
            self.state =
                CallState::Attempting(claim, AttemptStage::HearingOut { judgement, until });
        } else {
            self.conclude(claim, judgement, around);
        }
    }

    pub(super) fn conclude(
        &mut self,
        claim: C,
        judgement: Judgement,
        around: &mut impl Surroundings,
    ) {
        // A conflict between the nodes may have become known meanwhile. A lock that was won despite it is given back.
        if around.nodes_disagree() {
            return self.abandon(claim, Outcome::NodesDisagree);
        }
        let Judgement { conclusion, basis, quorum } = judgement;
        let (now, started) = (around.now(), self.started);
        let permits = self.attempts.wanted_permits();
        let began_ms = self.attempts.is_queued().then(|| self.began_ms(around)).flatten();
        let (place, obstacle) = claim.with(|attempt| {
            let covered = attempt_ended(attempt, permits, around);
            self.attempts.tried(attempt, now, covered);
            let place = self.attempts.placed(attempt, conclusion, began_ms);
            (place, Obstacle::of(attempt))
        });
        self.count_attempt(conclusion, now);
        self.actions.extend(obstacle.map(Action::TellObstacle));
        self.last_votes_are_fresh = true;
        let is_not_admitted = conclusion == Conclusion::NotAdmitted;
        let ready_in = is_not_admitted.then(|| around.ready_in(now)).flatten();
        let random = around.random();
        let step = match conclusion {
            Conclusion::NotAdmitted => self.attempts.not_admitted(ready_in, started, now, random),
            _ => self.attempts.concluded(conclusion, started, now, random),
        };
        if let Step::Granted { valid_until, number } = step {
            let refused_before = self.refused && self.attempts.refusals_tell_of_others();
            let known_at = now;
            return self.granted(
                claim,
                Grant { valid_until, number, basis, quorum, started, known_at, refused_before },
            );
        }
        // This comes before any wait: the keys that the attempt got must be free for others.
        self.actions.push_back(Action::GiveBack(claim));
        if self.attempts.is_out_of_reach() {
            self.withdraw(Vec::new);
        }
        if place == PlaceNews::GivesUpTicket {
            self.leave_queue();
        }
        let held = matches!(conclusion, Conclusion::Held { .. });
        let conclusion = (!self.attempts.cut_short(conclusion, now)).then_some(conclusion);
        if conclusion.is_some() {
            self.gave_way = false;
            self.refused |= held;
        }
        self.actions.push_back(Action::Failed(Failed { conclusion, quorum, started }));
        let until = match step {
            Step::Wait(_) if place == PlaceNews::HasTicket => now,
            Step::Wait(until) if place == PlaceNews::HasNoTicket => {
                until.min(self.attempts.soon(now, random))
            }
            Step::Wait(until) => until,
            Step::Finish(outcome) => return self.refuse(outcome),
            Step::Granted { .. } => return,
        };
        if let Some(ready_in) = ready_in.filter(|left| !left.is_zero())
            && !std::mem::replace(&mut self.told_not_admitted, true)
        {
            self.actions.push_back(Action::TellNotAdmitted(ready_in));
        }
        // A slot that a refusal has named is asked for at once, and mostly granted: no subscription is needed.
        let listens =
            held && self.patience != Patience::Once && !self.attempts.goes_to_named_slot();
        let is_poll = listens && now < until && !self.attempts.is_split();
        let is_poll = is_poll && !lasts_for_the_keys(judgement.conclusion, now, until);
        let event = is_poll.then_some(CallEvent::WokenByPoll);
        let sleep = Sleep { until, listens, woken: false, event, gives_way: false };
        if listens && !self.subscribed {
            self.subscribe(AfterSubscribing::Sleep(sleep), around);
        } else {
            self.sleep(sleep, around);
        }
    }

    /// Counts an attempt, and the end of the holder's keys if it was granted because of that. An attempt that the caller's own
    /// deadline cut short says nothing.
    fn count_attempt(&mut self, conclusion: Conclusion, now: Time) {
        let event = event_of(conclusion, self.attempts.is_split());
        let is_granted = event == CallEvent::Granted;
        if is_granted && self.waits_for_expiry && self.attempts.is_expired(now) {
            self.count(CallEvent::WokenByExpiry);
        }
        if !self.attempts.cut_short(conclusion, now) {
            self.count(event);
        }
    }

    fn granted(&mut self, claim: C, grant: Grant) {
        self.withdraw(|| claim.with(|attempt| attempt.granted_by()));
        self.finish(Action::Granted(claim, grant));
    }
}

/// Returns true if the holder's keys end before that time, unless they are renewed.
fn lasts_for_the_keys(conclusion: Conclusion, now: Time, until: Time) -> bool {
    matches!(conclusion, Conclusion::Held { remaining: Some(remaining) } if now.after(remaining) <= until)
}

/// The event of an attempt that ended so.
const fn event_of(conclusion: Conclusion, is_split: bool) -> CallEvent {
    match conclusion {
        Conclusion::Won { .. } => CallEvent::Granted,
        Conclusion::Held { .. } if is_split => CallEvent::Split,
        Conclusion::Held { .. } => CallEvent::Refused,
        Conclusion::NotAdmitted => CallEvent::NotAdmitted,
        Conclusion::Unreachable | Conclusion::TooLate | Conclusion::Unconfirmed => {
            CallEvent::Unanswered
        }
        Conclusion::WrongKind | Conclusion::Spent | Conclusion::NoNumber | Conclusion::Rejected => {
            CallEvent::Rejected
        }
    }
}

/// Notes the nodes' answers to `attempt`, which wanted that many `permits`. Returns true if enough nodes would announce a
/// release.
fn attempt_ended(attempt: &Attempt, permits: u32, around: &mut impl Surroundings) -> bool {
    let may_fall_back = around.quorum_health().may_fall_back();
    let covered = around.releases(|releases| {
        releases.attempt_ended(attempt, permits, may_fall_back);
        releases.is_covered()
    });
    covered == Some(true)
}
