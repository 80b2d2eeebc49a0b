//! Reports as JSON: durations in milliseconds, owners and names as text.

use std::time::Duration;

use quorlock::{HeldAs, HeldLocks, HolderReport, Incomplete, Leader, NameReport};
use serde_json::{Value, json};

pub(crate) fn holder(report: &HolderReport) -> Value {
    let names = report.names.iter().map(name);
    json!({ "state": report.state().to_string(), "names": names.collect::<Vec<_>>() })
}

pub(crate) fn leader(leader: Option<&Leader>) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let leader = leader.map(|leader| {
        json!({
            "value": text(&leader.value),
            "term": leader.term.map(u64::from),
            "owner": text(leader.owner.as_bytes()),
            "ttl_ms": leader.remaining_ttl.and_then(|ttl| u64::try_from(ttl.as_millis()).ok()),
        })
    });
    json!({ "leader": leader })
}

pub(crate) fn held_locks(held: &HeldLocks) -> Value {
    let faults =
        held.faults.iter().map(|fault| json!({ "node": fault.node(), "fault": fault.what() }));
    json!({
        "complete": held.is_complete(),
        "incomplete": held.incomplete.iter().map(reason).collect::<Vec<_>>(),
        "names": held.names.iter().map(name).collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
    })
}

fn reason(reason: &Incomplete) -> &'static str {
    match reason {
        Incomplete::MoreNames => "more_names",
        Incomplete::TimeOver => "time_over",
        _ => "too_few_nodes",
    }
}

fn name(name: &NameReport) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ms = |time: Option<Duration>| {
        // A time without an end does not fit, and becomes null.
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
}
