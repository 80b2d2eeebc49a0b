//! A shop sells its stock twice: first without a lock, then under quorlock while masters die.
//!
//! The shop's database can be read and written, but not both in one step. So two sellers can read
//! the same number, sell the same item, and write the same number back. The first round shows it;
//! in the second round the very same selling function takes a lock first, and sells exactly what
//! there is, although two of the five masters are killed meanwhile.
//!
//! ```text
//! scripts/demo.sh [--stock N] [--clients N] [--threads N]
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if the first
//! round oversold and the second did not.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, io, path::PathBuf};

use directory::Directory;
use masters::{Failure, Masters};
use quorlock::{Error, ErrorKind, Guard, Quorlock};

#[path = "common/directory.rs"]
mod directory;
#[path = "common/masters.rs"]
mod masters;

/// A lock is a name that all agree on; this one stands for the number of items left.
const STOCK: &str = "oversell/stock";

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("oversell: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let plan = Plan::from_args()?;
    let mut masters = Masters::find(5)?;
    let locks = connect(&masters, plan.clients)?;
    println!("{}\n{}", plan.describe(), masters.describe());

    println!("\nRound 1, without a lock");
    let without = sell_out(&plan, |_| Ok(None), |sold| plan.show_progress(sold))?;

    println!("\nRound 2, under quorlock");
    let under = sell_out(
        &plan,
        |client| locks[client].lock(STOCK).map(Some),
        |sold| {
            plan.show_progress(sold);
            if plan.is_time_to_kill(sold) {
                kill_one(&mut masters);
            }
        },
    )?;

    println!("\n                 {}", Round::HEADINGS);
    println!("without a lock   {}", without.figures(&plan));
    println!("under quorlock   {}", under.figures(&plan));
    judge(&plan, &without, &under)
}

/// As many clients as if each were a process of its own, on a machine of its own.
fn connect(masters: &Masters, clients: usize) -> Result<Vec<Quorlock>, Error> {
    (0..clients).map(|_| masters.builder()?.build()).collect()
}

fn kill_one(masters: &mut Masters) {
    if let Some(url) = masters.kill_one() {
        println!("         killed a master, {url}");
    }
}

/// Has all sellers sell until they find nothing left. Each enters the critical section as its
/// client, a number, does; `on_order` is told of each order, with the count so far.
fn sell_out(
    plan: &Plan,
    enter: impl Fn(usize) -> Result<Option<Guard>, Error> + Sync,
    mut on_order: impl FnMut(usize),
) -> Result<Round, Failure> {
    let shop = Shop::open(plan.stock)?;
    let (orders, taken) = mpsc::channel();
    let start = Instant::now();
    thread::scope(|scope| {
        let start_seller = |seller: usize| {
            let (shop, enter, orders) = (&shop, &enter, orders.clone());
            scope.spawn(move || sell_all(shop, || enter(seller % plan.clients), &orders))
        };
        let sellers: Vec<_> = (0..plan.sellers()).map(start_seller).collect();
        drop(orders); // The sellers have theirs: `taken` ends with the last of them.

        let mut sold = 0;
        for () in taken {
            sold += 1;
            on_order(sold);
        }
        for seller in sellers {
            seller.join().map_err(|_| "a seller panicked")??;
        }
        Ok(Round { orders: sold, took: start.elapsed() })
    })
}

/// What a seller does: one sale after another, until there is nothing left.
fn sell_all(
    shop: &Shop,
    enter: impl Fn() -> Result<Option<Guard>, Error>,
    orders: &Sender<()>,
) -> Result<(), Failure> {
    while sell_one(shop, &enter)? {
        orders.send(())?;
    }
    Ok(())
}

/// Sells one item, if there is one left. The same in both rounds; all that differs is what `enter`
/// does, and whether there is a guard.
fn sell_one(
    shop: &Shop,
    enter: impl Fn() -> Result<Option<Guard>, Error>,
) -> Result<bool, Failure> {
    let guard = enter()?;
    let remaining = shop.remaining()?;
    if remaining == 0 {
        return Ok(false); // The end of the guard gives the lock back.
    }
    charge_the_customer();
    if let Some(guard) = &guard {
        // A lease can run out, for example while a laptop sleeps. Then somebody else may be selling,
        // and it is not for us to write any more.
        guard.check()?;
    }
    shop.set_remaining(remaining - 1)?;
    leave(guard)?;
    Ok(true)
}

