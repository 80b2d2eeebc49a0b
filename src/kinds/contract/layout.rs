//! A kind's layout on a node: its scripts, and the keys and arguments that each of them is called with.

use std::time::Duration;

use crate::core::vote::fence_outlives_ms;
use crate::ident::{
    Names, WRITES, fence_key, kept_text, queue_ends_key, queue_key, queued_text, read_timeout_key,
    reads_key, reads_prefix, release_channel, reserved_key, tombstone_key, waiting_channel,
};
use crate::kinds::contract::reservations::reservation;
use crate::kinds::contract::values::{CallValues, ChannelOf};
use crate::node::{Part, Request, RequestBuilder, Script};

/// The scripts of a kind, and the form in which the nodes keep its locks.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) acquire: ScriptCall,
    /// Tells a node the number of its grant. `None`: grants have no numbers.
    pub(crate) confirm: Option<ScriptCall>,
    pub(crate) extend: ScriptCall,
    pub(crate) release: ScriptCall,
    /// Takes a caller out of the queue. `None`: there is no queue.
    pub(crate) leave: Option<ScriptCall>,
    /// The commands that its scripts call.
    pub(crate) commands: &'static [&'static str],
    /// The owner of an attempt with that label and that random number, as its requests name it and the nodes keep it.
    pub(crate) owner: fn(&str, u128) -> String,
    /// The channel of Redisson's clients on which releases of the lock with that key are reported as well.
    pub(crate) redissons_channel: Option<ChannelOf>,
    /// Returns the owners that have the lock with that key on a node, each with the end of its hold by the node's
    /// clock, in milliseconds; a negative value means no end.
    #[cfg(all(test, feature = "embedded"))]
    pub(crate) holders: Holders,
}

/// Finds the holders of a lock. Its second argument runs a command on the node.
#[cfg(all(test, feature = "embedded"))]
pub(crate) type Holders =
    fn(&[u8], &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply) -> Vec<(Vec<u8>, i64)>;

impl Layout {
    /// The channels on which a node reports a release of the lock, our clients' channel first.
    pub(crate) fn channels(&self, names: &Names) -> Vec<Vec<u8>> {
        let theirs = self.redissons_channel.map(|channel| channel(names.first().key()));
        names.keys().map(release_channel).chain(theirs).collect()
    }
}

/// A script with the keys and arguments that it is called with, in order. Keys that a request lacks are left out, and
/// so are arguments at the end. Other missing arguments are empty.
#[derive(Clone, Copy)]
pub(crate) struct ScriptCall {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'static [Key],
    pub(crate) arguments: &'static [Argument],
}

impl ScriptCall {
    /// The call that takes a lock with one key. Most callers wait for nobody, so the argument of waiting callers is
    /// the last one: each argument costs a server a hundredth of the call.
    pub(crate) const fn acquire(script: &'static Script) -> Self {
        Self {
            script,
            keys: &[Key::Lock, Key::Mark, Key::Reserved, Key::Fence],
            arguments: &[
                Argument::Owner,
                Argument::Ttl,
                Argument::Admitted,
                Argument::Proposal,
                Argument::FenceTtl,
                Argument::Waiter,
            ],
        }
    }

    /// The call that tells a node the number of a lock with one key.
    pub(crate) const fn confirm(script: &'static Script) -> Self {
        Self {
            script,
            keys: &[Key::Lock, Key::Fence],
            arguments: &[Argument::Owner, Argument::Number, Argument::Outlives],
        }
    }

    /// The call that prolongs a lock with one key.
    pub(crate) const fn extend(script: &'static Script) -> Self {
        Self {
            script,
            keys: &[Key::Lock, Key::Mark, Key::Tombstone, Key::Fence],
            arguments: &[
                Argument::Owner,
                Argument::Ttl,
                Argument::Until,
                Argument::Quarantine,
                Argument::Number,
                Argument::UpTo,
                Argument::FenceTtl,
            ],
        }
    }

    /// The call that gives back a lock with one key.
    pub(crate) const fn release(script: &'static Script) -> Self {
        Self {
            script,
            keys: &[Key::Lock, Key::Tombstone, Key::Fence],
            arguments: &[
                Argument::Owner,
                Argument::Channel,
                Argument::KeepUntil,
                Argument::KeepBy,
                Argument::Kept,
                Argument::RaiseTo,
                Argument::FenceTtl,
            ],
        }
    }

