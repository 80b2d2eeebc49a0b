//! Leaks on purpose, to see that the judge finds them.

use std::mem;

use parking_lot::Mutex;
use quorlock::{Guard, Quorlock};

/// The environment variable that says what leaks in the process with the clients.
pub(crate) const VARIABLE: &str = "QUORLOCK_SOAK_LEAK";

/// Things that are kept for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leak {
    /// Each name that was used.
    Names,
    /// Each client that came.
    Clients,
    /// One guard of fifty.
    Guards,
}

static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Leak {
    const ALL: [Self; 3] = [Self::Names, Self::Clients, Self::Guards];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Clients => "clients",
            Self::Guards => "guards",
        }
    }

    /// What is to leak in this process.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
        let leak = Self::ALL.into_iter().find(|leak| leak.name() == name);
        Some(leak.unwrap_or_else(|| panic!("there is no leak \"{name}\"")))
    }
}

/// To be called for each name.
pub(crate) fn name(leak: Option<Leak>, name: &str) {
    if leak == Some(Leak::Names) {
        NAMES.lock().push(name.to_owned());
    }
}

/// To be called for each client that comes.
pub(crate) fn client(leak: Option<Leak>, client: &Quorlock) {
    if leak == Some(Leak::Clients) {
        mem::forget(client.clone());
    }
}

/// To be called for each guard; returns it unless it leaks.
pub(crate) fn guard(leak: Option<Leak>, guard: Guard, turn: u64) -> Option<Guard> {
    const OF: u64 = 50;
    if leak == Some(Leak::Guards) && turn.is_multiple_of(OF) {
        mem::forget(guard);
        return None;
    }
    Some(guard)
}
