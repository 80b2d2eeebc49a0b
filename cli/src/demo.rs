//! `quorlock demo`: a shop sells its stock twice, first without a lock, then under quorlock while masters die.
//!
//! The shop's database can be read and written, but not both in one step. So two sellers can read the same number, sell
//! the same item, and write the same number back. The first round shows it. In the second round the very same selling function
//! takes a lock first, and sells exactly the stock, although two of the five masters are killed meanwhile.

mod folder;
mod masters;
mod server;
mod shop;

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::Quorlock;
use quorlock::crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::clients;
use crate::clock::{self, Time};
use crate::exit::{Failure, NOT_SHOWN};
use crate::options::Demo;
use crate::random::random;
use crate::signals;
use crate::tell::print;
use folder::Folder;
use masters::Masters;
use shop::{Seller, Shop};

/// Number of orders that may be taken and not yet counted. A seller with one more waits.
const ORDERS: usize = 64;

/// Sells the stock in both rounds. The exit code says if they have shown the purpose of a lock.
pub(crate) fn demo(options: &Demo) -> Result<u8, Failure> {
    let plan = Plan::new(options)?;
    // Set up before any thread starts, since each thread would get signals.
    let signals = signals::listen_to_ending()?;
    let folder = Folder::create("quorlock-demo")?;
    let mut masters = Masters::find(&options.set, &folder)?;
    print(plan.describe())?;
    print(masters.describe())?;
    let locks = clients::build(&masters.builder(), options.clients)?;
    let outcome = both_rounds(&plan, &folder, &locks, &mut masters, &signals);
    // Locks that are still held end with these masters, or with their TTL.
    let _ = clients::close(&locks);
    outcome
}

fn both_rounds(
    plan: &Plan,
    folder: &Folder,
    locks: &[Quorlock],
    masters: &mut Masters,
    signals: &Receiver<Signal>,
) -> Result<u8, Failure> {
    print("\nRound 1, without a lock")?;
    let shop = Shop::open(folder.path("without"), plan.stock)?;
    let without = sell_out(plan, &shop, &[], signals, |sold| plan.show_progress(sold))?;

    print("\nRound 2, under quorlock")?;
    let shop = Shop::open(folder.path("under"), plan.stock)?;
    let under = sell_out(plan, &shop, locks, signals, |sold| {
        plan.show_progress(sold)?;
        match plan.is_time_to_kill(sold).then(|| masters.kill_one()).flatten() {
            Some(url) => print(format_args!("         killed a master, {url}")),
            None => Ok(()),
        }
    })?;

    print(format_args!("\n                 {}", Round::HEADINGS))?;
    print(format_args!("without a lock   {}", without.figures(plan)))?;
    print(format_args!("under quorlock   {}", under.figures(plan)))?;
    judge(plan, &without, &under)
}

/// Has all sellers sell until nothing is left: each one under a lock of one of the clients, if there are any. Calls `on_order` for
/// each order, with the count so far.
fn sell_out(
    plan: &Plan,
    shop: &Shop,
    locks: &[Quorlock],
    signals: &Receiver<Signal>,
    on_order: impl FnMut(u32) -> Result<(), Failure>,
) -> Result<Round, Failure> {
    // The lock protects the number of items left, so all sellers use the same name.
    let name = format!("quorlock-demo/{:016x}/stock", random());
    let start = Time::now();
    thread::scope(|scope| {
        let (orders, taken) = bounded(ORDERS);
        let start_seller = |number: usize| {
            let lock = locks.get(number % locks.len().max(1)).map(|client| client.mutex(&name));
            let (seller, orders) = (Seller { shop, lock }, orders.clone());
            clock::spawn_scoped(scope, "seller", move || sell_all(&seller, &orders))
        };
        let sellers = (0..plan.sellers).map(start_seller).collect::<Result<Vec<_>, _>>();
        drop(orders); // The sellers have theirs: `taken` ends with the last of them.
        let sellers = sellers.map_err(Failure::own);
        let sold = sellers.and_then(|sellers| Ok((sellers, count(&taken, signals, on_order)?)));
        drop(taken); // Ends those that still sell, if something has gone wrong.
        if sold.is_err() {
            let _ = clients::close(locks);
        }
        let (sellers, sold) = sold?;
        for seller in sellers {
            seller.join().map_err(|_| Failure::own("a seller panicked"))??;
        }
        Ok(Round { sold, took: Time::now().since(start) })
    })
}

