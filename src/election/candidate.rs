//! A candidate that stands, leads, and stands again, until it is told to stop.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use parking_lot::Mutex;

use super::campaign::Election;
use super::leadership::{Leadership, Leaving};
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::observe;
use crate::process::Process;

/// The pause before a candidate stands again, after the masters could not be reached, and after a short term.
const PAUSE: Duration = Duration::from_secs(1);
const SHORT_TERM: Duration = Duration::from_secs(1);

impl Election {
    /// Stands for election, leads, and stands again, until `stop` fires: by a message, or when its last sender is dropped.
    ///
    /// `lead` is called on this thread for each term. It returns when [`leaving`](Leadership::leaving) has a message, or to
    /// resign. Then the leadership is given back, and the candidate stays away until another one has led, for at most one
    /// TTL. A panic in `lead` ends the term, and propagates to the caller.
    ///
    /// While no majority of the masters can be reached, or too many of them may have forgotten locks, the candidate keeps
    /// trying.
    ///
    /// # Errors
    ///
    /// Those of [`campaign`](Self::campaign), without [`NoQuorum`](ErrorKind::NoQuorum) and
    /// [`Quarantined`](ErrorKind::Quarantined): the settings are wrong, or the client is closed.
    pub fn run(&self, stop: &Receiver<()>, mut lead: impl FnMut(&Leadership)) -> Result<(), Error> {
        self.stand(stop, |leadership| {
            lead(&leadership);
            // As far as the masters can be reached. A lock that was lost, or whose release was not confirmed in time, ends
            // with its TTL.
            let _ = leadership.resign();
        })
    }

    /// Works like [`run`](Self::run), on a thread of its own, until the [`Candidate`] is stopped or dropped. A panic in
    /// `lead` ends the term, is reported by an event, and the candidate stands again. After a term of less than one second
    /// it waits for one second.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) if nobody can stand with these settings, or if no thread could be started.
    pub fn start(
        &self,
        mut lead: impl FnMut(&Leadership) + Send + 'static,
    ) -> Result<Candidate, Error> {
        self.check()?;
        let ((stop, stopped), (result, ended)) = (bounded(0), bounded(1));
        let election = self.clone();
        let run = move || {
            let stood = election.stand(&stopped, |leadership| {
                let led = catch_unwind(AssertUnwindSafe(|| lead(&leadership)));
                let _ = leadership.resign();
                if led.is_err() {
                    observe::leader_panicked(election.name());
                }
            });
            if let Err(error) = &stood {
                observe::candidate_ended(election.name(), error);
            }
            let _ = result.send(stood);
        };
        clock::spawn("quorlock-candidate".to_owned(), run).map_err(no_thread)?;
        Ok(Candidate { stop: Some(stop), ended, process: self.process() })
    }

    fn stand(&self, stop: &Receiver<()>, mut lead: impl FnMut(Leadership)) -> Result<(), Error> {
        let stop = Stop::listen(stop)?;
        loop {
            match self.campaign_within(&stop.stopped) {
                Ok(leadership) => {
                    *stop.present.lock() = Some(leadership.leave());
                    if stop.has_fired() {
                        return Ok(());
                    }
                    let began = clock::now();
                    lead(leadership);
                    *stop.present.lock() = None;
                    // If each leader fails at once, the candidates must not take turns as fast as they can.
                    let is_short = clock::now().since(began) < SHORT_TERM;
                    if is_short && stop.fires_within(PAUSE) {
                        return Ok(());
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::Cancelled => return Ok(()),
                    ErrorKind::NoQuorum | ErrorKind::Quarantined { .. } => {
                        if stop.fires_within(PAUSE) {
                            return Ok(());
                        }
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::config(format!("no thread could be started for a candidate: {error}"))
}

/// Tells the present leader to leave when its candidate is told to stop.
struct Stop {
    /// Ends when the candidate is told to stop, for all waits.
    stopped: Receiver<()>,
    present: Arc<Mutex<Option<Sender<Leaving>>>>,
    /// Its drop ends the thread.
    _standing: Sender<()>,
}

impl Stop {
    /// Starts a thread that waits for `stop`: the candidate's own thread is busy while it leads.
    fn listen(stop: &Receiver<()>) -> Result<Self, Error> {
        let ((stopper, stopped), (standing, stands)) = (bounded::<()>(0), bounded::<()>(0));
        let (stop, present) = (stop.clone(), Arc::new(Mutex::new(None::<Sender<Leaving>>)));
        let theirs = present.clone();
        let listen = move || {
            select! {
                recv(stop) -> _ => {}
                recv(stands) -> _ => return,
            }
            drop(stopper);
            if let Some(leave) = theirs.lock().take() {
                // If the channel is full, the leader is leaving already.
                let _ = leave.try_send(Leaving::Stopped);
            }
        };
        clock::spawn("quorlock-election".to_owned(), listen).map_err(no_thread)?;
        Ok(Self { stopped, present, _standing: standing })
    }

    fn fires_within(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }

    fn has_fired(&self) -> bool {
        self.stopped.try_recv() != Err(crossbeam_channel::TryRecvError::Empty)
    }
}

/// A candidate with a thread of its own, from [`Election::start`]. It stands for election until it is stopped or dropped.
#[must_use = "it stops when it is dropped"]
pub struct Candidate {
    /// Its drop stops the candidate.
    stop: Option<Sender<()>>,
    ended: Receiver<Result<(), Error>>,
    process: Process,
}

impl Candidate {
    /// Tells the candidate to stop, and waits until its last call of `lead` has returned and the leadership is given back. A
    /// drop does not wait.
    ///
    /// # Errors
    ///
    /// The error that ended the candidate before this call, as of [`Election::run`].
    pub fn stop(mut self) -> Result<(), Error> {
        self.process.check()?;
        self.stop = None;
        self.ended.recv().unwrap_or(Ok(()))
    }

    /// Returns true if the candidate has ended although nobody has stopped it: its client was closed, or the masters reject
    /// it. An event has reported the reason.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.process.is_this() && !self.ended.is_empty()
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The listening thread is the parent's, and may hold the channel's lock.
            std::mem::forget(self.stop.take());
        }
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}
