//! A printer that several offices share prints the pages in the order in which they were sent.
//!
//! The printer takes one page at a time. With a plain mutex an office that has just printed may print again while others wait,
//! and some page waits for a long time. With `fair_mutex` pages are printed in the order in which they were sent, from any
//! machine. Then one office gives up while its page waits, and delays nobody.
//!
//! ```text
//! cargo run --example fair_printer
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. The exit status is 0 if all pages were printed in the
//! order in which they were sent.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use masters::{Failure, Masters};
use quorlock::{OptionalGuard as _, Quorlock};

#[path = "common/masters.rs"]
mod masters;

/// Number of offices. In production each is a process; in this example, a client of its own.
const OFFICES: usize = 4;
const PAGES: usize = 12;

/// Time to print a page.
const PRINTING: Duration = Duration::from_millis(20);

/// Time between two pages: far more than two round trips to the masters, even if other programs use all processors.
const APART: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fair_printer: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{OFFICES} offices send {PAGES} pages to one printer");
    println!("{}", masters.describe());
    let offices = (0..OFFICES)
        .map(|_| Ok(masters.builder()?.build()?))
        .collect::<Result<Vec<Quorlock>, Failure>>()?;
    // Masters that you name may be new, and in quarantine at first.
    for office in &offices {
        drop(office.lock("printer/ready")?);
    }

    let printed = Mutex::new(Vec::new());
    // The printer is locked at first, so all pages wait.
    let open = offices[0].fair_mutex("printer").lock()?;
    thread::scope(|scope| {
        let mut jobs = Vec::new();
        for page in 0..PAGES {
            let (office, printed) = (&offices[page % OFFICES], &printed);
            jobs.push(scope.spawn(move || print(office, page, printed)));
            thread::sleep(APART);
        }
        open.unlock()?;
        jobs.into_iter().try_for_each(|job| job.join().unwrap_or_else(|_| Err("a panic".into())))
    })?;
    let printed = printed.into_inner().unwrap_or_default();
    println!("printed: {printed:?}");
    if !printed.is_sorted() || printed.len() != PAGES {
        return Err("the pages are not in the order in which they were sent".into());
    }

    a_page_whose_office_is_gone(&offices)
}

fn print(office: &Quorlock, page: usize, printed: &Mutex<Vec<usize>>) -> Result<(), Failure> {
    let guard = office.fair_mutex("printer").lock()?;
    guard.check()?;
    if let Ok(mut printed) = printed.lock() {
        printed.push(page);
    }
    thread::sleep(PRINTING);
    guard.unlock()?;
    Ok(())
}

/// An office that gives up leaves the queue at once, and delays nobody.
fn a_page_whose_office_is_gone(offices: &[Quorlock]) -> Result<(), Failure> {
    let open = offices[0].fair_mutex("printer").lock()?;
    thread::scope(|scope| {
        let (give_up, given_up) = quorlock::crossbeam_channel::bounded(1);
        let gone = scope.spawn(move || {
            let printer = offices[1].fair_mutex("printer");
            printer.lock_within(&given_up).map(drop).map_err(|error| error.kind())
        });
        thread::sleep(APART);
        let (sent, arrived) = mpsc::channel();
        scope.spawn(move || {
            let guard = offices[2].fair_mutex("printer").try_lock_for(Duration::from_secs(10));
            // The other side waits for this message.
            let _ = sent.send(guard.optional().map(|guard| guard.is_some()));
        });
        thread::sleep(APART);
        // A call that does not wait must not overtake the waiting ones.
        if offices[3].fair_mutex("printer").try_lock().optional()?.is_some() {
            return Err("somebody has printed before those who wait".into());
        }
        give_up.send(())?;
        let ended = gone.join().unwrap_or(Err(quorlock::ErrorKind::Closed));
        println!("the second office has given up: {ended:?}");
        open.unlock()?;
        match arrived.recv()?? {
            true => println!("the third office prints"),
            false => return Err("the third office waits for an office that is gone".into()),
        }
        Ok(())
    })
}
