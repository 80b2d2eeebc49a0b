//! The wait for the lock, which a signal ends.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, bounded, select};
use quorlock::{
    Error, Guard, Handle, LockKind, Quorlock, ReadGuard, RwLock, Semaphore, WriteGuard,
};

use super::group::suspend;
use crate::clock;
use crate::exit::Failure;
use crate::signals::ENDING;

/// How long the end of a wait may take: for what was asked of masters to be taken back.
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Once,
    For(Duration),
    Forever,
}

/// How long the lock is waited for, and what ends that.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    pub(super) client: &'a Quorlock,
    pub(super) signals: &'a Receiver<Signal>,
    pub(super) patience: Patience,
    /// The exit code if somebody else has the lock all the time.
    pub(super) held_code: u8,
}

impl Waiting<'_> {
    pub(super) fn lock<K: LockKind>(&self, handle: &Handle<K>) -> Result<K::Guard, Failure> {
        self.wait(|patience| match patience {
            Patience::Once => handle.try_lock(),
            Patience::For(wait) => handle.try_lock_for(wait),
            Patience::Forever => handle.lock().map(Some),
        })
    }

    pub(super) fn read(&self, lock: &RwLock) -> Result<ReadGuard, Failure> {
        self.wait(|patience| match patience {
            Patience::Once => lock.try_read(),
            Patience::For(wait) => lock.try_read_for(wait),
            Patience::Forever => lock.read().map(Some),
        })
    }

    pub(super) fn write(&self, lock: &RwLock) -> Result<WriteGuard, Failure> {
        self.wait(|patience| match patience {
            Patience::Once => lock.try_write(),
            Patience::For(wait) => lock.try_write_for(wait),
            Patience::Forever => lock.write().map(Some),
        })
    }

    pub(super) fn acquire(&self, semaphore: &Semaphore) -> Result<Guard, Failure> {
        self.wait(|patience| match patience {
            Patience::Once => semaphore.try_acquire(),
            Patience::For(wait) => semaphore.try_acquire_for(wait),
            Patience::Forever => semaphore.acquire().map(Some),
        })
    }

    /// Asks for the lock, until it is there, its time is over, or a signal comes that ends programs.
    fn wait<G>(
        &self,
        ask: impl FnOnce(Patience) -> Result<Option<G>, Error>,
    ) -> Result<G, Failure> {
        let (done, is_done) = bounded::<()>(0);
        let (got, interrupted) = thread::scope(|scope| {
            let listens =
                clock::spawn_scoped(scope, "interrupts", || self.interrupted_before(&is_done))?;
            let got = ask(self.patience);
            drop(done);
            Ok((got, listens.join().unwrap_or_default()))
        })
        .map_err(|error: std::io::Error| Failure::own(error))?;
        match (interrupted, got) {
            (Some(signal), got) => {
                // What was granted at that moment. The attempt has taken back what it left, and that is waited for.
                drop(got);
                let _ = self.client.clone().close(TAKEN_BACK_WITHIN);
                Err(Failure::interrupted(signal, "while it waited for the lock"))
            }
            (None, Ok(Some(guard))) => Ok(guard),
            // As `flock` has it: it is what was asked for, and no fault to tell of.
            (None, Ok(None)) => Err(Failure::new(self.held_code, "")),
            (None, Err(error)) => Err(error.into()),
        }
    }

    /// Ends the wait if a signal comes that ends programs. Returns that signal.
    fn interrupted_before(&self, done: &Receiver<()>) -> Option<Signal> {
        loop {
            select! {
                recv(done) -> _ => return None,
                recv(self.signals) -> signal => match signal {
                    Ok(signal) if ENDING.contains(&signal) => {
                        // Ends the wait, and takes back what its attempts have left on the masters.
                        let _ = self.client.clone().close(TAKEN_BACK_WITHIN);
                        return Some(signal);
                    }
                    Ok(Signal::SIGTSTP) => suspend(),
                    Ok(_) => {}
                    Err(_) => return None,
                },
            }
        }
    }
}
