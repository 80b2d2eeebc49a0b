//! A client that wants a lock all the time, as others do, has it again after a limited number of grants to others.

use std::time::Duration;

/// Time in which clients may not know of each other yet.
const BEGINNING: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(in super::super) struct Turns {
    /// Largest number of grants to others before a client gets the lock, where that is promised.
    most: Option<u32>,
    /// Number of grants to others since each client had the lock last.
    others: Vec<u32>,
}

impl Turns {
    pub(in super::super) fn new(clients: usize, most: Option<u32>) -> Self {
        Self { most, others: vec![0; clients] }
    }

    /// Checks a grant to that client.
    pub(super) fn served(&mut self, client: usize, now: Duration) -> Option<String> {
        let most = self.most.filter(|_| now > BEGINNING)?;
        for (other, waited) in self.others.iter_mut().enumerate() {
            *waited = if other == client { 0 } else { *waited + 1 };
        }
        let left_out = self.others.iter().position(|waited| *waited > most)?;
        Some(format!("client {left_out} waits, and others had the lock {} times", most + 1))
    }
}
