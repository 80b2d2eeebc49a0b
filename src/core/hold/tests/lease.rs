//! Cases of a held lock from `testdata/lease.txt`: its lease, and its holders.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::super::base::HoldClass;
use super::super::super::base::told_cases::{Words, in_ms, play, yes_or_no};
use super::super::super::vote::{Attempt, Extension, Grant, Quorum};
use super::super::{Ended, EndedBy, HeldLock};
use super::*;

const NODES: usize = 3;
const TIMEOUT: Duration = Duration::from_millis(200);

struct Lock {
    held: HeldLock<Rc<RefCell<Attempt>>, Rc<RefCell<Extension>>>,
    /// The sequence number of the last holder.
    sequence: u64,
    /// The last extension that was asked for.
    extension: Option<Extension>,
}

impl Lock {
    fn granted(valid_until: Time, basis: Basis, schedule: Schedule, terms: Terms) -> Self {
        let (started, allowance) = (Time::default(), terms.allowance);
        let attempt = Attempt::new(NODES, started, started.after(TIMEOUT), terms.ttl, allowance);
        let attempt = Rc::new(RefCell::new(attempt));
        let (quorum, refused_before) = (Quorum::Reached, false);
        let grant = Grant {
            valid_until,
            number: 1,
            basis,
            quorum,
            started,
            known_at: started,
            refused_before,
        };
        let held =
            HeldLock::new(attempt, HoldClass::Exclusive, terms, &grant, schedule, NODES, TIMEOUT);
        Self { held, sequence: 0, extension: None }
    }

    fn says(&mut self, now: Time) -> String {
        if self.held.has_ended() {
            assert_eq!(self.held.held_until(now), None, "whatever is left of its validity");
            return "over".to_owned();
        }
        let left = self.held.remaining(now);
        assert_eq!(self.held.held_until(now).is_some(), !left.is_zero());
        match self.held.lease.next(now) {
            Next::Renew(due) => format!("{} left, renew at {}", in_ms(left), at(due)),
            Next::End(due) => format!("{} left, end at {}", in_ms(left), at(due)),
            Next::Over(reason) => {
                assert!(left.is_zero());
                format!("lost: {reason:?}")
            }
        }
    }
}

fn at(time: Time) -> String {
    in_ms(time.since(Time::default()))
}

fn basis(words: &mut Words<'_>) -> Basis {
    if words.has("first-node") { Basis::FirstNode } else { Basis::Majority }
}

fn ended(ended: Ended) -> String {
    let lost = |lost| match lost {
        Some(reason) => format!(", lost: {reason:?}"),
        None => String::new(),
    };
    match ended {
        Ended::Before => "it had left".to_owned(),
        Ended::OthersHold { lost: reason, .. } => format!("others hold it{}", lost(reason)),
        Ended::Now(ending) => match ending.kept {
            Some(Kept { until, by }) => {
                let [until, by] = [until, by].map(|time| in_ms(time.since(Time::default())));
                format!("over, kept until {until} from {by} on at the latest")
            }
            None => {
                let ttl = in_ms(ending.longest_ttl);
                format!("over, keys for {ttl} at most{}", lost(ending.lost))
            }
        },
    }
}

fn step(lock: &mut Lock, words: &mut Words<'_>) -> String {
    let now = words.time();
    let input = words.word();
    match input {
        "granted" => {
            let (until, basis) = (words.time(), basis(words));
            let part = if words.has("early") { 1.0 } else { 0.0 };
            let phase = words.ms_of("phase").unwrap_or_default();
            let schedule = Schedule::new(part, phase);
            *lock = Lock::granted(until, basis, schedule, words.terms());
        }
        "renewed" => {
            let renewed = Renewed::Until(words.time(), basis(words));
            lock.held.lease.renewed(renewed, now);
        }
        "unknown" => lock.held.lease.renewed(Renewed::Unknown, now),
        "gone" => lock.held.lease.renewed(Renewed::Gone, now),
        "suspended" => lock.held.handle_suspended(),
        "extend" => {
            let extension = lock.held.extension(words.ms(), now);
            lock.held.extending(extension.ttl(), now, extension.valid_at_most());
            lock.extension = Some(extension);
        }
        "extended" => {
            let until = lock.extension.as_ref().expect("it was asked for").valid_at_most();
            lock.held.lease.renewed(Renewed::Until(until, basis(words)), now);
        }
        "look" => {}
        "hand-over" => {
            let (from, terms, next) = (words.number(), words.terms(), lock.sequence + 1);
            let choose = |lease: &mut Lease| lease.hand_over(terms, now).then_some(((), next));
            let handed_over = lock.held.hand_over(from, choose).is_some();
            lock.sequence += u64::from(handed_over);
            return if handed_over { format!("to {next}") } else { "no".to_owned() };
        }
        "join" => {
            let (sequence, terms) = (words.number(), words.terms());
            lock.sequence = lock.sequence.max(sequence);
            return yes_or_no(lock.held.join(terms, sequence, now));
        }
        "leave" => return ended(lock.held.end(EndedBy::Holder(words.number()), now)),
        "lose" => return ended(lock.held.end(EndedBy::Loss, now)),
        "agreed" => return in_ms(lock.held.lease.renewal_ttl(now)),
        "keys" => return in_ms(lock.held.lease.ttl(words.ms(), now)),
        "longest" => return in_ms(lock.held.longest_ttl()),
        "basis" => return format!("{:?}", lock.held.basis()),
        other => panic!("unknown input {other}"),
    }
    lock.says(now)
}

#[test]
fn told_cases() {
    let mechanisms = [
        Mechanism::UnknownDoesNotExtend,
        Mechanism::LostStaysLost,
        Mechanism::HandOverOnlyWhileHeld,
        Mechanism::HandOverNeedsValidity,
        Mechanism::HandOverKeepsToTerms,
        Mechanism::KeptLocksAreNotHandedOver,
        Mechanism::LastHolderGivesBack,
        Mechanism::ExtensionsCutNoOther,
    ];
    let terms = Terms::renewed(Duration::from_secs(3), Allowance::FOR_DRIFT);
    let until = Time::default().after(terms.ttl);
    let new = || Lock::granted(until, Basis::Majority, Schedule::default(), terms);
    play(include_str!("../../testdata/lease.txt"), &mechanisms, new, step);
}
