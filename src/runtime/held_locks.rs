//! The locks that are held: the nodes are scanned for names, and then asked for the holders of these.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::never;

use crate::clock;
use crate::core::operate::{LockState, Scan};
use crate::core::vote::Shared;
use crate::error::{Error, ErrorKind, NodeFault};
use crate::holders::{HeldLocks, Incomplete};
use crate::ident::{LONGEST, Name, Names, key_pattern};
use crate::kinds::contract::reply;
use crate::node::{Ask, Part, Request, Script};
use crate::runtime::administration;
use crate::runtime::client_state::ClientState;
use crate::runtime::fan_out::{Delivery, FanOut, Interrupts, Woken};

static NAMES: Script = Script::new(include_str!("../../lua/node/names.lua"));

/// Number of names that the nodes are asked for at a time, one request each: their mailboxes keep room for other calls.
const AT_A_TIME: usize = 64;

/// Returns the request to a node for the next matching keys.
pub(crate) fn names_request(cursor: &str, pattern: &[u8]) -> Request {
    Request::new(&NAMES, 0, &[Part::Bytes(cursor.as_bytes()), Part::Bytes(pattern)])
}

/// The limits of a scan.
pub(crate) struct ScanWanted<'a> {
    /// The pattern of the names.
    pub(crate) pattern: &'a [u8],
    /// The most names.
    pub(crate) most: usize,
    /// The longest time for the scan.
    pub(crate) within: Duration,
}

/// The result of a scan.
struct Found {
    names: BTreeSet<Name>,
    incomplete: Vec<Incomplete>,
    faults: Vec<NodeFault>,
}

/// Returns the locks that are held.
pub(crate) fn held_locks(
    client: &ClientState,
    wanted: &ScanWanted<'_>,
) -> Result<HeldLocks, Error> {
    client.process.check()?;
    if wanted.pattern.len() > LONGEST {
        let length = wanted.pattern.len();
        let message = format!("the pattern of names has {length} bytes; {LONGEST} is the maximum");
        return Err(Error::invalid_name(message));
    }
    let Found { names, incomplete, faults } = scan(client, wanted)?;
    let names: Vec<_> = names.into_iter().take(wanted.most).collect();
    let mut held = Vec::new();
    for some in names.chunks(AT_A_TIME) {
        let some = Names::new(some.len(), some.iter().cloned().map(Ok))?;
        let reports = administration::holders(client, &some)?.names;
        held.extend(reports.into_iter().filter(|name| name.state != LockState::Free));
    }
    Ok(HeldLocks { names: held, incomplete, faults })
}

/// Scans all nodes for names. Returns an error if too few can be scanned.
fn scan(client: &ClientState, wanted: &ScanWanted<'_>) -> Result<Found, Error> {
    let Scanned { scan, names, mut faults } = scan_nodes(client, wanted)?;
    if let Some(faults) = client.set().conflict() {
        let message = "held locks were not searched for: the nodes are not one set of ours";
        return Err(Error::config(message).with_faults(faults));
    }
    if !scan.is_answered() {
        return Err(client.refusals().unheard("which locks are held", faults));
    }
    let settings = client.settings();
    let has_forgotten = |node: usize| settings.restart_quarantine && !client.set().grants(node);
    let first_decides = settings.fall_back_after().is_some();
    let is_whole = scan.is_complete(first_decides, has_forgotten);
    let is_heard = scan.is_heard(first_decides, has_forgotten);
    let has_more = names.len() > wanted.most;
    let reasons = [
        (Incomplete::MoreNames, has_more),
        (Incomplete::TimeOver, !is_whole && !has_more && !scan.is_over()),
        (Incomplete::TooFewNodes, !is_whole && !is_heard),
    ];
    let incomplete = reasons.into_iter().filter(|(_, is_so)| *is_so).map(|(reason, _)| reason);
    for node in (0..client.nodes().len()).filter(|node| has_forgotten(*node)) {
        let node = &client.names()[node];
        if faults.iter().all(|fault: &NodeFault| fault.node() != &**node) {
            faults.push(NodeFault::new(node, "it may have forgotten locks that are held"));
        }
    }
    Ok(Found { names, incomplete: incomplete.collect(), faults })
}

/// The answers of the nodes, up to the present point of their scans.
pub(crate) struct Scanned {
    pub(crate) scan: Scan,
    pub(crate) names: BTreeSet<Name>,
    /// The fault of each node that has failed.
    pub(crate) faults: Vec<NodeFault>,
}

/// Scans all nodes, each to its end, as long as there is time and room.
pub(crate) fn scan_nodes(client: &ClientState, wanted: &ScanWanted<'_>) -> Result<Scanned, Error> {
    let settings = client.settings();
    let pattern = key_pattern(&settings.key_prefix, wanted.pattern);
    let name = |key: Vec<u8>| Name::of_key(&settings.key_prefix, &key);
    let until = clock::now().after(wanted.within);
    let mut scan = Scan::new(client.nodes().len());
    let (mut names, mut faults) = (BTreeSet::new(), Vec::new());
    loop {
        let keys = step(client, &mut scan, &pattern, &mut faults)?;
        names.extend(keys.into_iter().filter_map(name));
        // One name more than wanted shows that there are more.
        if scan.is_over() || names.len() > wanted.most || until <= clock::now() {
            break;
        }
    }
    Ok(Scanned { scan, names, faults })
}

/// Makes one step of the scan, and returns the keys that nodes have named. The faults of nodes that fail are added to
/// `faults`.
fn step(
    client: &ClientState,
    scan: &mut Scan,
    pattern: &[u8],
    faults: &mut Vec<NodeFault>,
) -> Result<Vec<Vec<u8>>, Error> {
    let never = never();
    let interrupts = Interrupts { cancel: &never, closed: client.closed() };
    let answer_by = clock::now().after(client.settings().node_timeout);
    let round = FanOut::new(scan.step(answer_by), reply::scan, client.names());
    round.ask_some(client.nodes(), Delivery::AtOnce, |node, _| {
        Some(Ask::Anyway(Arc::new(names_request(scan.cursor(node)?, pattern))))
    });
    if interrupts.poll() == Woken::Closed || round.wait(answer_by, interrupts) == Woken::Closed {
        let message = "held locks were not searched for: this client was closed";
        return Err(Error::new(ErrorKind::Closed, message));
    }
    let votes = round.with(|step| step.take_votes());
    let told = round.faults(client.nodes(), answer_by);
    let silent = (0..votes.len()).filter(|i| scan.cursor(*i).is_some() && votes[*i].is_none());
    faults.extend(silent.map(|i| {
        let node = &client.names()[i];
        // An answer that has come meanwhile is also too late.
        let fault = told.iter().find(|fault| fault.node() == &**node).cloned();
        fault.unwrap_or_else(|| NodeFault::new(node, "no answer in time"))
    }));
    Ok(scan.handle_votes(votes))
}
