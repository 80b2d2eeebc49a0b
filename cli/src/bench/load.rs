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

/// Time limit for one lock. It is generous, since all holders give theirs back at once: a lock that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(30);
/// Interval at which the progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    /// The threads are divided among the clients.
    pub(super) clients: &'a [Quorlock],
    /// The locks. Each thread goes round all of them, from another starting point.
    pub(super) names: &'a [String],
    pub(super) threads: usize,
}

/// The result of the threads so far.
#[derive(Debug)]
struct Tally {
    figures: Figures,
    /// The first error of any thread, which ends all of them early.
    failure: Option<Failure>,
}

impl Load<'_> {
    /// Measures for the time `span`. A signal ends the measurement at once.
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

    /// The work of one thread: takes the locks in turn, until the time is over or a thread has failed.
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

    /// Shows the progress until the last thread has ended. Returns the signal that has ended the threads, if there was one.
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
                // This channel has no messages, and is closed when the last thread ends.
                recv(ended) -> _ => return None,
                recv(signals) -> signal => if let Ok(signal) = signal {
                    // Ends the waiting calls, and so the threads. The final `close` of the clients waits for the releases that are
                    // left.
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

/// Takes a lock and gives it back. `None` if it was not granted in time, or was lost before the release.
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

/// A lock is usable even after a panic, since no thread leaves a half-written record.
fn of(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
