//! Who waits for which lock, and what the nodes tell them: releases come in, waiters are woken.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never};
use parking_lot::Mutex;

use crate::clock;
use crate::error::NodeFault;
use crate::node::{Changes, Listeners, Node};
use crate::observe;
use crate::quorum::{Acquisition, Attempt, Cue, Mechanisms, Time, Watch};
use crate::round::{Interrupts, Woken};

/// How long a channel is listened to after its last waiter has left, lest locks that are waited for
/// again and again cost a subscription each time. The connection ends with the last channel.
const LINGER: Duration = Duration::from_secs(2);

/// All waiters of one client. One connection a node serves them, however many locks they wait for.
pub(crate) struct Hub {
    nodes: usize,
    /// The channel by which the client wakes its own subscribers.
    nudges: Vec<u8>,
    mechanisms: Mechanisms,
    state: Mutex<State>,
}

struct State {
    channels: HashMap<Vec<u8>, Channel>,
    subscribers: Vec<Subscribed>,
    closed: bool,
}

/// What is known of one node's subscriber.
#[derive(Clone, Default)]
struct Subscribed {
    runs: bool,
    told_refused: bool,
    /// The channels of which it has to learn that they are there, or are not any more.
    changed: HashSet<Vec<u8>>,
}

/// What is told of one lock.
struct Channel {
    waiters: Vec<Arc<Waiter>>,
    unused_since: Option<Time>,
    /// On which nodes it is listened to.
    listening: Vec<bool>,
}

struct Waiter {
    watch: Mutex<Watch>,
    cue: Sender<()>,
    cued: Receiver<()>,
}

impl Waiter {
    fn tell(&self, news: impl FnOnce(&mut Watch)) {
        let mut watch = self.watch.lock();
        news(&mut watch);
        let cue = watch.cue();
        drop(watch);
        if cue.is_some() {
            // Full: it is about to look anyway.
            let _ = self.cue.try_send(());
        }
    }
}

impl Hub {
    pub(crate) fn new(nodes: usize, nudges: Vec<u8>, mechanisms: Mechanisms) -> Arc<Self> {
        let subscribers = vec![Subscribed::default(); nodes];
        let state = State { channels: HashMap::new(), subscribers, closed: false };
        Arc::new(Self { nodes, nudges, mechanisms, state: Mutex::new(state) })
    }

    /// From now on the caller hears of releases on `channel`, as soon as the `nodes` confirm it.
    pub(crate) fn wait(self: &Arc<Self>, channel: Vec<u8>, nodes: &[Node]) -> Waiting {
        let (cue, cued) = bounded(1);
        let watch = Mutex::new(Watch::new(self.nodes, self.mechanisms));
        let waiter = Arc::new(Waiter { watch, cue, cued });
        let mut state = self.state.lock();
        let State { channels, subscribers, .. } = &mut *state;
        let mut is_new = false;
        let entry = channels.entry(channel.clone()).or_insert_with(|| {
            is_new = true;
            Channel { waiters: Vec::new(), unused_since: None, listening: vec![false; self.nodes] }
        });
        entry.waiters.push(waiter.clone());
        entry.unused_since = None;
        for node in (0..self.nodes).filter(|node| entry.listening[*node]) {
            waiter.watch.lock().listening(node);
        }
        let mut start = Vec::new();
        let mut nudge = Vec::new();
        for (subscriber, node) in subscribers.iter_mut().zip(nodes).filter(|_| is_new) {
            subscriber.changed.insert(channel.clone());
            let which = if subscriber.runs { &mut nudge } else { &mut start };
            which.push(node);
            subscriber.runs = true;
        }
        drop(state);
        nudge.into_iter().for_each(|node| node.nudge(&self.nudges));
        for node in start {
            if let Err(error) = node.listen(&self.nudges, self.clone()) {
                // There are waiters, who poll.
                observe::no_thread(&error);
                self.state.lock().subscribers[node.index()].runs = false;
            }
        }
        Waiting { hub: self.clone(), channel, waiter }
    }

    /// Has the subscribers end.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// How many channels the node has confirmed.
    pub(crate) fn listened_to(&self, node: usize) -> usize {
        let state = self.state.lock();
        state.channels.values().filter(|channel| channel.listening[node]).count()
    }

    fn leave(&self, name: &[u8], waiter: &Arc<Waiter>) {
        let mut state = self.state.lock();
        if let Some(channel) = state.channels.get_mut(name) {
            channel.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
            if channel.waiters.is_empty() {
                channel.unused_since = Some(clock::now());
            }
        }
    }
}

