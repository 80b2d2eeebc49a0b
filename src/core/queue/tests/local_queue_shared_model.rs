//! Model of a process whose callers may hold a lock together. It follows its queue and its locks, in any order of events.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;

use super::super::super::base::{Allowance, Basis, without};
use super::super::super::hold::{Ended, EndedBy, HeldLock, Schedule};
use super::super::super::link::Via;
use super::super::super::vote::{Attempt, Ballot, Extension, Grant, Quorum, Vote};
use super::*;

const TTL: Duration = Duration::from_secs(3);

type Lock = Rc<RefCell<HeldLock<Rc<RefCell<Attempt>>, Rc<RefCell<Extension>>>>>;

impl LocalLease for (QueueTicket, Lock) {
    /// The lease, and the holder's sequence number.
    type Hold = (QueueTicket, u64);
    type Thread = ();

    fn held_until(&self, now: Time) -> Option<Time> {
        self.1.borrow().held_until(now)
    }

    fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<Self::Hold> {
        self.1.borrow_mut().join(terms, sequence, now).then_some((self.0, sequence))
    }

    fn reenter(&self, _: u64, class: HoldClass, now: Time) -> Result<Self::Hold, LossReason> {
        self.1.borrow_mut().reenter(class, now).map(|number| (self.0, number))
    }
}

fn terms(manual: bool) -> Terms {
    Terms { renewed: !manual, ..Terms::renewed(TTL, Allowance::FOR_DRIFT) }
}

/// Returns a lock that the only node has granted at `now`.
fn granted(terms: Terms, now: Time) -> Lock {
    let allowance = terms.allowance;
    let mut attempt = Attempt::new(1, now, now.after(TTL), TTL, allowance);
    assert!(attempt.sending(0, Via::unfenced(1), now));
    attempt.vote(0, Vote::Granted(1));
    let grant = Grant {
        valid_until: allowance.valid_until(now, now, TTL),
        number: 1,
        basis: Basis::Majority,
        quorum: Quorum::Reached,
        started: now,
        known_at: now,
        refused_before: false,
    };
    let attempt = Rc::new(RefCell::new(attempt));
    Rc::new(RefCell::new(HeldLock::new(
        attempt,
        HoldClass::Shared,
        terms,
        &grant,
        Schedule::default(),
        1,
        TTL,
    )))
}

/// An event in the life of a queue.
#[derive(Clone, Debug)]
enum Step {
    Enters {
        once: bool,
        manual: bool,
    },
    /// The n-th caller looks; or all callers that were woken look.
    Looks(usize),
    WokenLook,
    /// The n-th caller gives up waiting.
    Leaves(usize),
    /// The n-th caller, if it asks: it gets the lock; is told that somebody else has it; cannot reach the nodes.
    Wins(usize),
    Refused(usize),
    Unreachable(usize),
    /// The n-th holder gives its lease back.
    GivesBack(usize),
    /// The n-th lease is lost: unnoticed, or reported to the queue.
    Ends(usize),
    IsLost(usize),
    /// A node announces a waiting writer.
    WriterWaits,
    Passes(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0_usize..6;
    prop_oneof![
        4 => (prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(once, manual)| Step::Enters { once, manual }),
        2 => n.clone().prop_map(Step::Looks),
        4 => Just(Step::WokenLook),
        1 => n.clone().prop_map(Step::Leaves),
        3 => n.clone().prop_map(Step::Wins),
        2 => n.clone().prop_map(Step::Refused),
        1 => n.clone().prop_map(Step::Unreachable),
        4 => n.clone().prop_map(Step::GivesBack),
        1 => n.clone().prop_map(Step::Ends),
        1 => n.prop_map(Step::IsLost),
        1 => Just(Step::WriterWaits),
        2 => (0_u64..60).prop_map(Step::Passes),
    ]
}

/// A caller as its thread sees it.
#[derive(Debug)]
struct Caller {
    ticket: QueueTicket,
    once: bool,
    manual: bool,
    asks: bool,
    /// True if a writer was announced since the caller began to ask.
    writer_told: bool,
    /// The caller sleeps until then, or until somebody wakes it.
    asleep_until: Option<Time>,
}

impl Caller {
    /// Returns true if others may have a lease together with this caller, and wait for it to get one.
    fn is_waited_for(&self) -> bool {
        !self.once && !self.manual
    }
}

struct Process {
    queue: LocalQueue<(), (QueueTicket, Lock)>,
    callers: Vec<Caller>,
    now: Time,
    last_ticket: QueueTicket,
    /// The locks that were won, with their leases' tickets.
    locks: Vec<(QueueTicket, Lock)>,
    /// The guards that are there: the lease, and the holder's sequence number.
    guards: Vec<(QueueTicket, u64)>,
    /// Every holder that there was, since each has its own token.
    tokens: BTreeSet<(QueueTicket, u64)>,
    /// The leases that were given back to the nodes, or reported as lost.
    over: BTreeSet<QueueTicket>,
    /// The leases for whose end a writer waits; and for each lease the last caller that had come when it was granted.
    closed: BTreeSet<QueueTicket>,
    last_at_grant: BTreeMap<QueueTicket, QueueTicket>,
    /// True if the last attempt showed that too few nodes answer.
    in_trouble: bool,
}

impl Process {
    fn new() -> Self {
        Self {
            queue: LocalQueue::new(HoldClass::Shared, Askers::First),
            callers: Vec::new(),
            now: Time::default(),
            last_ticket: 0,
            locks: Vec::new(),
            guards: Vec::new(),
            tokens: BTreeSet::new(),
            over: BTreeSet::new(),
            closed: BTreeSet::new(),
            last_at_grant: BTreeMap::new(),
            in_trouble: false,
        }
    }

