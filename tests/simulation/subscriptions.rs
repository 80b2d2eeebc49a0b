//! How a client's waiters hear of releases, as `src/runtime/subscriptions.rs` and `src/node/subscriber.rs` do it: a
//! connection a node, from the first waiter on, and a channel for each lock that is waited for. The rules
//! are the shipped ones, in `core/release_tracker.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use uuid::Uuid;

use super::caller::Caller;
use super::client::{Client, Cx, Note};
use crate::core::{Backoff, ReleaseTracker, Time};

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// How long it takes until a connection is found dead over which nothing comes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How long a channel is listened to after its last waiter has left, and how long it takes at most until
/// a subscriber sees that.
const LINGER: Duration = Duration::from_millis(200);
const CHECK_MS: u64 = 250;

/// What is heard over a connection that listens to one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// It is there.
    Open,
    /// Releases of the lock of that name are told from now on.
    Listening(usize),
    /// The lock of that name was given back there, by that owner.
    Released(usize, u128),
    /// The connection is gone.
    Closed,
    /// It could not be made in time, or a channel was not confirmed, unless it was.
    Late,
    /// Perhaps it is dead.
    Silent,
    /// It is to be made again.
    Reopen,
    /// It looks whether there is still somebody who waits.
    Probe,
}

/// An owner id as a number, which can be copied.
pub(super) fn owner_number(text: &[u8]) -> Option<u128> {
    Uuid::try_parse_ascii(text).ok().map(|id| id.as_u128())
}

/// A caller that waits for a lock.
pub(super) struct Waiter {
    pub(super) tracker: ReleaseTracker,
    /// What is told of this one's release is no news: it was ours.
    ours: Option<u128>,
}

impl Waiter {
    /// The caller, whose process had the lock as `last_owner`, leaves it to others.
    pub(super) fn gives_way(&mut self, last_owner: Option<u128>) {
        self.ours = last_owner;
        self.tracker.attempt_begins();
    }
}

/// The locks of which a client wants to be told, by name.
#[derive(Default)]
pub(super) struct Channels(BTreeMap<usize, Channel>);

struct Channel {
    waiters: u64,
    unused_since: Option<Time>,
    /// On which nodes it is listened to.
    listening: Vec<bool>,
}

impl Channels {
    /// Whether somebody waits for that lock, or has a moment ago.
    pub(super) fn is_known(&self, name: usize) -> bool {
        self.0.contains_key(&name)
    }

    /// Whether the node tells us of that lock, and how many wait for it here.
    pub(super) fn listens(&self, node: usize, name: usize) -> (bool, u64) {
        self.0.get(&name).map_or((false, 0), |known| (known.listening[node], known.waiters))
    }

    /// Forgets the channels that nobody has listened to for a while.
    fn sweep(&mut self, now: Time) {
        let is_used =
            |channel: &Channel| channel.unused_since.is_none_or(|since| now.since(since) < LINGER);
        self.0.retain(|_, channel| is_used(channel));
    }
}

/// A connection that listens to one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    /// Which one it is; 0: there was none yet.
    id: u64,
    open: bool,
    closed: bool,
    tries: u32,
    /// What the node was asked to tell, of which it has not confirmed so many, since then.
    names: BTreeSet<usize>,
    unconfirmed: usize,
    asked_at: Time,
}

impl Client {
    /// A caller waits for releases of that lock from now on.
    pub(super) fn wait(&mut self, cx: &mut Cx<'_>, name: usize) -> Waiter {
        let nodes = cx.settings.nodes;
        let mut tracker = ReleaseTracker::new(nodes);
        let shared = cx.shared.clone();
        let mut channels = shared.channels.borrow_mut();
        let sessions = &mut self.sessions;
        let channel = channels.0.entry(name).or_insert_with(|| {
            // Some may not have noticed that it was gone for a while: it is to be confirmed anew.
            sessions.iter_mut().for_each(|session| _ = session.names.remove(&name));
            Channel { waiters: 0, unused_since: None, listening: vec![false; nodes] }
        });
        channel.waiters += 1;
        channel.unused_since = None;
        let listening = channel.listening.iter().enumerate().filter(|(_, listening)| **listening);
        listening.for_each(|(node, _)| tracker.listening(node));
        drop(channels);
        for node in 0..nodes {
            if self.sessions[node].id == 0 {
                self.open(cx, node);
            } else {
                self.follow(cx, node);
            }
        }
        Waiter { tracker, ours: None }
    }

