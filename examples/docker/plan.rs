//! The plan of a run: the arguments that `scripts/docker.sh` passes on.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;

/// The settings of one run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The run, which is the value of the label.
    pub(crate) run: String,
    /// Time for which faults are made, in seconds.
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// The longest TTL of the workers' locks: the `max_ttl` of their clients.
    max_ttl_ms: u64,
    /// The name of the workers' client.
    pub(crate) client: String,
    /// The folder for the history and the picture.
    pub(crate) folder: PathBuf,
    /// True if the workers report nothing to the witness, so that only the faults are made.
    pub(crate) faults_only: bool,
}

impl Plan {
    pub(crate) fn read(arguments: &[&str]) -> Result<Self, Failure> {
        let mut plan = Self {
            run: String::new(),
            seconds: 60,
            seed: 0,
            max_ttl_ms: 3_000,
            client: "right".to_owned(),
            folder: PathBuf::from("."),
            faults_only: false,
        };
        let mut arguments = arguments.iter();
        while let Some(&name) = arguments.next() {
            if name == "--faults-only" {
                plan.faults_only = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number =
                || value.parse().map_err(|_| format!("{name} needs a number, not {value}"));
            match name {
                "--run" => plan.run = (*value).to_owned(),
                "--seconds" => plan.seconds = number()?,
                "--seed" => plan.seed = number()?,
                "--max-ttl-ms" => plan.max_ttl_ms = number()?,
                "--client" => plan.client = (*value).to_owned(),
                "--folder" => plan.folder = PathBuf::from(value),
                _ => return Err(format!("there is no option {name}").into()),
            }
        }
        Ok(plan)
    }

    pub(crate) fn max_ttl(&self) -> Duration {
        Duration::from_millis(self.max_ttl_ms)
    }

    pub(crate) fn lasts(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}
