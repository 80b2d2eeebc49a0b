//! An operator who forces a lock open, as `src/runtime/administration.rs` does it.

use std::rc::Rc;

use super::claim::{MARK, short};
use super::client::{Client, Cx, Note};
use super::fan_out::FanOut;
use super::lock_id::key;
use super::network::Part;
use super::worker::Outgoing;
use crate::core::base::Time;
use crate::core::operate::{Force, Holders, Telling};
use crate::core::vote::{Ballot, Shared};
use crate::kinds::contract::reply;
use crate::node::Request;
use crate::runtime::administration::{force_request, holder_request};

/// One order to force a name open.
#[derive(Debug)]
pub(super) struct Order {
    name: usize,
    until: Time,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Asking(Rc<FanOut<Holders>>),
    Forcing { owners: Vec<Vec<u8>>, round: Rc<FanOut<Telling>> },
    Done,
}

fn outgoing(name: usize, request: Request, what: &'static str) -> Outgoing {
    let part = Part { keys: [key(name)].into(), owner: Rc::new(b"operator".to_vec()), what };
    Outgoing { request: Rc::new(request), part }
}

impl Order {
    /// Lets an operator at this client ask for the holders of that name.
    pub(super) fn begin(client: &mut Client, cx: &mut Cx<'_>, name: usize) {
        let note = Note::Order { order: client.orders.len() };
        let until = cx.now().after(cx.settings.node_timeout);
        let first_decides = cx.settings.fall_back_after.is_some();
        let holders = Holders::new(cx.settings.nodes, until, first_decides, cx.settings.quarantine);
        let round = Rc::new(FanOut::new(holders, reply::holder, note));
        let stage = Stage::Asking(round.clone());
        client.orders.push(Self { name, until, stage });
        for worker in &mut client.workers {
            let request = holder_request(&key(name), MARK, cx.settings.fencing);
            worker.ask(cx, outgoing(name, request, "holder"), round.clone());
        }
        cx.remind(until, note);
    }

    /// Goes on once the awaited answers have come, or their time is over.
    pub(super) fn go_on(client: &mut Client, order: usize, cx: &mut Cx<'_>) {
        let Some(Self { name, until, stage }) = client.orders.get_mut(order) else { return };
        let (name, is_over) = (*name, *until <= cx.now());
        match stage {
            Stage::Asking(round) if is_over || round.with(|said| said.decided()) => {
                let force = |said: &mut Holders| Force::of(said).filter(|_| said.is_answered());
                let force = round.with(force);
                *stage = Stage::Done;
                if let Some(force) = force {
                    Self::force(client, order, cx, name, &force);
                }
            }
            Stage::Forcing { owners, round } if is_over || round.with(|it| it.decided()) => {
                if round.with(|forcing| forcing.is_told()) {
                    let names: Vec<_> = owners.iter().map(short).collect();
                    cx.net.tell(|| format!("{} are forced out of name {name}", names.join(", ")));
                    let now = cx.net.now;
                    let key = key(name);
                    owners.iter().for_each(|owner| cx.net.checks.forced_out(&key, owner, now));
                }
                *stage = Stage::Done;
            }
            _ => {}
        }
    }

    fn force(client: &mut Client, order: usize, cx: &mut Cx<'_>, name: usize, force: &Force) {
        let now = cx.now();
        let plan = force.plan(cx.settings.max_ttl, cx.settings.node_timeout, now);
        let owners = force.owners.clone();
        let note = Note::Order { order };
        let round = Rc::new(FanOut::new(Telling::new(cx.settings.nodes), reply::telling, note));
        owners.iter().for_each(|owner| cx.net.checks.is_being_forced(owner));
        for worker in &mut client.workers {
            let request = force_request(&key(name), &owners, plan.tombstones_live);
            let (outgoing, sink) = (outgoing(name, request, "force"), round.clone());
            worker.release(cx, outgoing, Some(sink), plan.terms());
        }
        let Self { until, stage, .. } = &mut client.orders[order];
        (*until, *stage) = (plan.answer_by, Stage::Forcing { owners, round });
        cx.remind(plan.answer_by, note);
    }
}
