//! Who wants a lock all the time, as others do, has it again after so many of them at most.

use std::time::Duration;

/// Until then they may not know of each other yet.
const BEGINNING: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(in super::super) struct Turns {
    /// How many may come before somebody, where that is promised.
    most: Option<u32>,
    /// How often others have had the lock since that client had it last.
    others: Vec<u32>,
}

impl Turns {
    pub(in super::super) fn new(clients: usize, most: Option<u32>) -> Self {
        Self { most, others: vec![0; clients] }
    }

    /// That client has got the lock.
    pub(super) fn served(&mut self, client: usize, now: Duration) -> Option<String> {
        let most = self.most.filter(|_| now > BEGINNING)?;
        for (other, waited) in self.others.iter_mut().enumerate() {
            *waited = if other == client { 0 } else { *waited + 1 };
        }
        let left_out = self.others.iter().position(|waited| *waited > most)?;
        Some(format!("client {left_out} waits, and others had the lock {} times", most + 1))
    }
}
