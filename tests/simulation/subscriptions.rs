//! Subscriptions through which a client's waiters hear of releases: one connection per node, which comes and goes as
//! that of `src/node/subscriber.rs`. `core/wake/subscriber.rs` decides its steps. `core/wake/channels.rs` decides its
//! channels and the waiters that it wakes.

use std::time::Duration;

use super::caller::Caller;
use super::claim::short;
use super::client::{Client, Cx, Note};
use super::lock_id::LockId;
use super::queue::QueueId;
use crate::core::base::Time;
use crate::core::link::KEEPALIVE;
use crate::core::wake::channels::{Joined, Sought};
use crate::core::wake::{ReleaseTracker, Subscriber, SubscriberStep, WaiterId};

/// News over a connection that listens to one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// The connection is open.
    Open,
    /// One more of the channels that were asked for is confirmed.
    Listening,
    /// The node has announced on that channel that the owner in that message has given the lock back.
    Released(usize, usize),
    /// The client wakes its own subscriber.
    Wake,
    /// The connection is gone.
    Closed,
    /// The node does not let the client listen.
    Refused,
    /// Time is over for the connection, or for the confirmation of a channel, unless it has come.
    Late,
    /// The next check of the connection by TCP is due, after so many without an answer.
    Check(u32),
    /// It is time to look for changes.
    Look,
}

/// A listener that messages of nodes wake.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listener {
    Caller(usize),
    /// The local queue of a lock that several callers hold. It is told if a writer waits for the end of the lock.
    Queue(QueueId),
}

/// A caller that waits for a lock.
pub(super) struct Waiter {
    id: WaiterId,
}

impl Waiter {
    /// Makes the caller leave the lock to others. Its process had the lock as `last_owner`.
    pub(super) fn gives_way(&self, cx: &Cx<'_>, last_owner: Option<&str>) {
        let last_owner = last_owner.map(str::as_bytes);
        cx.shared.channels.borrow_mut().gives_way(self.id, last_owner);
    }

    /// Gives access to the releases that it has heard of.
    pub(super) fn with<R>(
        &self,
        cx: &Cx<'_>,
        f: impl FnOnce(&mut ReleaseTracker) -> R,
    ) -> Option<R> {
        cx.shared.channels.borrow_mut().tracker(self.id).map(f)
    }
}

/// The subscriber of one node, with its connection.
#[derive(Debug)]
pub(super) struct Session {
    machine: Subscriber,
    /// Number of its connection; 0 before the first one.
    id: u64,
    awaits: Awaits,
    /// Start of that wait.
    since: Time,
}

/// The event that a subscriber waits for.
#[derive(Debug)]
enum Awaits {
    Connection,
    /// The node's confirmations of so many channels.
    Confirmation(usize),
    Messages,
    EndOfPause,
}

impl Client {
    /// Makes a caller wait for releases of that lock from now on. `called`: its name in the queue of a fair lock.
    pub(super) fn wait(
        &mut self,
        cx: &mut Cx<'_>,
        caller: usize,
        lock: LockId,
        called: Option<String>,
    ) -> Waiter {
        let mut channels = cx.shared.channels.borrow_mut();
        let (listener, called) = (Listener::Caller(caller), called.map(String::into_bytes));
        let Joined { id, start, wake } = channels.join(lock.channels(), called, listener);
        drop(channels);
        self.have_them_listen(cx, Sought { start, wake });
        Waiter { id }
    }

