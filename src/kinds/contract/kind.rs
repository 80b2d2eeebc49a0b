//! A kind of lock: its layout on a node, and its way of waiting.

use std::fmt;
use std::time::Duration;

use crate::core::acquire::{Waits, WayOfWaiting};
use crate::core::base::HoldClass;
use crate::core::vote::PermitsWanted;
use crate::ident::{self, Names, WRITES};
use crate::kinds::contract::layout::Layout;
use crate::kinds::contract::values::{CallValues, Claimant, Keep, Raise, Repair};
use crate::node::Request;

/// A kind of lock. All that the threads, the simulator and the tests know of it is stated here.
pub(crate) struct Kind {
    /// The name of the kind. Locks of different kinds have different local queues.
    pub(crate) label: &'static str,
    /// The number of holders that such a lock has at a time.
    pub(crate) hold_class: HoldClass,
    /// The name of its lock group: the kinds that a thread may hold one within the other, as one lock.
    pub(crate) group: &'static str,
    /// Returns true if the thread that holds the lock may take it again. The guards of such a kind stay on their thread.
    pub(crate) is_reentrant: bool,
    /// The largest number of names of one lock.
    pub(crate) most_names: usize,
    /// The order in which callers get a lock that others have.
    pub(crate) order: Order,
    /// The kind to which a holder may downgrade a lock that it holds for itself alone. An extension of that kind
    /// converts the hold that a node has.
    pub(crate) downgrades_to: Option<&'static Kind>,
    pub(crate) layout: Layout,
}

/// The order in which callers get a lock that others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// No order, until a caller has waited long enough to reserve the lock.
    None,
    /// Callers that share the lock, and callers that want it alone, take turns.
    Turns,
    /// The nodes keep a queue.
    Queue,
    /// Each caller asks for slots of a semaphore.
    Slots,
}

impl Kind {
    /// A kind without the special features of single kinds.
    pub(crate) const fn exclusive(label: &'static str, layout: Layout) -> Self {
        Self {
            label,
            hold_class: HoldClass::Exclusive,
            group: label,
            is_reentrant: false,
            most_names: 1,
            order: Order::None,
            downgrades_to: None,
            layout,
        }
    }

    /// The way of waiting for the lock with those names, or for that number of its permits.
    pub(crate) fn waiting(&self, names: &Names, permits: Option<PermitsWanted>) -> WayOfWaiting {
        match self.order {
            Order::None => WayOfWaiting::Unordered { names: names.iter().len() },
            Order::Turns => WayOfWaiting::InTurns,
            Order::Queue => WayOfWaiting::InQueue,
            Order::Slots => WayOfWaiting::ForSlots(permits.unwrap_or(PermitsWanted::ONE_OF_ONE)),
        }
    }

    /// The permits that a new handle wants; `None`: the kind is no semaphore.
    pub(crate) fn permits(&self) -> Option<PermitsWanted> {
        (self.order == Order::Slots).then_some(PermitsWanted::ONE_OF_ONE)
    }

    /// Returns true if the grants of a name have numbers, which are its tokens.
    pub(crate) const fn has_numbers(&self) -> bool {
        self.layout.confirm.is_some()
    }

    /// The owner of an attempt, as its requests name it and the nodes keep it. No two attempts have the same `random`
    /// number; `label` identifies the owner to operators.
    pub(crate) fn owner_text(&self, label: &str, random: u128) -> String {
        (self.layout.owner)(label, random)
    }

    /// The name of an attempt's caller in the queue of a fair lock, by which it hears that its turn has come. The
    /// attempts of one caller have the upper half of their `random` numbers in common.
    pub(crate) fn queued_text(&self, label: &str, random: u128) -> String {
        ident::queued_text(&self.owner_text(label, random))
    }

    /// The kind and the owner of a hold after its downgrade by `owner`. `None`: locks of this kind are not
    /// downgraded.
    pub(crate) fn downgraded(&self, owner: &str) -> Option<(&'static Self, String)> {
        let owner = owner.strip_suffix(WRITES).unwrap_or(owner);
        Some((self.downgrades_to?, owner.to_owned()))
    }

    /// The channels on which a node reports a release of the lock.
    pub(crate) fn channels(&self, names: &Names) -> Vec<Vec<u8>> {
        self.layout.channels(names)
    }

    /// The channel on which a node tells sharers of the lock that a caller which excludes them is waiting. `None`: no
    /// node does so.
    pub(crate) fn waiting_channel(&self, names: &Names) -> Option<Vec<u8>> {
        let shares = self.order == Order::Turns && self.hold_class == HoldClass::Shared;
        shares.then(|| ident::waiting_channel(names.first().key()))
    }

    /// Takes the lock under the mark that is written with the call, and that the node keeps at `mark_key`. A node
    /// that refuses may note the caller's place and reservation from `waits`. `proposal`: a number for the grant;
    /// `None` without fencing.
    pub(crate) fn acquire(
        &self,
        names: &Names,
        mark_key: &[u8],
        Claimant { owner, permits }: Claimant<'_>,
        ttl: Duration,
        waits: Waits,
        proposal: Option<u64>,
    ) -> Request {
        self.layout.acquire.request(&CallValues {
            ttl,
            waits,
            number: proposal,
            fence_for: proposal.map(|_| ttl),
            permits: Some(permits),
            ..CallValues::new(names, mark_key, owner)
        })
    }

    /// Tells a node the `number` of the lock that it granted. `None`: grants of this kind have no numbers.
    pub(crate) fn confirm(&self, names: &Names, owner: &str, number: u64) -> Option<Request> {
        let confirm = self.layout.confirm.as_ref()?;
        Some(confirm.request(&CallValues {
            number: Some(number),
            fence_for: Some(Duration::ZERO),
            ..CallValues::new(names, b"", owner)
        }))
    }

    /// Prolongs the lock, and sets its key again if it is gone, on the conditions of `repair`.
    pub(crate) fn extend(
        &self,
        names: &Names,
        Claimant { owner, permits }: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        self.layout.extend.request(&CallValues {
            ttl,
            number: repair.fence.map(|fence| fence.number),
            fence_for: repair.fence.map(|_| ttl),
            permits: Some(permits),
            repair: Some(repair),
            redissons_channel: self.layout.redissons_channel,
            ..CallValues::new(names, repair.mark_key, owner)
        })
    }

    /// Gives the lock back. The node keeps the lock until the time in `keep`, and raises its fence to the number in
    /// `raise`.
    pub(crate) fn release(
        &self,
        names: &Names,
        Claimant { owner, permits }: Claimant<'_>,
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        let release = &self.layout.release;
        let (keep, raise) = (keep.filter(|_| release.keeps()), raise.filter(|_| release.raises()));
        release.request(&CallValues {
            fence_for: raise.map(|raise| raise.lasts),
            permits: keep.map(|_| permits),
            keep,
            raise,
            redissons_channel: self.layout.redissons_channel,
            ..CallValues::new(names, b"", owner)
        })
    }

    /// Takes a caller out of the queue. `None`: this kind has no queue.
    pub(crate) fn leave_queue(&self, names: &Names, queued: &str) -> Option<Request> {
        let leave = self.layout.leave.as_ref()?;
        Some(leave.request(&CallValues { queued: Some(queued), ..CallValues::new(names, b"", "") }))
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.label).finish()
    }
}
