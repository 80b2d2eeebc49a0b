//! The question who holds the lock, which others than its waiter and its keeper ask.

use quorlock::crossbeam_channel::{Receiver, bounded, never};
use quorlock::{Error, HolderReport, MultiMutex};

use crate::clock;

pub(super) type Said = Result<HolderReport, Error>;

/// Asks the masters on a thread of its own: an answer takes as long as they have for it, and neither the lock nor a signal
/// waits for that. There is one question at a time.
#[derive(Debug)]
pub(super) struct Lookup {
    /// Whatever the kind of the lock is: the masters say who has its names.
    lock: MultiMutex,
    said: Receiver<Said>,
    is_asking: bool,
}

impl Lookup {
    pub(super) fn new(lock: MultiMutex) -> Self {
        Self { lock, said: never(), is_asking: false }
    }

    pub(super) fn ask(&mut self) {
        if self.is_asking {
            return;
        }
        let (answers, said) = bounded(1);
        let lock = self.lock.clone();
        // Without a thread there is no answer, and the channel has ended.
        let _ = clock::spawn("holder", move || _ = answers.send(lock.holder()));
        (self.said, self.is_asking) = (said, true);
    }

    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Gets the answer, which is then to be [taken](Self::taken).
    pub(super) fn said(&self) -> Receiver<Said> {
        self.said.clone()
    }

    /// The answer was received, or there is none.
    pub(super) fn taken(&mut self) {
        (self.said, self.is_asking) = (never(), false);
    }
}
