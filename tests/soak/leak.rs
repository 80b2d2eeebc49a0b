//! Deliberate leaks, which the judge must find.

use std::mem;

use parking_lot::Mutex;
use quorlock::{Guard, Quorlock};

/// The environment variable with the kind of leak in the client process.
pub(crate) const VARIABLE: &str = "QUORLOCK_SOAK_LEAK";

/// Kinds of objects that are never freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leak {
    /// Each name that is used.
    Names,
    /// Each visiting client.
    Clients,
    /// One of fifty guards.
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

    /// The leak of this process, if any.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
        let leak = Self::ALL.into_iter().find(|leak| leak.name() == name);
        Some(leak.unwrap_or_else(|| panic!("there is no leak \"{name}\"")))
    }
}

/// Leaks the name, if names leak. Called for each name.
pub(crate) fn name(leak: Option<Leak>, name: &str) {
    if leak == Some(Leak::Names) {
        NAMES.lock().push(name.to_owned());
    }
}

/// Leaks the client, if clients leak. Called for each visiting client.
pub(crate) fn client(leak: Option<Leak>, client: &Quorlock) {
    if leak == Some(Leak::Clients) {
        mem::forget(client.clone());
    }
}

/// Returns the guard unless it leaks. Called for each guard.
pub(crate) fn guard(leak: Option<Leak>, guard: Guard, turn: u64) -> Option<Guard> {
    const OF: u64 = 50;
    if leak == Some(Leak::Guards) && turn.is_multiple_of(OF) {
        mem::forget(guard);
        return None;
    }
    Some(guard)
}
