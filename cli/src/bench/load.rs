//! Threads that take locks and give them back, for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, bounded, select};
use quorlock::{Error, ErrorKind, OptionalGuard as _, Quorlock};

use super::figures::Figures;
use super::progress::Progress;
use crate::clients;
use crate::clock::{self, Time};
use crate::exit::Failure;

/// A lock that cannot be had within that has failed. All holders give theirs back at once.
const LONGEST: Duration = Duration::from_secs(30);
/// How often the progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    /// The threads are shared out among them.
    pub(super) clients: &'a [Quorlock],
    /// The locks. Each thread goes round, and begins with another one.
    pub(super) names: &'a [String],
    pub(super) threads: usize,
}

/// What the threads have done up to now.
#[derive(Debug)]
struct Tally {
    figures: Figures,
    /// Why they end early: the first error of any of them.
    failure: Option<Failure>,
}

impl Load<'_> {
    /// Measures for that time. A signal ends it at once.
    pub(super) fn run(
        &self,
        title: &str,
        span: Duration,
        signals: &Receiver<Signal>,
    ) -> Result<Figures, Failure> {
        let tally = Mutex::new(Tally { figures: Figures::new()?, failure: None });
        let start = Time::now();
        let until = start.after(span);
        let interrupted = thread::scope(|scope| {
            let (running, ended) = bounded::<()>(0);
            for thread in 0..self.threads {
                let (running, tally) = (running.clone(), &tally);
                let work = move || {
                    self.work(thread, until, tally);
                    drop(running);
                };
                if let Err(error) = clock::spawn_scoped(scope, "bench", work) {
                    of(tally).failure = Some(Failure::own(error));
                    break;
                }
            }
            drop(running);
            self.wait(title, start, &tally, &ended, signals)
        });
        if let Some(signal) = interrupted {
            return Err(Failure::interrupted(signal, "while it measured"));
        }
        let Tally { mut figures, failure } =
            tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        figures.took = Time::now().since(start);
        match failure {
            None => Ok(figures),
            Some(Failure { end, message }) => {
                let got = figures.count();
                let failed = figures.failed;
                let message =
                    format!("{title}: after {got} locks, and {failed} that failed: {message}");
                Err(Failure { end, message })
            }
        }
    }

    /// One thread: takes the locks in turn, until the time is over or a thread has failed.
    fn work(&self, thread: usize, until: Time, tally: &Mutex<Tally>) {
        let client = &self.clients[thread % self.clients.len()];
        let first = thread % self.names.len();
        let mut names = self.names.iter().cycle().skip(first).step_by(self.threads);
        while let Some(name) = names.next().filter(|_| Time::now() < until) {
            let outcome = take_and_give_back(client, name);
            let mut tally = of(tally);
            match outcome {
                Ok(Some(Took { lock, unlock })) => tally.figures.record(lock, unlock),
                Ok(None) => tally.figures.failed += 1,
                Err(error) => _ = tally.failure.get_or_insert(error.into()),
            }
            if tally.failure.is_some() {
                return;
            }
        }
    }

    /// Shows the progress until the last thread has ended. Returns the signal that has ended them.
    fn wait(
        &self,
        title: &str,
        start: Time,
        tally: &Mutex<Tally>,
        ended: &Receiver<()>,
        signals: &Receiver<Signal>,
    ) -> Option<Signal> {
        let progress = Progress::new();
        loop {
            select! {
                // It has no messages, and ends with the last thread.
                recv(ended) -> _ => return None,
                recv(signals) -> signal => if let Ok(signal) = signal {
                    // Ends the calls that wait, and by that the threads. What those have still to give back is waited for
                    // where the clients are closed once more.
                    let _ = clients::close(self.clients);
                    return Some(signal);
                },
                default(SHOWN_EVERY) => {
                    let seconds = Time::now().since(start).as_secs_f64();
                    let count = of(tally).figures.count();
                    progress.show(format_args!("{title}: {seconds:.1} s, {count} locks"));
                }
            }
        }
    }
}

struct Took {
    lock: Duration,
    unlock: Duration,
}

/// `None`: it could not be had in time, or was lost before it was given back.
fn take_and_give_back(client: &Quorlock, name: &str) -> Result<Option<Took>, Error> {
    let handle = client.mutex(name);
    let start = Time::now();
    let Some(guard) = handle.try_lock_for(LONGEST).optional()? else { return Ok(None) };
    let locked = Time::now();
    match guard.unlock() {
        Err(error) if error.kind() == ErrorKind::Lost => return Ok(None),
        result => result?,
    }
    Ok(Some(Took { lock: locked.since(start), unlock: Time::now().since(locked) }))
}

/// A thread that has panicked has recorded nothing by halves.
fn of(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
