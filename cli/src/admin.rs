//! The operators' commands: status, leader, unlock, admit.

use quorlock::{ErrorKind, HolderReport, LockState, Owner};

use crate::exit::{Failure, HELD, NO_QUORUM, NOBODY};
use crate::json;
use crate::options::{Admit, Leader, Status, Unlock};
use crate::set::bytes;
use crate::tell::{print, quoted, tell, tenths};

/// Maximum number of holders that a message names.
const SHOWN: usize = 3;

/// Prints the holder of a lock. The exit code is 121 if too few masters answer. With `--quiet` the exit code is the only output.
pub(crate) fn status(options: &Status) -> Result<u8, Failure> {
    let report = match options.set.client()?.mutex(bytes(&options.name)).holder() {
        Err(error) if options.quiet && error.kind() == ErrorKind::NoQuorum => return Ok(NO_QUORUM),
        report => report?,
    };
    if options.json {
        print(format_args!("{:#}", json::holder(&report)))?;
    } else if !options.quiet {
        print(&report)?;
    }
    Ok(match report.state() {
        LockState::Unclear => NO_QUORUM,
        LockState::Held | LockState::Kept if options.quiet => HELD,
        _ => 0,
    })
}

/// Prints the leader of an election. The exit code is 1 if there is none.
pub(crate) fn leader(options: &Leader) -> Result<u8, Failure> {
    let leader = options.set.client()?.election(bytes(&options.name)).leader()?;
    if options.json {
        print(format_args!("{:#}", json::leader(leader.as_ref())))?;
    } else if let Some(leader) = &leader {
        match leader.value_str() {
            Some("") => print(&leader.owner)?,
            // Any client of the masters may have written the value, and a terminal obeys control characters.
            Some(text) if !text.contains(char::is_control) => print(text)?,
            _ => print(leader.value.escape_ascii())?,
        }
    } else {
        tell(format_args!("nobody leads {}", quoted(bytes(&options.name))));
    }
    Ok(if leader.is_some() { 0 } else { NOBODY })
}

/// Takes a lock from its holder, or asks the holder for it. The exit code is 0 even if the lock is free.
pub(crate) fn unlock(options: &Unlock) -> Result<u8, Failure> {
    let name = quoted(bytes(&options.name));
    let lock = options.set.client()?.mutex(bytes(&options.name));
    let before = lock.holder()?;
    if options.ask {
        match lock.ask_to_release(options.reason.as_deref().unwrap_or_default())? {
            true => tell(format_args!("{name}: {}", asked(&before))),
            false => tell(format_args!("nobody has {name}")),
        }
        return Ok(0);
    }
    match lock.force_unlock()? {
        true => tell(format_args!("{name} {}", taken(&before))),
        false => tell(format_args!("nobody had {name}")),
    }
    Ok(0)
}

/// The outcome of a request to give the lock up.
fn asked(before: &HolderReport) -> String {
    let holders = working(before);
    let (holder, gives) = match holders.len() {
        0 => {
            return "its holder was asked to give it up, and does so when possible, or not at all"
                .to_owned();
        }
        1 => ("its holder", "was asked to give it up, and does"),
        _ => ("its holders", "were asked to give it up, and do"),
    };
    format!("{holder}, {}, {gives} so when possible, or not at all", named(&holders))
}

/// The holders that have not given the lock back.
fn working(report: &HolderReport) -> Vec<&Owner> {
    report.holders().filter(|holder| !holder.kept).map(|holder| &holder.owner).collect()
}

fn named(owners: &[&Owner]) -> String {
    let mut named: Vec<_> = owners.iter().take(SHOWN).map(ToString::to_string).collect();
    if owners.len() > SHOWN {
        named.push(format!("{} more", owners.len() - SHOWN));
    }
    named.join(", ")
}

/// The outcome of a forced unlock, with the time for which the holders go on working.
fn taken(before: &HolderReport) -> String {
    let working = working(before);
    if working.is_empty() {
        return match before.state() {
            LockState::Kept => "was kept after its holder had given it back, and is free",
            _ => "is taken from its owners on some of the masters, and is free",
        }
        .to_owned();
    }
    let answers = before.names.iter().flat_map(|name| &name.nodes);
    let lives = answers.filter_map(|node| node.answer.as_ref().ok()?.remaining_ttl);
    let left = lives.max().unwrap_or_default();
    let (holder, works) = match working.len() {
        1 => ("its holder", "The holder works"),
        _ => ("its holders", "The holders work"),
    };
    format!(
        "is taken from {holder}, {}, and others can take it from now on. {works} on until the next renewal, usually for {}; \
         without a renewal for {} at most",
        named(&working),
        // The holder renews when a third of the TTL is over. So a third of the time left is the most until the next renewal.
        tenths(left / 3),
        tenths(left)
    )
}

/// Lets masters that have just been restarted grant locks.
pub(crate) fn admit(options: &Admit) -> Result<u8, Failure> {
    let client = options.set.client()?;
    let admitted = match options.force {
        true => client.admit()?,
        false => client.admit_if_unused()?,
    };
    match admitted.as_slice() {
        [] => tell("nothing to do: no master that can be reached is in quarantine"),
        nodes => tell(format_args!("these masters grant locks from now on: {}", nodes.join(", "))),
    }
    Ok(0)
}
