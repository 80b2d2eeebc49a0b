//! How one holder is told that its lock is at risk, and that it is not any more.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::callbacks::Callbacks;
use crate::risk::Risk;

pub(crate) type RiskCallback = Box<dyn FnMut(Risk) + Send>;

/// The messages about the risk to one holder's lock, until the lock ends for it. It is made when it is first needed: most holders
/// never hear of a risk, and do not ask.
#[derive(Default)]
pub(super) struct OnRisk {
    /// The last message.
    latest: Option<Risk>,
    channel: Option<(Sender<Risk>, Receiver<Risk>)>,
    calls: Arc<Calls>,
}

/// The calls that are due, on threads that may be blocked there.
#[derive(Default)]
struct Calls(Mutex<CallsState>);

#[derive(Default)]
struct CallsState {
    callbacks: Vec<Call>,
    /// The last message, and its number.
    latest: Option<Risk>,
    number: u64,
    /// A thread calls, or is about to.
    is_calling: bool,
    has_ended: bool,
}

struct Call {
    callback: RiskCallback,
    /// The number of the last message that it was called with.
    seen: u64,
}

impl OnRisk {
    /// Returns the channel that has the latest message.
    pub(super) fn receiver(&mut self) -> Receiver<Risk> {
        let warning = self.warning().cloned();
        let (_, receiver) = self.channel.get_or_insert_with(|| {
            let (sender, receiver) = bounded(1);
            // There is room for it.
            warning.into_iter().for_each(|warning| _ = sender.try_send(warning));
            (sender, receiver)
        });
        receiver.clone()
    }

    fn warning(&self) -> Option<&Risk> {
        self.latest.as_ref().filter(|latest| latest.is_at_risk())
    }

    /// Tells the holder. Returns what is to be called. A holder that was not warned has nothing to recover from.
    pub(super) fn tell(&mut self, risk: &Risk) -> Option<Callbacks> {
        if self.warning().is_some() == risk.is_at_risk() {
            return None;
        }
        self.latest = Some(risk.clone());
        if let Some((sender, receiver)) = &self.channel
            && sender.try_send(risk.clone()).is_err()
        {
            // The message before was not read. Only this thread sends, so there is room then.
            let _ = receiver.try_recv();
            let _ = sender.try_send(risk.clone());
        }
        let mut calls = self.calls.0.lock();
        calls.latest = Some(risk.clone());
        calls.number += 1;
        calls.start(&self.calls)
    }

    /// Has `callback` called with each message from now on, and with the warning, if the holder is warned. Returns what is to
    /// be called now.
    pub(super) fn call(&self, callback: RiskCallback) -> Option<Callbacks> {
        let mut calls = self.calls.0.lock();
        let seen = calls.number - u64::from(self.warning().is_some());
        calls.callbacks.push(Call { callback, seen });
        calls.start(&self.calls)
    }

    /// The lock has ended for the holder: nothing more is called. Returns the callbacks, which own what may do anything when it
    /// is dropped.
    pub(super) fn end(self) -> Vec<RiskCallback> {
        if let Some((sender, receiver)) = self.channel {
            drop(sender);
            // A message that was not read is of no use any more.
            let _ = receiver.try_recv();
        }
        let mut calls = self.calls.0.lock();
        calls.has_ended = true;
        let ended = mem::take(&mut calls.callbacks);
        drop(calls);
        ended.into_iter().map(|call| call.callback).collect()
    }
}

impl CallsState {
    /// Has the callbacks called that have not seen the last message, unless that is under way.
    fn start(&mut self, calls: &Arc<Calls>) -> Option<Callbacks> {
        let is_due = self.callbacks.iter().any(|call| call.seen < self.number);
        if !is_due || self.is_calling {
            return None;
        }
        self.is_calling = true;
        let calls = calls.clone();
        Some(Callbacks::new(vec![Box::new(move || calls.call())]))
    }
}

