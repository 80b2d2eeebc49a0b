//! A ballot on its way: the nodes' answers go in, the caller waits for the verdict.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError, select};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::clock;
use crate::core::base::{Time, rounded};
use crate::core::link::Via;
use crate::core::vote::{Ballot, Failure, Shared};
use crate::error::NodeFault;
use crate::kinds::contract::reply::Unexpected;
use crate::node::{Answer, Ask, Carried, Driven, Node, Sink, Undelivered, Value};

/// The time between two looks of a caller that waits for nodes whether it was cancelled, at first and from then on. All but
/// few answers are there before; and to wait for several things at once costs more than the rest of the wait, most of
/// all where all callers wait for one of them.
const FIRST_CHECK: Duration = Duration::from_millis(5);
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

/// When the requests of a fan-out go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    AtOnce,
    /// When the nodes' workers are woken, which the caller still has to do: with those of other fan-outs.
    WithOthers,
}

/// One ballot, shared by the caller and the workers that hand in the votes. It lives on after the
/// caller has left, for answers that come late.
pub(crate) struct FanOut<B: Ballot> {
    state: Mutex<RoundState<B>>,
    read: fn(&Value) -> Result<B::Vote, Unexpected>,
    names: Arc<[Arc<str>]>,
    started: Time,
    /// Notified once, when the verdict is there: one wake-up of the caller, not one a vote. Behind the verdict with each
    /// answer, if the caller waits for further ones.
    heard: Condvar,
}

struct RoundState<B> {
    ballot: B,
    heard: Vec<HeardOf>,
    /// The verdict is there.
    told: bool,
    /// The caller waits for further answers.
    hears_out: bool,
    /// An answer has come since the caller looked.
    is_news: bool,
}

/// What has been heard of a node.
#[derive(Clone)]
enum HeardOf {
    /// Nothing, and nobody asked.
    NotAsked,
    Silence,
    Vote,
    Fault(NodeFault),
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Decided,
    TimeUp,
    Cancelled,
    Closed,
}

/// What can end a wait early, besides the verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupts<'a> {
    /// The caller's own; a message or the end of its sender cancels.
    pub(crate) cancel: &'a Receiver<()>,
    /// Ends when the client is closed.
    pub(crate) closed: &'a Receiver<()>,
}

impl Interrupts<'_> {
    /// What has happened already.
    pub(crate) fn poll(&self) -> Woken {
        if self.closed.try_recv() != Err(TryRecvError::Empty) {
            Woken::Closed
        } else if self.cancel.try_recv() != Err(TryRecvError::Empty) {
            Woken::Cancelled
        } else {
            Woken::TimeUp
        }
    }

    /// Blocks until the state is `ready`, which is looked at whenever `changed` is notified, or until something happens. It
    /// is for waits that are short as a rule: see [`FIRST_CHECK`].
    pub(crate) fn wait_until<T>(
        &self,
        changed: &Condvar,
        state: &mut MutexGuard<'_, T>,
        until: Time,
        mut ready: impl FnMut(&mut T) -> bool,
    ) -> Woken {
        let mut turn = FIRST_CHECK;
        loop {
            if ready(state) {
                return Woken::Decided;
            }
            let Some(slice) = clock::slice(until) else { return Woken::TimeUp };
            if changed.wait_for(state, slice.min(turn)).timed_out() && !ready(state) {
                match self.poll() {
                    Woken::TimeUp => turn = BETWEEN_CHECKS,
                    interrupted => return interrupted,
                }
            }
        }
    }

    /// Drives connections until it is `ready`, or until something happens. `None`: there is nothing more to drive.
    pub(crate) fn drive_until(
        &self,
        driven: &mut Driven<'_>,
        until: Time,
        mut ready: impl FnMut() -> bool,
    ) -> Option<Woken> {
        let mut turn = FIRST_CHECK;
        loop {
            if ready() {
                return Some(Woken::Decided);
            }
            let Some(slice) = clock::slice(until) else {
                // This thread may not have run for a while.
                let is_ready = driven.take_in() && ready();
                return Some(if is_ready { Woken::Decided } else { Woken::TimeUp });
            };
            match driven.carry_on(slice.min(turn)) {
                Carried::Further => {}
                Carried::Over => return ready().then_some(Woken::Decided),
                Carried::Nothing => match self.poll() {
                    Woken::TimeUp => turn = BETWEEN_CHECKS,
                    interrupted => return Some(interrupted),
                },
            }
        }
    }

    /// Blocks until `until`, or until something happens.
    pub(crate) fn wait(&self, verdict: &Receiver<()>, until: Time) -> Woken {
        while let Some(slice) = clock::slice(until) {
            select! {
                recv(verdict) -> _ => return Woken::Decided,
                recv(self.cancel) -> _ => return Woken::Cancelled,
                recv(self.closed) -> _ => return Woken::Closed,
                default(slice) => {}
            }
        }
        Woken::TimeUp
    }
}

