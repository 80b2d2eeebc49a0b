//! A holder is paused for longer than its lock lives, and its late write is refused.
//!
//! Two processes pay into one account: they read the balance, add to it, and write the sum. The first
//! process reads, checks that its lock is still valid, and is stopped just before it writes. `SIGSTOP`
//! stops it, as a debugger, a suspended machine or a full swap would. Its lock ends, and the second
//! process takes the lock and pays in. Then the first process goes on, with a sum from before. No lock
//! service can prevent that, since the pause comes after the last check. So the database must refuse
//! the write, in one of two ways.
//!
//! **A fencing token.** The database keeps the largest token that it has seen, and refuses a smaller
//! one:
//!
//! ```sql
//! -- before anything is read: from here on, nobody with a smaller token can write
//! UPDATE account SET token = ?1 WHERE id = 42 AND token <= ?1 RETURNING balance;
//! UPDATE account SET balance = ?2, token = ?1 WHERE id = 42 AND token <= ?1;
//! ```
//!
//! **An optimistic version check.** The write names the version that was read, and takes no lock:
//!
//! ```sql
//! SELECT balance, version FROM account WHERE id = 42;
//! UPDATE account SET balance = ?2, version = version + 1 WHERE id = 42 AND version = ?1;
//! ```
//!
//! In both cases a write that changes no row was refused, and the work begins again.
//!
//! - The version check is the simpler one, and the right one if only the database is concerned: one row
//!   (or one database, in a transaction), work that is cheap to do again, conflicts that are rare.
//!   Everybody does the work, and the second one does it once more.
//! - Locks with tokens are for the rest: work that is too expensive to be wasted, or that reaches
//!   beyond the database (a payment, a mail, a file); several writes under one lock; several storages,
//!   each of which compares the same token. One does the work, and the others wait. Storages outside
//!   must compare the token, too, or only the lock protects them.
//!
//! ```text
//! cargo run --example fencing
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some, and one more process of itself as the
//! one that is stopped. The exit status is 0 if one payment was lost without a check, and none was lost
//! with either check.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use copy::{Copy, PATIENCE};
use directory::Directory;
use masters::{Failure, Masters};
use quorlock::{Guard, OptionalGuard as _, Quorlock};
use rusqlite::{Connection, OptionalExtension, params};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};

#[path = "../common/copy.rs"]
mod copy;
#[path = "../common/directory.rs"]
mod directory;
#[path = "../common/masters.rs"]
mod masters;

const NAME: &str = "fencing/account-42";

/// Short, to make the example quick. The default of 10 s suits most programs.
const TTL: Duration = Duration::from_secs(1);

/// Maximum number of attempts of a payment.
const TRIES: usize = 5;

const BALANCE: i64 = 100;
/// The payments of the first process and of the second one.
const FIRST: i64 = 30;
const SECOND: i64 = 50;

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fencing: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.as_slice() {
        [] => demonstrate(),
        [role, check, file] if role == First::ROLE => First::play(Check::named(check)?, file),
        _ => Err("usage: fencing".into()),
    }
}

/// The check that keeps a late write out of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// No check: only the lock.
    Nothing,
    Token,
    /// The version, without a lock.
    Version,
}

impl Check {
    const ALL: [Self; 3] = [Self::Nothing, Self::Token, Self::Version];

    fn name(self) -> String {
        format!("{self:?}")
    }

    fn named(name: &str) -> Result<Self, Failure> {
        let check = Self::ALL.into_iter().find(|check| check.name() == name);
        check.ok_or_else(|| format!("there is no check of the name {name}").into())
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Nothing => "A lock, and a database that writes whatever it is told",
            Self::Token => "A lock, and a database that compares its fencing token",
            Self::Version => "No lock, and a database that compares the version of the row",
        }
    }

    /// The final balance, and the number of writes of the first process that must be refused.
    fn promised(self) -> (i64, usize) {
        match self {
            Self::Nothing => (BALANCE + FIRST, 0), // The second one's money is gone.
            Self::Token | Self::Version => (BALANCE + FIRST + SECOND, 1),
        }
    }
}