impl Calls {
    /// Calls each callback with the last message, until all have seen it. A callback that panics does not stop the others.
    fn call(&self) {
        loop {
            let mut state = self.0.lock();
            let number = state.number;
            let next = state.callbacks.iter().position(|call| call.seen < number);
            let (Some(next), Some(risk)) = (next, state.latest.clone()) else {
                state.is_calling = false;
                return;
            };
            let mut call = state.callbacks.remove(next);
            drop(state);
            call.seen = number;
            let _ = catch_unwind(AssertUnwindSafe(|| (call.callback)(risk)));
            let mut state = self.0.lock();
            if state.has_ended {
                drop(state);
                // Outside the mutex: what it owns may come back to this lock.
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

    /// A callback, and what it was called with.
    fn called() -> (RiskCallback, Receiver<bool>) {
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
        let mut on_risk = OnRisk::default();
        let receiver = on_risk.receiver();
        assert!(on_risk.tell(&recovered()).is_none() && receiver.is_empty(), "it was not warned");
        on_risk.tell(&warning());
        assert!(receiver.try_recv().is_ok_and(|risk| risk.is_at_risk()));
        on_risk.tell(&warning());
        assert!(receiver.is_empty(), "it is warned already");
        on_risk.tell(&recovered());
        on_risk.tell(&warning());
        on_risk.tell(&recovered());
        assert!(receiver.try_recv().is_ok_and(|risk| !risk.is_at_risk()), "the latest");
        assert!(receiver.is_empty());
        on_risk.tell(&warning());
        on_risk.end();
        assert_eq!(receiver.try_recv().err(), Some(TryRecvError::Disconnected), "it ends");
    }

    #[test]
    fn a_receiver_that_comes_later_has_the_warning_and_not_what_is_over() {
        let mut on_risk = OnRisk::default();
        on_risk.tell(&warning());
        assert!(on_risk.receiver().try_recv().is_ok_and(|risk| risk.is_at_risk()));
        assert!(on_risk.receiver().is_empty(), "it is one channel");
        let mut on_risk = OnRisk::default();
        on_risk.tell(&warning());
        on_risk.tell(&recovered());
        assert!(on_risk.receiver().is_empty());
    }

    #[test]
    fn callbacks_are_called_with_each_message_and_late_ones_with_the_warning() {
        let mut on_risk = OnRisk::default();
        let (first, is_called) = called();
        assert!(on_risk.call(first).is_none());
        on_risk.tell(&warning()).expect("it is to be called").call();
        assert_eq!(seen(&is_called), [true]);
        let (late, is_called_late) = called();
        on_risk.call(late).expect("the lock is at risk").call();
        assert_eq!(seen(&is_called_late), [true]);
        on_risk.tell(&recovered()).expect("both are to be called").call();
        assert_eq!((seen(&is_called), seen(&is_called_late)), (vec![false], vec![false]));
        let (after, is_called_after) = called();
        assert!(on_risk.call(after).is_none() && seen(&is_called_after).is_empty());
    }

    /// Both messages come while a thread is about to call: there is one call, with the later one.
    #[test]
    fn one_thread_calls_and_a_callback_that_is_slow_gets_the_latest() {
        let mut on_risk = OnRisk::default();
        let (callback, is_called) = called();
        on_risk.call(callback);
        let calls = on_risk.tell(&warning()).expect("it is to be called");
        assert!(on_risk.tell(&recovered()).is_none(), "a thread is about to call");
        calls.call();
        assert_eq!(seen(&is_called), [false]);
    }

    #[test]
    fn one_that_panics_stops_no_other_and_is_called_again() {
        let mut on_risk = OnRisk::default();
        let panics = Arc::new(AtomicUsize::new(0));
        let theirs = panics.clone();
        on_risk.call(Box::new(move |_| {
            theirs.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("in a callback"));
        }));
        let (callback, is_called) = called();
        on_risk.call(callback);
        on_risk.tell(&warning()).expect("they are to be called").call();
        on_risk.tell(&recovered()).expect("they are to be called").call();
        assert_eq!((panics.load(Ordering::SeqCst), seen(&is_called)), (2, vec![true, false]));
    }

    #[test]
    fn nothing_is_called_once_the_lock_has_ended() {
        let mut on_risk = OnRisk::default();
        let (callback, is_called) = called();
        on_risk.call(callback);
        let calls = on_risk.tell(&warning()).expect("it is to be called");
        assert_eq!(on_risk.end().len(), 1, "the callback is handed out");
        calls.call();
        assert!(seen(&is_called).is_empty());
    }

    /// A value that a callback owns may ask for the messages when it is dropped.
    #[test]
    fn a_callback_during_which_the_lock_ends_is_dropped_outside_the_mutex() {
        struct AsksWhenDropped(Arc<Calls>, Sender<()>);
        impl Drop for AsksWhenDropped {
            fn drop(&mut self) {
                let free = self.0.0.try_lock().is_some();
                free.then(|| self.1.send(())).expect("the mutex is free").expect("there is room");
            }
        }
        let on_risk = OnRisk::default();
        let (dropped, is_dropped) = bounded(1);
        let owned = AsksWhenDropped(on_risk.calls.clone(), dropped);
        let on_risk = Arc::new(Mutex::new(Some(on_risk)));
        let theirs = on_risk.clone();
        let callback: RiskCallback = Box::new(move |_| {
            let _ = &owned;
            let ended = theirs.lock().take().map(OnRisk::end);
            assert!(ended.is_some_and(|others| others.is_empty()), "this one is being called");
        });
        let calls = on_risk.lock().as_mut().and_then(|on_risk| {
            assert!(on_risk.call(callback).is_none());
            on_risk.tell(&warning())
        });
        calls.expect("it is to be called").call();
        is_dropped.try_recv().expect("it is dropped");
    }
}
