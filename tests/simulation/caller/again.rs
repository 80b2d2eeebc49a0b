//! Re-entry and downgrades: a caller takes its lock again, if the kind allows it, or shares it from then on. It uses
//! the path of all calls.

use super::Caller;
use super::driving::Around;
use crate::core::acquire::{Acquire, Action, Outcome, Patience, Policy};
use crate::core::base::HoldClass;
use crate::core::hold::Terms;
use crate::core::queue::QueueKey;
use crate::simulation::checkers::{Again, taken_again};
use crate::simulation::claim::Claim;
use crate::simulation::client::{Client, Cx, Phase};
use crate::simulation::held::Hold;
use crate::simulation::lock_id::LockId;

impl Caller {
    /// By chance, the caller takes its lock again, gives a hold back, or downgrades an exclusive hold. It may also
    /// swap its first hold with a further one, which is given back later.
    pub(super) fn perhaps_again(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        hold: &mut Hold,
    ) {
        let scripted = cx.settings.habit.downgrades_for().is_some();
        if !hold.held.claim.lock.kind().is_reentrant || cx.phase != Phase::Working || scripted {
            return;
        }
        let can_share = hold.held.claim.lock.kind().downgraded("").is_some();
        if can_share && hold.class() == Some(HoldClass::Exclusive) && cx.net.chance.one_in(4) {
            hold.downgrade(client, cx);
        }
        match cx.net.chance.below(4) {
            0 | 1 => Self::take_again(client, index, cx, hold),
            2 => {
                if let Some(further) = client.callers[index].again.first_mut() {
                    std::mem::swap(further, hold);
                }
            }
            _ => {
                if let Some(further) = client.callers[index].again.pop() {
                    let (who, short) = (cx.client, further.held.claim.short());
                    further.drop_guard(client, cx);
                    cx.net
                        .tell(|| format!("client {who}, caller {index}: one hold less of {short}"));
                }
            }
        }
    }

    fn take_again(client: &mut Client, index: usize, cx: &mut Cx<'_>, hold: &Hold) {
        let now = cx.now();
        let held = &hold.held;
        let is_lost = held.lock().loss(now).is_some();
        let valid_until = held.lock().valid_until();
        let patience = cx.net.chance.pick(&[Patience::Once, Patience::Forever]);
        // The terms differ from those of the lease, which must stay as it is.
        let ttl = held.claim.terms.ttl / 2;
        let terms = Terms { ttl, renewed: false, max_hold: Some(ttl), ..held.claim.terms };
        let lock = held.claim.lock.any_of_group(&mut cx.net.chance);
        let is_exclusive = |hold: &Hold| hold.class() == Some(HoldClass::Exclusive);
        let shares = !is_exclusive(hold) && !client.callers[index].again.iter().any(is_exclusive);
        let upgrades = shares && cx.settings.class_of(lock) == HoldClass::Exclusive;
        let (what, taken) = Self::call_again(client, index, cx, lock, (patience, terms));
        let (who, short) = (cx.client, held.claim.short());
        cx.net.tell(|| format!("client {who}, caller {index}: takes {short} again: {what:?}"));
        let same = taken.as_ref().map(|taken| taken.token() == hold.token());
        let same_end = held.lock().valid_until() == valid_until;
        if let Some(what) = taken_again(what, upgrades, is_lost, same, same_end) {
            cx.net.checks.report(cx.net.now, "again", format!("{short}: {what}"));
        }
        client.callers[index].again.extend(taken);
    }

    /// Makes the call, which ends at once.
    fn call_again(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        lock: LockId,
        (patience, terms): (Patience, Terms),
    ) -> (Again, Option<Hold>) {
        let policy = Policy {
            patience,
            backoff: cx.settings.backoff,
            no_quorum_timeout: cx.settings.no_quorum_timeout,
            ordered: false,
            waiting: lock.kind().waiting(&lock.names(), lock.kind().permits()),
        };
        let mut acquire: Acquire<Claim> = Acquire::new(policy, cx.settings.node_timeout);
        let once = patience == Patience::Once;
        let queue = QueueKey::new(lock, None);
        let ticket = client.enter_queue(cx, (queue, policy.waiting.askers()), terms, once, index);
        acquire.start(&Around::new(client, cx, lock));
        let mut taken = None;
        let what = loop {
            match acquire.poll_action() {
                Some(Action::Look) => {
                    let (place, hold) = client.look(cx, queue, ticket);
                    taken = hold;
                    acquire.handle_turn(place, &mut Around::new(client, cx, lock));
                }
                Some(Action::HandedOver) => break Again::Taken,
                Some(Action::Refuse(Outcome::Lost(_))) => break Again::Lost,
                Some(Action::Refuse(Outcome::WaitsForItself)) => break Again::Refused,
                Some(Action::Refuse(Outcome::Held { .. })) if once => break Again::Refused,
                Some(Action::Refuse(Outcome::NodesDisagree)) => break Again::Disagree,
                Some(_) | None => break Again::Waits,
            }
        };
        client.leave(cx, queue, ticket);
        if what == Again::Disagree
            && let Some(hold) = taken.take()
        {
            hold.drop_guard(client, cx);
        }
        (what, taken)
    }
}
