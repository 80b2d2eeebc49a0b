//! The waiters for releases, the listeners to other messages about locks that are held, and the channels that the nodes'
//! subscribers must listen to for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time};
use super::ReleaseTracker;

/// Time for which a channel is listened to after its last waiter has left. Without it, a lock that is waited for
/// again and again would cost a subscription each time. It is short: a client that gives the lock back takes a
/// subscription for a waiter.
const LINGER: Duration = Duration::from_millis(200);

/// Number of messages of each node after which a channel for which nobody waits is given up, although `LINGER` is not over. They cost
/// about as much as a subscription. If many clients wait for one lock, each of them would hear of all releases by the others after
/// its own.
const MOST_IN_VAIN: usize = 3;

/// Time for which a channel is watched after somebody last wanted it. Without it, readers that come every moment would
/// cost a subscription each time.
const WATCHED: Duration = Duration::from_secs(2);

/// Maximum number of listeners. A node that is listened to anew wakes all of them, and each reads from it.
const MOST_LISTENERS: usize = 1_024;

/// Time for which the subscribers stay after the last channel.
const STAY: Duration = Duration::from_secs(2);

/// The messages of another library about a release, on its own channel: the sort of the release, and no owner. A release
/// of ours is announced there as well, right behind the message on our own channel.
const NO_OWNERS: [&[u8]; 2] = [b"0", b"1"];

/// The end of a caller's name in the queue of a fair lock. No owner's text ends so.
pub(crate) const QUEUED: &str = "#queued";

/// The changes that a subscriber has to make: first all of `subscribe`, then all of `unsubscribe`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) subscribe: Vec<Vec<u8>>,
    pub(crate) unsubscribe: Vec<Vec<u8>>,
}

/// Identifies a waiter or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

/// A new waiter or listener, and the nodes whose subscribers are to be started or woken for it.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) id: WaiterId,
    pub(crate) start: Vec<usize>,
    pub(crate) wake: Vec<usize>,
}

/// The nodes whose subscribers are to be started or woken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sought {
    pub(crate) start: Vec<usize>,
    pub(crate) wake: Vec<usize>,
}

/// All waiters of one client, and all watchers. `W` is the driver's data for waking one of them.
pub(crate) struct Channels<W> {
    channels: BTreeMap<Vec<u8>, Channel<W>>,
    waiters: BTreeMap<WaiterId, ChannelWaiter<W>>,
    subscribers: Vec<Subscriber>,
    last_waiter: u64,
    /// The number of listeners.
    listeners: usize,
    /// Time at which a subscriber first saw that there is no channel.
    unused_since: Option<Time>,
    closed: bool,
}

/// A channel for the messages about one lock, or about one of its names.
struct Channel<W> {
    waiters: BTreeSet<WaiterId>,
    /// The watcher hears every message on the channel, for a while. No releases are announced on such a channel.
    watcher: Option<Watcher<W>>,
    /// The listeners do too, until they leave. They also hear of each node that begins to be listened to.
    listeners: BTreeMap<WaiterId, W>,
    /// Time since which nobody waits.
    unused_since: Option<Time>,
    /// Number of messages since then.
    in_vain: usize,
    /// The nodes that have confirmed the subscription.
    listening: Vec<bool>,
}

struct Watcher<W> {
    until: Time,
    wake: W,
}

impl<W> Channel<W> {
    fn is_used(&self, now: Time) -> bool {
        let lingers = |since| now.since(since) < LINGER && !self.is_heard_in_vain();
        self.unused_since.is_none_or(lingers)
            || self.watcher.as_ref().is_some_and(|watcher| now < watcher.until)
    }

    /// Returns true if enough messages have come since nobody waits any more.
    fn is_heard_in_vain(&self) -> bool {
        self.in_vain >= MOST_IN_VAIN * self.listening.len()
    }

    /// Notes that a waiter or a listener has left.
    fn left(&mut self, now: Time) {
        if self.waiters.is_empty() && self.listeners.is_empty() {
            self.unused_since = Some(now);
            self.in_vain = 0;
        }
    }
}

struct ChannelWaiter<W> {
    /// All channels on which its lock's releases may be announced.
    channels: Vec<Vec<u8>>,
    tracker: ReleaseTracker,
    /// The owner of our own last release, while the lock is left to others.
    ours: Option<Vec<u8>>,
    /// The caller's name in the nodes' queues, if the lock is a fair one. Messages for other callers are no news to
    /// this one.
    called: Option<Vec<u8>>,
    wake: W,
}

