//! A worker: a process whose threads contend for locks, and report to the witness.
//!
//! It is set up by environment variables ([`Settings`]), so that it can be a process as well as a container.
//! A program that includes this module has the modules `witness` and `kinds` at its root; the latter is from `tests/support`.

#![allow(
    dead_code,
    unused_imports,
    reason = "compiled into several programs, and each uses only a part of it"
)]

pub(crate) mod clients;
pub(crate) mod contender;
pub(crate) mod count;
pub(crate) mod settings;
pub(crate) mod wish;
pub(crate) mod work;

use std::error::Error;
use std::sync::mpsc;
use std::{panic, process, thread};

pub(crate) use settings::Settings;

use contender::Contender;

use crate::witness::Client;

/// The reason why a worker ends early.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Contends until the witness ends the run, or until a failure that no master's fault explains.
pub(crate) fn run(settings: &Settings) -> Result<(), Failure> {
    end_with_a_panic();
    let clients = clients::build(settings)?;
    // Different from all earlier starts of this worker.
    let start: u32 = rand::random();
    let process = format!("{}/{start:08x}", settings.worker);
    let (ended, endings) = mpsc::channel();
    for thread in 0..settings.threads {
        let who = format!("{process}/{thread}");
        let contender = Contender::connect(settings, thread, &who, &clients)?;
        let ended = ended.clone();
        thread::Builder::new().name(who).spawn(move || {
            // The receiver is gone once another contender has failed.
            let _ = ended.send(contender.run());
        })?;
    }
    drop(ended);
    endings.iter().take(settings.threads).collect::<Result<Vec<()>, Failure>>()?;
    let mut witness = Client::connect(&settings.witness, &format!("{process}/count"))?;
    witness.tell(&count::counted(&clients))?;
    Ok(())
}

/// Makes a panic of any thread end the worker, which fails the run. Otherwise, the other threads would go on.
fn end_with_a_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        process::exit(101);
    }));
}
