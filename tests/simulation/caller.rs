//! A thread of a client that takes locks, uses them and gives them back, as users do. A call runs the machine
//! `core::Acquire`, as `src/runtime/call.rs` does.

mod again;
mod call;
mod driving;
mod using;

use std::time::Duration;

use self::call::Call;
use self::using::{Unlock, Use};
use super::client::{Client, Cx, Note, Phase};
use super::held::{Hold, Prolonging};
use super::lock_id::LockId;
use crate::core::base::Time;

pub(super) struct Caller {
    index: usize,
    /// Outdates the notes that were scheduled before.
    epoch: u64,
    /// Time at which it goes on by itself.
    due: Time,
    doing: Doing,
    /// Number of locks that it has tried for in the last phase, where it must get each of them.
    to_probe: usize,
    /// Number of calls that it has begun.
    calls: u32,
    /// Its number among all threads of its process.
    pub(super) thread: u64,
    /// Further holds of the lock that it holds.
    again: Vec<Hold>,
}

enum Doing {
    Nothing,
    Thinking,
    /// It wants a lock.
    Calling(Box<Call>),
    Holding(Hold, Use),
    Extending(Hold, Prolonging, Use),
    Unlocking(Unlock),
}

impl Caller {
    pub(super) fn start(index: usize, cx: &mut Cx<'_>) -> Self {
        let thread = cx.shared.new_thread();
        let doing = Doing::Thinking;
        let again = Vec::new();
        let due = cx.now();
        let mut caller = Self { index, epoch: 0, due, doing, to_probe: 0, calls: 0, thread, again };
        let at = cx.now().after(cx.settings.habit.begins()).after(cx.net.chance.ms(0..50));
        caller.remind(cx, at);
        caller
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    /// Returns true if it wants a lock.
    pub(super) fn is_calling(&self) -> bool {
        matches!(self.doing, Doing::Calling(_))
    }

    /// Returns the time at which its call goes on by itself, if it wants a lock.
    pub(super) fn due(&self) -> Option<Time> {
        self.is_calling().then_some(self.due)
    }

    /// Returns true if it waits for the note with that epoch.
    pub(super) fn heeds(&self, epoch: u64) -> bool {
        self.epoch == epoch && !matches!(self.doing, Doing::Nothing)
    }

    /// Its call, if it wants a lock.
    pub(super) fn into_call(self) -> Option<Call> {
        match self.doing {
            Doing::Calling(call) => Some(*call),
            _ => None,
        }
    }

    /// Returns the note that wakes it, if it waits in the local queue.
    pub(super) fn waits_in_queue(&self) -> Option<Note> {
        let Doing::Calling(call) = &self.doing else { return None };
        call.waits_in_queue().then(|| self.note())
    }

    /// Reacts to the beginning of a new phase: a use or a pause ends at once.
    pub(super) fn hurry(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let caller = &mut client.callers[index];
        let now = cx.now();
        match &mut caller.doing {
            Doing::Holding(_, usage) => {
                usage.until = now;
                usage.extend = None;
            }
            Doing::Thinking | Doing::Nothing => caller.doing = Doing::Thinking,
            Doing::Calling(_) | Doing::Extending(..) | Doing::Unlocking(_) => return,
        }
        caller.remind(cx, now);
    }

    fn remind(&mut self, cx: &mut Cx<'_>, at: Time) {
        let note = self.next_note(cx);
        self.due = at;
        cx.remind(at, note);
    }

    /// Returns the note that wakes it from now on. Notes that were scheduled before no longer do.
    fn next_note(&mut self, cx: &mut Cx<'_>) -> Note {
        self.epoch = cx.net.fresh();
        self.note()
    }

    fn note(&self) -> Note {
        Note::Caller { caller: self.index, epoch: self.epoch }
    }

    /// Continues the caller: its time has come, or the event that it waits for.
    pub(super) fn go_on(client: &mut Client, index: usize, epoch: u64, cx: &mut Cx<'_>) {
        // The caller may have been dropped.
        let Some(caller) = client.callers.get_mut(index).filter(|caller| caller.epoch == epoch)
        else {
            return;
        };
        match std::mem::replace(&mut caller.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Thinking => Self::call(client, index, cx),
            Doing::Calling(call) => Self::happened(client, index, cx, *call),
            Doing::Holding(hold, usage) => Self::used(client, index, cx, hold, usage),
            Doing::Extending(hold, extension, usage) => {
                Self::extend(client, index, cx, hold, extension, usage);
            }
            Doing::Unlocking(unlock) => Self::unlocked(client, index, cx, unlock),
        }
    }

    /// Ends its call, if it wants a lock, as if its deadline had come.
    pub(super) fn call_ends(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now();
        let caller = &mut client.callers[index];
        if let Doing::Calling(call) = &mut caller.doing {
            call.cancelled_at = Some(now);
            let epoch = caller.epoch;
            Self::go_on(client, index, epoch, cx);
        }
    }

    /// Gives its further holds back, and rests until the next call, if there is one.
    fn rest(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        for hold in std::mem::take(&mut client.callers[index].again) {
            hold.drop_guard(client, cx);
        }
        let caller = &mut client.callers[index];
        caller.doing = match cx.phase {
            Phase::Draining => Doing::Nothing,
            Phase::Probing if LockId::probe(caller.to_probe, cx.settings.names).is_none() => {
                Doing::Nothing
            }
            Phase::Working | Phase::Probing => Doing::Thinking,
        };
        let thinks = cx.settings.habit.thinks() && cx.net.chance.one_in(3);
        let think = if thinks { cx.net.chance.ms(0..400) } else { Duration::ZERO };
        // A caller does not rest between the locks that it must get in the end.
        let rests = cx.settings.habit.rests().filter(|_| cx.phase == Phase::Working);
        let think = rests.unwrap_or(think);
        let at = cx.now().after(think);
        caller.remind(cx, at);
    }
}