    /// The call that gives back a lock with one key that Redisson has as well.
    pub(crate) const fn release_of_redissons(script: &'static Script) -> Self {
        Self {
            script,
            keys: &[Key::Lock, Key::Tombstone, Key::Fence],
            arguments: &[
                Argument::Owner,
                Argument::Channel,
                Argument::RedissonsChannel,
                Argument::KeepUntil,
                Argument::KeepBy,
                Argument::Kept,
                Argument::RaiseTo,
                Argument::FenceTtl,
            ],
        }
    }

    pub(crate) fn request(&self, values: &CallValues<'_>) -> Request {
        let mut request = RequestBuilder::new(self.script);
        self.keys.iter().for_each(|key| values.add_key(*key, &mut request));
        self.arguments.iter().for_each(|argument| values.add_argument(*argument, &mut request));
        request.build()
    }

    /// Returns true if releases by this call may let the node keep the lock.
    pub(crate) fn keeps(&self) -> bool {
        self.arguments.contains(&Argument::KeepUntil)
    }

    /// Returns true if releases by this call may stop extensions of the lock.
    pub(crate) fn raises(&self) -> bool {
        let raises = [Argument::RaiseTo, Argument::TombstoneTtl];
        self.arguments.iter().any(|argument| raises.contains(argument))
    }
}

