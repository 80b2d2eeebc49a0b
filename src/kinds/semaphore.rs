//! The kind of semaphores: a hash per node, in which each holder has slots of its own.

use crate::guard::Guard;
use crate::handle::{LockKind, OneName, sealed};
use crate::ident::owner_text;
#[cfg(all(test, feature = "embedded"))]
use crate::kinds::contract::holders;
use crate::kinds::contract::kind::{Kind, Order};
use crate::kinds::contract::layout::{Argument, Key, Layout, ScriptCall};
use crate::kinds::contract::reply;
use crate::node::Script;

// No batch makes several calls of these scripts in one step: the time of a call grows with the number of holds.
static ACQUIRE: Script = Script::new(include_str!("../../lua/semaphore/acquire.lua"))
    .with_meaning(reply::acquire_meaning);
static EXTEND: Script =
    Script::new(include_str!("../../lua/semaphore/extend.lua")).with_meaning(reply::extend_meaning);
static RELEASE: Script = Script::new(include_str!("../../lua/semaphore/release.lua"));

// Each slot has one holder at a time, so the kind is exclusive.
static KIND: Kind = Kind {
    order: Order::Slots,
    ..Kind::exclusive(
        "semaphore",
        Layout {
            acquire: ScriptCall {
                script: &ACQUIRE,
                keys: &[Key::Lock, Key::Mark, Key::Reserved],
                arguments: &[
                    Argument::Owner,
                    Argument::Ttl,
                    Argument::Admitted,
                    Argument::Waiter,
                    Argument::Permits,
                    Argument::Slot,
                ],
            },
            confirm: None,
            extend: ScriptCall {
                script: &EXTEND,
                keys: &[Key::Lock, Key::Mark, Key::Tombstone],
                arguments: &[
                    Argument::Owner,
                    Argument::Ttl,
                    Argument::Until,
                    Argument::Quarantine,
                    Argument::Permits,
                    Argument::Slot,
                ],
            },
            release: ScriptCall {
                script: &RELEASE,
                keys: &[Key::Lock, Key::Tombstone],
                arguments: &[
                    Argument::Owner,
                    Argument::Channel,
                    Argument::KeepUntil,
                    Argument::KeepBy,
                    Argument::Kept,
                    Argument::Permits,
                    Argument::Slot,
                ],
            },
            leave: None,
            commands: &[
                "set", "get", "mget", "hset", "hmget", "hgetall", "hdel", "hlen", "del", "type",
                "pttl", "pexpire", "time", "publish",
            ],
            owner: owner_text,
            redissons_channel: None,
            #[cfg(all(test, feature = "embedded"))]
            holders: holders::of_slots,
        },
    )
};

/// The kind of a [`Semaphore`](crate::Semaphore)'s permits. [`Quorlock::handle`](crate::Quorlock::handle) of this kind is a
/// semaphore with one permit.
#[derive(Debug)]
#[non_exhaustive]
pub struct Permits;

impl LockKind for Permits {
    type Guard = Guard;
}

impl OneName for Permits {}

impl sealed::Kind for Permits {
    const HANDLE: &'static str = "Semaphore";

    fn kind() -> &'static Kind {
        &KIND
    }
}