impl<B: Ballot + 'static> FanOut<B> {
    pub(crate) fn new(
        ballot: B,
        read: fn(&Value) -> Result<B::Vote, Unexpected>,
        names: &Arc<[Arc<str>]>,
    ) -> Arc<Self> {
        let heard = vec![HeardOf::NotAsked; names.len()];
        let state = RoundState { ballot, heard, told: false, hears_out: false, is_news: false };
        Arc::new(Self {
            state: Mutex::new(state),
            read,
            names: names.clone(),
            started: clock::now(),
            heard: Condvar::new(),
        })
    }

    /// Asks all nodes.
    pub(crate) fn ask(self: &Arc<Self>, nodes: &[Node], ask: &Ask) {
        self.ask_each(nodes, |_| ask.clone());
    }

    /// Asks all nodes, each one something of its own.
    pub(crate) fn ask_each(self: &Arc<Self>, nodes: &[Node], ask: impl Fn(&Node) -> Ask) {
        self.ask_some(nodes, Delivery::AtOnce, |_, node| Some(ask(node)));
    }

    /// The same; the caller drives the nodes' connections itself, if nobody else uses them.
    #[must_use]
    pub(crate) fn ask_driving<'a>(
        self: &Arc<Self>,
        nodes: &'a [Node],
        ask: impl Fn(usize, &Node) -> Option<Ask>,
    ) -> Option<Driven<'a>> {
        let asks: Vec<_> = nodes.iter().enumerate().map(|(i, node)| ask(i, node)).collect();
        self.expect((0..nodes.len()).filter(|node| asks[*node].is_some()));
        let mut driven = Driven::of(nodes, |node| asks[node].is_some());
        for (node, ask) in nodes.iter().zip(asks) {
            match (ask, &mut driven) {
                (None, _) => {}
                (Some(ask), Some(driven)) => driven.ask(node, ask, self),
                (Some(ask), None) => node.ask(ask, self),
            }
        }
        driven
    }

    /// Asks those nodes for which there is a request.
    pub(crate) fn ask_some(
        self: &Arc<Self>,
        nodes: &[Node],
        delivery: Delivery,
        ask: impl Fn(usize, &Node) -> Option<Ask>,
    ) {
        let asks: Vec<_> = nodes.iter().enumerate().map(|(i, node)| ask(i, node)).collect();
        self.expect((0..nodes.len()).filter(|node| asks[*node].is_some()));
        for (node, ask) in nodes.iter().zip(asks) {
            match (ask, delivery) {
                (None, _) => {}
                (Some(ask), Delivery::AtOnce) => node.ask(ask, self),
                (Some(ask), Delivery::WithOthers) => node.ask_with_others(ask, self),
            }
        }
    }

    /// `nodes` are about to be asked.
    pub(crate) fn expect(&self, nodes: impl IntoIterator<Item = usize>) {
        let mut state = self.state.lock();
        nodes.into_iter().for_each(|node| state.heard[node] = HeardOf::Silence);
    }

    /// Waits until the ballot is decided, at most until `until`.
    pub(crate) fn wait(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        self.wait_driving(&mut None, until, interrupts)
    }

    /// The same, for a caller that drives those connections itself.
    pub(crate) fn wait_driving(
        &self,
        driven: &mut Option<Driven<'_>>,
        until: Time,
        interrupts: Interrupts<'_>,
    ) -> Woken {
        self.wait_until(driven, until, interrupts, |state| state.told)
    }

    /// Waits until a further answer has come since the last look, at most until `until`.
    pub(crate) fn wait_for_answer(
        &self,
        driven: &mut Option<Driven<'_>>,
        until: Time,
        interrupts: Interrupts<'_>,
    ) -> Woken {
        self.wait_until(driven, until, interrupts, |state| {
            state.hears_out = true;
            std::mem::take(&mut state.is_news)
        })
    }

    /// Waits until that is so; on connections that the caller drives itself, as far as that goes.
    fn wait_until(
        &self,
        driven: &mut Option<Driven<'_>>,
        until: Time,
        interrupts: Interrupts<'_>,
        mut ready: impl FnMut(&mut RoundState<B>) -> bool,
    ) -> Woken {
        if let Some(links) = driven {
            let is_ready = || ready(&mut self.state.lock());
            if let Some(woken) = interrupts.drive_until(links, until, is_ready) {
                return woken;
            }
            links.hand_over();
        }
        interrupts.wait_until(&self.heard, &mut self.state.lock(), until, ready)
    }

    /// Has a ballot that was decided go on, if it wants to; the next verdict is told anew.
    pub(crate) fn reopen(&self, reopened: impl FnOnce(&mut B) -> bool) -> bool {
        let mut state = self.state.lock();
        let goes_on = reopened(&mut state.ballot);
        state.told &= !goes_on;
        state.hears_out &= !goes_on;
        goes_on
    }

    /// Waits until the ballot is decided, at most until `until`, whatever else happens.
    pub(crate) fn wait_uninterrupted(&self, driven: &mut Option<Driven<'_>>, until: Time) {
        let never = crossbeam_channel::never();
        self.wait_driving(driven, until, Interrupts { cancel: &never, closed: &never });
    }

    /// The fault of each node that was asked and has given no usable answer so far. One whose time is not over has not answered
    /// yet.
    pub(crate) fn faults_so_far(&self, nodes: &[Node], answer_by: Time) -> Vec<NodeFault> {
        let (mut faults, waited) =
            (self.faults(nodes, answer_by), clock::now().since(self.started));
        for (i, heard) in self.state.lock().heard.iter().enumerate() {
            let node = &self.names[i];
            let is_told = faults.iter().any(|fault| fault.node() == &**node);
            if matches!(heard, HeardOf::Silence) && !is_told {
                let what = format!("no answer so far, after {}", rounded(waited));
                faults.push(NodeFault::new(node, what));
            }
        }
        faults
    }

    /// What was wrong with each node that was asked and gave no usable answer so far, out of the time
    /// until `answer_by`.
    pub(crate) fn faults(&self, nodes: &[Node], answer_by: Time) -> Vec<NodeFault> {
        let now = clock::now();
        let (waited, late) = (now.since(self.started), answer_by <= now);
        let heard = self.state.lock().heard.clone();
        let faults = heard.into_iter().zip(nodes).filter_map(|(heard, node)| match heard {
            HeardOf::NotAsked | HeardOf::Vote => None,
            HeardOf::Silence => node.silence(waited, late),
            HeardOf::Fault(fault) => Some(fault),
        });
        faults.collect()
    }

    fn unexpected(&self, node: usize, value: &Value) -> Undelivered {
        let what = format!(
            "the script was answered with {value}, which it never returns; is it a proxy, or something \
             other than Redis?"
        );
        Undelivered { failure: Failure::Unknown, fault: NodeFault::new(&self.names[node], what) }
    }
}

