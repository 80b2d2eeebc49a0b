//! How a client's waiters hear of releases: a connection a node, which comes and goes as that of
//! `src/node/subscriber.rs`. What it listens to, and whom it wakes, is decided by `core/channels.rs`.

use std::time::Duration;

use uuid::Uuid;

use super::caller::Caller;
use super::client::{Client, Cx, Note};
use super::lock_id::LockId;
use crate::core::channels::{Joined, LOOK_EVERY, RECONNECT};
use crate::core::{Changes, ReleaseTracker, Time, WaiterId};

/// How long it takes until a connection is found dead over which nothing comes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What is heard over a connection that listens to one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// It is there.
    Open,
    /// One more of the channels that were asked for is confirmed.
    Listening,
    /// On that channel the node has told that the owner has given the lock back.
    Released(usize, u128),
    /// The client wakes its own subscriber.
    Wake,
    /// The connection is gone.
    Closed,
    /// It could not be made in time, or a channel was not confirmed, unless it was.
    Late,
    /// Perhaps it is dead.
    Silent,
    /// It is time to look at the changes.
    Look,
}

/// An owner id as a number, which can be copied.
pub(super) fn owner_number(text: &[u8]) -> Option<u128> {
    Uuid::try_parse_ascii(text).ok().map(|id| id.as_u128())
}

/// A caller that waits for a lock.
pub(super) struct Waiter {
    id: WaiterId,
}

impl Waiter {
    /// The caller, whose process had the lock as `last_owner`, leaves it to others.
    pub(super) fn gives_way(&self, cx: &Cx<'_>, last_owner: Option<u128>) {
        let last_owner = last_owner.map(u128::to_be_bytes);
        let last_owner = last_owner.as_ref().map(<[u8; 16]>::as_slice);
        cx.shared.channels.borrow_mut().gives_way(self.id, last_owner);
    }

    /// Shows what was heard.
    pub(super) fn with<R>(
        &self,
        cx: &Cx<'_>,
        f: impl FnOnce(&mut ReleaseTracker) -> R,
    ) -> Option<R> {
        cx.shared.channels.borrow_mut().tracker(self.id).map(f)
    }
}

/// The subscriber of one node.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Which connection it has; 0: the subscriber does not run.
    id: u64,
    state: State,
    tries: u32,
    look_at: Time,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Connecting,
    Listening,
    /// The node was asked for channels, of which it has not confirmed so many. Nothing else is done.
    Asking {
        changes: Changes,
        unconfirmed: usize,
        since: Time,
    },
    /// Until it connects again.
    Pausing(Time),
}

impl Client {
    /// A caller waits for releases of that lock from now on.
    pub(super) fn wait(&mut self, cx: &mut Cx<'_>, caller: usize, lock: LockId) -> Waiter {
        let Joined { id, start, wake } =
            cx.shared.channels.borrow_mut().join(lock.channels(), caller);
        wake.into_iter().for_each(|node| cx.net.wake_subscriber(cx.client, node));
        start.into_iter().for_each(|node| self.open(cx, node));
        Waiter { id }
    }

    /// It waits no longer.
    pub(super) fn stop_waiting(cx: &Cx<'_>, waiter: &Waiter) {
        cx.shared.channels.borrow_mut().leave(waiter.id, cx.now());
    }

    fn open(&mut self, cx: &mut Cx<'_>, node: usize) {
        let id = cx.net.listen(cx.client, node);
        let session = &mut self.sessions[node];
        (session.id, session.state) = (id, State::Connecting);
        self.later(cx, node, cx.settings.node_timeout, News::Late);
    }

    /// The subscriber looks at what has changed.
    fn follow(&mut self, cx: &mut Cx<'_>, node: usize, anew: bool) {
        let now = cx.now();
        let Some(changes) = cx.shared.channels.borrow_mut().changes(node, anew, now) else {
            cx.net.stop_listening(cx.client, node);
            self.sessions[node] = Session::default();
            return;
        };
        let session = &mut self.sessions[node];
        let pause = match session.state {
            State::Pausing(until) if until <= now => return self.open(cx, node),
            State::Pausing(until) => until.since(now).min(LOOK_EVERY),
            _ if changes.subscribe.is_empty() => {
                session.state = State::Listening;
                Self::ask_to_tell(cx, node, &changes.unsubscribe, false);
                LOOK_EVERY
            }
            _ => {
                Self::ask_to_tell(cx, node, &changes.subscribe, true);
                let unconfirmed = changes.subscribe.len();
                session.state = State::Asking { changes, unconfirmed, since: now };
                return self.later(cx, node, cx.settings.node_timeout, News::Late);
            }
        };
        session.look_at = now.after(pause);
        self.later(cx, node, pause, News::Look);
    }

    fn ask_to_tell(cx: &mut Cx<'_>, node: usize, channels: &[Vec<u8>], on: bool) {
        for channel in channels {
            let channel = cx.net.channel(channel);
            cx.net.ask_to_tell(cx.client, node, channel, on);
        }
    }

    fn later(&self, cx: &mut Cx<'_>, node: usize, pause: Duration, news: News) {
        let note = Note::Heard { node, session: self.sessions[node].id, news };
        cx.remind(cx.now().after(pause), note);
    }

    pub(super) fn heard(&mut self, cx: &mut Cx<'_>, node: usize, session: u64, news: News) {
        let (now, shared) = (cx.now(), cx.shared.clone());
        let known = &mut self.sessions[node];
        if known.id != session {
            return;
        }
        match (news, &mut known.state) {
            (News::Look, State::Listening | State::Pausing(_)) if known.look_at <= now => {
                self.follow(cx, node, false);
            }
            (News::Look, _) | (_, State::Pausing(_)) => {}
            (News::Open, _) => {
                known.tries = 0;
                self.later(cx, node, KEEPALIVE, News::Silent);
                self.follow(cx, node, true);
            }
            (News::Listening, State::Asking { changes, unconfirmed, .. }) => {
                *unconfirmed -= 1;
                if *unconfirmed == 0 {
                    let Changes { subscribe, unsubscribe } = std::mem::take(changes);
                    let woken = shared.channels.borrow_mut().listening(node, &subscribe);
                    Caller::wake_listening(self, cx, &woken);
                    Self::ask_to_tell(cx, node, &unsubscribe, false);
                    self.follow(cx, node, false);
                }
            }
            (News::Released(channel, owner), _) => {
                let (channel, owner) = (cx.net.channel_name(channel), owner.to_be_bytes());
                let woken = shared.channels.borrow_mut().released(node, channel, &owner);
                Caller::wake_listening(self, cx, &woken);
            }
            (News::Wake, State::Listening) => self.follow(cx, node, false),
            (News::Wake | News::Listening, _) | (News::Late, State::Listening) => {}
            (News::Late, State::Asking { since, .. })
                if now.since(*since) < cx.settings.node_timeout => {}
            (News::Silent, _) if cx.net.is_listening(cx.client, node, session) => {
                self.later(cx, node, KEEPALIVE, News::Silent);
            }
            (News::Closed | News::Late | News::Silent, _) => {
                let pause = RECONNECT.pause(known.tries, cx.net.chance.share());
                known.tries += 1;
                known.state = State::Pausing(now.after(pause));
                cx.net.stop_listening(cx.client, node);
                let woken = shared.channels.borrow_mut().deaf(node);
                Caller::wake_listening(self, cx, &woken);
                self.follow(cx, node, false);
            }
        }
    }
}
