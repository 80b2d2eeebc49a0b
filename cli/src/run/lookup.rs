//! The question for the holder of a lock, asked on another thread than the one that waits for the lock or keeps it.

use quorlock::crossbeam_channel::{Receiver, bounded, never};
use quorlock::{Error, HolderReport, MultiMutex};

use crate::clock;

pub(super) type Said = Result<HolderReport, Error>;

/// Asks the masters on a thread of its own, since an answer may take as long as their time limit. Neither the lock nor a signal
/// waits for it. There is one question at a time.
#[derive(Debug)]
pub(super) struct Lookup {
    /// A lock of any kind: the masters report the holders of its names.
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
        // Without a thread, the channel is closed and there is no answer.
        let _ = clock::spawn("holder", move || _ = answers.send(lock.holder()));
        (self.said, self.is_asking) = (said, true);
    }

    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Returns the channel with the answer. [`taken`](Self::taken) must be called after the answer.
    pub(super) fn said(&self) -> Receiver<Said> {
        self.said.clone()
    }

    /// Ends the question: the answer was received, or there is none.
    pub(super) fn taken(&mut self) {
        (self.said, self.is_asking) = (never(), false);
    }
}
