//! What the threads need to know of a kind of lock: its keys and channels, its requests, and what the answers mean.

use std::fmt;
use std::time::Duration;

use crate::core::acquire::{Waits, WayOfWaiting};
use crate::core::base::HoldClass;
use crate::core::vote::{Permits, PermitsWanted};
use crate::ident::{self, Names, release_channel};
use crate::kinds::contract::reply::Decoders;
use crate::node::Request;

/// A kind of lock. What is stated here is all that the threads, the simulator and the tests know of it.
pub(crate) trait Kind: fmt::Debug + Send + Sync {
    /// What it is called. Locks of different kinds have different local queues.
    fn label(&self) -> &'static str;

    /// How many holders it has at a time.
    fn hold_class(&self) -> HoldClass;

    /// What it is called together with the kinds that a thread may hold one within the other, as one lock.
    fn family(&self) -> &'static str {
        self.label()
    }

    /// As what `owner` goes on who shares the lock from now on, which it held for itself alone: the kind, and its owner of
    /// that kind. `None`: this kind knows no such thing. An extension of that kind turns what a node has.
    fn downgraded(&self, _owner: &str) -> Option<(&'static dyn Kind, String)> {
        None
    }

    /// Whether the thread that holds it may take it again. The guards of such a kind stay on their thread.
    fn is_reentrant(&self) -> bool {
        false
    }

    /// How many names one lock has at most.
    fn most_names(&self) -> usize {
        1
    }

    /// How the keys end that it keeps beside the lock's own, together with braces. No name may end so.
    fn auxiliary(&self) -> &'static [&'static str];

    /// The commands that its scripts call.
    fn commands(&self) -> &'static [&'static str];

    /// The owner of an attempt, as its requests name it and the nodes keep it. No two attempts have the same `random`
    /// number; `label` says to operators whose it is.
    fn owner_text(&self, label: &str, random: u128) -> String {
        ident::owner_text(label, random)
    }

    /// On which channels a node tells that it was given the lock back.
    fn channels(&self, names: &Names) -> Vec<Vec<u8>> {
        names.keys().map(release_channel).collect()
    }

    /// As what the caller of an attempt stands in the queue of a fair lock, and hears that it is its turn. The attempts of one caller have the
    /// upper half of their `random` numbers in common.
    fn queued_text(&self, label: &str, random: u128) -> String {
        ident::queued_text(&self.owner_text(label, random))
    }

    /// Takes a caller out of that queue. `None`: there is none.
    fn leave_queue(&self, _names: &Names, _queued: &str) -> Option<Request> {
        None
    }

    /// On which channel a node tells that somebody waits who excludes those that hold the lock together. `None`: no node
    /// tells so.
    fn waiting_channel(&self, _names: &Names) -> Option<Vec<u8>> {
        None
    }

    /// How callers wait for the lock with those names, or for so many of its permits.
    fn waiting(&self, names: &Names, permits: Option<PermitsWanted>) -> WayOfWaiting {
        match permits {
            Some(permits) => WayOfWaiting::ForSlots(permits),
            None => WayOfWaiting::Unordered { names: names.iter().len() },
        }
    }

    /// How many permits a handle of its own wants, if it is a semaphore. Each caller asks for slots, which are its own alone.
    fn permits(&self) -> Option<PermitsWanted> {
        None
    }

    /// Whether the grants of a name have numbers, which are its tokens.
    fn has_numbers(&self) -> bool {
        self.permits().is_none()
    }

    /// Takes the lock under the mark that is written with the call, and that the node keeps at
    /// `mark_key`. If it is refused, the node may remember what `waits` says. `proposal`: a number for the
    /// grant; `None` without fencing.
    fn acquire(
        &self,
        names: &Names,
        mark_key: &[u8],
        claimant: Claimant<'_>,
        ttl: Duration,
        waits: Waits,
        proposal: Option<u64>,
    ) -> Request;

    /// Tells a node that it granted the lock with that `number`. `None`: its grants have none.
    fn confirm(&self, names: &Names, owner: &str, number: u64) -> Option<Request>;

    fn extend(
        &self,
        names: &Names,
        claimant: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request;

    /// Gives the lock back. The node keeps it as `keep` says, and its fence is raised as `raise` says.
    fn release(
        &self,
        names: &Names,
        claimant: Claimant<'_>,
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request;

    /// The owners that have the lock with that key on a node, each with the end of its hold by the node's clock, in
    /// milliseconds; a negative end is none. `call` runs a command there. For the checkers of the simulator.
    #[cfg(all(test, feature = "embedded"))]
    fn holders(
        &self,
        key: &[u8],
        call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply,
    ) -> Vec<(Vec<u8>, i64)> {
        use crate::embedded::Reply;

        match (call(&[b"GET", key]), call(&[b"PEXPIRETIME", key])) {
            (Reply::Bulk(owner), Reply::Int(end_ms)) => vec![(owner, end_ms)],
            _ => Vec::new(),
        }
    }

    /// How the answers to these requests read.
    fn decoders(&self) -> &'static Decoders {
        &Decoders::USUAL
    }
}

/// For whom a node is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) owner: &'a str,
    /// Of a semaphore: the slots that are the owner's.
    pub(crate) permits: Permits,
}

#[cfg(test)]
impl<'a> Claimant<'a> {
    /// Of a lock that is no semaphore.
    pub(crate) fn of(owner: &'a str) -> Self {
        Self { owner, permits: Permits::default() }
    }
}

/// Until when a node keeps a lock that was given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// In milliseconds of the node's own clock.
    pub(crate) until_ms: i64,
    /// By when it has to begin, by the same clock: what comes later gives the lock back, and no more.
    pub(crate) by_ms: i64,
}

/// To what a release raises the lock's fence, so that no extension behind it sets the key again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raise {
    pub(crate) to: u64,
    /// How long such an extension may be under way.
    pub(crate) lasts: Duration,
}

/// What an extension may do where our key is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair<'a> {
    /// Until when, in milliseconds of the node's own clock, the key may be set again.
    pub(crate) until_ms: i64,
    /// Where the node keeps its mark.
    pub(crate) mark_key: &'a [u8],
    /// Whether newcomers are granted nothing but under an admitted mark.
    pub(crate) quarantine: bool,
    /// `None` without fencing.
    pub(crate) fence: Option<Fence>,
}

/// The number of a lock that is held, and the largest one that a node may know for the key to be set
/// there again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) number: u64,
    pub(crate) up_to: u64,
}
