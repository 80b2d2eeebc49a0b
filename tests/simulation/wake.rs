//! How a client's waiters hear of releases, as `src/wake.rs` and `src/node/subscriber.rs` do it: a
//! connection a node, from the first waiter on. The rules are the shipped ones, in `quorum/wake.rs`.

use std::time::Duration;

use super::caller::Caller;
use super::client::{Client, Cx, Note};
use crate::quorum::{Backoff, Watch};

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// How long it takes until a connection is found dead over which nothing comes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What is heard over a connection that listens to one node.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// It listens.
    Confirmed,
    /// The lock of that name was given back there.
    Released(usize),
    /// The connection is gone.
    Closed,
    /// It could not be made in time, if it was not.
    Late,
    /// Perhaps it is dead.
    Silent,
    /// It is to be made again.
    Reopen,
}

/// A connection that listens to one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Session {
    /// Which one it is; 0: there was none yet.
    id: u64,
    confirmed: bool,
    closed: bool,
    tries: u32,
}

impl Client {
    /// What a new waiter begins with; from now on all nodes are listened to.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>) -> Watch {
        let mut watch = Watch::new(cx.settings.nodes, cx.net.switches.mechanisms);
        for node in 0..cx.settings.nodes {
            if self.sessions[node].id == 0 {
                self.open(cx, node);
            } else if self.sessions[node].confirmed {
                watch.listening(node);
            }
        }
        watch
    }

    fn open(&mut self, cx: &mut Cx<'_>, node: usize) {
        let tries = self.sessions[node].tries;
        let id = cx.net.listen(cx.client, node);
        self.sessions[node] = Session { id, tries, ..Session::default() };
        self.later(cx, node, cx.settings.node_timeout, News::Late);
    }

    fn later(&self, cx: &mut Cx<'_>, node: usize, pause: Duration, news: News) {
        let note = Note::Heard { node, session: self.sessions[node].id, news };
        cx.remind(cx.now().after(pause), note);
    }

    pub(super) fn heard(&mut self, cx: &mut Cx<'_>, node: usize, session: u64, news: News) {
        let known = &mut self.sessions[node];
        if known.id != session || known.closed && !matches!(news, News::Reopen) {
            return;
        }
        match news {
            News::Confirmed => {
                known.confirmed = true;
                known.tries = 0;
                self.later(cx, node, KEEPALIVE, News::Silent);
                Caller::tell_all(self, cx, None, |watch| watch.listening(node));
            }
            News::Released(name) => {
                Caller::tell_all(self, cx, Some(name), |watch| watch.released(node));
            }
            News::Silent if cx.net.is_listening(cx.client, node, session) => {
                self.later(cx, node, KEEPALIVE, News::Silent);
            }
            News::Late if known.confirmed => {}
            News::Closed | News::Late | News::Silent => {
                known.closed = true;
                known.confirmed = false;
                let pause = RECONNECT.pause(known.tries, cx.net.chance.share());
                known.tries += 1;
                cx.net.stop_listening(cx.client, node);
                self.later(cx, node, pause, News::Reopen);
                Caller::tell_all(self, cx, None, |watch| watch.deaf(node));
            }
            News::Reopen => self.open(cx, node),
        }
    }
}
