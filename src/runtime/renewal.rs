//! The timer of a client: it renews held locks, and notices the end of those that are not renewed.
//!
//! One thread does it for all locks. It sleeps until the first entry of the timetable is due, begins the renewals that are
//! due together, and then lets the nodes' workers write. So a node gets many renewals in one write. The timer does not wait
//! for answers, subscribers of events, or callbacks: see [`reports`](super::reports).

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, select};

use crate::clock;
use crate::core::base::{Time, give_room_back};
use crate::core::hold::Due;
use crate::runtime::client_state::ClientState;
use crate::runtime::held::{Carrier, Held, Prolonging};
use crate::runtime::timetable::{DueEntries, Timetable};

/// The longest sleep of the timer while renewals are under way: no answer wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The most renewals under way at a time. Others wait until one of these is over.
const MOST_UNDER_WAY: usize = 1_024;

/// The number of renewals begun before the nodes' workers are woken. An answer has to come within the node timeout of the
/// beginning, and beginning a thousand renewals takes some milliseconds.
const WOKEN_AFTER: usize = 128;

/// Starts the timer of the client. `suspended` gets a message when all leases are over at once.
pub(crate) fn start(
    client: &Arc<ClientState>,
    suspended: Receiver<()>,
) -> io::Result<Arc<Timetable<Held>>> {
    let (timetable, woken) = Timetable::new();
    let (weak, client) = (Arc::downgrade(&timetable), Arc::downgrade(client));
    clock::spawn("quorlock-timer".to_owned(), move || {
        run(&weak, Renewals::new(client), &woken, &suspended);
    })?;
    Ok(timetable)
}

/// The body of the thread; ends with the timetable.
fn run(
    timetable: &Weak<Timetable<Held>>,
    mut renewals: Renewals,
    woken: &Receiver<()>,
    suspended: &Receiver<()>,
) {
    let mut all_are_due = false;
    loop {
        let Some(table) = timetable.upgrade() else { return };
        if table.tidy(clock::now()) {
            renewals.give_room_back();
        }
        let entries = if all_are_due { table.all() } else { Vec::new() };
        let (due, mut until) = table.due(clock::now());
        drop(table);
        renewals.check(entries.into_iter().chain(due).collect());
        if renewals.are_under_way() {
            until = until.min(clock::now().after(LOOK_AGAIN));
        }
        all_are_due = match sleep(until, woken, suspended) {
            WokenBy::Time | WokenBy::Timetable => false,
            WokenBy::Suspension => true,
            WokenBy::End => return,
        };
    }
}

enum WokenBy {
    Time,
    /// Something is due earlier.
    Timetable,
    /// All leases are over.
    Suspension,
    /// The timetable has gone.
    End,
}

fn sleep(until: Time, woken: &Receiver<()>, suspended: &Receiver<()>) -> WokenBy {
    while let Some(slice) = clock::slice(until) {
        select! {
            recv(woken) -> message => {
                return if message.is_ok() { WokenBy::Timetable } else { WokenBy::End };
            }
            // Its sender is dropped with the last of the nodes, and so is the timetable.
            recv(suspended) -> message => {
                return if message.is_ok() { WokenBy::Suspension } else { WokenBy::End };
            }
            default(slice) => {}
        }
    }
    WokenBy::Time
}

/// The renewals of one client.
struct Renewals {
    client: Weak<ClientState>,
    under_way: Vec<UnderWay>,
    /// Locks whose renewal is due, and waits until another one is over. The first one is due first.
    waiting: VecDeque<Weak<Held>>,
}

/// One renewal under way.
struct UnderWay {
    held: Arc<Held>,
    renewal: Prolonging,
}

impl Renewals {
    fn new(client: Weak<ClientState>) -> Self {
        Self { client, under_way: Vec::new(), waiting: VecDeque::new() }
    }

    fn are_under_way(&self) -> bool {
        !self.under_way.is_empty() || !self.waiting.is_empty()
    }

    /// Gives back room that was needed once, for renewals that were due together.
    fn give_room_back(&mut self) {
        give_room_back(&mut self.under_way);
        give_room_back(&mut self.waiting);
    }

    /// Handles the locks whose entries were just taken out, and carries the renewals on. Every step must be short, since
    /// other locks wait.
    ///
    /// Losses come first, and their messages before anything else: a holder that still works cannot wait. The keys that are
    /// left on the nodes can wait, and with a thousand locks lost at once, releasing them takes as long as all the messages.
    fn check(&mut self, due: DueEntries<Held>) {
        let (mut lost, mut others) = (Vec::new(), Vec::new());
        for (entry, held) in due {
            let Some(held) = held.upgrade().filter(|held| held.taken_out(entry)) else { continue };
            match held.taken_up() {
                Due::Nothing => {}
                Due::Loss => {
                    if let Some(ending) = held.lose() {
                        lost.push((held, ending));
                    }
                }
                due @ (Due::Renewal | Due::RenewalAt(_) | Due::EndAt(_)) => {
                    others.push((held, due))
                }
            }
        }
        for (held, ending) in &mut lost {
            let reports = held.claim().state().reports();
            ending.callbacks().into_iter().for_each(|callbacks| reports.call(callbacks));
        }
        let mut reads = false;
        for (held, due) in others {
            held.tell_risk();
            reads |= held.read_missed_asks();
            held.enter();
            if due == Due::Renewal {
                self.waiting.push_back(Arc::downgrade(&held));
            }
        }
        self.carry_on();
        if reads {
            self.wake_workers();
        }
        for (held, ending) in lost {
            // If too many releases wait for a node, a subscriber gets an event here, and may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| held.clear_away(ending)));
        }
    }

    /// Carries on the renewals under way, and begins those that wait.
    fn carry_on(&mut self) {
        let before = self.under_way.len();
        self.under_way.retain_mut(UnderWay::goes_on);
        let mut begun = 0_usize;
        while self.under_way.len() < MOST_UNDER_WAY {
            let Some(held) = self.waiting.pop_front() else { break };
            let Some(held) = held.upgrade() else { continue };
            self.under_way.extend(UnderWay::begin(held));
            begun += 1;
            if begun.is_multiple_of(WOKEN_AFTER) {
                self.wake_workers();
            }
        }
        if before + begun > 0 {
            self.wake_workers();
        }
    }

    fn wake_workers(&self) {
        if let Some(client) = self.client.upgrade() {
            client.wake_workers();
        }
    }
}

impl UnderWay {
    /// Begins the renewal, and returns it if it is then under way.
    fn begin(held: Arc<Held>) -> Option<Self> {
        let Some(renewal) = held.renewal() else {
            held.renewal_is_over(None);
            return None;
        };
        let mut begun = Self { held, renewal };
        begun.goes_on().then_some(begun)
    }

    /// Carries the renewal on as far as that goes without waiting, and returns true if it is still under way.
    fn goes_on(&mut self) -> bool {
        match self.held.carry_on(&mut self.renewal, Carrier::Timer) {
            ControlFlow::Continue(_) => true,
            ControlFlow::Break(prolonged) => {
                self.held.renewal_is_over(Some((&self.renewal, prolonged)));
                false
            }
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