/// The subscriber of one node.
#[derive(Clone, Default)]
struct Subscriber {
    runs: bool,
    /// The channels that have come or gone since it last looked.
    changed: BTreeSet<Vec<u8>>,
    /// The channel of its last message, if that named the owner.
    owner_told_on: Option<Vec<u8>>,
}

impl<W: Clone> ChannelWaiter<W> {
    /// Notes the news, and returns the data for waking the waiter if there is a reason to wake it.
    fn tell(&mut self, news: impl FnOnce(&mut ReleaseTracker)) -> Option<W> {
        news(&mut self.tracker);
        self.tracker.wake_reason().map(|_| self.wake.clone())
    }
}

impl<W: Clone> Channels<W> {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            channels: BTreeMap::new(),
            waiters: BTreeMap::new(),
            subscribers: vec![Subscriber::default(); nodes],
            last_waiter: 0,
            listeners: 0,
            unused_since: None,
            closed: false,
        }
    }

    /// Returns true if nobody waits for anything, nor did a moment ago.
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Returns true if somebody waits for releases on `channel`, or did a moment ago.
    pub(crate) fn knows(&self, channel: &[u8]) -> bool {
        self.channels.contains_key(channel)
    }

    /// Returns the number of channels that the node has confirmed.
    pub(crate) fn listened_to(&self, node: usize) -> usize {
        self.channels.values().filter(|channel| channel.listening[node]).count()
    }

    /// Returns the number of others that wait for a lock, if the node has `told` so many connections of its release on
    /// one of the lock's `channels`. Our own connection does not count. Further callers of this client, which wait behind
    /// it, do.
    pub(crate) fn others_told(&self, node: usize, channels: &[Vec<u8>], told: u64) -> u32 {
        if told == 0 {
            return 0;
        }
        let known: Vec<_> = channels.iter().map_while(|name| self.channels.get(name)).collect();
        let all_are_known = known.len() == channels.len();
        let ours = all_are_known && known.iter().all(|channel| channel.listening[node]);
        let waiters = known.iter().map(|channel| channel.waiters.len() as u64).max().unwrap_or(0);
        let others = told.saturating_sub(ours.into()).saturating_add(waiters);
        u32::try_from(others).unwrap_or(u32::MAX)
    }

    /// Adds a waiter that hears of releases on `heard_on`, as soon as the nodes confirm these channels. `called`: its name in the
    /// queue of a fair lock.
    pub(crate) fn join(
        &mut self,
        heard_on: Vec<Vec<u8>>,
        called: Option<Vec<u8>>,
        wake: W,
    ) -> Joined {
        let Sought { start, wake: wake_nodes } = self.listen_to(&heard_on);
        let Self { channels, waiters, subscribers, last_waiter, .. } = self;
        *last_waiter += 1;
        let id = WaiterId(*last_waiter);
        let nodes = subscribers.len();
        for name in &heard_on {
            if let Some(channel) = channels.get_mut(name) {
                channel.unused_since = None;
                channel.waiters.insert(id);
            }
        }
        let mut tracker = ReleaseTracker::new(nodes);
        let heard = (0..nodes).filter(|node| is_heard(channels, &heard_on, *node));
        heard.for_each(|node| tracker.listening(node));
        waiters.insert(id, ChannelWaiter { channels: heard_on, tracker, ours: None, called, wake });
        Joined { id, start, wake: wake_nodes }
    }

    /// Has every message on `channel` wake `wake`, for a while from now on. It is no channel on which releases are
    /// announced.
    #[must_use]
    pub(crate) fn watch(&mut self, channel: Vec<u8>, wake: W, now: Time) -> Sought {
        let heard_on = [channel];
        let sought = self.listen_to(&heard_on);
        let [channel] = heard_on;
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.unused_since.get_or_insert(now);
            channel.watcher = Some(Watcher { until: now.after(WATCHED), wake });
        }
        sought
    }

    /// Has these wake `wake` from now on: each message on these channels, and each node's confirmation of one of them, since
    /// earlier messages were not heard. No releases are announced on them. `None`: there are too many listeners.
    pub(crate) fn listen(&mut self, channels: &[Vec<u8>], wake: &W) -> Option<Joined> {
        if self.listeners >= MOST_LISTENERS {
            return None;
        }
        self.listeners += 1;
        let Sought { start, wake: wake_nodes } = self.listen_to(channels);
        self.last_waiter += 1;
        let id = WaiterId(self.last_waiter);
        for name in channels {
            if let Some(channel) = self.channels.get_mut(name) {
                channel.unused_since = None;
                channel.listeners.insert(id, wake.clone());
            }
        }
        Some(Joined { id, start, wake: wake_nodes })
    }

    /// Removes that listener from these channels.
    pub(crate) fn listen_no_more(&mut self, id: WaiterId, channels: &[Vec<u8>], now: Time) {
        self.listeners -= 1;
        for name in channels {
            if let Some(channel) = self.channels.get_mut(name) {
                channel.listeners.remove(&id);
                channel.left(now);
            }
        }
    }

    /// Has the subscribers listen to these channels.
    fn listen_to(&mut self, heard_on: &[Vec<u8>]) -> Sought {
        let Self { channels, subscribers, unused_since, .. } = self;
        *unused_since = None;
        let mut sought = Sought::default();
        let nodes = subscribers.len();
        let new = || heard_on.iter().filter(|name| !channels.contains_key(*name));
        let is_new = new().next().is_some();
        for (node, subscriber) in subscribers.iter_mut().enumerate().filter(|_| is_new) {
            let which = if subscriber.runs { &mut sought.wake } else { &mut sought.start };
            which.push(node);
            subscriber.runs = true;
            subscriber.changed.extend(new().cloned());
        }
        for name in heard_on {
            channels.entry(name.clone()).or_insert_with(|| Channel {
                waiters: BTreeSet::new(),
                watcher: None,
                listeners: BTreeMap::new(),
                unused_since: None,
                in_vain: 0,
                listening: vec![false; nodes],
            });
        }
        sought
    }

    /// Removes a waiter.
    pub(crate) fn leave(&mut self, id: WaiterId, now: Time) {
        let left = self.waiters.remove(&id);
        for name in left.iter().flat_map(|waiter| &waiter.channels) {
            if let Some(channel) = self.channels.get_mut(name) {
                channel.waiters.remove(&id);
                channel.left(now);
            }
        }
    }

    /// Returns the record of the messages that a waiter has heard.
    pub(crate) fn tracker(&mut self, id: WaiterId) -> Option<&mut ReleaseTracker> {
        self.waiters.get_mut(&id).map(|waiter| &mut waiter.tracker)
    }

    /// Notes that a waiter leaves the lock to others. This client had the lock as `last_owner`.
    pub(crate) fn gives_way(&mut self, id: WaiterId, last_owner: Option<&[u8]>) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.ours = last_owner.map(<[u8]>::to_vec);
            waiter.tracker.gives_way();
        }
    }

    /// Notes that the node has confirmed the subscription to these channels. Returns the waiters and listeners to wake.
    #[must_use]
    pub(crate) fn listening(&mut self, node: usize, confirmed: &[Vec<u8>]) -> Vec<W> {
        let (mut concerned, mut listeners) = (BTreeSet::new(), BTreeMap::new());
        for name in confirmed {
            if let Some(channel) = self.channels.get_mut(name) {
                channel.listening[node] = true;
                concerned.extend(&channel.waiters);
                listeners.extend(channel.listeners.clone());
            }
        }
        let Self { channels, waiters, .. } = self;
        let concerned = concerned.iter().filter_map(|id| {
            // A waiter that hears of only one name may miss the release of another one.
            let waiter = waiters.get_mut(id)?;
            let heard = is_heard(channels, &waiter.channels, node);
            heard.then(|| waiter.tell(|tracker| tracker.listening(node)))?
        });
        concerned.chain(listeners.into_values()).collect()
    }

    /// Notes that the node's messages are not heard any more. Returns the waiters to wake.
    #[must_use]
    pub(crate) fn deaf(&mut self, node: usize) -> Vec<W> {
        self.subscribers[node].owner_told_on = None;
        self.channels.values_mut().for_each(|channel| channel.listening[node] = false);
        let waiters = self.waiters.values_mut();
        waiters.filter_map(|waiter| waiter.tell(|tracker| tracker.deaf(node))).collect()
    }

    /// Handles a message of the node: `owner` has given the lock back; or, with one of [`NO_OWNERS`], somebody has; or the caller
    /// of this name is next in the queue of a fair lock. A channel with a watcher or listeners has other messages. Returns the
    /// waiters, watcher and listeners to wake.
    ///
    /// If a lock has a channel of another library as well, one release of ours is two messages. The node sends the second one
    /// right behind the first. The second one names nobody, so it is no news to a waiter that has heard the first.
    #[must_use]
    pub(crate) fn released(&mut self, node: usize, channel: &[u8], owner: &[u8]) -> Vec<W> {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.in_vain += usize::from(channel.unused_since.is_some());
            let watcher = channel.watcher.as_ref().map(|watcher| &watcher.wake);
            let listeners: Vec<_> = watcher.into_iter().chain(channel.listeners.values()).collect();
            if !listeners.is_empty() {
                return listeners.into_iter().cloned().collect();
            }
        }
        let told_before = self.subscribers[node].owner_told_on.take();
        let told_before = told_before.if_off(Mechanism::SecondMessagesAreNoNews, None);
        let Self { channels, waiters, subscribers, .. } = self;
        let Some((name, channel)) = channels.get_key_value(channel) else { return Vec::new() };
        if has_second_message(owner) {
            subscribers[node].owner_told_on = Some(name.clone());
        }
        let told_before = told_before.filter(|_| NO_OWNERS.contains(&owner));
        let is_second = |waiter: &ChannelWaiter<W>| {
            told_before.as_ref().is_some_and(|told| waiter.channels.contains(told))
        };
        let is_news = |waiter: &&mut ChannelWaiter<W>| {
            let is_ours = waiter.ours.as_deref() == Some(owner);
            let is_ours = is_ours.if_off(Mechanism::OwnReleaseIsNoNews, false);
            let is_for_another =
                is_queued(owner) && waiter.called.as_ref().is_some_and(|called| called != owner);
            !is_second(waiter) && !is_for_another && !is_ours
        };
        let told = channel.waiters.iter().filter_map(|id| {
            waiters.get_mut(id).filter(is_news)?.tell(|tracker| tracker.released(node))
        });
        told.collect()
    }

    /// Returns true if a node's subscriber that hears messages on `channel` is to look at its changes: it need not listen to the
    /// channel any longer.
    pub(crate) fn is_heard_in_vain(&self, channel: &[u8]) -> bool {
        let is_unused = |channel: &Channel<W>| {
            let is_watched = channel.watcher.is_some();
            channel.unused_since.is_some() && !is_watched && channel.is_heard_in_vain()
        };
        self.channels.get(channel).is_none_or(is_unused)
    }

    /// Returns the changes for the node's subscriber since it asked last; on a new connection (`anew`), all
    /// channels. `None`: the subscriber ends.
    pub(crate) fn changes(&mut self, node: usize, anew: bool, now: Time) -> Option<Changes> {
        self.sweep(now);
        let Self { channels, subscribers, unused_since, closed, .. } = self;
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
        // A channel that has gone and come again meanwhile must be confirmed again.
        let (subscribe, unsubscribe) =
            changed.into_iter().partition(|name| channels.contains_key(name));
        Some(Changes { subscribe, unsubscribe })
    }

    /// Notes that the node's subscriber could not be started. The next channel is a reason to try again.
    pub(crate) fn not_started(&mut self, node: usize) {
        self.subscribers[node] = Subscriber::default();
    }

    /// Has the subscribers end.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Forgets the channels that nobody has listened to for a while. Returns true if any is left. Subscribers do the same,
    /// but there may be none: a thread may not have started.
    pub(crate) fn tidy(&mut self, now: Time) -> bool {
        self.sweep(now);
        !self.channels.is_empty()
    }

    /// Forgets the channels that nobody has listened to for a while.
    fn sweep(&mut self, now: Time) {
        let Self { channels, subscribers, .. } = self;
        channels.retain(|name, channel| {
            let keep = channel.is_used(now);
            if !keep {
                for subscriber in subscribers.iter_mut().filter(|subscriber| subscriber.runs) {
                    subscriber.changed.insert(name.clone());
                }
            }
            keep
        });
    }
}

/// Returns true if the message names the next caller in the queue of a fair lock, not an owner that gave the lock back.
fn is_queued(told: &[u8]) -> bool {
    told.ends_with(QUEUED.as_bytes())
}

/// Returns true if a second message announces the release of that owner. Such owners end as Redisson's do, with a random part
/// and a number, and Redisson shares their locks. A label before the last `#` may have any characters.
fn has_second_message(owner: &[u8]) -> bool {
    owner.rsplit(|byte| *byte == b'#').next().is_some_and(|end| end.contains(&b':'))
}

/// Returns true if the node has confirmed all of these channels.
fn is_heard<W>(
    channels: &BTreeMap<Vec<u8>, Channel<W>>,
    heard_on: &[Vec<u8>],
    node: usize,
) -> bool {
    let confirmed = |channel: &Channel<W>| channel.listening[node];
    heard_on.iter().all(|name| channels.get(name).is_some_and(confirmed))
}

#[cfg(test)]
#[path = "tests/channels.rs"]
mod tests;
