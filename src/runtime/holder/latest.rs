//! The messages to one holder that replace each other: about the risk to its lock, and requests to release it.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::callbacks::Callbacks;
use crate::release_request::ReleaseRequest;
use crate::risk::Risk;

/// A message to a holder, which a later message replaces.
pub(crate) trait Message: Clone + Send + 'static {
    /// Returns true if a holder that asks for messages later also gets this one.
    fn stays(&self) -> bool;

    /// Returns true if the message is news to a holder. `latest`: the message before, if that stays.
    fn is_news(&self, latest: Option<&Self>) -> bool;
}

impl Message for Risk {
    fn stays(&self) -> bool {
        self.is_at_risk()
    }

    /// A holder that was not warned has nothing to recover from.
    fn is_news(&self, warning: Option<&Self>) -> bool {
        warning.is_some() != self.is_at_risk()
    }
}

impl Message for ReleaseRequest {
    fn stays(&self) -> bool {
        true
    }

    fn is_news(&self, _latest: Option<&Self>) -> bool {
        true
    }
}

pub(crate) type Callback<M> = Box<dyn FnMut(M) + Send>;

/// The messages of one type to one holder, until the lock ends for it. Created when first needed: most holders get no
/// message, and ask for none.
pub(crate) struct Latest<M> {
    /// The last message.
    latest: Option<M>,
    channel: Option<(Sender<M>, Receiver<M>)>,
    calls: Arc<Calls<M>>,
}

impl<M> Default for Latest<M> {
    fn default() -> Self {
        Self { latest: None, channel: None, calls: Arc::new(Calls(Mutex::default())) }
    }
}

/// The due calls, on threads that may be blocked in them.
struct Calls<M>(Mutex<CallsState<M>>);

struct CallsState<M> {
    callbacks: Vec<Call<M>>,
    /// The last message, and its number.
    latest: Option<M>,
    number: u64,
    /// True if a thread calls, or is about to.
    is_calling: bool,
    has_ended: bool,
}

impl<M> Default for CallsState<M> {
    fn default() -> Self {
        let (is_calling, has_ended) = (false, false);
        Self { callbacks: Vec::new(), latest: None, number: 0, is_calling, has_ended }
    }
}

struct Call<M> {
    callback: Callback<M>,
    /// The number of the last message that the callback was called with.
    seen: u64,
}

impl<M: Message> Latest<M> {
    /// Returns the channel that has the latest message.
    pub(super) fn receiver(&mut self) -> Receiver<M> {
        let latest = self.that_stays().cloned();
        let (_, receiver) = self.channel.get_or_insert_with(|| {
            let (sender, receiver) = bounded(1);
            // There is room for it.
            latest.into_iter().for_each(|latest| _ = sender.try_send(latest));
            (sender, receiver)
        });
        receiver.clone()
    }

    fn that_stays(&self) -> Option<&M> {
        self.latest.as_ref().filter(|latest| latest.stays())
    }

    /// Sends the message to the holder, if it is news. Returns the callbacks to call.
    pub(super) fn tell(&mut self, message: &M) -> Option<Callbacks> {
        if !message.is_news(self.that_stays()) {
            return None;
        }
        self.latest = Some(message.clone());
        if let Some((sender, receiver)) = &self.channel
            && sender.try_send(message.clone()).is_err()
        {
            // The earlier message was not read. Only this thread sends, so there is room after that.
            let _ = receiver.try_recv();
            let _ = sender.try_send(message.clone());
        }
        let mut calls = self.calls.0.lock();
        calls.latest = Some(message.clone());
        calls.number += 1;
        calls.start(&self.calls)
    }

    /// Calls `callback` with each message from now on, and with the last one if that stays. Returns the callbacks to call
    /// now.
    pub(super) fn call(&self, callback: Callback<M>) -> Option<Callbacks> {
        let mut calls = self.calls.0.lock();
        let seen = calls.number - u64::from(self.that_stays().is_some());
        calls.callbacks.push(Call { callback, seen });
        calls.start(&self.calls)
    }