    fn wake(&mut self, wake: Wake) {
        for caller in &mut self.callers {
            if wake == Wake::All || wake == Wake::One(caller.ticket) {
                caller.asleep_until = None;
            }
        }
    }

    fn lock(&self, lease: QueueTicket) -> Lock {
        let lock = self.locks.iter().find(|(ticket, _)| *ticket == lease);
        lock.expect("it was won").1.clone()
    }

    /// Notes a new holder, which has its own token.
    fn gets(&mut self, lease: QueueTicket, sequence: u64) {
        assert!(sequence <= LAST_SEQUENCE && self.tokens.insert((lease, sequence)));
        self.guards.push((lease, sequence));
    }

    fn look(&mut self, i: usize) {
        let ticket = self.callers[i].ticket;
        let (place, hold) = self.queue.look(ticket, None, self.now);
        assert_eq!(place.turn == Turn::Joined, hold.is_some());
        if let Some((lease, sequence)) = hold {
            let left = self.lock(lease).borrow().remaining(self.now);
            assert!(left >= TTL / 2 && !self.callers[i].manual);
            assert!(!self.over.contains(&lease), "it was given back before");
            assert!(self.guards.iter().any(|guard| guard.0 == lease), "nobody holds it");
            let came_before = ticket <= self.last_at_grant[&lease];
            assert!(came_before || !self.closed.contains(&lease), "a writer waits for its end");
            self.gets(lease, sequence);
        }
        let asked_for = self.callers[..i].iter().any(Caller::is_waited_for) && !self.in_trouble;
        let caller = &mut self.callers[i];
        match place.turn {
            Turn::Joined => self.leave(i),
            Turn::Ask => {
                assert!(!asked_for || !caller.is_waited_for(), "another one asks for it");
                (caller.asks, caller.writer_told, caller.asleep_until) = (true, false, None);
            }
            Turn::Wait(until) => {
                assert!(!caller.once, "it was to be told at once");
                assert!(asked_for && caller.is_waited_for(), "nobody asks for it");
                (caller.asks, caller.asleep_until) = (false, Some(until));
            }
            Turn::HandedOver | Turn::GiveWay(_) => panic!("nobody waits, here or elsewhere"),
            Turn::Reentered | Turn::Lost(_) | Turn::WaitsForItself => {
                panic!("no thread takes it again")
            }
            Turn::Held => {
                assert!(caller.once);
                self.leave(i);
            }
        }
    }

    fn leave(&mut self, i: usize) {
        let caller = self.callers.remove(i);
        let (gives_back, wake) = self.queue.leave(caller.ticket);
        assert!(!gives_back);
        self.wake(wake);
    }

    fn wins(&mut self, i: usize) {
        let Caller { ticket, manual, writer_told, .. } = self.callers.remove(i);
        self.in_trouble = false;
        self.last_at_grant.insert(ticket, self.last_ticket);
        if writer_told {
            self.closed.insert(ticket);
        }
        let lock = granted(terms(manual), self.now);
        self.locks.push((ticket, lock.clone()));
        self.gets(ticket, 0);
        let wake = self.queue.won(ticket, (ticket, lock), self.now);
        self.wake(wake);
    }

    fn give_back(&mut self, i: usize) {
        let (lease, sequence) = self.guards.remove(i);
        let lock = self.lock(lease);
        let choose = |state: &mut _| self.queue.hand_over(lease, state, false, self.now);
        assert_eq!(lock.borrow_mut().hand_over(sequence, choose), None, "nobody waits for it");
        let others = self.guards.iter().any(|guard| guard.0 == lease);
        let ended = lock.borrow_mut().end(EndedBy::Holder(sequence), self.now);
        match ended {
            Ended::Before => assert!(self.over.contains(&lease), "nobody gives it back"),
            Ended::OthersHold { .. } => assert!(others, "nobody is left to give it back"),
            Ended::Now(ending) => {
                assert!(!others, "others hold it");
                self.gone(lease, ending.lost.is_some());
            }
        }
    }

    fn lose(&mut self, i: usize) {
        let (lease, lock) = self.locks[i].clone();
        lock.borrow_mut().handle_suspended();
        let ended = lock.borrow_mut().end(EndedBy::Loss, self.now);
        match ended {
            Ended::Before => assert!(self.over.contains(&lease)),
            Ended::OthersHold { .. } => panic!("it is lost for all"),
            Ended::Now(_) => self.gone(lease, true),
        }
    }