impl<B: Ballot> Shared<B> for Arc<FanOut<B>> {
    fn with<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        f(&mut self.state.lock().ballot)
    }
}

impl<B: Ballot + 'static> Sink for FanOut<B> {
    fn sending(&self, node: usize, via: Via) -> bool {
        let now = clock::now();
        self.state.lock().ballot.sending(node, via, now)
    }

    fn unsent(&self, node: usize) {
        self.state.lock().ballot.unsent(node);
    }

    fn clock_moved(&self, node: usize, seen_at: Time) {
        self.state.lock().ballot.clock_moved(node, seen_at);
    }

    fn answer(&self, node: usize, answer: Answer) {
        let vote = answer.and_then(|value| {
            (self.read)(&value).map_err(|Unexpected| self.unexpected(node, &value))
        });
        let mut state = self.state.lock();
        match vote {
            Ok(vote) => {
                state.ballot.vote(node, vote);
                state.heard[node] = HeardOf::Vote;
            }
            Err(undelivered) => {
                state.ballot.fail(node, undelivered.failure);
                state.heard[node] = HeardOf::Fault(undelivered.fault);
            }
        }
        state.is_news = true;
        let is_decided = !state.told && state.ballot.decided();
        state.told |= is_decided;
        let wakes = is_decided || state.hears_out;
        drop(state);
        if wakes {
            self.heard.notify_one();
        }
    }
}