    /// The lock has ended for the holder: nothing more is called. Returns the callbacks; the values that they own may do
    /// anything when dropped.
    pub(super) fn end(self) -> Vec<Callback<M>> {
        if let Some((sender, receiver)) = self.channel {
            drop(sender);
            // An unread message is no longer of use.
            let _ = receiver.try_recv();
        }
        let mut calls = self.calls.0.lock();
        calls.has_ended = true;
        let ended = mem::take(&mut calls.callbacks);
        drop(calls);
        ended.into_iter().map(|call| call.callback).collect()
    }
}

impl<M: Message> CallsState<M> {
    /// Starts the callbacks that have not seen the last message, unless a thread is calling them already.
    fn start(&mut self, calls: &Arc<Calls<M>>) -> Option<Callbacks> {
        let is_due = self.callbacks.iter().any(|call| call.seen < self.number);
        if !is_due || self.is_calling {
            return None;
        }
        self.is_calling = true;
        let calls = calls.clone();
        Some(Callbacks::new(vec![Box::new(move || calls.call())]))
    }
}

impl<M: Message> Calls<M> {
    /// Calls each callback with the last message, until all have seen it. A callback that panics does not stop the others.
    fn call(&self) {
        loop {
            let mut state = self.0.lock();
            let number = state.number;
            let next = state.callbacks.iter().position(|call| call.seen < number);
            let (Some(next), Some(message)) = (next, state.latest.clone()) else {
                state.is_calling = false;
                return;
            };
            let mut call = state.callbacks.remove(next);
            drop(state);
            call.seen = number;
            let _ = catch_unwind(AssertUnwindSafe(|| (call.callback)(message)));
            let mut state = self.0.lock();
            if state.has_ended {
                drop(state);
                // Outside the mutex: a value that the callback owns may call this lock.
                drop(call);
            } else {
                state.callbacks.push(call);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use crossbeam_channel::TryRecvError;

    use super::*;
    use crate::core::hold::RiskReason;

    fn warning() -> Risk {
        let (remaining, reason) = (Duration::from_secs(3), RiskReason::NotConfirmed);
        Risk::AtRisk { remaining, reason, faults: Vec::new() }
    }

    fn recovered() -> Risk {
        Risk::Recovered { remaining: Duration::from_secs(10) }
    }

    /// A callback, and the channel of its calls.
    fn called() -> (Callback<Risk>, Receiver<bool>) {
        let (sender, receiver) = bounded(16);
        (
            Box::new(move |risk: Risk| sender.send(risk.is_at_risk()).expect("there is room")),
            receiver,
        )
    }

    fn seen(receiver: &Receiver<bool>) -> Vec<bool> {
        receiver.try_iter().collect()
    }

    #[test]
    fn a_holder_hears_a_warning_and_a_recovery_in_turn_and_the_channel_has_the_latest() {
        let mut latest = Latest::<Risk>::default();
        let receiver = latest.receiver();
        assert!(latest.tell(&recovered()).is_none() && receiver.is_empty(), "it was not warned");
        latest.tell(&warning());
        assert!(receiver.try_recv().is_ok_and(|risk| risk.is_at_risk()));
        latest.tell(&warning());
        assert!(receiver.is_empty(), "it is warned already");
        latest.tell(&recovered());
        latest.tell(&warning());
        latest.tell(&recovered());
        assert!(receiver.try_recv().is_ok_and(|risk| !risk.is_at_risk()), "the latest");
        assert!(receiver.is_empty());
        latest.tell(&warning());
        latest.end();
        assert_eq!(receiver.try_recv().err(), Some(TryRecvError::Disconnected), "it ends");
    }

    #[test]
    fn a_receiver_that_comes_later_has_the_warning_and_not_what_is_over() {
        let mut latest = Latest::<Risk>::default();
        latest.tell(&warning());
        assert!(latest.receiver().try_recv().is_ok_and(|risk| risk.is_at_risk()));
        assert!(latest.receiver().is_empty(), "it is one channel");
        let mut latest = Latest::<Risk>::default();
        latest.tell(&warning());
        latest.tell(&recovered());
        assert!(latest.receiver().is_empty());
    }

    #[test]
    fn callbacks_are_called_with_each_message_and_late_ones_with_the_warning() {
        let mut latest = Latest::<Risk>::default();
        let (first, is_called) = called();
        assert!(latest.call(first).is_none());
        latest.tell(&warning()).expect("it is to be called").call();
        assert_eq!(seen(&is_called), [true]);
        let (late, is_called_late) = called();
        latest.call(late).expect("the lock is at risk").call();
        assert_eq!(seen(&is_called_late), [true]);
        latest.tell(&recovered()).expect("both are to be called").call();
        assert_eq!((seen(&is_called), seen(&is_called_late)), (vec![false], vec![false]));
        let (after, is_called_after) = called();
        assert!(latest.call(after).is_none() && seen(&is_called_after).is_empty());
    }

    /// Both messages come while a thread is about to call: there is one call, with the later message.
    #[test]
    fn one_thread_calls_and_a_callback_that_is_slow_gets_the_latest() {
        let mut latest = Latest::<Risk>::default();
        let (callback, is_called) = called();
        latest.call(callback);
        let calls = latest.tell(&warning()).expect("it is to be called");
        assert!(latest.tell(&recovered()).is_none(), "a thread is about to call");
        calls.call();
        assert_eq!(seen(&is_called), [false]);
    }

    #[test]
    fn one_that_panics_stops_no_other_and_is_called_again() {
        let mut latest = Latest::<Risk>::default();
        let panics = Arc::new(AtomicUsize::new(0));
        let theirs = panics.clone();
        latest.call(Box::new(move |_| {
            theirs.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("in a callback"));
        }));
        let (callback, is_called) = called();
        latest.call(callback);
        latest.tell(&warning()).expect("they are to be called").call();
        latest.tell(&recovered()).expect("they are to be called").call();
        assert_eq!((panics.load(Ordering::SeqCst), seen(&is_called)), (2, vec![true, false]));
    }

    #[test]
    fn nothing_is_called_once_the_lock_has_ended() {
        let mut latest = Latest::<Risk>::default();
        let (callback, is_called) = called();
        latest.call(callback);
        let calls = latest.tell(&warning()).expect("it is to be called");
        assert_eq!(latest.end().len(), 1, "the callback is handed out");
        calls.call();
        assert!(seen(&is_called).is_empty());
    }

    /// A value that a callback owns may ask for the messages when it is dropped.
    #[test]
    fn a_callback_during_which_the_lock_ends_is_dropped_outside_the_mutex() {
        struct AsksWhenDropped(Arc<Calls<Risk>>, Sender<()>);
        impl Drop for AsksWhenDropped {
            fn drop(&mut self) {
                let free = self.0.0.try_lock().is_some();
                free.then(|| self.1.send(())).expect("the mutex is free").expect("there is room");
            }
        }
        let latest = Latest::<Risk>::default();
        let (dropped, is_dropped) = bounded(1);
        let owned = AsksWhenDropped(latest.calls.clone(), dropped);
        let latest = Arc::new(Mutex::new(Some(latest)));
        let theirs = latest.clone();
        let callback: Callback<Risk> = Box::new(move |_| {
            let _ = &owned;
            let ended = theirs.lock().take().map(Latest::end);
            assert!(ended.is_some_and(|others| others.is_empty()), "this one is being called");
        });
        let calls = latest.lock().as_mut().and_then(|latest| {
            assert!(latest.call(callback).is_none());
            latest.tell(&warning())
        });
        calls.expect("it is to be called").call();
        is_dropped.try_recv().expect("it is dropped");
    }

    #[test]
    fn each_request_is_told_and_a_late_reader_has_the_last_one() {
        let request = |reason: &str| ReleaseRequest { reason: reason.to_owned() };
        let mut latest = Latest::<ReleaseRequest>::default();
        latest.tell(&request("one"));
        latest.tell(&request("two"));
        let receiver = latest.receiver();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [request("two")]);
        latest.tell(&request("two"));
        assert_eq!(receiver.len(), 1, "it was asked again");
    }
}
