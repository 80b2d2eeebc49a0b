//! The operators' commands: status, unlock, admit.

use quorlock::Quorlock;

use crate::exit::{Failure, NO_QUORUM};
use crate::json;
use crate::options::{Admit, Status, Unlock};
use crate::set::bytes;
use crate::tell::{print, tell};

/// Prints the holder of a lock. The exit code is 121 if too few masters answer.
pub(crate) fn status(options: &Status) -> Result<u8, Failure> {
    let report = options.set.client()?.mutex(bytes(&options.name)).holder()?;
    if options.json {
        print(format_args!("{:#}", json::holder(&report)))?;
    } else {
        print(&report)?;
    }
    Ok(match report.state() {
        quorlock::LockState::Unclear => NO_QUORUM,
        _ => 0,
    })
}

/// Takes a lock from its holder. Ends with 0 also if nobody has it.
pub(crate) fn unlock(options: &Unlock) -> Result<u8, Failure> {
    let name: String = options.name.to_string_lossy().escape_debug().collect();
    match options.set.client()?.mutex(bytes(&options.name)).force_unlock()? {
        true => tell(format_args!("{name} is taken from its holder, who is told, and free")),
        false => tell(format_args!("nobody had {name}")),
    }
    Ok(0)
}

/// Admits masters that have just been restarted.
pub(crate) fn admit(options: &Admit) -> Result<u8, Failure> {
    let client: Quorlock = options.set.client()?;
    client.admit()?;
    tell("the masters that can be reached grant locks");
    Ok(0)
}