    fn gone(&mut self, lease: QueueTicket, lost: bool) {
        assert!(self.over.insert(lease), "it is given back once");
        let wake = self.queue.gone(lease, lost, false, self.now);
        self.wake(wake);
    }

    fn act(&mut self, step: &Step) {
        let asks = |n: usize| self.callers.get(n).is_some_and(|caller| caller.asks);
        match *step {
            Step::Enters { once, manual } if self.callers.len() < 6 => {
                self.last_ticket += 1;
                let ticket = self.last_ticket;
                self.queue.enter(ticket, terms(manual), once, ());
                let caller = Caller {
                    ticket,
                    once,
                    manual,
                    writer_told: false,
                    asks: false,
                    asleep_until: None,
                };
                self.callers.push(caller);
                self.look(self.callers.len() - 1);
            }
            Step::Looks(n) if n < self.callers.len() => self.look(n),
            Step::WokenLook => self.woken_look(),
            Step::Leaves(n) if n < self.callers.len() => self.leave(n),
            Step::Wins(n) if asks(n) => self.wins(n),
            Step::Refused(n) if asks(n) => {
                self.concluded(n, Conclusion::Held { remaining: None });
            }
            Step::Unreachable(n) if asks(n) => self.concluded(n, Conclusion::Unreachable),
            Step::GivesBack(n) if n < self.guards.len() => self.give_back(n),
            Step::Ends(n) if n < self.locks.len() => {
                self.locks[n].1.borrow_mut().handle_suspended();
            }
            Step::IsLost(n) if n < self.locks.len() => self.lose(n),
            Step::WriterWaits => {
                self.queue.writer_waits(self.now);
                self.closed.extend(self.locks.iter().map(|lock| lock.0));
                self.callers.iter_mut().for_each(|caller| caller.writer_told = true);
            }
            Step::Passes(ms) => self.now = self.now.after(Duration::from_millis(ms)),
            _ => {}
        }
    }

    /// Notes that the n-th caller's attempt has failed. It leaves if it wanted the lock once; if not, it looks again.
    fn concluded(&mut self, n: usize, conclusion: Conclusion) {
        self.in_trouble = conclusion == Conclusion::Unreachable;
        let wake = self.queue.concluded(conclusion);
        self.wake(wake);
        self.callers[n].asks = false;
        if self.callers[n].once {
            self.leave(n);
        } else {
            self.look(n);
        }
    }

    /// Lets all callers look that do not sleep, or whose sleep is over.
    fn woken_look(&mut self) {
        let waits = self.callers.iter().filter(|caller| !caller.asks);
        for ticket in waits.map(|caller| caller.ticket).collect::<Vec<_>>() {
            if let Some(i) = self.callers.iter().position(|caller| caller.ticket == ticket)
                && self.callers[i].asleep_until.is_none_or(|until| until <= self.now)
            {
                self.look(i);
            }
        }
    }

    /// From now on nodes grant all requests, and nobody gives anything back. Returns true if every waiter gets the lock without
    /// being woken by its own look at the clock.
    fn everybody_is_served(&mut self) -> bool {
        for _ in 0..40 {
            self.now = self.now.after(Duration::from_millis(5));
            self.woken_look();
            if let Some(i) = self.callers.iter().position(|caller| caller.asks) {
                self.wins(i);
            }
        }
        self.callers.is_empty()
    }
}

fn run(steps: &[Step]) {
    let mut process = Process::new();
    steps.iter().for_each(|step| process.act(step));
    let left = format!("{:?}", process.queue);
    assert!(process.everybody_is_served(), "{left}\n{:?}", process.callers);
    while !process.guards.is_empty() {
        process.give_back(0);
    }
    assert_eq!(process.over.len(), process.locks.len(), "each is given back, or told to be lost");
    assert!(process.queue.is_idle());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// In any order of events, nobody joins a lease that is over, or for whose end a writer waited when the caller came. No token
    /// is given twice. If callers can share a lease, only one of them asks, as long as it reaches the nodes, and nobody waits for
    /// anything else. Each lease is given back once, by its last holder.
    #[test]
    fn the_queue_keeps_its_promises(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps);
    }
}

/// The model fails without any of these rules.
#[test]
fn without_the_rules_of_shared_leases_the_model_fails() {
    let one = Step::Enters { once: false, manual: false };
    let manual = Step::Enters { once: false, manual: true };
    let granted = [one.clone(), Step::Wins(0)];
    let and = |steps: &[Step]| [&granted, steps].concat();
    let cases = [
        (Mechanism::LastHolderGivesBack, and(std::slice::from_ref(&one))),
        (Mechanism::SharersDoNotWait, and(&[manual])),
        (Mechanism::SharersWaitForAskers, vec![one.clone(), one.clone()]),
        (Mechanism::WritersEndJoins, and(&[Step::WriterWaits, one.clone()])),
        (Mechanism::WritersEndJoins, vec![one.clone(), Step::WriterWaits, Step::Wins(0), one]),
    ];
    for (mechanism, steps) in cases {
        run(&steps);
        let fails = without(&[mechanism], || std::panic::catch_unwind(|| run(&steps)).is_err());
        assert!(fails, "{mechanism:?}");
    }
}
