//! The requests about a lock by callers that do not hold it: a report of its holders, a request to them to give it up, and its removal
//! by force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::never;

use crate::clock;
use crate::core::operate::{Force, ForcePlan, Holders, Telling};
use crate::core::vote::Shared;
use crate::error::{Error, ErrorKind, NodeFault};
use crate::holders::{HolderReport, NameReport};
use crate::ident::{
    Name, Names, Owner, asked_channel, fence_key, forms_of, is_kept, queue_key, random_owner,
    random_text, read_timeout_key, reads_prefix, redisson_channel, redisson_rwlock_channel,
    release_channel, request_key, tombstone_key,
};
use crate::kinds::contract::reply;
use crate::node::{Ask, Part, Request, Script, Sink};
use crate::observe;
use crate::release_request::check_reason;
use crate::runtime::client_state::ClientState;
use crate::runtime::fan_out::{FanOut, Interrupts, Woken};
use crate::terms::{KEY_PREFIX, MAX_TTL};

static HOLDER: Script = Script::new(include_str!("../../lua/node/holder.lua"));
static FORCE: Script = Script::new(include_str!("../../lua/node/force.lua"));
static ASK: Script = Script::new(include_str!("../../lua/node/ask.lua"));
static ASKED: Script = Script::new(include_str!("../../lua/node/asked.lua"));

/// Returns the request to a node for the owners of the lock with that key.
pub(crate) fn holder_request(key: &[u8], mark_key: &[u8], fencing: bool) -> Request {
    let (queue, fence) = (queue_key(key), fencing.then(|| fence_key(key)));
    let keys = [Some(key), Some(mark_key), Some(&queue[..]), fence.as_deref()];
    let prefix = reads_prefix(key);
    let mut parts: Vec<_> = keys.into_iter().flatten().map(Part::Bytes).collect();
    let keys = parts.len();
    parts.push(Part::Bytes(&prefix));
    Request::new(&HOLDER, keys, &parts)
}

/// Returns the request to a node to take the lock with that key away from `owners`, and to leave tombstones that live for
/// that time. A kept key of an owner that has just given the lock back belongs to that owner as well. So does its read, if
/// it wrote.
pub(crate) fn force_request(key: &[u8], owners: &[Vec<u8>], tombstones_live: Duration) -> Request {
    let (channel, theirs) = (release_channel(key), redisson_channel(key));
    let of_rwlocks = redisson_rwlock_channel(key);
    let owners: BTreeSet<_> = owners.iter().flat_map(|owner| forms_of(owner)).collect();
    let tombstones: Vec<_> = owners.iter().map(|owner| tombstone_key(key, owner)).collect();
    let mut parts = vec![Part::Bytes(key)];
    let reads: Vec<_> = owners.iter().map(|owner| read_timeout_key(key, owner)).collect();
    parts.extend(tombstones.iter().chain(&reads).map(|key| Part::Bytes(key)));
    let keys = parts.len();
    parts.extend([tombstones_live.into(), Part::Bytes(&channel), Part::Bytes(&theirs)]);
    parts.push(Part::Bytes(&of_rwlocks));
    parts.extend(owners.iter().map(|owner| Part::Bytes(owner)));
    Request::new(&FORCE, keys, &parts)
}

/// Returns the request to a node to ask `owners` to give the lock with that key up. Each request has an `id` of its own.
pub(crate) fn ask_request(key: &[u8], owners: &[Vec<u8>], id: &str, reason: &str) -> Request {
    let keys: BTreeSet<_> = owners.iter().map(|owner| request_key(key, owner)).collect();
    let (text, channel) = ([id, " ", reason].concat(), asked_channel(key));
    let mut parts = vec![Part::Bytes(key)];
    parts.extend(keys.iter().map(|key| Part::Bytes(key)));
    let keys = parts.len();
    parts.extend([Part::Bytes(text.as_bytes()), Part::Bytes(&channel)]);
    Request::new(&ASK, keys, &parts)
}

/// Returns the request to a node for requests to `owner` to give the lock with these names up.
pub(crate) fn asked_request(names: &Names, owner: &str) -> Request {
    let keys: Vec<_> = names.keys().map(|key| request_key(key, owner.as_bytes())).collect();
    let parts: Vec<_> = keys.iter().map(|key| Part::Bytes(key)).collect();
    Request::new(&ASKED, parts.len(), &parts)
}

/// The answers of the nodes about one name.
struct NameHeard<'a> {
    name: &'a Name,
    round: Arc<FanOut<Holders>>,
}

