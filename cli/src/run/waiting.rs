//! The wait for the lock, which a signal ends.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, bounded, select};
use quorlock::{
    Error, Guard, Handle, LockGuard, LockKind, MultiMutex, Quorlock, ReadGuard, RwLock, Semaphore,
    Wait, WriteGuard,
};

use super::lookup::Lookup;
use super::news::{Audience, Away, News, Obstacle, Word, other_permits, permits_differ};
use super::orphans;
use crate::clock::{self, Time};
use crate::exit::{End, Failure};
use crate::signals::{ends_the_wait, suspend};
use crate::tell::{clear_line, has_terminal, show_line, tell};

/// Time limit for taking back from the masters what a wait has left, at its end.
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(3);

/// The wait for the lock, its time limit, and the signals that end it.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    pub(super) client: &'a Quorlock,
    pub(super) signals: &'a Receiver<Signal>,
    pub(super) wait: Wait<'static>,
    /// True if the wait is a single attempt.
    pub(super) tries_once: bool,
    /// The exit code if somebody else has the lock all the time.
    pub(super) held_code: u8,
    /// The lock independent of its kind, and its names in quotes.
    pub(super) any_kind: &'a MultiMutex,
    pub(super) shown: &'a str,
    /// Number of permits, if the lock is a semaphore.
    pub(super) permits: Option<u32>,
    /// True if the wait is reported even without a terminal.
    pub(super) verbose: bool,
}

impl Waiting<'_> {
    pub(super) fn lock<K: LockKind>(&self, handle: &Handle<K>) -> Result<K::Guard, Failure> {
        self.ask(|wait| handle.lock_within(wait))
    }

    pub(super) fn read(&self, lock: &RwLock) -> Result<ReadGuard, Failure> {
        self.ask(|wait| lock.read_within(wait))
    }

    pub(super) fn write(&self, lock: &RwLock) -> Result<WriteGuard, Failure> {
        self.ask(|wait| lock.write_within(wait))
    }

    pub(super) fn acquire(&self, semaphore: &Semaphore) -> Result<Guard, Failure> {
        let got = self.ask(|wait| semaphore.acquire_within(wait));
        got.map_err(|failure| {
            let here = semaphore.permits();
            let is_held = failure.end == End::Code(self.held_code) && failure.message.is_empty();
            let report = self.any_kind.holder().ok().filter(|_| is_held);
            match report.and_then(|report| other_permits(&report, here)) {
                Some(there) => {
                    Failure { message: permits_differ(self.shown, there, here), ..failure }
                }
                None => failure,
            }
        })
    }

    /// Asks for the lock, until it is granted, the time is over, or a signal comes that ends programs.
    pub(super) fn ask<G: LockGuard>(
        &self,
        ask: impl FnOnce(Wait<'static>) -> Result<G, Error>,
    ) -> Result<G, Failure> {
        let (done, is_done) = bounded::<()>(0);
        let mut news = News::new(self.shown.to_owned(), self.permits, Time::now());
        let (got, interrupted) = thread::scope(|scope| {
            let listens =
                clock::spawn_scoped(scope, "interrupts", || self.listen(&is_done, &mut news))?;
            let got = ask(self.wait);
            drop(done);
            Ok((got, listens.join().unwrap_or_default()))
        })
        .map_err(|error: std::io::Error| Failure::own(error))?;
        // Cleared before the command writes anything to the terminal.
        clear_line();
        match (interrupted, got) {
            (Some(signal), got) => {
                // The lock may have been granted just as the signal came. `close` waits for its release, and for that of the
                // attempt's keys.
                if let Ok(guard) = got {
                    guard.waive_min_hold();
                }
                let _ = self.client.clone().close(TAKEN_BACK_WITHIN);
                Err(Failure::interrupted(signal, "while it waited for the lock"))
            }
            (None, Ok(guard)) => {
                if self.verbose {
                    tell(format_args!(
                        "{} is granted, after {}",
                        self.shown,
                        news.waited(Time::now())
                    ));
                }
                Ok(guard)
            }
            // Without a message, as in `flock`: the user has asked for this outcome.
            (None, Err(error)) if error.is_held() => Err(Failure::new(self.held_code, "")),
            (None, Err(error)) => Err(error.into()),
        }
    }

    /// Reports the obstacle to the lock, until the wait is `done`, or a signal comes that ends programs. Then it ends the wait, and
    /// returns that signal.
    fn listen(&self, done: &Receiver<()>, news: &mut News) -> Option<Signal> {
        let mut lookup = Lookup::new(self.any_kind.clone());
        loop {
            self.report(news, &mut lookup);
            let said = lookup.said();
            select! {
                default(news.wait(Time::now())) => {}
                recv(done) -> _ => return None,
                recv(said) -> said => {
                    lookup.taken();
                    if let Ok(said) = said {
                        news.handle_said(&said, Time::now());
                    }
                }
                recv(self.signals) -> signal => match signal {
                    Ok(signal) if ends_the_wait(signal) => {
                        // Ends the wait, and takes back what its attempts have left on the masters.
                        let _ = self.client.clone().close(TAKEN_BACK_WITHIN);
                        return Some(signal);
                    }
                    Ok(Signal::SIGTSTP) => {
                        clear_line();
                        suspend();
                    }
                    Ok(Signal::SIGCHLD) => orphans::reap([]),
                    Ok(_) => {}
                    Err(_) => return None,
                },
            }
        }
    }

    fn report(&self, news: &mut News, lookup: &mut Lookup) {
        let now = Time::now();
        if !news.wait(now).is_zero() {
            return;
        }
        let audience = match (has_terminal(), self.verbose) {
            // A single attempt is over in a moment.
            _ if self.tries_once => Audience::Nobody,
            (true, _) => Audience::Terminal,
            (false, true) => Audience::Log,
            (false, false) => Audience::Nobody,
        };
        let seen = self.seen();
        if !lookup.is_asking() && news.asks(now, audience, &seen) {
            lookup.ask();
        }
        match news.poll(now, audience, seen) {
            Some(Word::Line(line)) => show_line(line),
            Some(Word::Message(message)) => tell(message),
            None => {}
        }
    }

    /// Returns an obstacle to all locks that this process knows of without asking the masters.
    fn seen(&self) -> Obstacle {
        let masters = self.client.node_stats();
        let away = Away::all(&masters);
        let is_outage = away.len() * 2 >= masters.len();
        let grants_in = self.client.grants_locks_in().filter(|ready_in| !ready_in.is_zero());
        match grants_in {
            _ if is_outage => Obstacle::Outage { away, masters: masters.len() },
            Some(ready_in) => Obstacle::Quarantine { ready_in },
            None => Obstacle::Unknown,
        }
    }
}
