//! Told cases of the local queues, in `testdata/queue.txt`: the queue for one name, and the knowledge about the other
//! processes that want it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::super::super::base::Basis;
use super::super::super::base::told_cases::{Words, in_ms, play};
use super::super::super::hold::Schedule;
use super::super::super::vote::Renewed;
use super::super::{LocalQueues, Passed};
use super::*;

/// A lease for queues of one holder at a time. The tests set themselves until when the lock is held.
impl LocalLease for () {
    type Hold = ();
    type Thread = ();

    fn held_until(&self, _: Time) -> Option<Time> {
        None
    }

    fn join(&self, _: Terms, _: u64, _: Time) -> Option<()> {
        None
    }

    fn reenter(&self, _: u64, _: HoldClass, _: Time) -> Result<(), LossReason> {
        Ok(())
    }
}

/// A lease without the lock around it. A hold is the sequence number of its holder.
impl LocalLease for Rc<RefCell<Lease>> {
    type Hold = u64;
    type Thread = ();

    fn held_until(&self, now: Time) -> Option<Time> {
        let lease = self.borrow();
        (!lease.remaining(now).is_zero()).then(|| lease.valid_until())
    }

    fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<u64> {
        self.borrow_mut().can_be_joined(terms, now).then_some(sequence)
    }

    fn reenter(&self, sequence: u64, _: HoldClass, now: Time) -> Result<u64, LossReason> {
        self.borrow_mut().loss(now).map_or(Ok(sequence), Err)
    }
}

const KEY: &str = "orders/42";

/// The threads of one process that want one lock.
struct Process {
    /// The driver's data for each caller is its ticket.
    queues: LocalQueues<&'static str, QueueTicket, Rc<RefCell<Lease>>>,
    class: HoldClass,
    askers: Askers,
    last: QueueTicket,
    /// The terms on which each caller wants the lock.
    terms: HashMap<QueueTicket, Terms>,
    /// All leases that were won.
    leases: HashMap<QueueTicket, Rc<RefCell<Lease>>>,
}

impl Process {
    fn new(class: HoldClass, alone: bool) -> Self {
        let (terms, leases) = (HashMap::new(), HashMap::new());
        let (queues, askers) = (LocalQueues::new(alone), Askers::First);
        Self { queues, class, askers, last: 0, terms, leases }
    }

    fn enter(&mut self, terms: Terms, once: bool) -> QueueTicket {
        self.last += 1;
        self.terms.insert(self.last, terms);
        let ticket = self.queues.enter(&KEY, self.class, self.askers, terms, once, self.last);
        assert_eq!(ticket, self.last, "callers have the numbers 1, 2, 3, ..");
        ticket
    }

    fn look(&mut self, ticket: QueueTicket, now: Time) -> String {
        let (Place { turn, is_held, comes_first }, Passed { takes, gives_back }) =
            self.queues.look(&KEY, ticket, None, now);
        assert_eq!(takes.is_some(), matches!(turn, Turn::Joined | Turn::HandedOver));
        let at = |time: Time| in_ms(time.since(Time::default()));
        let held = if is_held { ", held" } else { "" };
        let over = if gives_back.is_some() { "gives it back, " } else { "" };
        match (turn, takes) {
            (Turn::HandedOver, _) => "handed over".to_owned(),
            (Turn::Joined, sequence) => format!("joined as {}{held}", sequence.unwrap_or_default()),
            (Turn::Ask, _) => {
                let behind = if comes_first { "" } else { ", behind others" };
                format!("{over}ask{held}{behind}")
            }
            (Turn::Wait(until), _) => format!("{over}wait until {}{held}", at(until)),
            (Turn::GiveWay(until), _) => format!("give way until {}{held}", at(until)),
            (Turn::Held, _) => format!("refused{held}"),
            (Turn::Reentered | Turn::Lost(_) | Turn::WaitsForItself, _) => {
                panic!("no thread takes it again")
            }
        }
    }

    fn won(&mut self, ticket: QueueTicket, basis: Basis, refused_before: bool, now: Time) -> Wake {
        let terms = self.terms[&ticket];
        let lease = Lease::new(terms, basis, now, now.after(terms.ttl), Schedule::default());
        let lease = Rc::new(RefCell::new(lease));
        self.leases.insert(ticket, lease.clone());
        self.queues.won(&KEY, ticket, refused_before, lease, now)
    }

    fn hand_over(&mut self, lease: QueueTicket, now: Time) -> Option<(QueueTicket, u64)> {
        let mut state = self.leases[&lease].borrow_mut();
        let (ticket, sequence) = self.queues.hand_over(&KEY, lease, &mut state, now)?;
        assert_eq!(self.queues.handed(&KEY, ticket, sequence), None, "it waits");
        Some((ticket, sequence))
    }

    fn wakes(&mut self, wake: Wake) -> String {
        let woken: Vec<_> = self.queues.woken(&KEY, wake).map(u64::to_string).collect();
        if woken.is_empty() {
            "wakes nobody".to_owned()
        } else {
            format!("wakes {}", woken.join(" "))
        }
    }
}

