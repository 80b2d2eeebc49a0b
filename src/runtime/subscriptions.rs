//! The callers that wait for locks, or listen to other messages about them: carries `core::Channels` on threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::clock;
use crate::core::base::Time;
use crate::core::link::Via;
use crate::core::wake::channels::{Joined, Sought};
use crate::core::wake::{Changes, Channels, ReleaseTracker, WaiterId};
use crate::error::NodeFault;
use crate::node::{Answer, Listeners, Node, Sink, Value};
use crate::observe;
use crate::runtime::fan_out::{Interrupts, Woken};

/// All waiters of one client. One connection per node serves them, however many locks they wait for.
pub(crate) struct Subscriptions {
    /// The channel by which the client wakes its own subscribers.
    wake_channel: Vec<u8>,
    /// True if there are channels: for calls that need not know more, without the mutex.
    busy: AtomicBool,
    channels: Mutex<Channels<Waker>>,
    /// The nodes for which an event has reported that they do not let us listen.
    told_refused: Vec<AtomicBool>,
}

/// Called with the index of a node that has sent a message on a channel. It runs on the node's subscriber, and must not
/// block.
pub(crate) type Watcher = Arc<dyn Fn(usize) + Send + Sync>;

/// The recipient of a wake-up.
#[derive(Clone)]
enum Waker {
    Subscription(Sender<()>),
    Watcher(Watcher),
}

impl Subscriptions {
    pub(crate) fn new(nodes: usize, wake_channel: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            wake_channel,
            busy: AtomicBool::new(false),
            channels: Mutex::new(Channels::new(nodes)),
            told_refused: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Returns true if somebody waits for releases on one of the channels, or did a moment ago. `channels` is called only if
    /// there are any.
    pub(crate) fn knows(&self, channels: impl FnOnce() -> Vec<Vec<u8>>) -> bool {
        let knows = |made: Vec<Vec<u8>>| {
            let channels = self.channels.lock();
            made.iter().any(|channel| channels.knows(channel))
        };
        self.busy.load(Ordering::Relaxed) && knows(channels())
    }

    /// Wakes the caller at releases on these channels, from the time at which the `nodes` confirm them. `called`: the
    /// caller's entry in the queue of a fair lock.
    pub(crate) fn wait(
        self: &Arc<Self>,
        heard_on: Vec<Vec<u8>>,
        called: Option<Vec<u8>>,
        nodes: &[Node],
    ) -> Subscription {
        let (waker, woken) = bounded(1);
        let Joined { id, start, wake } = {
            let mut channels = self.channels.lock();
            self.busy.store(true, Ordering::Relaxed);
            channels.join(heard_on, called, Waker::Subscription(waker))
        };
        self.have_them_listen(Sought { start, wake }, nodes);
        Subscription { subscriptions: self.clone(), id, woken }
    }

    /// Calls `watcher` for a while at messages on that channel, from the time at which the `nodes` confirm it. Releases are
    /// not reported on it.
    pub(crate) fn watch(self: &Arc<Self>, channel: Vec<u8>, watcher: Watcher, nodes: &[Node]) {
        let sought = {
            let mut channels = self.channels.lock();
            self.busy.store(true, Ordering::Relaxed);
            channels.watch(channel, Waker::Watcher(watcher), clock::now())
        };
        self.have_them_listen(sought, nodes);
    }

    /// Calls `watcher` at messages on these channels, and for each node that confirms one of them, until the returned value
    /// is dropped. Releases are not reported on them. `None`: there are too many listeners.
    pub(crate) fn listen(
        self: &Arc<Self>,
        to: Vec<Vec<u8>>,
        watcher: Watcher,
        nodes: &[Node],
    ) -> Option<Listening> {
        let Joined { id, start, wake } = {
            let mut channels = self.channels.lock();
            self.busy.store(true, Ordering::Relaxed);
            channels.listen(&to, &Waker::Watcher(watcher))?
        };
        self.have_them_listen(Sought { start, wake }, nodes);
        Some(Listening { subscriptions: self.clone(), id, to })
    }

    fn have_them_listen(self: &Arc<Self>, Sought { start, wake }: Sought, nodes: &[Node]) {
        for node in wake {
            nodes[node].wake_subscriber(&self.wake_channel);
        }
        for node in start {
            if let Err(error) = nodes[node].listen(&self.wake_channel, self.clone()) {
                // The waiters poll instead. This comes before the event, whose subscriber may panic.
                self.channels.lock().not_started(node);
                observe::no_thread(&error);
            }
        }
    }

    /// Returns the number of other waiters for the lock, if the node has `told` that many connections about its release.
    pub(crate) fn others_told(&self, node: usize, channels: &[Vec<u8>], told: u64) -> u32 {
        // Most releases reach nobody.
        if told == 0 { 0 } else { self.channels.lock().others_told(node, channels, told) }
    }

    /// Forgets the channels that nobody has listened to for a while, and returns true if any are left.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        let mut channels = self.channels.lock();
        let left = channels.tidy(now);
        // Under the mutex, like the same write for a new waiter.
        self.busy.store(!channels.is_empty(), Ordering::Relaxed);
        drop(channels);
        left
    }

