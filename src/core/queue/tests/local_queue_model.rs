use std::time::Duration;

use proptest::prelude::*;

use super::super::super::base::{Allowance, Basis};
use super::super::super::hold::Schedule;
use super::super::super::vote::Renewed;
use super::*;

const TTL: Duration = Duration::from_secs(3);
const HELD: Conclusion = Conclusion::Held { remaining: None };

fn terms() -> Terms {
    Terms::renewed(TTL, Allowance::FOR_DRIFT)
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
    GivesBack,
    IsLost,
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
        1 => n.clone().prop_map(Step::Refused),
        1 => n.prop_map(Step::Unreachable),
        4 => Just(Step::GivesBack),
        1 => Just(Step::IsLost),
        2 => (0_u64..60).prop_map(Step::Passes),
    ]
}

/// A caller as its thread sees it.
#[derive(Debug)]
struct Caller {
    ticket: QueueTicket,
    once: bool,
    asks: bool,
    /// The caller sleeps until then, or until somebody wakes it.
    asleep_until: Option<Time>,
    given: bool,
}

/// A process that follows its queue. There is only one lock, and other processes may have it.
struct Process {
    queue: LocalQueue<()>,
    callers: Vec<Caller>,
    now: Time,
    last_ticket: QueueTicket,
    /// The lease of the holder. This is a thread that has left the queue, or a caller that was chosen.
    lease: Option<(QueueTicket, Lease)>,
    /// True if the present holder was handed the lease, and has not taken it yet.
    untaken: bool,
    last_token: (QueueTicket, u64),
}

impl Process {
    fn new() -> Self {
        Self {
            queue: LocalQueue::new(HoldClass::Exclusive, Askers::First),
            callers: Vec::new(),
            now: Time::default(),
            last_ticket: 0,
            lease: None,
            untaken: false,
            last_token: (0, 0),
        }
    }

    fn wake(&mut self, wake: Wake) {
        for caller in &mut self.callers {
            if wake == Wake::All || wake == Wake::One(caller.ticket) {
                caller.asleep_until = None;
            }
        }
    }

    fn held_until(&mut self) -> Option<Time> {
        let now = self.now;
        let (_, lease) = self.lease.as_mut()?;
        (!lease.remaining(now).is_zero()).then(|| lease.valid_until())
    }

