//! `quorlock bench`: the speed of locks on the user's own masters.

mod figures;
mod load;
mod progress;
mod show;

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, bounded, select};
use quorlock::{Error, OptionalGuard as _, Quorlock};

use crate::clients;
use crate::clock;
use crate::exit::Failure;
use crate::options::Bench;
use crate::random::random;
use crate::signals;
use crate::tell::print;
use load::Load;
use show::{Measured, Setting};

/// Prefix of the names of all locks that the benchmark takes.
const PREFIX: &str = "quorlock-bench";
/// Time limit of the first lock: enough for connections to be made, too short for the end of a quarantine.
const FIRST_WITHIN: Duration = Duration::from_secs(2);
const MEASUREMENTS: u32 = 4;

/// Measures, and prints all figures at the end.
pub(crate) fn bench(options: &Bench) -> Result<u8, Failure> {
    // Set up before any thread starts, since each thread would get signals.
    let signals = signals::listen_to_ending()?;
    let builder = options.set.builder()?;
    let clients = clients::build(&builder, options.clients)?;
    let measured = measure(options, &clients, &signals);
    let closed = clients::close(&clients);
    let measured = measured?;
    closed?;
    let setting = Setting {
        masters: clients.first().map_or(0, |client| client.node_stats().len()),
        span: span(options),
    };
    match options.json {
        true => print(format_args!("{:#}", show::as_json(&setting, &measured)))?,
        false => print(show::as_text(&setting, &measured).trim_end())?,
    }
    Ok(0)
}

/// The time of one measurement.
fn span(options: &Bench) -> Duration {
    Duration::from_secs(options.seconds.into()) / MEASUREMENTS
}

fn measure(
    options: &Bench,
    clients: &[Quorlock],
    signals: &Receiver<Signal>,
) -> Result<[Measured; MEASUREMENTS as usize], Failure> {
    let prefix = format!("{PREFIX}/{:016x}", random());
    let name = |what: &str| format!("{prefix}/{what}");
    let names: Vec<_> =
        (0..options.locks.unwrap_or(options.threads)).map(|i| name(&i.to_string())).collect();
    let shared = [name("shared")];
    connect(clients, &shared[0], signals)?;
    let threads = usize::from(options.threads);
    let one_client = &clients[..1];
    let run = |key, title: String, load: Load<'_>| {
        let figures = load.run(&title, span(options), signals)?;
        Ok::<_, Failure>(Measured { key, title, figures })
    };
    Ok([
        run(
            "uncontended",
            "1 thread, 1 lock".to_owned(),
            Load { clients: one_client, names: &names[..1], threads: 1 },
        )?,
        run(
            "different_locks",
            format!("{}, {}", counted(threads, "thread"), counted(names.len(), "lock")),
            Load { clients: one_client, names: &names, threads },
        )?,
        run(
            "one_lock_threads",
            format!("{} of one process, all for 1 lock", counted(threads, "thread")),
            Load { clients: one_client, names: &shared, threads },
        )?,
        run(
            "one_lock_clients",
            format!("{}, each as a process, all for 1 lock", counted(clients.len(), "client")),
            Load { clients, names: &shared, threads: clients.len() },
        )?,
    ])
}

/// Has each client take a lock once, so that none of them connects while it is measured.
fn connect(clients: &[Quorlock], name: &str, signals: &Receiver<Signal>) -> Result<(), Failure> {
    let take_once = |client: &Quorlock| match client.try_lock_for(name, FIRST_WITHIN).optional()? {
        Some(guard) => guard.unlock(),
        None => Ok(()),
    };
    let (done, is_done) = bounded::<()>(0);
    let connect = move || {
        // Dropped when this closure ends.
        let _done = done;
        clients.iter().try_for_each(take_once)
    };
    thread::scope(|scope| {
        let connects = clock::spawn_scoped(scope, "connect", connect).map_err(Failure::own)?;
        let came = select! {
            recv(is_done) -> _ => None,
            recv(signals) -> signal => signal.ok(),
        };
        if let Some(signal) = came {
            // Ends the waiting call. The final `close` of the clients waits for the releases that are left.
            for client in clients {
                let _ = client.clone().close(Duration::ZERO);
            }
            return Err(Failure::interrupted(signal, "while it connected to the masters"));
        }
        let connected: Result<(), Error> = connects.join().unwrap_or_else(|it| resume_unwind(it));
        Ok(connected?)
    })
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
