//! What locks must do: each kind of them, over every topology of nodes, and with a key prefix and local queues, or
//! without both.
//!
//! Each test is one promise in one world (`world.rs`): its own servers, some of them dead or hung. What holds
//! for every kind is in `promises.rs`, and what depends on who holds a lock side by side in `exclusive.rs` and
//! `shared.rs`; the layout of one kind, and what it alone has, in `mutex.rs`, `multi.rs`, `reentrant.rs`,
//! `rwlock.rs` and `fair.rs`. On a real server a client may do what its kind says that it needs, and no more. A test ends only when no node holds a key, the hung ones included, once they are awake.

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod exclusive;
mod fair;
mod masters;
mod multi;
mod mutex;
mod promises;
mod reentrant;
mod rwlock;
mod shared;
mod world;

use libtest_mimic::{Arguments, Trial};
use quorlock::{AllNames, Exclusive, Fair, HoldClass, LockKind, Reentrant, Writing};
use support::kinds::{AnyKind, KINDS};
use world::{TOPOLOGIES, Topology, USUAL, VARIANTS, Variant, World};

/// What a kind promises, by its name.
type Promise = (&'static str, fn(&mut World));

fn promises_of(kind: &dyn AnyKind) -> Vec<Promise> {
    let by_class = match kind.hold_class() {
        HoldClass::Exclusive => exclusive::PROMISES,
        HoldClass::Shared => shared::PROMISES,
        other => panic!("{}: nothing is promised of {other:?}", kind.label()),
    };
    let by_layout = match kind.label() {
        label if label == Exclusive::label() => mutex::PROMISES,
        label if label == AllNames::label() => multi::PROMISES,
        label if label == Reentrant::label() => reentrant::PROMISES,
        label if label == Fair::label() => fair::PROMISES,
        // They are about readers as well: whoever may write may read.
        label if label == Writing::label() => rwlock::PROMISES,
        _ => &[],
    };
    let of_tokens = match kind.hold_class() {
        HoldClass::Exclusive if kind.has_tokens() => exclusive::OF_TOKENS,
        _ => &[],
    };
    [promises::PROMISES, by_class, of_tokens, by_layout].concat()
}

/// The worlds of the kind with that number. Each topology has one of the two variants, and the next kind has the other
/// one there: what breaks one of the two does so for several kinds. The usual topology has both for each kind.
fn worlds_of(kind: usize) -> impl Iterator<Item = (Topology, Variant)> {
    TOPOLOGIES.iter().copied().enumerate().flat_map(move |(nth, topology)| {
        let is_chosen = move |variant: &usize| {
            topology.name == USUAL || (kind + nth + variant).is_multiple_of(VARIANTS.len())
        };
        (0..VARIANTS.len()).filter(is_chosen).map(move |variant| (topology, VARIANTS[variant]))
    })
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (nth, kind) in KINDS.iter().enumerate() {
        for (topology, variant) in worlds_of(nth) {
            for (promise, check) in promises_of(*kind) {
                let name =
                    format!("{}::{}::{}::{promise}", kind.label(), topology.name, variant.name);
                trials.push(Trial::test(name, move || {
                    let mut world = World::new(*kind, topology, variant);
                    check(&mut world);
                    world.end();
                    Ok(())
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
