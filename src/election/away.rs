//! The time after a term that has ended in order: the candidate leaves the leadership to others for a while.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, never};
use parking_lot::Mutex;

use super::observer;
use crate::clock;
use crate::core::acquire::Patience;
use crate::core::base::Time;
use crate::core::vote::FencingToken;
use crate::guard::Guard;
use crate::handle::Handle;
use crate::kinds::Exclusive;
use crate::runtime::fan_out::{Interrupts, Woken};
use crate::runtime::holder::HoldState;
use crate::wait::Wait;

/// The pauses between two checks whether another candidate has led: the first one, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// The last term of the candidates of one election in this process.
#[derive(Default)]
pub(super) struct Away(Mutex<Option<LastTerm>>);

/// The reason why a candidate does not stand now.
pub(super) enum NotOver {
    /// The caller's time is over, and the candidate has to stay away for that time.
    For(Duration),
    Cancelled,
}

struct LastTerm {
    term: FencingToken,
    /// Says whether the term was given back or lost.
    holder: Arc<HoldState>,
    /// The latest end of the time for which candidates stay away, once one of them has come back.
    until: Option<Time>,
}

impl Away {
    /// A candidate leads in that term.
    pub(super) fn led(&self, guard: &Guard, term: FencingToken) {
        let holder = guard.hold_state().clone();
        *self.0.lock() = Some(LastTerm { term, holder, until: None });
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
        while let Some((term, until)) = self.last_term(lock.lives_for()) {
            let now = clock::now();
            if until <= now || observer::has_led_since(lock, term) {
                self.0.lock().take_if(|last| last.term == term);
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
                // The call for the lock reports it.
                Woken::Closed => break,
                _ => pause = (pause * 2).min(LOOKS.1),
            }
        }
        Ok(())
    }

    /// Returns the last term, if it was given back in time, and the time until which its candidates stay away. After a lost
    /// term they need not stay away.
    fn last_term(&self, ttl: Duration) -> Option<(FencingToken, Time)> {
        let last = &mut *self.0.lock();
        let is_given_back = last.as_ref()?.holder.notice.is_given_back();
        if is_given_back == Some(false) {
            *last = None;
        }
        let last = last.as_mut().filter(|_| is_given_back == Some(true))?;
        let until = *last.until.get_or_insert_with(|| clock::now().after(ttl));
        Some((last.term, until))
    }
}
