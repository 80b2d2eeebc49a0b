//! A blocking HTTP service that takes orders, under one lock for each item.
//!
//! `POST /orders/ITEM` orders one item. Each request waits for the lock of its item for a limited
//! time, and gets one of these answers:
//!
//! - `200`: the order was taken.
//! - `404`, `405`: there is no such item, or the method is not `POST`.
//! - `409`: the item is sold out.
//! - `423`: somebody else held the lock all the time. That is not a failure, since nothing is broken.
//! - `503` with `Retry-After`: no decision on the lock is possible, since too few masters can be
//!   reached, or too few may grant locks yet, because they have just been started.
//!
//! ```text
//! cargo run --example http_orders              # a demonstration with clients of its own
//! cargo run --example http_orders -- --serve   # serves until it is killed
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status of the demonstration
//! is 0 if the stock was sold exactly, and the answers were those above. With `--serve`, name the
//! masters: a `kill` of this program would leave its own ones behind.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, thread};

use masters::{Failure, Masters};
use parking_lot::Mutex;
use quorlock::{Error, ErrorKind, OptionalGuard as _, Quorlock};
use tiny_http::{Header, Method, Request, Response, Server};

#[path = "common/masters.rs"]
mod masters;

/// The stock at first.
const STOCK: [(&str, usize); 3] = [("chair", 12), ("lamp", 5), ("table", 8)];

/// Number of requests that are answered at the same time.
const WORKERS: usize = 4;

/// Time for which a request waits for the lock of its item.
const PATIENCE: Duration = Duration::from_millis(500);

/// Number of customers in the demonstration, who order at the same time.
const CUSTOMERS: usize = 4;

/// Number of attempts of a customer that may fail because of others or too few masters.
const TRIES: usize = 20;

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("http_orders: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let for_ever = wants_to_serve()?;
    let mut masters = Masters::find(3)?;
    let service = Service { locks: masters.builder()?.build()?, shop: Shop::open() };
    let server = Server::http("127.0.0.1:0")?;
    let address = server.server_addr().to_ip().ok_or("the server has no port")?;
    println!("{}\nPOST http://{address}/orders/ITEM\n", masters.describe());

    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| serve(&server, &service));
        }
        if for_ever {
            return Ok(()); // The scope waits for the workers, and they never end.
        }
        let result = demonstrate(address, &service.shop, &mut masters);
        (0..WORKERS).for_each(|_| server.unblock()); // Each ends one worker.
        result
    })
}

fn wants_to_serve() -> Result<bool, Failure> {
    let args: Vec<String> = env::args_os().skip(1).map(|a| a.to_string_lossy().into()).collect();
    match args.as_slice() {
        [] => Ok(false),
        [arg] if arg == "--serve" => Ok(true),
        _ => Err("usage: http_orders [--serve]".into()),
    }
}

/// A worker: answers one request after another.
fn serve(server: &Server, service: &Service) {
    for request in server.incoming_requests() {
        let answer = service.answer(&request);
        if let Err(error) = request.respond(answer.into_response()) {
            eprintln!("a client went away: {error}");
        }
    }
}

/// The service itself. One `Quorlock` serves all threads.
struct Service {
    locks: Quorlock,
    shop: Shop,
}

impl Service {
    fn answer(&self, request: &Request) -> Answer {
        let Some(item) = request.url().strip_prefix("/orders/") else { return Answer::Unknown };
        if *request.method() != Method::Post {
            return Answer::NotAnOrder;
        }
        self.order(item).unwrap_or_else(|error| match error.kind() {
            // The message names the faulty master: for our log, not for customers.
            ErrorKind::NoQuorum | ErrorKind::Lost => {
                println!("  service: {error}");
                Answer::TryAgain { after: Duration::from_secs(1) }
            }
            // Masters that were restarted may have forgotten locks that are still held.
            ErrorKind::Quarantined { ready_in } => {
                println!("  service: {error}");
                Answer::TryAgain { after: ready_in }
            }
            _ => {
                eprintln!("  service: {error}");
                Answer::Failed
            }
        })
    }

    /// Sells one `item` under its lock.
    fn order(&self, item: &str) -> Result<Answer, Error> {
        if self.shop.left(item).is_none() {
            return Ok(Answer::Unknown); // Strangers' words must not become names of locks.
        }
        let Some(guard) = self.locks.try_lock_for(format!("orders/{item}"), PATIENCE).optional()?
        else {
            return Ok(Answer::Busy);
        };
        let left = self.shop.left(item).unwrap_or(0);
        if left == 0 {
            return Ok(Answer::SoldOut);
        }
        charge_the_customer();
        // A lease can run out, for example while the machine is suspended. Nothing is done yet, so the
        // customer may try again.
        guard.check()?;
        self.shop.set_left(item, left - 1);
        Ok(Answer::Taken)
        // Dropping the guard gives the lock back, and the customer does not wait for that.
    }
}

/// The work of a shop between reading the stock and writing it.
fn charge_the_customer() {
    thread::sleep(Duration::from_millis(3));
}

/// The answer to a request.
enum Answer {
    Taken,
    Unknown,
    NotAnOrder,
    SoldOut,
    Busy,
    TryAgain { after: Duration },
    Failed,
}

