//! Money goes from one account to another, and nobody else uses either account meanwhile.
//!
//! A transfer reads both balances, and writes both. So it takes the locks of both accounts at once, by `multi_mutex`. Two
//! plain locks, one after the other, would be a deadlock as soon as one teller goes from A to B and another one from B to
//! A: each holds one lock, and waits for the other. With `multi_mutex` nobody holds one account while waiting for another
//! one. The order in which a teller names the accounts does not matter.
//!
//! An auditor reads all accounts at once. With the locks the sum is always the same.
//!
//! ```text
//! cargo run --example transfer
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if money was lost or created
//! without locks, and not with them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use masters::{Failure, Masters};
use quorlock::{Guard, Quorlock};

#[path = "common/masters.rs"]
mod masters;

const ACCOUNTS: usize = 5;
const OPENING: i64 = 1_000;

/// Number of tellers. In production each is a process; in this example, a thread with a client of its own.
const TELLERS: usize = 4;
const TRANSFERS: usize = 40;

/// Time that the bank takes to read a balance, or to write one.
const SLOW: Duration = Duration::from_micros(500);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("transfer: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{TELLERS} tellers make {TRANSFERS} transfers each between {ACCOUNTS} accounts");
    println!("{}", masters.describe());
    // Masters that you name may be new, and in quarantine at first.
    drop(masters.builder()?.build()?.lock("transfer/ready")?);

    let before = OPENING * ACCOUNTS as i64;
    let without = business(&masters, false)?;
    println!("\nWithout locks the bank had {before} in the morning, and has {without} now.");
    let with = business(&masters, true)?;
    println!("With the locks of both accounts it had {before}, and has {with}.");
    if without == before {
        return Err("without locks no transfer went wrong, so this run proves nothing".into());
    }
    (with == before).then_some(()).ok_or_else(|| "with locks money was lost or made".into())
}

/// The accounts, in a store that knows nothing of transactions.
struct Bank([AtomicI64; ACCOUNTS]);

impl Bank {
    fn read(&self, account: usize) -> i64 {
        thread::sleep(SLOW);
        self.0[account].load(Ordering::SeqCst)
    }

    fn write(&self, account: usize, balance: i64) {
        thread::sleep(SLOW);
        self.0[account].store(balance, Ordering::SeqCst);
    }

    fn transfer(&self, from: usize, to: usize, amount: i64) {
        let (left, right) = (self.read(from), self.read(to));
        self.write(from, left - amount);
        self.write(to, right + amount);
    }
}

/// Runs the transfers of all tellers. Returns the money at the bank afterwards.
fn business(masters: &Masters, locked: bool) -> Result<i64, Failure> {
    let bank = Bank([const { AtomicI64::new(OPENING) }; ACCOUNTS]);
    thread::scope(|scope| {
        let tellers: Vec<_> = (0..TELLERS)
            .map(|_| scope.spawn(|| be_a_teller(masters.builder()?.build()?, &bank, locked)))
            .collect();
        let told =
            tellers.into_iter().map(|teller| teller.join().expect("a teller does not panic"));
        told.collect::<Result<(), Failure>>()
    })?;
    audit(&masters.builder()?.build()?, &bank)
}

fn be_a_teller(locks: Quorlock, bank: &Bank, locked: bool) -> Result<(), Failure> {
    for _ in 0..TRANSFERS {
        let from = rand::random_range(0..ACCOUNTS);
        let to = (from + rand::random_range(1..ACCOUNTS)) % ACCOUNTS;
        let guard = if locked { Some(take(&locks, &[from, to])?) } else { None };
        bank.transfer(from, to, rand::random_range(1..100));
        if let Some(guard) = guard {
            guard.unlock()?;
        }
    }
    Ok(())
}

/// Returns the sum of all accounts, which nobody uses meanwhile.
fn audit(locks: &Quorlock, bank: &Bank) -> Result<i64, Failure> {
    let all: Vec<_> = (0..ACCOUNTS).collect();
    let guard = take(locks, &all)?;
    let sum = all.iter().map(|account| bank.read(*account)).sum();
    guard.unlock()?;
    Ok(sum)
}

fn take(locks: &Quorlock, accounts: &[usize]) -> Result<Guard, Failure> {
    let names = accounts.iter().map(|account| format!("transfer/account-{account}"));
    Ok(locks.multi_mutex(names).lock()?)
}
