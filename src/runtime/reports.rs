//! Reports events and calls callbacks for threads that must not wait for either.
//!
//! The timer of a client renews all of its locks. A subscriber of our events may be slow, and a callback may block for ever,
//! so neither runs on the timer's thread:
//!
//! - One thread reports the events, in their order. It exists as long as there are any.
//! - The callbacks of each holder run on a thread of their own, up to [`MOST_CALLBACK_THREADS`] at a time. One permanent
//!   thread exists from the beginning, and serves callbacks that find no other thread: a process often runs out of threads
//!   when its locks are lost.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::clock;
use crate::core::base::give_room_back;
use crate::observe;
use crate::runtime::holder::Callbacks;

/// The most events that wait to be reported. Further ones are dropped, and their number is reported.
const MOST_EVENTS: usize = 16_384;

/// The most threads of one client that call callbacks.
const MOST_CALLBACK_THREADS: usize = 256;

type Event = Box<dyn FnOnce() + Send>;

/// The pending events and callbacks of one client. Its threads end once it is dropped and nothing is left to do.
pub(crate) struct Reports(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<ReportsState>,
    /// Wakes the permanent thread.
    changed: Condvar,
}

#[derive(Default)]
struct ReportsState {
    events: VecDeque<Event>,
    /// Number of events dropped since the last one was reported.
    dropped: u64,
    /// True if a thread is reporting events.
    has_event_thread: bool,
    callbacks: VecDeque<Callbacks>,
    /// The threads that call callbacks, without the permanent one.
    callback_threads: usize,
    /// Number of `callbacks` that found no thread.
    without_thread: usize,
    closed: bool,
    /// Number of all events so far.
    #[cfg(test)]
    told: usize,
}

impl Reports {
    /// Starts the permanent thread.
    pub(crate) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        clock::spawn("quorlock-reports".to_owned(), move || theirs.serve_the_rest())?;
        Ok(Self(shared))
    }

    /// Reports an event by calling `tell` on another thread. Returns at once.
    pub(crate) fn tell(&self, tell: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        if state.events.len() >= MOST_EVENTS {
            state.dropped += 1;
            return;
        }
        state.events.push_back(Box::new(tell));
        #[cfg(test)]
        {
            state.told += 1;
        }
        let starts = !mem::replace(&mut state.has_event_thread, true);
        drop(state);
        if starts {
            let theirs = self.0.clone();
            let started = clock::spawn("quorlock-events".to_owned(), move || theirs.tell_events());
            if started.is_err() {
                // The permanent thread takes over.
                self.0.state.lock().has_event_thread = false;
                self.0.changed.notify_all();
            }
        }
    }

    /// Calls the callbacks on another thread. Returns at once.
    pub(crate) fn call(&self, callbacks: Callbacks) {
        if callbacks.is_empty() {
            return;
        }
        let mut state = self.0.state.lock();
        state.callbacks.push_back(callbacks);
        let starts = state.callback_threads < MOST_CALLBACK_THREADS;
        state.callback_threads += usize::from(starts);
        state.without_thread += usize::from(!starts);
        drop(state);
        if starts {
            let theirs = self.0.clone();
            let started = clock::spawn("quorlock-lost".to_owned(), move || theirs.call_callbacks());
            if let Err(error) = started {
                let mut state = self.0.state.lock();
                state.callback_threads -= 1;
                state.without_thread = (state.without_thread + 1).min(state.callbacks.len());
                drop(state);
                self.tell(move || observe::no_thread(&error));
            }
        }
        self.0.changed.notify_all();
    }
}

impl Reports {
    /// Gives back room that was needed once, and returns true if anything is left to report or to call.
    pub(crate) fn tidy(&self) -> bool {
        let ReportsState { events, callbacks, .. } = &mut *self.0.state.lock();
        give_room_back(events);
        give_room_back(callbacks);
        !events.is_empty() || !callbacks.is_empty()
    }
}

#[cfg(test)]
impl Reports {
    /// Returns the number of all events so far.
    pub(crate) fn told(&self) -> usize {
        self.0.state.lock().told
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Reports all pending events. No other thread does so meanwhile.
    fn tell_events(&self) {
        loop {
            let mut state = self.state.lock();
            let Some((event, dropped)) = state.next_event() else {
                state.has_event_thread = false;
                return;
            };
            drop(state);
            tell(event, dropped);
        }
    }

    /// The body of a thread that was started for one holder's callbacks.
    fn call_callbacks(&self) {
        loop {
            let mut state = self.state.lock();
            let Some(callbacks) = state.next_callbacks() else {
                state.callback_threads -= 1;
                return;
            };
            drop(state);
            callbacks.call();
        }
    }

    /// The body of the permanent thread.
    fn serve_the_rest(&self) {
        loop {
            let mut state = self.state.lock();
            while !state.has_untold_events() && state.without_thread == 0 && !state.closed {
                self.changed.wait(&mut state);
            }
            let tells = state.has_untold_events();
            state.has_event_thread |= tells;
            let calls = !tells && state.without_thread > 0;
            let callbacks = if calls { state.next_callbacks() } else { None };
            drop(state);
            match callbacks {
                _ if tells => self.tell_events(),
                Some(callbacks) => callbacks.call(),
                None => return,
            }
        }
    }
}

impl ReportsState {
    /// Returns true if there are events and no thread is reporting them.
    fn has_untold_events(&self) -> bool {
        !self.has_event_thread && !self.events.is_empty()
    }

    /// Returns the next event, and the number of events dropped before it.
    fn next_event(&mut self) -> Option<(Event, u64)> {
        let event = self.events.pop_front()?;
        Some((event, mem::take(&mut self.dropped)))
    }