impl Answer {
    fn into_response(self) -> Response<io::Cursor<Vec<u8>>> {
        let (status, text) = match self {
            Self::Taken => (200, "the order was taken\n"),
            Self::Unknown => (404, "there is no such item\n"),
            Self::NotAnOrder => (405, "orders are made with POST\n"),
            Self::SoldOut => (409, "sold out\n"),
            Self::Busy => (423, "others are ordering this item; try again\n"),
            Self::TryAgain { .. } => {
                (503, "no orders can be taken at the moment; try again later\n")
            }
            Self::Failed => (500, "this is our fault\n"),
        };
        let response = Response::from_string(text).with_status_code(status);
        let extra = match self {
            Self::NotAnOrder => Header::from_bytes("Allow", "POST"),
            Self::TryAgain { after } => {
                // Whole seconds, rounded up, since an earlier attempt would fail.
                let seconds = (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1);
                Header::from_bytes("Retry-After", seconds.to_string())
            }
            _ => return response,
        };
        match extra {
            Ok(header) => response.with_header(header),
            Err(()) => response,
        }
    }
}

/// The shop's database. It can be read and written, but not both in one step. Without a lock around
/// the two steps it would sell more than it has.
struct Shop {
    left: Mutex<BTreeMap<&'static str, usize>>,
}

impl Shop {
    fn open() -> Self {
        Self { left: Mutex::new(BTreeMap::from(STOCK)) }
    }

    fn left(&self, item: &str) -> Option<usize> {
        self.left.lock().get(item).copied()
    }

    fn set_left(&self, item: &str, left: usize) {
        if let Some(known) = self.left.lock().get_mut(item) {
            *known = left;
        }
    }
}

/// Plays the customers, a client that keeps a lock for long, and a power cut.
fn demonstrate(address: SocketAddr, shop: &Shop, masters: &mut Masters) -> Result<(), Failure> {
    println!("{CUSTOMERS} customers order until everything is sold out");
    for (item, stock) in STOCK {
        let orders = sell_out(address, item)?;
        println!("  {item}: {orders} orders for {stock}");
        if orders != stock || shop.left(item) != Some(0) {
            return Err(format!("{orders} orders were taken for {stock} of {item}").into());
        }
    }

    println!("\nSomebody else keeps the lock of the lamps");
    let elsewhere = masters.builder()?.build()?;
    let guard = elsewhere
        .try_lock_for("orders/lamp", PATIENCE)
        .optional()?
        .ok_or("it is locked already")?;
    expect(&order(address, "lamp")?, 423)?;
    drop(guard);

    if !masters.are_ours() {
        println!("\nThe masters are not ours, so none is killed, and no 503 is shown.");
        return Ok(());
    }
    println!("\nA power cut takes {} of the masters", masters.kill_majority());
    for (item, _) in STOCK {
        expect_later(&order(address, item)?)?;
    }

    println!("\nThey are back, and have forgotten who holds what");
    masters.restart_empty();
    let deadline = Instant::now() + PATIENCE * 10;
    // The service answers 1 s until it has reached the masters again.
    while expect_later(&order(address, "chair")?)? <= 1 {
        if deadline < Instant::now() {
            return Err("the quarantine was not seen".into());
        }
    }
    println!("\nEverything was sold, nothing twice, and without a quorum nothing at all.");
    Ok(())
}

/// Has all customers order `item` until it is sold out. Returns the number of orders that were taken.
fn sell_out(address: SocketAddr, item: &str) -> Result<usize, Failure> {
    thread::scope(|scope| {
        let start = |_| scope.spawn(move || buy_all(address, item));
        let customers: Vec<_> = (0..CUSTOMERS).map(start).collect();
        let mut orders = 0;
        for customer in customers {
            orders += customer.join().map_err(|_| "a customer panicked")??;
        }
        Ok(orders)
    })
}

/// A customer: orders until the item is sold out. Returns the number of orders that were taken.
fn buy_all(address: SocketAddr, item: &str) -> Result<usize, Failure> {
    let (mut taken, mut in_vain) = (0, 0);
    while in_vain < TRIES {
        match order(address, item)?.status {
            200 => taken += 1,
            409 => return Ok(taken),
            423 | 503 => in_vain += 1,
            status => return Err(format!("a customer got status {status}").into()),
        }
    }
    Err(format!("a customer gave up on {item}, after {TRIES} tries in vain").into())
}

fn expect(reply: &Reply, status: u16) -> Result<(), Failure> {
    println!("  {}", reply.text.lines().next().unwrap_or_default());
    if reply.status == status {
        return Ok(());
    }
    Err(format!("the answer should have had status {status}: {}", reply.text).into())
}

/// Checks that the reply is a 503, and returns its `Retry-After` in seconds.
fn expect_later(reply: &Reply) -> Result<u64, Failure> {
    expect(reply, 503)?;
    let seconds = reply.header("Retry-After").ok_or("a 503 came without Retry-After")?;
    println!("  Retry-After: {seconds}");
    Ok(seconds.parse()?)
}

/// Sends one order over a connection of its own.
fn order(address: SocketAddr, item: &str) -> Result<Reply, Failure> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(PATIENCE * 10))?;
    write!(
        connection,
        "POST /orders/{item} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Length: 0\r\n\r\n"
    )?;
    let mut text = String::new();
    connection.read_to_string(&mut text)?;
    Reply::parse(text)
}

/// The reply that a customer gets.
struct Reply {
    status: u16,
    text: String,
}

impl Reply {
    fn parse(text: String) -> Result<Self, Failure> {
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        match status {
            Some(status) => Ok(Self { status, text }),
            None => Err(format!("this is no answer: {text:?}").into()),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.text.lines().skip(1).take_while(|line| !line.is_empty());
        let mut pairs = headers.filter_map(|line| line.split_once(':'));
        let (_, value) = pairs.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }
}
