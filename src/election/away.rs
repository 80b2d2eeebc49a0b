//! After a term that has ended in time, the candidate leaves the leadership to others for a while.

use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError, never};
use parking_lot::Mutex;

use super::observer;
use crate::clock;
use crate::core::acquire::Patience;
use crate::core::base::Time;
use crate::core::hold::LossReason;
use crate::guard::Guard;
use crate::handle::Handle;
use crate::kinds::Exclusive;
use crate::runtime::fan_out::{Interrupts, Woken};
use crate::wait::Wait;

/// The pauses between two looks whether another candidate has led: the first one, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// The last term of the candidates of one election in this process.
#[derive(Default)]
pub(super) struct Away(Mutex<Option<LastTerm>>);

/// Why a candidate does not stand now.
pub(super) enum NotOver {
    /// The caller's time is over, and it was to stay away for so long.
    For(Duration),
    Cancelled,
}

struct LastTerm {
    owner: String,
    /// Ends without a message if the term was given back before it was lost.
    lost: Receiver<LossReason>,
    /// Until when candidates stay away at most, once one of them has come back.
    until: Option<Time>,
}

impl Away {
    /// A candidate leads.
    pub(super) fn led(&self, guard: &Guard) {
        let (owner, lost) = (guard.owner().to_owned(), guard.lost().clone());
        *self.0.lock() = Some(LastTerm { owner, lost, until: None });
    }

    /// Waits until another candidate for that `lock` has led since the last term was given back, at most for one TTL.
    pub(super) fn stay(
        &self,
        lock: &Handle<Exclusive>,
        wait: Wait<'_>,
        closed: &Receiver<()>,
    ) -> Result<(), NotOver> {
        let never = never();
        let interrupts = Interrupts { cancel: wait.cancel().unwrap_or(&never), closed };
        let mut pause = LOOKS.0;
        while let Some((owner, until)) = self.last_term(lock.lives_for()) {
            let now = clock::now();
            let is_other = |it: &observer::Leader| it.owner.as_bytes() != owner.as_bytes();
            let another_leads = || {
                observer::leader(lock).is_ok_and(|leader| leader.is_some_and(|it| is_other(&it)))
            };
            if until <= now || another_leads() {
                *self.0.lock() = None;
                break;
            }
            let deadline = match wait.patience() {
                Patience::Forever => until,
                Patience::Until(deadline) => deadline,
                Patience::Once => now,
            };
            if deadline <= now {
                return Err(NotOver::For(until.since(now)));
            }
            match interrupts.wait(&never, until.min(deadline).min(now.after(pause))) {
                Woken::Cancelled => return Err(NotOver::Cancelled),
                // The call for the lock says so.
                Woken::Closed => break,
                _ => pause = (pause * 2).min(LOOKS.1),
            }
        }
        Ok(())
    }

    /// The owner of the last term, if that was given back in time, and until when its candidate stays away.
    fn last_term(&self, ttl: Duration) -> Option<(String, Time)> {
        let last = &mut *self.0.lock();
        let lost = last.as_ref()?.lost.try_recv();
        if lost.is_ok() {
            *last = None;
        }
        let term = last.as_mut().filter(|_| lost == Err(TryRecvError::Disconnected))?;
        let until = *term.until.get_or_insert_with(|| clock::now().after(ttl));
        Some((term.owner.clone(), until))
    }
}