/// Gives the lock back.
fn leave(guard: Option<Guard>) -> Result<(), Error> {
    let Some(guard) = guard else { return Ok(()) };
    match guard.unlock() {
        // A master died that had granted this lock, and too few others are left to confirm that it
        // is free again. It was ours to the end, so the sale stands.
        Err(error) if error.kind() == ErrorKind::NoQuorum => Ok(()),
        result => result,
    }
}

/// What any shop does between reading the stock and writing it. It takes a millisecond or so.
fn charge_the_customer() {
    thread::sleep(Duration::from_micros(rand::random_range(500..1_500)));
}

/// The first round must have gone wrong, and the second one right.
fn judge(plan: &Plan, without: &Round, under: &Round) -> Result<(), Failure> {
    if without.orders <= plan.stock {
        return Err("without a lock nothing was oversold, so this run proves nothing".into());
    }
    if under.orders != plan.stock {
        let (orders, stock) = (under.orders, plan.stock);
        return Err(format!("under quorlock {orders} orders were taken for {stock} items").into());
    }
    println!("\nThe lock held: every item was sold, and none of them twice.");
    Ok(())
}

/// The shop's database: a file with the number of items left.
struct Shop {
    directory: Directory,
}

impl Shop {
    fn open(stock: usize) -> io::Result<Self> {
        let shop = Self { directory: Directory::create("shop")? };
        shop.set_remaining(stock)?;
        Ok(shop)
    }

    fn remaining(&self) -> io::Result<usize> {
        fs::read_to_string(self.stock())?.parse().map_err(io::Error::other)
    }

    fn set_remaining(&self, items: usize) -> io::Result<()> {
        // A new file takes the old one's place, so that nobody ever reads half a number.
        let new = self.directory.file(&format!("{:?}", thread::current().id()));
        fs::write(&new, items.to_string())?;
        fs::rename(new, self.stock())
    }

    fn stock(&self) -> PathBuf {
        self.directory.file("stock")
    }
}

/// What the command line asks for.
struct Plan {
    stock: usize,
    clients: usize,
    threads: usize,
}

impl Plan {
    const USAGE: &str = "usage: oversell [--stock N] [--clients N] [--threads N]";

    fn from_args() -> Result<Self, Failure> {
        let mut plan = Self { stock: 200, clients: 4, threads: 4 };
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            let number = match arg.as_str() {
                "--stock" => &mut plan.stock,
                "--clients" => &mut plan.clients,
                "--threads" => &mut plan.threads,
                _ => return Err(format!("what is {arg}? {}", Self::USAGE).into()),
            };
            let value = args.next().and_then(|value| value.parse().ok());
            *number = value.ok_or_else(|| format!("{arg} needs a number; {}", Self::USAGE))?;
        }
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.stock < 10 {
            return Err("--stock must be 10 or more, or the first round may end well".into());
        }
        if !(2..=1_000).contains(&self.sellers()) {
            return Err("--clients times --threads must be 2 to 1000 sellers".into());
        }
        Ok(())
    }

    fn sellers(&self) -> usize {
        self.clients.saturating_mul(self.threads)
    }

    fn describe(&self) -> String {
        let Self { stock, clients, threads } = self;
        format!("{stock} items for sale by {clients} clients with {threads} threads each")
    }

    /// A line at each ten per cent of the stock, and one when it is oversold.
    fn show_progress(&self, sold: usize) {
        let tenths = |sold: usize| sold * 10 / self.stock;
        if sold == self.stock + 1 {
            println!("         one more than there were, and it goes on");
        } else if sold <= self.stock && tenths(sold) > tenths(sold - 1) {
            println!("  {:>3} %  {sold} sold", tenths(sold) * 10);
        }
    }

    /// At one third and at two thirds of the stock.
    fn is_time_to_kill(&self, sold: usize) -> bool {
        sold == self.stock / 3 || sold == self.stock * 2 / 3
    }
}

/// What came of selling the whole stock.
struct Round {
    orders: usize,
    took: Duration,
}

impl Round {
    const HEADINGS: &str = "  sold  oversold by   seconds   sales per second";

    fn figures(&self, plan: &Plan) -> String {
        let oversold = self.orders.saturating_sub(plan.stock);
        let seconds = self.took.as_secs_f64();
        let rate = self.orders as f64 / seconds;
        format!("{:>6}  {oversold:>11}   {seconds:>7.2}   {rate:>16.0}", self.orders)
    }
}
