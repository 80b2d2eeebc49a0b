//! The promises of locks: each kind, over every topology of nodes, with a key prefix and local queues or
//! without both.
//!
//! Each test is one promise of one kind in one world (`world.rs`): its own servers, some of them dead or hung. Each
//! promise meets each kind, each topology and each variant, in pairs (`cases.rs`); with `QUORLOCK_LONG_TESTS=1`, in all
//! combinations.
//!
//! The promises of every kind are in `promises.rs`. Those that depend on the number of holders at a time are in
//! `exclusive.rs` and `shared.rs`. The layout and the special promises of single kinds are in `mutex.rs`, `multi.rs`,
//! `reentrant.rs`, `rwlock.rs` and `fair.rs`. On a real server a client has just the permissions that its kind
//! states. A test ends only when no node has a key of a lock, including the hung ones once they are awake.

#[path = "../support/mod.rs"]
mod support;

mod cases;
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

use cases::Case;
use libtest_mimic::{Arguments, Trial};
use quorlock::{AllNames, Exclusive, Fair, HoldClass, LockKind, Reentrant, Writing};
use support::kinds::{AnyKind, KINDS};
use world::{TOPOLOGIES, VARIANTS, World};

/// A promise by its name, and its test.
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
        // These promises are about readers as well: a client that may write may also read.
        label if label == Writing::label() => rwlock::PROMISES,
        _ => &[],
    };
    let of_tokens = match kind.hold_class() {
        HoldClass::Exclusive if kind.has_tokens() => exclusive::OF_TOKENS,
        _ => &[],
    };
    [promises::PROMISES, by_class, of_tokens, by_layout].concat()
}

fn main() {
    let arguments = Arguments::from_args();
    let promises: Vec<_> = KINDS.iter().map(|kind| promises_of(*kind)).collect();
    let names: Vec<Vec<_>> =
        promises.iter().map(|of_kind| of_kind.iter().map(|(name, _)| *name).collect()).collect();
    let all = cases::product(&names);
    let is_long = std::env::var_os("QUORLOCK_LONG_TESTS").is_some();
    let chosen = if is_long { all.clone() } else { cases::pairwise(&names) };
    let mut trials: Vec<_> = chosen.iter().map(|case| trial(*case, &promises)).collect();
    trials.push(Trial::test("the_cases_cover_all_pairs", move || {
        cases::check_pairs(&chosen, &all);
        Ok(())
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(case: Case, promises: &[Vec<Promise>]) -> Trial {
    let (kind, topology) = (KINDS[case.kind], TOPOLOGIES[case.topology]);
    let variant = VARIANTS[case.variant];
    let promise = promises[case.kind].iter().find(|(name, _)| *name == case.promise);
    let (promise, check) = *promise.expect("it is the kind's own");
    let name = format!("{}::{}::{}::{promise}", kind.label(), topology.name, variant.name);
    Trial::test(name, move || {
        let mut world = World::new(kind, topology, variant);
        check(&mut world);
        world.end();
        Ok(())
    })
}
