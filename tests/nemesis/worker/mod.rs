//! A worker: a process whose threads contend for locks, and tell the witness what they do.
//!
//! It is set up by environment variables ([`Settings`]), so that it can be a process as well as a container.
//! A program that includes this has the modules `witness` and `kinds` at its root; the latter is that of `tests/support`.

#![allow(
    dead_code,
    unused_imports,
    reason = "compiled into several programs, and each uses only a part of it"
)]

pub(crate) mod clients;
pub(crate) mod contender;
pub(crate) mod settings;
pub(crate) mod wish;
pub(crate) mod work;

use std::error::Error;
use std::sync::mpsc;
use std::{panic, process, thread};

pub(crate) use settings::Settings;

use contender::Contender;

/// Whatever ends a worker early.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Contends until the witness says that it is over, or until something fails that is no fault of a master's.
pub(crate) fn run(settings: &Settings) -> Result<(), Failure> {
    end_with_a_panic();
    let clients = clients::build(settings)?;
    // Unlike those of each earlier start of this worker.
    let start: u32 = rand::random();
    let (ended, endings) = mpsc::channel();
    for thread in 0..settings.threads {
        let who = format!("{}/{start:08x}/{thread}", settings.worker);
        let contender = Contender::connect(settings, thread, &who, &clients)?;
        let ended = ended.clone();
        thread::Builder::new().name(who).spawn(move || {
            // Nobody hears of it once another contender has failed.
            let _ = ended.send(contender.run());
        })?;
    }
    drop(ended);
    endings.iter().take(settings.threads).collect::<Result<Vec<()>, Failure>>()?;
    Ok(())
}

/// A panic of any thread ends the worker, which fails the run. Without this, the others would go on.
fn end_with_a_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        process::exit(101);
    }));
}