    /// It waits no longer.
    pub(super) fn stop_waiting(&mut self, cx: &mut Cx<'_>, name: usize) {
        let shared = cx.shared.clone();
        if let Some(channel) = shared.channels.borrow_mut().0.get_mut(&name) {
            channel.waiters -= 1;
            if channel.waiters > 0 {
                return;
            }
            channel.unused_since = Some(cx.now());
        }
        for node in 0..cx.settings.nodes {
            let pause = LINGER + cx.net.chance.ms(0..CHECK_MS);
            self.later(cx, node, pause, News::Probe);
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>, node: usize) {
        let tries = self.sessions[node].tries;
        let id = cx.net.listen(cx.client, node);
        self.sessions[node] = Session { id, tries, ..Session::default() };
        self.later(cx, node, cx.settings.node_timeout, News::Late);
    }

    /// Asks the node to tell what is waited for, and nothing else; one request after the other.
    fn follow(&mut self, cx: &mut Cx<'_>, node: usize) {
        let session = &mut self.sessions[node];
        if !session.open || session.unconfirmed > 0 {
            return;
        }
        let wanted: BTreeSet<_> = cx.shared.channels.borrow().0.keys().copied().collect();
        let new: Vec<_> = wanted.difference(&session.names).copied().collect();
        for name in session.names.difference(&wanted) {
            cx.net.ask_to_tell(cx.client, node, *name, false);
        }
        session.names = wanted;
        session.unconfirmed = new.len();
        session.asked_at = cx.now();
        for name in &new {
            cx.net.ask_to_tell(cx.client, node, *name, true);
        }
        if !new.is_empty() {
            self.later(cx, node, cx.settings.node_timeout, News::Late);
        }
    }

    fn later(&self, cx: &mut Cx<'_>, node: usize, pause: Duration, news: News) {
        let note = Note::Heard { node, session: self.sessions[node].id, news };
        cx.remind(cx.now().after(pause), note);
    }

    pub(super) fn heard(&mut self, cx: &mut Cx<'_>, node: usize, session: u64, news: News) {
        let (now, shared) = (cx.now(), cx.shared.clone());
        let known = &mut self.sessions[node];
        if known.id != session || known.closed && !matches!(news, News::Reopen) {
            return;
        }
        let timeout = cx.settings.node_timeout;
        let in_time = known.unconfirmed == 0 || now.since(known.asked_at) < timeout;
        match news {
            News::Open => {
                known.open = true;
                known.tries = 0;
                self.later(cx, node, KEEPALIVE, News::Silent);
                self.follow(cx, node);
            }
            News::Listening(name) => {
                known.unconfirmed -= 1;
                if let Some(channel) = shared.channels.borrow_mut().0.get_mut(&name) {
                    channel.listening[node] = true;
                }
                Caller::tell_all(self, cx, Some(name), |waiting| waiting.tracker.listening(node));
                self.follow(cx, node);
            }
            News::Released(name, owner) => {
                Caller::tell_all(self, cx, Some(name), |waiting| {
                    if waiting.ours != Some(owner) {
                        waiting.tracker.released(node);
                    }
                });
            }
            News::Probe => {
                shared.channels.borrow_mut().sweep(now);
                self.follow(cx, node);
            }
            News::Silent if cx.net.is_listening(cx.client, node, session) => {
                self.later(cx, node, KEEPALIVE, News::Silent);
            }
            News::Late if known.open && in_time => {}
            News::Closed | News::Late | News::Silent => {
                known.closed = true;
                known.open = false;
                let pause = RECONNECT.pause(known.tries, cx.net.chance.share());
                known.tries += 1;
                cx.net.stop_listening(cx.client, node);
                self.later(cx, node, pause, News::Reopen);
                for channel in shared.channels.borrow_mut().0.values_mut() {
                    channel.listening[node] = false;
                }
                Caller::tell_all(self, cx, None, |waiting| waiting.tracker.deaf(node));
            }
            News::Reopen => self.open(cx, node),
        }
    }
}
