//! Keeps held locks alive, and notices the end of those that are not kept.
//!
//! A lock that is held for a few milliseconds only costs an entry in a table: its own renewal thread
//! starts when the first renewal is due. One thread a client sleeps until the first entry of the
//! table is due. It also watches over locks that are not renewed.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, RecvTimeoutError, select};

use crate::clock;
use crate::core::Due;
use crate::observe;
use crate::runtime::held::Held;
use crate::runtime::loss::Callbacks;
use crate::runtime::timetable::{DueEntries, Timetable};

/// Starts the thread of a timetable. `suspended` has a message for it when all leases are over at once.
pub(crate) fn start(suspended: Receiver<()>) -> io::Result<Arc<Timetable<Held>>> {
    let (timetable, woken) = Timetable::new();
    let weak = Arc::downgrade(&timetable);
    clock::spawn("quorlock-timer".to_owned(), move || run(&weak, &woken, &suspended))?;
    Ok(timetable)
}

/// The life of the thread; ends with the timetable.
fn run(timetable: &Weak<Timetable<Held>>, woken: &Receiver<()>, suspended: &Receiver<()>) {
    loop {
        let Some(table) = timetable.upgrade() else { return };
        let ((due, until), left) = (table.due(clock::now()), table.left());
        drop(table);
        check(due);
        left.into_iter().for_each(Callbacks::call);
        while let Some(slice) = clock::slice(until) {
            select! {
                recv(woken) -> message => match message {
                    Ok(()) => break,
                    Err(_) => return,
                },
                recv(suspended) -> message => {
                    // With the last of the nodes its sender goes, and so does the timetable.
                    if let (Ok(()), Some(table)) = (message, timetable.upgrade()) {
                        let (due, threads) = table.all();
                        threads.iter().filter_map(Weak::upgrade).for_each(|held| held.poke());
                        check(due);
                    }
                    break;
                }
                default(slice) => {}
            }
        }
    }
}

/// Does what is due for locks whose entries were just taken out; none of it may take long, for others
/// are waiting.
///
/// The losses come first, and of those the messages: a holder that still works is the one thing that
/// cannot wait. What is left on the nodes can, and with a thousand locks lost at once it takes as long
/// as all the messages.
fn check(due: DueEntries<Held>) {
    let (mut lost, mut others) = (Vec::new(), Vec::new());
    for (entry, held) in due {
        let Some(held) = held.upgrade().filter(|held| held.taken_out(entry)) else { continue };
        match held.due(clock::now()) {
            Due::Nothing => {}
            Due::Loss => {
                if let Some(ending) = held.lose() {
                    lost.push((held, ending));
                }
            }
            due @ (Due::Renewal | Due::RenewalAt(_) | Due::EndAt(_)) => others.push((held, due)),
        }
    }
    for (_, ending) in &mut lost {
        let callbacks = ending.callbacks();
        call(callbacks);
    }
    for (held, due) in &others {
        whatever_happens(|| if *due == Due::Renewal { start_renewal(held) } else { held.enter() });
    }
    lost.into_iter().for_each(|(held, ending)| whatever_happens(|| held.clear_away(ending)));
}

/// A subscriber of our events that panics must not end the renewals of all.
fn whatever_happens(run: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// Starts the renewal thread.
fn start_renewal(held: &Arc<Held>) {
    let (weak, poked) = (Arc::downgrade(held), held.poked());
    let timetable = held.timetable();
    let (table, thread) = (Arc::downgrade(timetable), timetable.has_thread(&weak));
    let run = move || {
        keep_alive(&weak, &poked);
        if let Some(table) = table.upgrade() {
            table.thread_ends(thread);
        }
    };
    if let Err(error) = clock::spawn_small(thread_name(held), run) {
        // Out of threads. So this one takes over, one lock after the other.
        timetable.thread_ends(thread);
        observe::no_thread(&error);
        held.renew();
        held.enter();
    }
}

/// Renews the lock while there is something to renew: the life of a renewal thread. The end is the
/// timetable's, so that a thousand locks that end at once need not wake a thousand threads.
fn keep_alive(held: &Weak<Held>, poked: &Receiver<()>) {
    while let Some(lock) = held.upgrade() {
        let until = match lock.due(clock::now()) {
            Due::Nothing => return,
            Due::Renewal => {
                lock.renew();
                continue;
            }
            Due::RenewalAt(at) => at,
            Due::EndAt(_) => {
                lock.enter();
                return;
            }
            Due::Loss => {
                if let Some(mut ending) = lock.lose() {
                    call(ending.callbacks());
                    lock.clear_away(ending);
                }
                return;
            }
        };
        // Not while we wait: the holder may be gone meanwhile.
        drop(lock);
        while let Some(slice) = clock::slice(until) {
            match poked.recv_timeout(slice) {
                Ok(()) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// Each holder's on a thread of their own, or on this one if there is none to be had. A subscriber of that event may
/// panic, and the other holders' are called all the same.
fn call(callbacks: Vec<Callbacks>) {
    for callbacks in callbacks {
        whatever_happens(|| {
            if let Err(callbacks) = callbacks.call_apart() {
                callbacks.call();
            }
        });
    }
}

/// Linux shows the first 15 bytes.
fn thread_name(held: &Held) -> String {
    let name = String::from_utf8_lossy(held.claim().names().first().as_bytes()).replace('\0', "?");
    format!("lock {name:.40}")
}