fn step(process: &mut Process, words: &mut Words<'_>) -> String {
    let now = words.time();
    let done = || "done".to_owned();
    let wake = match words.word() {
        "shared" => {
            process.class = HoldClass::Shared;
            return done();
        }
        "alone" => {
            *process = Process::new(process.class, true);
            return done();
        }
        "askers" => {
            process.askers = Askers::AtMost(words.number().try_into().expect("few"));
            return done();
        }
        "enter" => {
            let (ticket, terms, once) = (words.number(), words.terms(), words.has("once"));
            assert_eq!(process.enter(terms, once), ticket);
            return process.look(ticket, now);
        }
        "look" => return process.look(words.number(), now),
        "won" => {
            let basis = if words.has("first-node") { Basis::FirstNode } else { Basis::Majority };
            let refused_before = words.has("refused-before");
            process.won(words.number(), basis, refused_before, now)
        }
        "concluded" => {
            let conclusion = match words.word() {
                "held" => Conclusion::Held { remaining: None },
                "unreachable" => Conclusion::Unreachable,
                other => panic!("unknown conclusion {other}"),
            };
            process.queues.concluded(&KEY, conclusion)
        }
        "renewed" => {
            let lease = process.leases[&words.number()].clone();
            lease.borrow_mut().renewed(Renewed::Until(words.time(), Basis::Majority), now);
            return done();
        }
        "unknown" => {
            process.leases[&words.number()].borrow_mut().renewed(Renewed::Unknown, now);
            return done();
        }
        "denied" => {
            process.leases[&words.number()].borrow_mut().renewed(Renewed::Gone, now);
            return done();
        }
        "hand-over" => {
            return match process.hand_over(words.number(), now) {
                Some((ticket, sequence)) => format!("{ticket} as {sequence}"),
                None => "nobody".to_owned(),
            };
        }
        "gone" => {
            let (lease, lost) = (words.number(), words.has("lost"));
            process.queues.gone(&KEY, lease, &format!("owner-{lease}"), lost, now)
        }
        "leave" => {
            let (gives_back, wake) = process.queues.leave(&KEY, words.number());
            let wakes = process.wakes(wake);
            return if gives_back.is_some() { format!("gives it back, {wakes}") } else { wakes };
        }
        "others" => {
            process.queues.heard(&KEY, words.number().try_into().expect("few"), now);
            return done();
        }
        "writer-waits" => {
            process.queues.writer_waits(&KEY, now);
            return done();
        }
        "gave-way" => {
            let heard = match words.word() {
                "heard" => true,
                "in-vain" => false,
                other => panic!("unknown end {other}"),
            };
            process.queues.giving_way_is_over(&KEY, heard);
            return done();
        }
        "known" => {
            let others = process.queues.others(&KEY, now);
            let owner = process.queues.last_owner(&KEY);
            return format!("{others} others, last {}", owner.as_deref().unwrap_or("nobody"));
        }
        "queues" => return process.queues.len().to_string(),
        other => panic!("unknown input {other}"),
    };
    process.wakes(wake)
}

#[test]
fn told_cases() {
    let mechanisms = [
        Mechanism::ChosenWhoLeavesPassesOn,
        Mechanism::TurnsEnd,
        Mechanism::SharersDoNotWait,
        Mechanism::SharersWaitForAskers,
        Mechanism::WritersEndJoins,
        Mechanism::GivesWay,
        Mechanism::FirstCallersReserve,
    ];
    let new = || Process::new(HoldClass::Exclusive, false);
    play(include_str!("../../testdata/queue.txt"), &mechanisms, new, step);
}

const LAST: QueueTicket = LAST_SEQUENCE;

fn renewed_for_3_s() -> Terms {
    let ttl = Duration::from_secs(3);
    Terms::renewed(ttl, super::super::super::base::Allowance::FOR_DRIFT)
}

/// A process whose caller 1 has had the lock since the start.
fn held_by_1(class: HoldClass) -> Process {
    let mut process = Process::new(class, false);
    process.enter(renewed_for_3_s(), false);
    assert_eq!(process.look(1, Time::default()), "ask");
    process.won(1, Basis::Majority, false, Time::default());
    process
}

#[test]
fn a_lease_is_handed_over_as_often_as_there_are_sequences_and_no_more() {
    let (mut process, now) = (held_by_1(HoldClass::Exclusive), Time::default());
    for sequence in 1..=LAST {
        let ticket = process.enter(renewed_for_3_s(), false);
        assert_eq!(process.look(ticket, now), "wait until 1000, held");
        assert_eq!(process.hand_over(1, now), Some((ticket, sequence)));
        assert_eq!(process.look(ticket, now), "handed over");
    }
    let ticket = process.enter(renewed_for_3_s(), false);
    process.look(ticket, now);
    assert_eq!(process.hand_over(1, now), None);
}

#[test]
fn a_lease_is_joined_as_often_as_there_are_sequences_and_no_more() {
    let (mut process, now) = (held_by_1(HoldClass::Shared), Time::default());
    for sequence in 1..=LAST {
        let ticket = process.enter(renewed_for_3_s(), false);
        assert_eq!(process.look(ticket, now), format!("joined as {sequence}, held"));
    }
    let ticket = process.enter(renewed_for_3_s(), false);
    assert_eq!(process.look(ticket, now), "ask, held");
    process.won(ticket, Basis::Majority, false, now);
    let ticket = process.enter(renewed_for_3_s(), false);
    assert_eq!(process.look(ticket, now), "joined as 1, held", "that is another lease");
}