/// Declares an enum whose variants have names in the scripts, which the table in `lua/README.md` explains.
macro_rules! named {
    ($(#[$doc:meta])* $of:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $of { $($variant,)* }

        impl $of {
            /// Its name in the scripts.
            #[cfg(test)]
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

named! {
    /// A key of a call. A key that belongs to a name occurs once for each name of the lock.
    Key {
        Lock = "LOCK",
        Mark = "MARK",
        Reserved = "RESERVED",
        Fence = "FENCE",
        Tombstone = "TOMBSTONE",
        WriteTombstone = "WRITE_TOMBSTONE",
        ReadEnd = "READ_END",
        Reads = "READS",
        Queue = "QUEUE",
        QueueEnds = "QUEUE_ENDS",
    }
}

named! {
    /// An argument of a call.
    Argument {
        Owner = "OWNER",
        Ttl = "TTL",
        Admitted = "ADMITTED",
        Proposal = "PROPOSAL",
        FenceTtl = "FENCE_TTL",
        Waiter = "WAITER",
        Number = "NUMBER",
        Outlives = "OUTLIVES",
        Until = "UNTIL",
        Quarantine = "QUARANTINE",
        UpTo = "UP_TO",
        Channel = "CHANNEL",
        RedissonsChannel = "REDISSONS_CHANNEL",
        KeepUntil = "KEEP_UNTIL",
        KeepBy = "KEEP_BY",
        Kept = "KEPT",
        RaiseTo = "RAISE_TO",
        Queued = "QUEUED",
        Ticket = "TICKET",
        StaysFor = "STAYS_FOR",
        WriteOwner = "WRITE_OWNER",
        WaitingChannel = "WAITING_CHANNEL",
        ReadsPrefix = "READS_PREFIX",
        TombstoneTtl = "TOMBSTONE_TTL",
        Permits = "PERMITS",
        Slot = "SLOT",
    }
}

impl CallValues<'_> {
    fn add_key(&self, key: Key, request: &mut RequestBuilder) {
        let owner = self.owner.as_bytes();
        let has_tombstones = self.repair.is_some() || self.keep.is_some() || self.raise.is_some();
        let mut for_each_name = |key: &dyn Fn(&[u8]) -> Vec<u8>| {
            self.names.keys().for_each(|name| request.key(&key(name)));
        };
        match key {
            Key::Lock => self.names.keys().for_each(|name| request.key(name)),
            Key::Mark => request.mark_key(self.mark_key),
            Key::Reserved => for_each_name(&reserved_key),
            Key::Fence if self.fence_for.is_some() => for_each_name(&fence_key),
            Key::Reads if self.fence_for.is_some() => for_each_name(&reads_key),
            Key::Fence | Key::Reads => {}
            Key::Tombstone if has_tombstones => for_each_name(&|name| tombstone_key(name, owner)),
            Key::WriteTombstone if has_tombstones => {
                for_each_name(&|name| tombstone_key(name, self.write_owner().as_bytes()));
            }
            Key::Tombstone | Key::WriteTombstone => {}
            Key::ReadEnd => for_each_name(&|name| read_timeout_key(name, owner)),
            Key::Queue => for_each_name(&queue_key),
            Key::QueueEnds => for_each_name(&queue_ends_key),
        }
    }

    fn add_argument(&self, argument: Argument, request: &mut RequestBuilder) {
        let first = self.names.first().key();
        let mut add = |part: Option<Part<'_>>| request.argument(part);
        match argument {
            Argument::Owner => add(Some(Part::Bytes(self.owner.as_bytes()))),
            Argument::WriteOwner => add(Some(Part::Bytes(self.write_owner().as_bytes()))),
            Argument::Ttl => request.ttl(self.ttl.into()),
            Argument::Admitted => add(Some(Part::Mark)),
            Argument::Proposal | Argument::Number => add(self.number.map(Part::from)),
            Argument::FenceTtl => request.fence_ttl(self.fence_for.map(fence_ttl)),
            Argument::Outlives => add(Some(Part::Number(fence_outlives_ms()))),
            Argument::Waiter => {
                let reservation = reservation(&self.waits);
                add(Some(reservation.as_bytes()).filter(|text| !text.is_empty()).map(Part::Bytes));
            }
            Argument::Queued => {
                let queued = self.queued.map_or_else(|| queued_text(self.owner), str::to_owned);
                add(Some(Part::Bytes(queued.as_bytes())));
            }
            Argument::Ticket => add(Some(Part::from(self.waits.ticket.unwrap_or(0)))),
            Argument::StaysFor => add(Some(self.waits.lasts.into())),
            Argument::Until => add(self.repair.map(|repair| Part::Number(repair.until_ms))),
            Argument::Quarantine => {
                add(self.repair.map(|repair| Part::Number(repair.quarantine.into())));
            }
            Argument::UpTo => {
                let fence = self.repair.and_then(|repair| repair.fence);
                add(fence.map(|fence| Part::from(fence.up_to)));
            }
            Argument::KeepUntil => add(self.keep.map(|keep| Part::Number(keep.until_ms))),
            Argument::KeepBy => add(self.keep.map(|keep| Part::Number(keep.by_ms))),
            Argument::Kept => {
                let kept = self.keep.map(|_| kept_text(self.owner));
                add(kept.as_ref().map(|kept| Part::Bytes(kept.as_bytes())));
            }
            Argument::RaiseTo => add(self.raise.map(|raise| Part::from(raise.to))),
            Argument::TombstoneTtl => add(self.raise.map(|raise| raise.lasts.into())),
            Argument::Channel => {
                self.names.keys().for_each(|key| add(Some(Part::Bytes(&release_channel(key)))));
            }
            Argument::RedissonsChannel => {
                let channel = self.redissons_channel.map(|channel| channel(first));
                add(channel.as_deref().map(Part::Bytes));
            }
            Argument::WaitingChannel => add(Some(Part::Bytes(&waiting_channel(first)))),
            Argument::ReadsPrefix => add(Some(Part::Bytes(&reads_prefix(first)))),
            Argument::Permits => add(self.permits.map(|permits| Part::Number(permits.of.into()))),
            Argument::Slot => {
                let slots = self.permits.iter().flat_map(|permits| permits.slots.iter());
                slots.for_each(|slot| add(Some(Part::from(slot as u64))));
            }
        }
    }

    /// The owner under which the holder of a read wrote before, if it did.
    fn write_owner(&self) -> String {
        format!("{}{WRITES}", self.owner)
    }
}

/// The TTL of the fence of a lock that ends after `lock`.
fn fence_ttl(lock: Duration) -> Part<'static> {
    let lock_ms = i64::try_from(lock.as_millis()).unwrap_or(i64::MAX);
    Part::Number(lock_ms.saturating_add(fence_outlives_ms()))
}