fn demonstrate() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    let locks = masters.builder()?.ttl(TTL).build()?;
    println!("{}; the TTL is {TTL:?}", masters.describe());
    println!("{BALANCE} are there, {FIRST} and {SECOND} are paid in");
    for check in Check::ALL {
        println!("\n{}", check.describe());
        let directory = Directory::create("account")?;
        let database = directory.file("account.sqlite");
        Account::create(&database)?;
        let refused = pay_in_twice(check, &masters, &locks, &database)?;
        judge(check, Account::open(&database)?.balance()?, refused)?;
    }
    println!("\nThe lock alone lost a payment; with either check none was lost.");
    Ok(())
}

/// Stops the first process before it writes, and lets the second one pay in meanwhile. Returns the
/// number of refused writes of the first process.
fn pay_in_twice(
    check: Check,
    masters: &Masters,
    locks: &Quorlock,
    file: &Path,
) -> Result<usize, Failure> {
    let account = Account::open(file)?;
    let mut first = First::start(check, masters, file)?;
    println!("  first:  {}", first.process.hear()?);
    first.stop()?;
    println!("  first:  (stopped)");
    first.process.go()?; // It cannot hear that before it is woken.

    let mut payment = Payment::begin(check, locks, &account, SECOND)?;
    println!("  second: {}", payment.describe());
    if !payment.write(&account)? {
        return Err("the second one's write was refused, and nobody was in its way".into());
    }
    println!("  second: wrote that");
    if let Some(guard) = payment.guard.take() {
        guard.unlock()?;
    }

    println!("  first:  (goes on)");
    first.wake()?;
    first.finish()
}

fn judge(check: Check, balance: i64, refused: usize) -> Result<(), Failure> {
    let right = BALANCE + FIRST + SECOND;
    println!("  the account holds {balance}, and should hold {right}");
    let promised = check.promised();
    if (balance, refused) != promised {
        return Err(format!(
            "{}: the balance is {balance} after {refused} refused writes, and not {} after {}",
            check.name(),
            promised.0,
            promised.1
        )
        .into());
    }
    Ok(())
}

/// A payment that has begun: the balance is read, and the lock is held if there is one.
struct Payment {
    check: Check,
    guard: Option<Guard>,
    /// The token, or the version that was read. Without a check nothing compares it.
    stamp: i64,
    read: i64,
    sum: i64,
}

impl Payment {
    fn begin(
        check: Check,
        locks: &Quorlock,
        account: &Account,
        amount: i64,
    ) -> Result<Self, Failure> {
        let guard = match check {
            Check::Version => None,
            Check::Nothing | Check::Token => Some(
                locks
                    .try_lock_for(NAME, PATIENCE)
                    .optional()?
                    .ok_or("somebody else keeps the lock")?,
            ),
        };
        let token = guard.as_ref().and_then(Guard::token).map_or(0, i64::from);
        let (read, stamp) = match check {
            Check::Nothing => (account.balance()?, token),
            Check::Token => (account.read_with_token(token)?, token),
            Check::Version => account.read_with_version()?,
        };
        Ok(Self { check, guard, stamp, read, sum: read + amount })
    }

    fn describe(&self) -> String {
        let stamp = match self.check {
            Check::Nothing | Check::Token => format!("has the lock, with token {}", self.stamp),
            Check::Version => format!("has seen version {}", self.stamp),
        };
        format!("{stamp}; has read {}, is about to write {}", self.read, self.sum)
    }

    /// Returns true if the database has taken the write.
    fn write(&self, account: &Account) -> Result<bool, Failure> {
        match self.check {
            Check::Nothing => account.write(self.sum),
            Check::Token => account.write_with_token(self.sum, self.stamp),
            Check::Version => account.write_with_version(self.sum, self.stamp),
        }
    }
}

/// The database.
struct Account(Connection);

impl Account {
    fn open(file: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(Self(connection))
    }