    /// Lets the queue of that lock hear of writers for a while.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>, lock: QueueId, channel: Vec<u8>) {
        let now = cx.now();
        let sought = cx.shared.channels.borrow_mut().watch(channel, Listener::Queue(lock), now);
        self.have_them_listen(cx, sought);
    }

    fn have_them_listen(&mut self, cx: &mut Cx<'_>, Sought { start, wake }: Sought) {
        wake.into_iter().for_each(|node| cx.net.wake_subscriber(cx.client, node));
        for node in start {
            let (machine, since) = (Subscriber::new(), cx.now());
            self.sessions[node] =
                Some(Session { machine, id: 0, awaits: Awaits::Connection, since });
            self.listen(cx, node);
        }
    }

    /// Ends a caller's wait.
    pub(super) fn stop_waiting(cx: &Cx<'_>, waiter: &Waiter) {
        cx.shared.channels.borrow_mut().leave(waiter.id, cx.now());
    }

    /// Carries out the steps of the node's subscriber until it must wait.
    fn listen(&mut self, cx: &mut Cx<'_>, node: usize) {
        let (now, shared) = (cx.now(), cx.shared.clone());
        while let Some(session) = &mut self.sessions[node] {
            let (awaits, late, news) = match session.machine.poll(now) {
                SubscriberStep::Connect => {
                    session.id = cx.net.listen(cx.client, node);
                    (Awaits::Connection, cx.settings.node_timeout, News::Late)
                }
                SubscriberStep::Look { anew } => {
                    let changes = shared.channels.borrow_mut().changes(node, anew, now);
                    session.machine.handle_changes(changes, now);
                    continue;
                }
                SubscriberStep::Subscribe(channels) => {
                    Self::ask_to_tell(cx, node, &channels, true);
                    let awaits = Awaits::Confirmation(channels.len());
                    (awaits, cx.settings.node_timeout, News::Late)
                }
                SubscriberStep::TellListening(channels) => {
                    let woken = shared.channels.borrow_mut().listening(node, &channels);
                    self.wake_listening(cx, &woken);
                    continue;
                }
                SubscriberStep::Unsubscribe(channels) => {
                    Self::ask_to_tell(cx, node, &channels, false);
                    continue;
                }
                SubscriberStep::Hear { until } => (Awaits::Messages, until.since(now), News::Look),
                SubscriberStep::TellDeaf => {
                    cx.net.stop_listening(cx.client, node);
                    let woken = shared.channels.borrow_mut().deaf(node);
                    self.wake_listening(cx, &woken);
                    continue;
                }
                SubscriberStep::Pause { until } => {
                    (Awaits::EndOfPause, until.since(now), News::Look)
                }
                SubscriberStep::End => {
                    cx.net.stop_listening(cx.client, node);
                    self.sessions[node] = None;
                    return;
                }
            };
            (session.awaits, session.since) = (awaits, now);
            return Self::later(cx, node, session.id, late, news);
        }
    }

    fn wake_listening(&self, cx: &mut Cx<'_>, woken: &[Listener]) {
        for listener in woken {
            match *listener {
                Listener::Caller(caller) => Caller::wake_listening(self, cx, caller),
                Listener::Queue(lock) => {
                    let (who, now) = (cx.client, cx.now());
                    let name = lock.lock;
                    cx.net.tell(|| format!("client {who}: somebody waits for the end of {name}"));
                    cx.shared.queues.borrow_mut().writer_waits(&lock, now);
                }
            }
        }
    }

    fn ask_to_tell(cx: &mut Cx<'_>, node: usize, channels: &[Vec<u8>], on: bool) {
        for channel in channels {
            let channel = cx.net.channel(channel);
            cx.net.ask_to_tell(cx.client, node, channel, on);
        }
    }

    fn later(cx: &mut Cx<'_>, node: usize, session: u64, pause: Duration, news: News) {
        cx.remind(cx.now().after(pause), Note::Heard { node, session, news });
    }

    pub(super) fn heard(&mut self, cx: &mut Cx<'_>, node: usize, id: u64, news: News) {
        let (now, shared) = (cx.now(), cx.shared.clone());
        let Some(session) = self.sessions[node].as_mut().filter(|known| known.id == id) else {
            return;
        };
        let Session { machine, awaits, since, .. } = session;
        match (news, awaits) {
            (News::Look, Awaits::Messages | Awaits::EndOfPause) => {}
            (News::Look, _) | (_, Awaits::EndOfPause) => return,
            (News::Open, Awaits::Connection) => {
                machine.handle_connected();
                Self::later(cx, node, id, KEEPALIVE.idle, News::Check(0));
            }
            (News::Listening, Awaits::Confirmation(left)) if *left > 1 => {
                *left -= 1;
                return;
            }
            (News::Listening, Awaits::Confirmation(_)) => machine.handle_confirmed(),
            (News::Released(channel, owner), awaits) => {
                let (who, told) = (cx.client, cx.net.published(owner).to_vec());
                let whose = short(&told);
                cx.net.told_since[who].push(told);
                cx.net.tell(|| format!("client {who}: node {node} tells of {whose}"));
                let (channel, owner) = (cx.net.channel_name(channel), cx.net.published(owner));
                let (woken, in_vain) = {
                    let mut channels = shared.channels.borrow_mut();
                    (channels.released(node, channel, owner), channels.is_heard_in_vain(channel))
                };
                let looks = in_vain && matches!(awaits, Awaits::Messages);
                if looks {
                    machine.handle_woken();
                }
                self.wake_listening(cx, &woken);
                if !looks {
                    return;
                }
            }
            (News::Wake, Awaits::Messages) => machine.handle_woken(),
            (News::Refused, _) => {
                let who = cx.client;
                cx.net.tell(|| format!("client {who}: node {node} refuses its subscriber"));
                machine.handle_refused(now);
            }
            (News::Open | News::Wake | News::Listening, _) | (News::Late, Awaits::Messages) => {
                return;
            }
            (News::Late, _) if now.since(*since) < cx.settings.node_timeout => return,
            (News::Check(unanswered), _) => match cx.net.checked(cx.client, node, id) {
                Some(true) => return Self::later(cx, node, id, KEEPALIVE.idle, News::Check(0)),
                None if unanswered < KEEPALIVE.checks => {
                    let next = News::Check(unanswered + 1);
                    return Self::later(cx, node, id, KEEPALIVE.interval, next);
                }
                None | Some(false) => machine.handle_broken(cx.net.chance.share(), now),
            },
            (News::Closed | News::Late, _) => {
                machine.handle_broken(cx.net.chance.share(), now);
            }
        }
        self.listen(cx, node);
    }
}
