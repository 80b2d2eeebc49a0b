//! The set-up of a worker.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use super::Failure;

/// The settings of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Its name in the history, the same over all its restarts. It has no `/` in it.
    pub(crate) worker: String,
    /// `host:port` of the witness.
    pub(crate) witness: String,
    /// The URLs of the masters.
    pub(crate) nodes: Vec<String>,
    /// The name of the client in the list of `clients`.
    pub(crate) client: String,
    pub(crate) seed: u64,
    /// The number of contenders.
    pub(crate) threads: usize,
    /// The number of lock names that all workers share.
    pub(crate) names: usize,
    pub(crate) max_ttl: Duration,
    /// Locks are exclusive, held for a long time, and not renewed, so that a scripted fault meets one holder.
    pub(crate) long_holds: bool,
}

const NODES: &str = "QUORLOCK_NODES";
const WORKER: &str = "NEMESIS_WORKER";
const WITNESS: &str = "NEMESIS_WITNESS";
const CLIENT: &str = "NEMESIS_CLIENT";
const SEED: &str = "NEMESIS_SEED";
const THREADS: &str = "NEMESIS_THREADS";
const NAMES: &str = "NEMESIS_NAMES";
const MAX_TTL_MS: &str = "NEMESIS_MAX_TTL_MS";
const LONG_HOLDS: &str = "NEMESIS_LONG_HOLDS";

impl Settings {
    /// Reads the environment. `NEMESIS_WORKER`, `NEMESIS_WITNESS` and `QUORLOCK_NODES` are required; the others
    /// have defaults.
    pub(crate) fn from_env() -> Result<Self, Failure> {
        Ok(Self {
            worker: required(WORKER)?,
            witness: required(WITNESS)?,
            nodes: required(NODES)?.split(',').map(str::to_owned).collect(),
            client: env::var(CLIENT).unwrap_or_else(|_| "right".to_owned()),
            seed: number(SEED, 1)?,
            threads: number(THREADS, 3)?,
            names: number(NAMES, 4)?,
            max_ttl: Duration::from_millis(number(MAX_TTL_MS, 3_000)?),
            long_holds: number(LONG_HOLDS, 0_u8)? > 0,
        })
    }

    /// The environment variables with these settings.
    pub(crate) fn to_env(&self) -> Vec<(&'static str, String)> {
        vec![
            (WORKER, self.worker.clone()),
            (WITNESS, self.witness.clone()),
            (NODES, self.nodes.join(",")),
            (CLIENT, self.client.clone()),
            (SEED, self.seed.to_string()),
            (THREADS, self.threads.to_string()),
            (NAMES, self.names.to_string()),
            (MAX_TTL_MS, self.max_ttl.as_millis().to_string()),
            (LONG_HOLDS, u8::from(self.long_holds).to_string()),
        ]
    }
}

fn required(name: &str) -> Result<String, Failure> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

fn number<T: FromStr>(name: &str, default: T) -> Result<T, Failure> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} is no number: \"{text}\"").into()),
        Err(_) => Ok(default),
    }
}
