//! The shop: a stock that is read and written in two steps, and its sellers.

use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use quorlock::{ErrorKind, Guard, Mutex};

use crate::clock::pause;
use crate::exit::Failure;
use crate::random::random;

/// Time of a shop's work between reading the stock and writing it.
const CHARGING_TAKES: Duration = Duration::from_millis(1);

/// The shop's database: a file with the number of items left.
#[derive(Debug)]
pub(super) struct Shop {
    stock: PathBuf,
}

impl Shop {
    pub(super) fn open(stock: PathBuf, items: u32) -> Result<Self, Failure> {
        let shop = Self { stock };
        shop.set_remaining(items).map_err(Failure::own)?;
        Ok(shop)
    }

    fn remaining(&self) -> io::Result<u32> {
        fs::read_to_string(&self.stock)?.parse().map_err(io::Error::other)
    }

    fn set_remaining(&self, items: u32) -> io::Result<()> {
        // Replaces the old file by a new one, so that nobody ever reads half a number.
        let new = self.stock.with_extension(format!("{:016x}", random()));
        fs::write(&new, items.to_string())?;
        fs::rename(new, &self.stock)
    }
}

/// Sells the shop's items, under a lock if there is one.
#[derive(Debug)]
pub(super) struct Seller<'a> {
    pub(super) shop: &'a Shop,
    pub(super) lock: Option<Mutex>,
}

impl Seller<'_> {
    /// Sells one item; false if none is left. Both rounds use this function, the second one with a lock.
    pub(super) fn sell_one(&self) -> Result<bool, Failure> {
        let guard = self.lock.as_ref().map(Mutex::lock).transpose()?;
        let remaining = self.shop.remaining().map_err(Failure::own)?;
        if remaining == 0 {
            return Ok(false); // The end of the guard gives the lock back.
        }
        pause(CHARGING_TAKES);
        if let Some(guard) = &guard {
            // A lease can run out, for example while a laptop sleeps. Then somebody else may be selling, and this seller must not
            // write any more.
            guard.check()?;
        }
        self.shop.set_remaining(remaining - 1).map_err(Failure::own)?;
        guard.map_or(Ok(()), give_back)?;
        Ok(true)
    }
}

fn give_back(guard: Guard) -> Result<(), Failure> {
    match guard.unlock() {
        // A master died that had granted this lock, and too few others are left to confirm its release. The lock was valid to the
        // end, so the sale stands.
        Err(error) if error.kind() == ErrorKind::NoQuorum => Ok(()),
        result => Ok(result?),
    }
}
