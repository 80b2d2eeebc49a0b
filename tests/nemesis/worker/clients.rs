//! The clients that a worker can be: the right one, and some that are deliberately wrong.

use std::time::Duration;

use quorlock::{Builder, Fallback, Quorlock};

use super::{Failure, Settings};

/// One way to use the library.
pub(crate) struct ClientSort {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// True if the client keeps the library's promises.
    pub(crate) right: bool,
    build: fn(&Settings) -> Builder,
}

/// All clients.
pub(crate) const CLIENTS: &[ClientSort] = &[
    ClientSort {
        name: "right",
        what: "all masters, as the defaults are",
        right: true,
        build: right,
    },
    ClientSort {
        name: "single",
        what: "the first master alone, without fencing and without the quarantine",
        right: false,
        build: |settings| {
            let first = settings.nodes.iter().take(1);
            right(settings).nodes(first).fencing(false).restart_quarantine(false)
        },
    },
    ClientSort {
        name: "no-quarantine",
        what: "all masters, and restart_quarantine(false)",
        right: false,
        build: |settings| right(settings).restart_quarantine(false),
    },
    ClientSort {
        name: "fallback",
        what: "all masters, and the first one alone where no majority can be reached",
        right: false,
        build: |settings| {
            let after = Duration::from_millis(300);
            right(settings).fallback(Fallback::SingleNode { after })
        },
    },
];

/// Shorter than the default, so that calls that reach no majority return and are repeated.
const NO_QUORUM_TIMEOUT: Duration = Duration::from_secs(2);

fn right(settings: &Settings) -> Builder {
    Quorlock::builder()
        .nodes(&settings.nodes)
        .ttl(settings.max_ttl)
        .max_ttl(settings.max_ttl)
        .no_quorum_timeout(NO_QUORUM_TIMEOUT)
}

/// The client of that name in the list.
pub(crate) fn named(name: &str) -> Result<&'static ClientSort, Failure> {
    CLIENTS.iter().find(|client| client.name == name).ok_or_else(|| {
        let names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
        format!("there is no client \"{name}\", only {}", names.join(", ")).into()
    })
}

/// The worker's client with a local queue, and the one without. Its threads share them.
pub(crate) fn build(settings: &Settings) -> Result<[Quorlock; 2], Failure> {
    let builder = (named(&settings.client)?.build)(settings);
    Ok([builder.clone().build()?, builder.local_queue(false).build()?])
}

/// Declares that nobody holds a lock on the new masters, so that the run does not wait for their quarantine.
pub(crate) fn admit(settings: &Settings, limit: Duration) -> Result<(), Failure> {
    let [locks, _] = build(settings)?;
    let began = std::time::Instant::now();
    loop {
        match locks.admit() {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() > limit => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