impl State {
    fn changes(&mut self, node: usize, anew: bool, now: Time) -> Option<Changes> {
        self.sweep(now);
        let Self { channels, subscribers, closed } = self;
        let subscriber = &mut subscribers[node];
        let changed = std::mem::take(&mut subscriber.changed);
        if *closed || channels.is_empty() {
            subscriber.runs = false;
            return None;
        }
        if anew {
            let subscribe = channels.keys().cloned().collect();
            return Some(Changes { subscribe, unsubscribe: Vec::new() });
        }
        let (subscribe, unsubscribe) =
            changed.into_iter().partition(|name| channels.contains_key(name));
        Some(Changes { subscribe, unsubscribe })
    }

    /// Forgets the channels that nobody has listened to for a while.
    fn sweep(&mut self, now: Time) {
        let Self { channels, subscribers, .. } = self;
        channels.retain(|name, channel| {
            let keep = channel.unused_since.is_none_or(|since| now.since(since) < LINGER);
            if !keep {
                for subscriber in subscribers.iter_mut() {
                    subscriber.changed.insert(name.clone());
                }
            }
            keep
        });
    }
}

impl Listeners for Hub {
    fn changes(&self, node: usize, anew: bool) -> Option<Changes> {
        self.state.lock().changes(node, anew, clock::now())
    }

    fn listening(&self, node: usize, channels: &[Vec<u8>]) {
        let mut state = self.state.lock();
        for name in channels {
            if let Some(channel) = state.channels.get_mut(name) {
                channel.listening[node] = true;
                channel
                    .waiters
                    .iter()
                    .for_each(|waiter| waiter.tell(|watch| watch.listening(node)));
            }
        }
    }

    fn deaf(&self, node: usize) {
        for channel in self.state.lock().channels.values_mut() {
            channel.listening[node] = false;
            channel.waiters.iter().for_each(|waiter| waiter.tell(|watch| watch.deaf(node)));
        }
    }

    fn heard(&self, node: usize, channel: &[u8]) {
        let state = self.state.lock();
        if let Some(channel) = state.channels.get(channel) {
            channel.waiters.iter().for_each(|waiter| waiter.tell(|watch| watch.released(node)));
        }
    }

    fn refused(&self, node: usize, fault: &NodeFault) {
        // Outside the mutex: a subscriber of our events may take locks itself.
        let told = std::mem::replace(&mut self.state.lock().subscribers[node].told_refused, true);
        if !told {
            observe::not_listening(fault);
        }
    }
}

/// A caller that waits for a lock; until it is dropped.
pub(crate) struct Waiting {
    hub: Arc<Hub>,
    channel: Vec<u8>,
    waiter: Arc<Waiter>,
}

impl Waiting {
    /// See [`Watch::attempt_begins`].
    pub(crate) fn attempt_begins(&self) {
        self.waiter.watch.lock().attempt_begins();
    }

    /// See [`Watch::attempt_ended`]; whether the lock's release would be told by enough nodes.
    pub(crate) fn attempt_ended(&self, attempt: &Attempt) -> bool {
        let mut watch = self.waiter.watch.lock();
        watch.attempt_ended(attempt);
        watch.is_covered()
    }

    /// Sleeps until `until`, or until there is reason to try again, or something else happens.
    pub(crate) fn sleep(
        &self,
        until: Time,
        interrupts: Interrupts<'_>,
    ) -> Result<Option<Cue>, Woken> {
        loop {
            let cue = self.waiter.watch.lock().cue();
            if cue.is_some() {
                return Ok(cue);
            }
            match interrupts.wait(&self.waiter.cued, until) {
                Woken::Decided => {}
                Woken::TimeUp => return Ok(None),
                woken => return Err(woken),
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.hub.leave(&self.channel, &self.waiter);
    }
}

/// Waits until then, or, if the lock's releases are heard of, until there is reason to try again sooner;
/// whether there was.
pub(crate) fn pause(
    waiting: Option<&Waiting>,
    acquisition: &mut Acquisition,
    until: Time,
    interrupts: Interrupts<'_>,
) -> Result<bool, Woken> {
    let sleep = |until| match interrupts.wait(&never(), until) {
        Woken::TimeUp => Ok(()),
        woken => Err(woken),
    };
    let cue = match waiting {
        None => sleep(until).map(|()| None)?,
        Some(waiting) => waiting.sleep(until, interrupts)?,
    };
    let Some(cue) = cue else { return Ok(false) };
    sleep(acquisition.cued(cue, clock::now(), rand::random())).map(|()| true)
}