/// Returns the holders of the lock with these names.
pub(crate) fn holders(client: &ClientState, names: &Names) -> Result<HolderReport, Error> {
    let heard = ask(client, names)?;
    let reports = heard.iter().map(|NameHeard { name, round }| {
        let faults = faults(client, round);
        let unanswered = |node: usize| {
            let node = &client.names()[node];
            let fault = faults.iter().find(|fault| fault.node() == &**node).cloned();
            fault.unwrap_or_else(|| NodeFault::new(node, "no answer in time"))
        };
        round.with(|said| NameReport::new(name, said, client.names(), unanswered))
    });
    Ok(HolderReport { names: reports.collect() })
}

/// Takes the lock with these names away from every owner that has it on any node. Returns true if anybody had it.
pub(crate) fn force_unlock(client: &ClientState, names: &Names) -> Result<bool, Error> {
    let heard = ask(client, names)?;
    let force_of = |it: &NameHeard<'_>| it.round.with(|said| Force::of(said));
    let forced = heard.iter().filter_map(|it| Some((it.name, force_of(it)?)));
    let forced: Vec<_> = forced.collect();
    if forced.is_empty() {
        return match heard.iter().any(|it| it.round.with(|said| said.has_no_lock())) {
            true => Err(no_lock(names, "cannot be forced open")),
            false => all_are_known(client, names, &heard).map(|()| false),
        };
    }
    take(client, names, forced)?;
    all_are_known(client, names, &heard).map(|()| true)
}

/// Asks the holders of the lock with these names to give it up. Returns true if anybody had it.
pub(crate) fn ask_to_release(
    client: &ClientState,
    names: &Names,
    reason: &str,
) -> Result<bool, Error> {
    check_reason(reason)?;
    let heard = ask(client, names)?;
    let working = heard.iter().map(|it| (it.name, it.round.with(|said| said.working(is_kept))));
    let asked: Vec<_> = working.filter(|(_, owners)| !owners.is_empty()).collect();
    if asked.is_empty() {
        return match heard.iter().any(|it| it.round.with(|said| said.has_no_lock())) {
            true => Err(no_lock(names, "has no holder to ask")),
            false => all_are_known(client, names, &heard).map(|()| false),
        };
    }
    let (id, nodes) = (random_text(random_owner()), client.nodes());
    let answer_by = clock::now().after(client.settings().node_timeout);
    let rounds = asked.iter().map(|(name, owners)| {
        let request = Arc::new(ask_request(name.key(), owners, &id, reason));
        let telling = Telling::to_owners(nodes.len());
        let round = FanOut::new(telling, reply::telling, client.names());
        round.ask(nodes, &Ask::Anyway(request));
        round
    });
    let rounds: Vec<_> = rounds.collect();
    for round in &rounds {
        round.wait_uninterrupted(&mut None, answer_by);
    }
    // A node that has taken no request because the lock is not there has no fault.
    let is_lost = |round: &&Arc<FanOut<Telling>>| {
        let (is_told, has_owners) = round.with(|it| (it.is_told(), it.has_owners()));
        !is_told || !has_owners && !round.faults(nodes, answer_by).is_empty()
    };
    match rounds.iter().find(is_lost) {
        None => Ok(rounds.iter().any(|round| round.with(|it| it.has_owners()))),
        Some(round) => {
            let message = format!(
                "the holder of {names} may not hear that it is asked to release it: too few nodes took the request. \
                 Ask again when they can be reached"
            );
            let faults = round.faults(nodes, answer_by);
            Err(Error::new(ErrorKind::NoQuorum, message).with_faults(faults))
        }
    }
}

/// Takes the lock with these names away from that owner alone.
pub(crate) fn take_from(client: &ClientState, names: &Names, owner: &str) -> Result<(), Error> {
    let heard = ask(client, names)?;
    let forced = heard
        .iter()
        .map(|it| (it.name, it.round.with(|said| Force::of_owner(said, owner.as_bytes()))));
    take(client, names, forced.collect())
}

/// Takes each of the names away from its owners. Returns an error if too few nodes could be told.
fn take(client: &ClientState, names: &Names, forced: Vec<(&Name, Force)>) -> Result<(), Error> {
    let (settings, now) = (client.settings(), clock::now());
    let rounds: Vec<_> = forced
        .iter()
        .map(|(name, force)| {
            let plan = force.plan(settings.max_ttl, settings.node_timeout, now);
            (tell(client, name, &force.owners, &plan), plan)
        })
        .collect();
    let owners = forced.into_iter().flat_map(|(_, force)| force.owners).map(Owner::new);
    observe::forced(names, &owners.collect::<Vec<_>>());
    for (round, plan) in &rounds {
        round.wait_uninterrupted(&mut None, plan.answer_by);
    }
    match rounds.iter().find(|(round, _)| !round.with(|telling| telling.is_told())) {
        None => Ok(()),
        Some((round, plan)) => {
            let message = format!(
                "{names} may still be held: too few nodes could be told to take it from its holder. The \
                 others are told when they come back; until then the holder may keep it, or get it back"
            );
            let faults = round.faults(client.nodes(), plan.answer_by);
            Err(Error::new(ErrorKind::NoQuorum, message).with_faults(faults))
        }
    }
}

