//! An operator who has new nodes admitted if they show that no lock is held: the steps of `core/admission/admit_call.rs`, carried
//! out as `src/runtime/admit.rs` does it.

use std::rc::Rc;
use std::time::Duration;

use super::client::{Client, Cx, Note};
use super::fan_out::FanOut;
use super::network::Part;
use super::worker::{Outgoing, hurry};
use crate::core::admission::{AdmitCall, AdmitStep, AdmitTerms};
use crate::core::base::Time;
use crate::core::operate::{Scan, ScanStep};
use crate::core::vote::{Ballot, Shared};
use crate::ident::{Name, key_pattern};
use crate::kinds::contract::reply;
use crate::runtime::held_locks::names_request;

/// Keys have no prefix here.
const PREFIX: &[u8] = b"";

/// The time after which the states of the nodes are looked at again. The library looks more often.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One call of `admit_if_unused`.
pub(super) struct Admitting {
    call: AdmitCall,
    scanning: Option<Scanning>,
    /// Outdates what was scheduled before.
    epoch: u64,
}

/// The scan of all nodes, up to the present step.
struct Scanning {
    scan: Scan,
    round: Rc<FanOut<ScanStep>>,
    answer_by: Time,
}

impl Admitting {
    /// Lets an operator at this client make the call.
    pub(super) fn begin(client: &mut Client, cx: &mut Cx<'_>) {
        let terms = AdmitTerms::new(cx.settings.max_ttl, cx.settings.node_timeout);
        let call = AdmitCall::if_unused(cx.settings.nodes, terms, cx.now());
        client.admitting.push(Some(Self { call, scanning: None, epoch: 0 }));
        Self::go_on(client, client.admitting.len() - 1, 0, cx);
    }

    /// Goes on once a step of the scan has ended, or a node may have changed.
    pub(super) fn go_on(client: &mut Client, index: usize, epoch: u64, cx: &mut Cx<'_>) {
        let place = client.admitting.get_mut(index);
        let Some(mut admitting) = place.and_then(|it| it.take_if(|it| it.epoch == epoch)) else {
            return;
        };
        if !admitting.is_over(client, index, cx) {
            client.admitting[index] = Some(admitting);
        }
    }

    /// Carries the call on as far as possible, and returns true if it is over.
    fn is_over(&mut self, client: &mut Client, index: usize, cx: &mut Cx<'_>) -> bool {
        loop {
            if let Some(scanning) = self.scanning.take() {
                if cx.now() < scanning.answer_by && !scanning.round.with(|step| step.decided()) {
                    self.scanning = Some(scanning);
                    return false;
                }
                self.scan_on(scanning, client, index, cx);
                continue;
            }
            let step = {
                let admission = cx.shared.admission.borrow();
                self.call.poll(&admission, |node| client.workers[node].is_down(), cx.now())
            };
            match step {
                AdmitStep::Wait(until) => {
                    let at = until.min(cx.now().after(LOOK_AGAIN));
                    let note = self.note(index, cx);
                    cx.remind(at, note);
                    return false;
                }
                AdmitStep::Scan => self.ask(Scan::new(cx.settings.nodes), client, index, cx),
                AdmitStep::Probe { node } => {
                    cx.shared.admission.borrow_mut().doubt(node, None);
                    hurry(cx, |it| it == node);
                }
                AdmitStep::End { node, id } => {
                    cx.net.tell(|| format!("an operator admits node {node}"));
                    cx.shared.admission.borrow_mut().admit(node, id);
                    hurry(cx, |it| it == node);
                }
                AdmitStep::NotOneSet | AdmitStep::InUse | AdmitStep::Over => return true,
            }
        }
    }

    fn note(&mut self, index: usize, cx: &mut Cx<'_>) -> Note {
        self.epoch = cx.net.fresh();
        Note::Admitting { index, epoch: self.epoch }
    }

    /// Asks the nodes for the next part of their keys.
    fn ask(&mut self, scan: Scan, client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let note = self.note(index, cx);
        let answer_by = cx.now().after(cx.settings.node_timeout);
        let round = Rc::new(FanOut::new(scan.step(answer_by), reply::scan, note));
        let pattern = key_pattern(PREFIX, b"");
        for (node, worker) in client.workers.iter_mut().enumerate() {
            let Some(cursor) = scan.cursor(node) else { continue };
            let part = Part { keys: [].into(), owner: Rc::new(b"operator".to_vec()), what: "scan" };
            let request = Rc::new(names_request(cursor, &pattern));
            worker.ask(cx, Outgoing { request, part }, round.clone());
        }
        cx.remind(answer_by, note);
        self.scanning = Some(Scanning { scan, round, answer_by });
    }

    /// Takes the answers of a step. Makes the next one, or ends the scan.
    fn scan_on(&mut self, scanning: Scanning, client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let Scanning { mut scan, round, .. } = scanning;
        let keys = scan.handle_votes(round.with(ScanStep::take_votes));
        let has_lock = keys.iter().any(|key| Name::of_key(PREFIX, key).is_some());
        if !scan.is_over() && !has_lock {
            return self.ask(scan, client, index, cx);
        }
        let admission = cx.shared.admission.borrow();
        self.call.scanned(&admission, |node| scan.whole_for(node), has_lock, cx.now());
    }
}