    fn create(file: &Path) -> Result<(), Failure> {
        let account = Self::open(file)?;
        account.0.execute_batch(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,
                 token INTEGER NOT NULL, version INTEGER NOT NULL)",
        )?;
        account.0.execute("INSERT INTO account VALUES (42, ?1, 0, 0)", [BALANCE])?;
        Ok(())
    }

    fn balance(&self) -> Result<i64, Failure> {
        Ok(self.0.query_row("SELECT balance FROM account WHERE id = 42", [], |row| row.get(0))?)
    }

    fn write(&self, balance: i64) -> Result<bool, Failure> {
        self.update("UPDATE account SET balance = ?1 WHERE id = 42", params![balance])
    }

    /// Writes the token before it reads. Otherwise a process with a smaller token could write between
    /// our read and our write, and would be told that it succeeded.
    fn read_with_token(&self, token: i64) -> Result<i64, Failure> {
        const CLAIM: &str = "UPDATE account SET token = ?1 WHERE id = 42 AND token <= ?1
                                 RETURNING balance";
        let balance = self.0.query_row(CLAIM, [token], |row| row.get(0)).optional()?;
        balance.ok_or_else(|| format!("a larger token than {token} has been here before").into())
    }

    fn write_with_token(&self, balance: i64, token: i64) -> Result<bool, Failure> {
        self.update(
            "UPDATE account SET balance = ?2, token = ?1 WHERE id = 42 AND token <= ?1",
            params![token, balance],
        )
    }

    fn read_with_version(&self) -> Result<(i64, i64), Failure> {
        const READ: &str = "SELECT balance, version FROM account WHERE id = 42";
        Ok(self.0.query_row(READ, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    fn write_with_version(&self, balance: i64, version: i64) -> Result<bool, Failure> {
        self.update(
            "UPDATE account SET balance = ?2, version = version + 1 WHERE id = 42 AND version = ?1",
            params![version, balance],
        )
    }

    /// Returns true if the statement changed a row. If not, it was refused.
    fn update(&self, statement: &str, values: impl rusqlite::Params) -> Result<bool, Failure> {
        Ok(self.0.execute(statement, values)? > 0)
    }
}

/// The process that pays in first, and is stopped.
struct First {
    process: Copy,
}

impl First {
    const ROLE: &str = "--first";

    /// The life of the process: it pays in, and begins again when it is refused. It waits for an order
    /// of the other process before its first write. The last line that it prints is the number of
    /// refusals.
    fn play(check: Check, file: &str) -> Result<(), Failure> {
        let locks = Masters::find(0)?.builder()?.ttl(TTL).build()?;
        let account = Account::open(Path::new(file))?;
        for refused in 0..TRIES {
            let payment = Payment::begin(check, &locks, &account, FIRST)?;
            if let Some(guard) = &payment.guard {
                guard.check()?; // It is ours, and all that follows is the write.
            }
            println!("{}", payment.describe());
            if refused == 0 {
                copy::wait_for_go()?; // Stopped here.
            }
            if payment.write(&account)? {
                println!("wrote that");
                if let Some(Err(error)) = payment.guard.map(Guard::unlock) {
                    println!("notices too late: {error}");
                }
                println!("{refused}");
                return Ok(());
            }
            println!("was refused by the database, and begins again");
        }
        Err("refused again and again".into())
    }

    fn start(check: Check, masters: &Masters, file: &Path) -> Result<Self, Failure> {
        let name = check.name();
        let args = [OsStr::new(Self::ROLE), OsStr::new(&name), file.as_os_str()];
        Ok(Self { process: Copy::start(masters, args)? })
    }

    /// Stops the process, and returns once it has stopped.
    fn stop(&self) -> Result<(), Failure> {
        let pid = self.process.pid();
        kill_process(pid, Signal::STOP)?;
        let (options, start) = (WaitIdOptions::STOPPED | WaitIdOptions::NOHANG, Instant::now());
        while waitid(WaitId::Pid(pid), options)?.is_none() {
            if start.elapsed() > PATIENCE {
                return Err("the first process does not stop".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn wake(&self) -> io::Result<()> {
        Ok(kill_process(self.process.pid(), Signal::CONT)?)
    }

    /// Prints the remaining lines of the process. Returns the number of refusals.
    fn finish(self) -> Result<usize, Failure> {
        let mut said = self.process.hear()?;
        loop {
            if let Ok(refused) = said.parse() {
                self.process.finish()?;
                return Ok(refused);
            }
            println!("  first:  {said}");
            said = self.process.hear()?;
        }
    }
}
