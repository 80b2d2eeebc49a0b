//! Requests to the holders of a lock to give it up: receiving them, and passing them on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::clock;
use crate::core::base::Time;
use crate::core::hold::ReadRequest;
use crate::core::link::Via;
use crate::ident::asked_channel;
use crate::kinds::contract::reply;
use crate::node::{Answer, Ask, Sink, Value};
use crate::observe;
use crate::release_request::ReleaseRequest;
use crate::runtime::administration::asked_request;
use crate::runtime::fan_out::Delivery;
use crate::runtime::held::{Held, HeldState};
use crate::runtime::holder::{Callback, Callbacks, HoldState};

impl Held {
    /// From now on the holders receive requests to give the lock up.
    pub(crate) fn hear_asks(self: &Arc<Self>) {
        if !self.state().lock.hear_asks() {
            return;
        }
        let (held, client) = (Arc::downgrade(self), self.claim.state());
        let watcher = move |node| {
            if let Some(held) = Weak::upgrade(&held) {
                held.read_asks([node], Delivery::AtOnce);
            }
        };
        let channels = self.claim.names().keys().map(asked_channel).collect();
        let listens = client.subscriptions().listen(channels, Arc::new(watcher), client.nodes());
        // Without a subscription, the renewals find a request.
        listens.into_iter().for_each(|listens| _ = self.listens.set(listens));
        // A request may have come before.
        self.read_asks(0..client.nodes().len(), Delivery::AtOnce);
    }

    /// Calls `callback` with each request to that holder.
    pub(crate) fn call_asked(
        self: &Arc<Self>,
        holder: &HoldState,
        callback: Callback<ReleaseRequest>,
    ) {
        let reports = self.claim.state().reports();
        let callbacks = holder.notice.call_with(callback);
        callbacks.into_iter().for_each(|callbacks| reports.call(callbacks));
        // On a callback thread: it must not delay the start of a leader's term.
        let held = Arc::downgrade(self);
        let hear_asks = move || held.upgrade().into_iter().for_each(|held| held.hear_asks());
        reports.call(Callbacks::new(vec![Box::new(hear_asks)]));
    }

    /// A further holder gets the request that the present ones have got.
    pub(super) fn ask_further(state: &HeldState, holder: &HoldState) {
        if let Some(asked) = state.lock.asked() {
            // The holder has no callbacks yet.
            let _ = holder.notice.tell(&ReleaseRequest::new(&asked.reason));
        }
    }

    /// Reads these nodes for requests, except those that are being read. Returns true if any is read now.
    pub(super) fn read_asks(
        self: &Arc<Self>,
        nodes: impl IntoIterator<Item = usize>,
        delivery: Delivery,
    ) -> bool {
        let mut request = None;
        for node in nodes {
            let until = self.state().lock.handle_sign_of_ask(node, clock::now());
            let Some(until) = until else { continue };
            let made = || Arc::new(asked_request(self.claim.names(), self.claim.owner()));
            let ask = Ask::Anyway(request.get_or_insert_with(made).clone());
            let is_answered = AtomicBool::new(false);
            let held = Arc::downgrade(self);
            let sink = Arc::new(AskReader { held, node, until, is_answered });
            let node = &self.claim.state().nodes()[node];
            match delivery {
                Delivery::AtOnce => node.ask(ask, &sink),
                Delivery::WithOthers => node.ask_with_others(ask, &sink),
            }
        }
        request.is_some()
    }

    /// The timer has reached the lock: nodes that did not answer are read again. Returns true if the caller must wake the
    /// workers.
    pub(crate) fn read_missed_asks(self: &Arc<Self>) -> bool {
        let due = self.state().lock.asks_due(clock::now());
        self.read_asks(due, Delivery::WithOthers)
    }

    /// The answer of a node to a read; `None`: the node has not answered.
    fn handle_asks_read(self: &Arc<Self>, node: usize, answer: Option<&Value>) {
        let now = clock::now();
        let mut state = self.state();
        let Some(answer) = answer else {
            state.lock.handle_ask_missed(node, now);
            drop(state);
            self.check_again();
            return;
        };
        let (news, again) = state.lock.handle_ask_read(node, reply::asked(answer), now);
        let mut callbacks = Vec::new();
        let reports = self.claim.state().reports();
        for ReadRequest { reason, .. } in news {
            let request = ReleaseRequest::new(&reason);
            // With the mutex held, so that the last request is reported last. Nothing is called here.
            let told = state.hold_states.iter().filter_map(|holder| holder.notice.tell(&request));
            callbacks.extend(told);
            let (names, owner) = (self.claim.names().clone(), self.claim.owner().to_owned());
            reports.tell(move || observe::asked(&names, &owner, &request));
        }
        drop(state);
        callbacks.into_iter().for_each(|callbacks| reports.call(callbacks));
        if again {
            self.read_asks([node], Delivery::AtOnce);
        }
    }
}

/// Receives a node's answer about requests. If it is dropped before, the node was not read.
struct AskReader {
    held: Weak<Held>,
    node: usize,
    until: Time,
    is_answered: AtomicBool,
}

impl AskReader {
    fn handle(&self, answer: Option<&Value>) {
        if !self.is_answered.swap(true, Ordering::Relaxed)
            && let Some(held) = self.held.upgrade()
        {
            held.handle_asks_read(self.node, answer);
        }
    }
}

impl Sink for AskReader {
    fn sending(&self, _node: usize, _via: Via) -> bool {
        clock::now() < self.until && self.held.strong_count() > 0
    }

    fn unsent(&self, _node: usize) {}

    fn answer(&self, _node: usize, answer: Answer) {
        self.handle(answer.ok().as_ref());
    }
}

impl Drop for AskReader {
    fn drop(&mut self) {
        self.handle(None);
    }
}