/// Returns an error if the lock may have a holder that no node has named: nobody has taken the lock away from that holder.
fn all_are_known(
    client: &ClientState,
    names: &Names,
    heard: &[NameHeard<'_>],
) -> Result<(), Error> {
    let Some(NameHeard { round, .. }) =
        heard.iter().find(|it| !it.round.with(|said| said.is_certain()))
    else {
        return Ok(());
    };
    let message = format!(
        "{names} may have a holder whom no node has named, and who keeps it: too few nodes certainly remember all \
         locks. Try again when they have run for {MAX_TTL} since their restart"
    );
    let what = "it may have forgotten locks, and names no holder";
    let forgetful = round.with(|said| said.forgetful());
    let forgetful = forgetful.into_iter().map(|node| NodeFault::new(&client.names()[node], what));
    let faults = faults(client, round).into_iter().chain(forgetful).collect();
    Err(Error::new(ErrorKind::NoQuorum, message).with_faults(faults))
}

/// Orders all nodes to take one name away from `owners`. Nodes that are down get the order when they come back.
fn tell(
    client: &ClientState,
    name: &Name,
    owners: &[Vec<u8>],
    plan: &ForcePlan,
) -> Arc<FanOut<Telling>> {
    let request = Arc::new(force_request(name.key(), owners, plan.tombstones_live));
    let nodes = client.nodes();
    let round = FanOut::new(Telling::new(nodes.len()), reply::telling, client.names());
    round.expect(0..nodes.len());
    let sink: Arc<dyn Sink> = round.clone();
    for node in nodes {
        node.release(&request, Some(sink.clone()), plan.terms());
    }
    round
}

/// Asks all nodes for the owners of the lock, and waits for all that answer in time. Returns an error if too few do.
fn ask<'a>(client: &ClientState, names: &'a Names) -> Result<Vec<NameHeard<'a>>, Error> {
    client.process.check()?;
    let never = never();
    let interrupts = Interrupts { cancel: &never, closed: client.closed() };
    let closed = || {
        let message = format!("{names} was not examined: this client was closed");
        Error::new(ErrorKind::Closed, message)
    };
    if interrupts.poll() == Woken::Closed {
        return Err(closed());
    }
    let settings = client.settings();
    let answer_by = clock::now().after(settings.node_timeout);
    let first_decides = settings.fall_back_after().is_some();
    let mark_key = client.set().mark_key();
    let nodes = client.nodes();
    let heard: Vec<_> = names
        .iter()
        .map(|name| {
            let quarantine = settings.restart_quarantine;
            let holders = Holders::new(nodes.len(), answer_by, first_decides, quarantine);
            let round = FanOut::new(holders, reply::holder, client.names());
            let request = holder_request(name.key(), mark_key, settings.fencing);
            round.ask(nodes, &Ask::Anyway(Arc::new(request)));
            NameHeard { name, round }
        })
        .collect();
    for NameHeard { round, .. } in &heard {
        if round.wait(answer_by, interrupts) == Woken::Closed {
            return Err(closed());
        }
        let doubtful: Vec<_> = (0..nodes.len()).filter(|it| !client.set().grants(*it)).collect();
        round.with(|said| doubtful.iter().for_each(|node| said.doubt(*node)));
    }
    if let Some(faults) = client.set().conflict() {
        let message = format!("{names} was not examined: the nodes are not one set of ours");
        return Err(Error::config(message).with_faults(faults));
    }
    match heard.iter().find(|it| !it.round.with(|said| said.is_answered())) {
        None => Ok(heard),
        Some(NameHeard { round, .. }) => {
            Err(client.refusals().unheard(format_args!("who holds {names}"), faults(client, round)))
        }
    }
}

fn faults(client: &ClientState, round: &Arc<FanOut<Holders>>) -> Vec<NodeFault> {
    let answer_by = round.with(|said| said.answer_by());
    round.faults(client.nodes(), answer_by)
}

fn no_lock(names: &Names, what: &str) -> Error {
    let message = format!(
        "{names} {what}: on the nodes {} has no expiry, has another type than a \
         lock, or has an owner text that is too long; find out who wrote it, and delete it (DEL), or use another name or {KEY_PREFIX}",
        names.keys_text()
    );
    Error::new(ErrorKind::WrongKind, message)
}