    fn next_callbacks(&mut self) -> Option<Callbacks> {
        let callbacks = self.callbacks.pop_front();
        self.without_thread = self.without_thread.min(self.callbacks.len());
        callbacks
    }
}

/// A panicking subscriber withholds no event from the others.
fn tell(event: Event, dropped: u64) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if dropped > 0 {
            observe::events_dropped(dropped);
        }
    }));
    let _ = catch_unwind(AssertUnwindSafe(event));
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::time::Duration;

    use crossbeam_channel::{Receiver, bounded, unbounded};

    use super::*;
    use crate::core::hold::LossReason;
    use crate::runtime::holder::Notice;

    const LIMIT: Duration = Duration::from_secs(10);

    fn reports() -> Reports {
        Reports::start().expect("there are threads")
    }

    /// Returns the calls for a holder that has registered `callback`.
    fn callbacks(callback: impl FnOnce() + Send + 'static) -> Callbacks {
        let notice = Notice::new();
        notice.call(Box::new(move |_| callback()));
        notice.lost(LossReason::Expired).expect("it was not lost before")
    }

    /// Returns a callback that blocks until `let_go` has ended.
    fn blocks(let_go: &Receiver<()>) -> impl FnOnce() + Send + 'static {
        let let_go = let_go.clone();
        move || assert!(let_go.recv_timeout(LIMIT).is_err(), "it ends without a message")
    }

    fn ends(threads: &Weak<Shared>) -> bool {
        clock::poll(clock::now().after(LIMIT), || threads.strong_count() == 0)
    }

    #[test]
    fn events_are_told_in_their_order_also_behind_one_that_panics_and_to_the_end() {
        const EVENTS: usize = 1_000;
        let reports = reports();
        let (told, is_told) = unbounded();
        for i in 0..EVENTS {
            let told = told.clone();
            reports.tell(move || {
                told.send(i).expect("the test listens");
                if i % 7 == 0 {
                    std::panic::resume_unwind(Box::new("in a subscriber"));
                }
            });
        }
        drop(told);
        let threads = Arc::downgrade(&reports.0);
        drop(reports);
        assert!(is_told.iter().eq(0..EVENTS));
        assert!(ends(&threads), "the threads end with what they serve");
    }

    #[test]
    fn events_beyond_the_bound_are_dropped_and_counted() {
        let reports = reports();
        let (let_go, go_on) = bounded::<()>(0);
        let (started, is_started) = bounded(1);
        let block = blocks(&go_on);
        reports.tell(move || {
            started.send(()).expect("the test waits for it");
            block();
        });
        is_started.recv_timeout(LIMIT).expect("it is told");
        (0..MOST_EVENTS + 3).for_each(|_| reports.tell(|| ()));
        assert_eq!(reports.0.state.lock().events.len(), MOST_EVENTS);
        assert_eq!(reports.0.state.lock().dropped, 3);
        drop(let_go);
        let threads = Arc::downgrade(&reports.0);
        drop(reports);
        assert!(ends(&threads));
    }

    /// One event and as many callbacks as there are threads are blocked. The next callbacks are still called, until the last
    /// thread is blocked as well, and all of them are called in the end.
    #[test]
    fn callbacks_that_block_hold_up_the_others_only_when_there_is_no_thread_left() {
        const MORE: usize = 50;
        let reports = reports();
        let (let_go, go_on) = bounded::<()>(0);
        let (called, is_called) = unbounded();
        reports.tell(blocks(&go_on));
        let (started, is_started) = bounded(MOST_CALLBACK_THREADS);
        for _ in 0..MOST_CALLBACK_THREADS {
            let (started, block) = (started.clone(), blocks(&go_on));
            reports.call(callbacks(move || {
                started.send(()).expect("the test waits for it");
                block();
            }));
        }
        for _ in 0..MOST_CALLBACK_THREADS {
            is_started.recv_timeout(LIMIT).expect("it has a thread");
        }
        for i in 0..MORE {
            let called = called.clone();
            reports.call(callbacks(move || called.send(i).expect("the test listens")));
        }
        for i in 0..MORE {
            assert_eq!(is_called.recv_timeout(LIMIT), Ok(i), "by the thread that is always there");
        }
        assert_eq!(reports.0.state.lock().callback_threads, MOST_CALLBACK_THREADS);
        for _ in 0..MORE {
            reports.call(callbacks(blocks(&go_on)));
        }
        reports.call(callbacks(move || called.send(MORE).expect("the test listens")));
        assert!(is_called.is_empty());
        drop(let_go);
        assert_eq!(is_called.recv_timeout(LIMIT), Ok(MORE));
        let threads = Arc::downgrade(&reports.0);
        drop(reports);
        assert!(ends(&threads));
    }

    /// The state of a process that is out of threads.
    #[test]
    fn the_thread_that_is_always_there_tells_events_if_no_other_does() {
        let reports = reports();
        reports.0.state.lock().has_event_thread = true;
        let (told, is_told) = bounded(1);
        reports.tell(move || told.send(()).expect("the test waits for it"));
        reports.0.state.lock().has_event_thread = false;
        reports.0.changed.notify_all();
        is_told.recv_timeout(LIMIT).expect("it is told");
    }

    #[test]
    fn room_for_many_events_and_callbacks_is_given_back() {
        let reports = reports();
        let mut state = reports.0.state.lock();
        state.events.reserve(1_000);
        state.callbacks.reserve(1_000);
        state.has_event_thread = true;
        drop(state);
        reports.tell(|| {});
        assert!(reports.tidy(), "nobody has told it yet");
        let mut state = reports.0.state.lock();
        assert!(state.events.capacity() < 100 && state.callbacks.capacity() < 100);
        state.events.clear();
        drop(state);
        assert!(!reports.tidy());
    }
}