/// One seller: makes one sale after another, until nothing is left or the count has stopped.
fn sell_all(seller: &Seller<'_>, orders: &Sender<()>) -> Result<(), Failure> {
    while seller.sell_one()? {
        if orders.send(()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Counts the orders until the last seller has ended, or a signal comes.
fn count(
    taken: &Receiver<()>,
    signals: &Receiver<Signal>,
    mut on_order: impl FnMut(u32) -> Result<(), Failure>,
) -> Result<u32, Failure> {
    let mut sold = 0;
    loop {
        select! {
            recv(taken) -> order => match order {
                Ok(()) => {
                    sold += 1;
                    on_order(sold)?;
                }
                Err(_) => return Ok(sold),
            },
            recv(signals) -> signal => if let Ok(signal) = signal {
                return Err(Failure::interrupted(signal, "while items were sold"));
            },
        }
    }
}

/// The first round must have gone wrong, and the second one right.
fn judge(plan: &Plan, without: &Round, under: &Round) -> Result<u8, Failure> {
    let not_shown = |why: String| Err(Failure::new(NOT_SHOWN, why));
    if without.sold <= plan.stock {
        return not_shown(
            "without a lock nothing was oversold, so this run proves nothing".to_owned(),
        );
    }
    if under.sold != plan.stock {
        let (orders, stock) = (under.sold, plan.stock);
        return not_shown(format!("under quorlock {orders} orders were taken for {stock} items"));
    }
    print("\nThe lock held: every item was sold, and none of them twice.")?;
    Ok(0)
}

/// The plan that the options ask for.
#[derive(Debug)]
struct Plan {
    stock: u32,
    clients: u16,
    threads: u16,
    sellers: usize,
}

impl Plan {
    fn new(options: &Demo) -> Result<Self, Failure> {
        let Demo { stock, clients, threads, .. } = *options;
        let sellers = usize::from(clients) * usize::from(threads);
        if !(2..=1_000).contains(&sellers) {
            return Err(Failure::own("--clients times --threads must be 2 to 1000 sellers"));
        }
        Ok(Self { stock, clients, threads, sellers })
    }

    fn describe(&self) -> String {
        let Self { stock, clients, threads, .. } = self;
        format!("{stock} items for sale by {clients} clients with {threads} threads each")
    }

    /// Prints a line at each ten per cent of the stock, and one when it is oversold.
    fn show_progress(&self, sold: u32) -> Result<(), Failure> {
        let tenths = |sold: u32| u64::from(sold) * 10 / u64::from(self.stock);
        if sold == self.stock + 1 {
            print("         one more than the stock, and sales go on")
        } else if sold <= self.stock && tenths(sold) > tenths(sold - 1) {
            print(format_args!("  {:>3} %  {sold} sold", tenths(sold) * 10))
        } else {
            Ok(())
        }
    }

    /// Returns true at one third and at two thirds of the stock.
    fn is_time_to_kill(&self, sold: u32) -> bool {
        sold == self.stock / 3 || sold == self.stock - self.stock / 3
    }
}

/// The result of selling the whole stock.
#[derive(Debug)]
struct Round {
    sold: u32,
    took: Duration,
}

impl Round {
    const HEADINGS: &str = "  sold  oversold by   seconds   sales per second";

    fn figures(&self, plan: &Plan) -> String {
        let oversold = self.sold.saturating_sub(plan.stock);
        let seconds = self.took.as_secs_f64();
        let rate = f64::from(self.sold) / seconds;
        format!("{:>6}  {oversold:>11}   {seconds:>7.2}   {rate:>16.0}", self.sold)
    }
}