    /// Ends the subscribers.
    pub(crate) fn close(&self) {
        self.channels.lock().close();
    }

    /// Returns the number of channels that the node has confirmed.
    pub(crate) fn listened_to(&self, node: usize) -> usize {
        self.channels.lock().listened_to(node)
    }
}

/// A message has come from that node.
fn wake_up(node: usize, woken: Vec<Waker>) {
    for wake in woken {
        match wake {
            // If the channel is full, the waiter is about to look anyway.
            Waker::Subscription(waiter) => _ = waiter.try_send(()),
            Waker::Watcher(watcher) => watcher(node),
        }
    }
}

impl Listeners for Subscriptions {
    fn changes(&self, node: usize, anew: bool) -> Option<Changes> {
        let mut channels = self.channels.lock();
        let changes = channels.changes(node, anew, clock::now());
        self.busy.store(!channels.is_empty(), Ordering::Relaxed);
        changes
    }

    fn listening(&self, node: usize, channels: &[Vec<u8>]) {
        let woken = self.channels.lock().listening(node, channels);
        // Without the mutex, since a watcher takes other mutexes.
        wake_up(node, woken);
    }

    fn deaf(&self, node: usize) {
        let woken = self.channels.lock().deaf(node);
        wake_up(node, woken);
    }

    fn heard(&self, node: usize, channel: &[u8], owner: &[u8]) -> bool {
        let (woken, in_vain) = {
            let mut channels = self.channels.lock();
            (channels.released(node, channel, owner), channels.is_heard_in_vain(channel))
        };
        // Without the mutex, since a watcher takes other mutexes.
        wake_up(node, woken);
        in_vain
    }

    fn refused(&self, node: usize, fault: &NodeFault) {
        // Outside the mutex: a subscriber of our events may take locks itself.
        if !self.told_refused[node].swap(true, Ordering::Relaxed) {
            observe::not_listening(fault);
        }
    }
}

/// A caller that waits for a lock, until the value is dropped.
pub(crate) struct Subscription {
    subscriptions: Arc<Subscriptions>,
    id: WaiterId,
    woken: Receiver<()>,
}

impl Subscription {
    /// The caller, whose process had the lock as `last_owner`, leaves it to others.
    pub(crate) fn gives_way(&self, last_owner: Option<Arc<str>>) {
        let last_owner = last_owner.as_deref().map(str::as_bytes);
        self.subscriptions.channels.lock().gives_way(self.id, last_owner);
    }

    /// Runs `f` on the tracker of the received releases.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> Option<R> {
        self.subscriptions.channels.lock().tracker(self.id).map(f)
    }

    /// Waits until there may be reason to try again, at most until `until`.
    pub(crate) fn wait(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        interrupts.wait(&self.woken, until)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscriptions.channels.lock().leave(self.id, clock::now());
    }
}

/// A caller that listens to channels, until the value is dropped.
pub(crate) struct Listening {
    subscriptions: Arc<Subscriptions>,
    id: WaiterId,
    to: Vec<Vec<u8>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut channels = self.subscriptions.channels.lock();
        channels.listen_no_more(self.id, &self.to, clock::now());
    }
}

/// Passes the answers to a release on to the waiter for them, if there is one.
///
/// It does not own the client: releases are kept for nodes that are down, and that must keep nothing else alive.
pub(crate) struct ContentionSink {
    /// Called with the number of waiters for the lock in other processes.
    pub(crate) heard: Box<dyn Fn(u32) + Send + Sync>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// The channels on which the nodes announce the lock's releases.
    pub(crate) channels: Vec<Vec<u8>>,
    /// Returns the number of connections that a node has told, from its answer.
    pub(crate) told: fn(&Value) -> u64,
    pub(crate) inner: Option<Arc<dyn Sink>>,
}

impl Sink for ContentionSink {
    fn sending(&self, node: usize, via: Via) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.sending(node, via))
    }

    fn unsent(&self, node: usize) {
        if let Some(inner) = &self.inner {
            inner.unsent(node);
        }
    }

    fn answer(&self, node: usize, answer: Answer) {
        let told = answer.as_ref().map_or(0, self.told);
        let others = self.subscriptions.others_told(node, &self.channels, told);
        if others > 0 {
            (self.heard)(others);
        }
        if let Some(inner) = &self.inner {
            inner.answer(node, answer);
        }
    }
}
