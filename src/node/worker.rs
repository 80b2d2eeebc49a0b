//! The thread of one node. It carries the node's connection while no caller does, and sleeps while there is nothing to do.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::driver::{Driver, LEFT};
use super::mailbox::{Found, Mailbox};
use super::set::NodeSet;
use super::shared::Shared;
use super::steps::Next;
use super::wire::Socket;
use crate::clock;
use crate::core::base::Time;

/// Longest time for which a worker leaves a connection to callers that have it at each check. Then it waits for its turn.
const LONGEST: Duration = Duration::from_millis(100);

pub(super) struct Worker {
    pub(super) driver: Arc<Mutex<Driver>>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    pub(super) set: Arc<NodeSet>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.abandon();
        // The worker has ended, or has panicked.
        self.driver.lock().drop_all();
    }
}

impl Worker {
    /// Works until the mailbox is closed and all its jobs are done. Releases for a node that is down are tried for as long as the
    /// machine says.
    pub(super) fn run(self) {
        let mut driver = self.driver.lock();
        loop {
            let found = match driver.work() {
                Next::End => return,
                Next::Rest(until) => {
                    let until = driver.rest(until);
                    self.shared.sleeps_until(until);
                    MutexGuard::unlocked(&mut driver, || self.rest(until))
                }
                Next::Read { until, takes_more } => {
                    self.shared.sleeps_until(until);
                    let socket = driver.socket().cloned();
                    drop(driver);
                    let found = self.read(socket, until, takes_more);
                    driver = self.driver.lock();
                    found
                }
            };
            match found {
                Found::Something => driver.submit_what_waits(),
                Found::Nothing => {}
                Found::Closed => driver.client_is_gone(),
            }
        }
    }

    fn rest(&self, until: Time) -> Found {
        self.set.tell_events();
        let found = self.mailbox.wait(clock::slice(until).unwrap_or_default());
        let found = self.leave_to_callers(found);
        if found == Found::Something {
            // Other callers run first, and the one that just asked gets to ask all nodes. Twice as much then goes
            // into a write, for a third less processor time in all. If no other thread wants to run, this costs
            // next to nothing.
            clock::yield_now();
        }
        found
    }

    /// Waits for an answer, or for requests as well. A caller that has taken the connection meanwhile reads the answer.
    fn read(&self, socket: Option<Socket>, until: Time, takes_more: bool) -> Found {
        self.set.tell_events();
        let at_most = clock::slice(until).unwrap_or_default();
        let found = match socket {
            Some(socket) => self.mailbox.wait_for_answer(&socket, at_most, takes_more),
            None => Found::Nothing,
        };
        let found = self.leave_to_callers(found);
        if found == Found::Something {
            // As in `rest`.
            clock::yield_now();
        }
        found
    }

    /// Waits on while a caller drives the connection, if nothing was found: the caller normally does what is to be done.
    fn leave_to_callers(&self, found: Found) -> Found {
        let (mut found, mut pause, until) = (found, LEFT, clock::now().after(LONGEST));
        while found == Found::Nothing && self.driver.is_locked() && clock::now() < until {
            self.shared.sleeps_until(clock::now().after(pause));
            found = self.mailbox.wait(pause);
            self.set.tell_events();
            pause *= 2;
        }
        found
    }
}
