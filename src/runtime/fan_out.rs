//! A ballot under way: the nodes' answers go in, and the caller waits for the verdict.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError, select};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::clock;
use crate::core::base::{Time, rounded};
use crate::core::link::Via;
use crate::core::vote::{Ballot, Failure, Round, Shared};
use crate::error::NodeFault;
use crate::kinds::contract::reply::Unexpected;
use crate::node::{Answer, Ask, Carried, Driven, Node, Sink, Undelivered, Value};

/// The time after which a caller that waits for nodes checks for cancellation: the first time, and from then on. Nearly all
/// answers come before the first check. Waiting for several things at once costs more than the rest of the wait, most of all
/// if all callers wait for one of them.
const FIRST_CHECK: Duration = Duration::from_millis(5);
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

/// The time at which the requests of a fan-out are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    AtOnce,
    /// When the nodes' workers are woken, which is up to the caller: together with other fan-outs.
    WithOthers,
}

/// One ballot, shared by the caller and the workers that deliver the votes. It outlives the caller's wait, for late answers.
pub(crate) struct FanOut<B: Ballot> {
    state: Mutex<State<B>>,
    read: fn(&Value) -> Result<B::Vote, Unexpected>,
    names: Arc<[Arc<str>]>,
    started: Time,
    /// Notified when the [`Round`] says that the caller must be woken.
    heard: Condvar,
}

struct State<B> {
    round: Round<B>,
    heard: Vec<HeardOf>,
}

/// The answer of a node so far.
#[derive(Clone)]
enum HeardOf {
    /// The node was not asked.
    NotAsked,
    Silence,
    Vote,
    Fault(NodeFault),
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Decided,
    TimeUp,
    Cancelled,
    Closed,
}

/// The events that can end a wait early, besides the verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupts<'a> {
    /// The caller's own channel; a message or the end of its sender cancels.
    pub(crate) cancel: &'a Receiver<()>,
    /// Ends when the client is closed.
    pub(crate) closed: &'a Receiver<()>,
}

impl Interrupts<'_> {
    /// Returns the event that has happened already, or `TimeUp`.
    pub(crate) fn poll(&self) -> Woken {
        if self.closed.try_recv() != Err(TryRecvError::Empty) {
            Woken::Closed
        } else if self.cancel.try_recv() != Err(TryRecvError::Empty) {
            Woken::Cancelled
        } else {
            Woken::TimeUp
        }
    }

    /// Blocks until the state is `ready`, or until the wait is interrupted. `ready` is called whenever `changed` is
    /// notified. For waits that are usually short: see [`FIRST_CHECK`].
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

    /// Drives connections until `ready`, or until the wait is interrupted. `None`: there is nothing more to drive.
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

    /// Blocks until the verdict, until the wait is interrupted, or at most until `until`.
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
        Arc::new(Self {
            state: Mutex::new(State { round: Round::new(ballot), heard }),
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

    /// Asks all nodes, each with a request of its own.
    pub(crate) fn ask_each(self: &Arc<Self>, nodes: &[Node], ask: impl Fn(&Node) -> Ask) {
        self.ask_some(nodes, Delivery::AtOnce, |_, node| Some(ask(node)));
    }

    /// Asks all nodes; the caller drives the nodes' connections itself, if nobody else uses them.
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

    /// Notes that `nodes` are about to be asked.
    pub(crate) fn expect(&self, nodes: impl IntoIterator<Item = usize>) {
        let mut state = self.state.lock();
        nodes.into_iter().for_each(|node| state.heard[node] = HeardOf::Silence);
    }

    /// Waits until the ballot is decided, at most until `until`.
    pub(crate) fn wait(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        self.wait_driving(&mut None, until, interrupts)
    }

    /// Waits for the verdict like [`wait`](Self::wait), for a caller that drives those connections itself.
    pub(crate) fn wait_driving(
        &self,
        driven: &mut Option<Driven<'_>>,
        until: Time,
        interrupts: Interrupts<'_>,
    ) -> Woken {
        self.wait_until(driven, until, interrupts, |round| round.is_told())
    }

    /// Waits until a further answer has come since the last check, at most until `until`.
    pub(crate) fn wait_for_answer(
        &self,
        driven: &mut Option<Driven<'_>>,
        until: Time,
        interrupts: Interrupts<'_>,
    ) -> Woken {
        self.wait_until(driven, until, interrupts, Round::hear_out)
    }

    /// Waits until the condition is true, on connections that the caller drives itself as far as possible.
    fn wait_until(
        &self,
        driven: &mut Option<Driven<'_>>,
        until: Time,
        interrupts: Interrupts<'_>,
        mut ready: impl FnMut(&mut Round<B>) -> bool,
    ) -> Woken {
        if let Some(links) = driven {
            let is_ready = || ready(&mut self.state.lock().round);
            if let Some(woken) = interrupts.drive_until(links, until, is_ready) {
                return woken;
            }
            links.hand_over();
        }
        let ready = |state: &mut State<B>| ready(&mut state.round);
        interrupts.wait_until(&self.heard, &mut self.state.lock(), until, ready)
    }

    /// Reopens a decided ballot, if it wants that. The next verdict wakes the caller again.
    pub(crate) fn reopen(&self, reopened: impl FnOnce(&mut B) -> bool) -> bool {
        self.state.lock().round.reopen(reopened)
    }

    /// Waits for the verdict, at most until `until`, and is not interrupted.
    pub(crate) fn wait_uninterrupted(&self, driven: &mut Option<Driven<'_>>, until: Time) {
        let never = crossbeam_channel::never();
        self.wait_driving(driven, until, Interrupts { cancel: &never, closed: &never });
    }

    /// Returns the fault of each node that was asked and has given no usable answer so far. A node whose time is not over
    /// counts as not having answered yet.
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

    /// Returns the fault of each node that was asked and has given no usable answer so far. The time for answers ends at
    /// `answer_by`.
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
        f(self.state.lock().round.ballot())
    }
}

impl<B: Ballot + 'static> Sink for FanOut<B> {
    fn sending(&self, node: usize, via: Via) -> bool {
        let now = clock::now();
        self.state.lock().round.ballot().sending(node, via, now)
    }

    fn unsent(&self, node: usize) {
        self.state.lock().round.ballot().unsent(node);
    }

    fn clock_moved(&self, node: usize, seen_at: Time) {
        self.state.lock().round.ballot().clock_moved(node, seen_at);
    }

    fn answer(&self, node: usize, answer: Answer) {
        let vote = answer.and_then(|value| {
            (self.read)(&value).map_err(|Unexpected| self.unexpected(node, &value))
        });
        let (vote, heard) = match vote {
            Ok(vote) => (Ok(vote), HeardOf::Vote),
            Err(undelivered) => (Err(undelivered.failure), HeardOf::Fault(undelivered.fault)),
        };
        let mut state = self.state.lock();
        state.heard[node] = heard;
        let wakes = state.round.answer(node, vote);
        drop(state);
        if wakes {
            self.heard.notify_one();
        }
    }
}