    fn look(&mut self, i: usize) {
        let held_until = self.held_until();
        let caller = &mut self.callers[i];
        let given = std::mem::take(&mut caller.given);
        if given {
            assert!(std::mem::take(&mut self.untaken));
        }
        let turn = self.queue.turn(caller.ticket, held_until, self.now);
        assert_eq!(turn == Turn::HandedOver, given && held_until.is_some());
        match turn {
            Turn::HandedOver => _ = self.callers.remove(i),
            Turn::Ask => (caller.asks, caller.asleep_until) = (true, None),
            Turn::Wait(until) => {
                assert!(!caller.once, "it was to be told at once");
                (caller.asks, caller.asleep_until) = (false, Some(until));
            }
            Turn::GiveWay(_) => panic!("nobody waits elsewhere"),
            Turn::Joined | Turn::Reentered | Turn::Lost(_) | Turn::WaitsForItself => {
                panic!("one holder at a time")
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
        assert!(caller.given || !gives_back);
        self.wake(wake);
        if gives_back {
            self.untaken = false;
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        let now = self.now;
        let Some((ticket, lease)) = self.lease.as_mut().filter(|_| !self.untaken) else { return };
        match self.queue.hand_over(*ticket, lease, false, now) {
            Some((chosen, sequence)) => {
                let token = (*ticket, sequence);
                assert!(token > self.last_token && sequence <= LAST_SEQUENCE);
                self.last_token = token;
                assert!(lease.remaining(now) >= TTL / 2);
                let i = self.callers.iter().position(|caller| caller.ticket == chosen);
                let i = i.expect("whoever has left is never chosen");
                let waits = |caller: &Caller| !caller.asks && caller.asleep_until.is_some();
                let passed_by = self.callers[..i].iter().find(|caller| waits(caller));
                assert!(passed_by.is_none(), "{chosen} was served before {passed_by:?}");
                self.untaken = true;
                (self.callers[i].given, self.callers[i].asleep_until) = (true, None);
            }
            None => self.gone(false),
        }
    }

    fn gone(&mut self, lost: bool) {
        let Some((ticket, _)) = self.lease.take() else { return };
        let wake = self.queue.gone(ticket, lost, false, self.now);
        self.wake(wake);
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Enters { once, manual } if self.callers.len() < 6 => {
                self.last_ticket += 1;
                let ticket = self.last_ticket;
                let terms = Terms { renewed: !manual, ..terms() };
                self.queue.enter(ticket, terms, once, ());
                let caller = Caller { ticket, once, asks: false, asleep_until: None, given: false };
                self.callers.push(caller);
                self.look(self.callers.len() - 1);
            }
            Step::Looks(n) if n < self.callers.len() => self.look(n),
            Step::WokenLook => self.woken_look(),
            Step::Leaves(n) if n < self.callers.len() => self.leave(n),
            Step::Wins(n) if self.can_win(n) => {
                self.gone(true);
                let ticket = self.callers.remove(n).ticket;
                let terms = Terms { allowance: Allowance::FOR_DRIFT, ..terms() };
                let until = self.now.after(TTL);
                self.lease = Some((
                    ticket,
                    Lease::new(terms, Basis::Majority, self.now, until, Schedule::default()),
                ));
                // Each grant has a number, which is the ticket in this model.
                self.last_token = (ticket, 0);
                assert_eq!(self.queue.won(ticket, (), self.now), Wake::Nobody);
            }
            Step::Refused(n) if self.callers.get(n).is_some_and(|caller| caller.asks) => {
                let wake = self.queue.concluded(HELD);
                self.wake(wake);
                self.again(n);
            }
            Step::Unreachable(n) if self.callers.get(n).is_some_and(|caller| caller.asks) => {
                let wake = self.queue.concluded(Conclusion::Unreachable);
                self.wake(wake);
                self.again(n);
            }
            Step::GivesBack => self.give_back(),
            Step::IsLost => {
                if let Some((_, lease)) = &mut self.lease {
                    lease.renewed(Renewed::Gone, self.now);
                }
                self.gone(true);
            }
            Step::Passes(ms) => {
                self.now = self.now.after(Duration::from_millis(ms));
            }
            _ => {}
        }
    }

    /// Returns true if the n-th caller asks the nodes, and the lock is free.
    fn can_win(&mut self, n: usize) -> bool {
        let asks = self.callers.get(n).is_some_and(|caller| caller.asks);
        asks && !self.untaken && self.held_until().is_none()
    }

    /// Notes that the n-th caller's attempt has failed. It leaves if it wanted the lock once; if not, it looks again.
    fn again(&mut self, n: usize) {
        if self.callers[n].once {
            self.leave(n);
        } else {
            self.look(n);
        }
    }

    /// Lets all callers look that do not sleep, or whose sleep is over.
    fn woken_look(&mut self) {
        let mut tickets: Vec<_> = self.callers.iter().map(|caller| caller.ticket).collect();
        tickets.retain(|ticket| {
            let caller = self.callers.iter().find(|caller| caller.ticket == *ticket);
            caller.is_some_and(|caller| !caller.asks)
        });
        for ticket in tickets {
            if let Some(i) = self.callers.iter().position(|caller| caller.ticket == ticket)
                && self.callers[i].asleep_until.is_none_or(|until| until <= self.now)
            {
                self.look(i);
            }
        }
    }

    /// From now on each holder gives the lock back. Returns true if every waiter gets it without
    /// being woken by its own look at the clock.
    fn everybody_is_served(&mut self) -> bool {
        for _ in 0..200 {
            if self.callers.is_empty() {
                return true;
            }
            // Callers that were woken look. The clock wakes no sleeping caller, except after a pause.
            self.now = self.now.after(Duration::from_millis(5));
            self.woken_look();
            match self.callers.iter().position(|caller| caller.asks) {
                Some(i) if self.lease.is_none() => self.act(&Step::Wins(i)),
                _ => self.give_back(),
            }
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// In any order of events, there is one holder at a time, in the order of the queue and never one that has left.
    /// Tokens rise, and no caller is forgotten.
    #[test]
    fn the_queue_keeps_its_promises(steps in prop::collection::vec(step(), 1..80)) {
        let mut process = Process::new();
        steps.iter().for_each(|step| process.act(step));
        let left = format!("{:?}", process.queue);
        prop_assert!(process.everybody_is_served(), "{}\n{:?}", left, process.callers);
        process.give_back();
        prop_assert!(process.lease.is_some() || process.queue.is_idle());
    }
}
