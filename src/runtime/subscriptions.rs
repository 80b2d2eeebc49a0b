//! Who waits for which lock, and what the nodes tell them: releases come in, waiters are woken.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::clock;
use crate::core::{ReleaseTracker, Time};
use crate::error::NodeFault;
use crate::node::{Changes, Listeners, Node};
use crate::observe;
use crate::runtime::fan_out::{Interrupts, Woken};

/// How long a channel is listened to after its last waiter has left, lest locks that are waited for
/// again and again cost a subscription each time. Not for long: whoever gives the lock back believes
/// that somebody waits.
const LINGER: Duration = Duration::from_millis(200);

/// How long the connections live on after the last channel.
const STAY: Duration = Duration::from_secs(2);

/// All waiters of one client. One connection a node serves them, however many locks they wait for.
pub(crate) struct Subscriptions {
    nodes: usize,
    /// The channel by which the client wakes its own subscribers.
    wake_channel: Vec<u8>,
    /// There are channels: for those who need not know more.
    busy: AtomicBool,
    state: Mutex<State>,
}

struct State {
    channels: HashMap<Vec<u8>, Channel>,
    subscribers: Vec<Subscribed>,
    unused_since: Option<Time>,
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
    waiters: Vec<Arc<WaiterEntry>>,
    unused_since: Option<Time>,
    /// On which nodes it is listened to.
    listening: Vec<bool>,
}

struct WaiterEntry {
    tracker: Mutex<ReleaseTracker>,
    /// What is told of this one's release is no news: it was ours.
    ours: Mutex<Option<Arc<str>>>,
    wake_reason: Sender<()>,
    woken: Receiver<()>,
}

impl WaiterEntry {
    fn tell(&self, news: impl FnOnce(&mut ReleaseTracker)) {
        let mut tracker = self.tracker.lock();
        news(&mut tracker);
        let wake_reason = tracker.wake_reason();
        drop(tracker);
        if wake_reason.is_some() {
            // Full: it is about to look anyway.
            let _ = self.wake_reason.try_send(());
        }
    }
}

impl Subscriptions {
    pub(crate) fn new(nodes: usize, wake_channel: Vec<u8>) -> Arc<Self> {
        let subscribers = vec![Subscribed::default(); nodes];
        let state =
            State { channels: HashMap::new(), subscribers, unused_since: None, closed: false };
        Arc::new(Self {
            nodes,
            wake_channel,
            busy: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Whether there is any channel.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Whether somebody waits for releases on `channel`, or did a moment ago.
    pub(crate) fn knows(&self, channel: &[u8]) -> bool {
        self.state.lock().channels.contains_key(channel)
    }

    /// From now on the caller hears of releases on `channel`, as soon as the `nodes` confirm it.
    pub(crate) fn wait(self: &Arc<Self>, channel: Vec<u8>, nodes: &[Node]) -> Waiter {
        let (wake_reason, woken) = bounded(1);
        let tracker = Mutex::new(ReleaseTracker::new(self.nodes));
        let waiter = Arc::new(WaiterEntry { tracker, ours: Mutex::default(), wake_reason, woken });
        let mut state = self.state.lock();
        self.busy.store(true, Ordering::Relaxed);
        let State { channels, subscribers, unused_since, .. } = &mut *state;
        *unused_since = None;
        let mut is_new = false;
        let entry = channels.entry(channel.clone()).or_insert_with(|| {
            is_new = true;
            let listening = vec![false; self.nodes];
            Channel { waiters: Vec::new(), unused_since: None, listening }
        });
        entry.waiters.push(waiter.clone());
        entry.unused_since = None;
        for node in (0..self.nodes).filter(|node| entry.listening[*node]) {
            waiter.tracker.lock().listening(node);
        }
        let mut start = Vec::new();
        let mut wake_subscriber = Vec::new();
        for (subscriber, node) in subscribers.iter_mut().zip(nodes).filter(|_| is_new) {
            subscriber.changed.insert(channel.clone());
            let which = if subscriber.runs { &mut wake_subscriber } else { &mut start };
            which.push(node);
            subscriber.runs = true;
        }
        drop(state);
        wake_subscriber.into_iter().for_each(|node| node.wake_subscriber(&self.wake_channel));
        for node in start {
            if let Err(error) = node.listen(&self.wake_channel, self.clone()) {
                // There are waiters, who poll. Before the event, whose subscriber may panic.
                self.state.lock().subscribers[node.index()].runs = false;
                observe::no_thread(&error);
            }
        }
        Waiter { subscriptions: self.clone(), channel, waiter }
    }

    /// Whether that channel is listened to on the node, and how many wait for it here.
    pub(crate) fn listens(&self, node: usize, channel: &[u8]) -> (bool, u64) {
        let known = |channel: &Channel| (channel.listening[node], channel.waiters.len() as u64);
        self.state.lock().channels.get(channel).map_or((false, 0), known)
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

    fn leave(&self, name: &[u8], waiter: &Arc<WaiterEntry>) {
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
        let Self { channels, subscribers, unused_since, closed } = self;
        let subscriber = &mut subscribers[node];
        let changed = std::mem::take(&mut subscriber.changed);
        if channels.is_empty() {
            unused_since.get_or_insert(now);
        }
        if *closed || unused_since.is_some_and(|since| now.since(since) >= STAY) {
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

impl Listeners for Subscriptions {
    fn changes(&self, node: usize, anew: bool) -> Option<Changes> {
        let mut state = self.state.lock();
        let changes = state.changes(node, anew, clock::now());
        self.busy.store(!state.channels.is_empty(), Ordering::Relaxed);
        changes
    }

    fn listening(&self, node: usize, channels: &[Vec<u8>]) {
        let mut state = self.state.lock();
        for name in channels {
            if let Some(channel) = state.channels.get_mut(name) {
                channel.listening[node] = true;
                channel
                    .waiters
                    .iter()
                    .for_each(|waiter| waiter.tell(|tracker| tracker.listening(node)));
            }
        }
    }

    fn deaf(&self, node: usize) {
        for channel in self.state.lock().channels.values_mut() {
            channel.listening[node] = false;
            channel.waiters.iter().for_each(|waiter| waiter.tell(|tracker| tracker.deaf(node)));
        }
    }

    fn heard(&self, node: usize, channel: &[u8], owner: &[u8]) {
        let is_ours = |waiter: &Arc<WaiterEntry>| {
            waiter.ours.lock().as_ref().is_some_and(|ours| ours.as_bytes() == owner)
        };
        if let Some(channel) = self.state.lock().channels.get(channel) {
            let others = channel.waiters.iter().filter(|waiter| !is_ours(waiter));
            others.for_each(|waiter| waiter.tell(|tracker| tracker.released(node)));
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
pub(crate) struct Waiter {
    subscriptions: Arc<Subscriptions>,
    channel: Vec<u8>,
    waiter: Arc<WaiterEntry>,
}

impl Waiter {
    /// The caller, whose process had the lock as `last_owner`, leaves it to others.
    pub(crate) fn gives_way(&self, last_owner: Option<Arc<str>>) {
        *self.waiter.ours.lock() = last_owner;
        self.waiter.tracker.lock().attempt_begins();
    }

    /// Shows what was heard.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> R {
        f(&mut self.waiter.tracker.lock())
    }

    /// Waits until there may be reason to try again, until `until` at most.
    pub(crate) fn wait(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        interrupts.wait(&self.waiter.woken, until)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.subscriptions.leave(&self.channel, &self.waiter);
    }
}
