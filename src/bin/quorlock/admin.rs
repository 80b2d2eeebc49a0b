//! The operators' commands: status, unlock, admit.

use quorlock::{HeldAs, Quorlock};
use serde_json::{Value, json};

use crate::exit::{Failure, NO_QUORUM};
use crate::options::{Admit, Status, Unlock};
use crate::set::bytes;
use crate::tell::{print, tell};

/// Prints the holder of a lock. The exit code is 121 if too few masters answer.
pub(crate) fn status(options: &Status) -> Result<u8, Failure> {
    let report = options.set.client()?.mutex(bytes(&options.name)).holder()?;
    if options.json {
        print(format_args!("{:#}", as_json(&report)))?;
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

fn as_json(report: &quorlock::HolderReport) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ms = |time: Option<std::time::Duration>| {
        // One without an end has none in milliseconds either.
        time.and_then(|time| u64::try_from(time.as_millis()).ok())
    };
    let token = |token: Option<quorlock::FencingToken>| token.map(u64::from);
    let as_what = |held_as: Option<HeldAs>| match held_as {
        Some(HeldAs::Semaphore { .. }) => Some("semaphore".to_owned()),
        other => other.map(|other| other.to_string()),
    };
    let permits = |held_as: Option<HeldAs>| match held_as {
        Some(HeldAs::Semaphore { permits }) => Some(permits),
        _ => None,
    };
    let names = report.names.iter().map(|name| {
        let holders = name.holders.iter().map(|holder| {
            json!({
                "owner": text(holder.owner.as_bytes()),
                "kept": holder.kept,
                "held_as": as_what(holder.held_as),
                "permits": permits(holder.held_as),
                "nodes": holder.nodes,
                "token": token(holder.token),
            })
        });
        let nodes = name.nodes.iter().map(|node| match &node.answer {
            Ok(answer) => json!({
                "node": node.node,
                "owners": answer.owners.iter().map(|owner| text(owner.as_bytes())).collect::<Vec<_>>(),
                "remaining_ttl_ms": ms(answer.remaining_ttl),
                "held_as": as_what(answer.held_as),
                "permits": permits(answer.held_as),
                "waiting": answer.waiting,
                "token": token(answer.token),
                "no_lock": answer.no_lock,
                "may_have_forgotten": answer.may_have_forgotten,
            }),
            Err(fault) => json!({ "node": node.node, "fault": fault.what() }),
        });
        json!({
            "name": text(&name.name),
            "state": name.state.to_string(),
            "holders": holders.collect::<Vec<_>>(),
            "remaining_ttl_ms": ms(name.remaining_ttl),
            "waiting": name.waiting,
            "nodes": nodes.collect::<Vec<_>>(),
        })
    });
    json!({ "state": report.state().to_string(), "names": names.collect::<Vec<_>>() })
}
