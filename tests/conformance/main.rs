//! What every kind of lock must do, over every topology of nodes, with and without a key prefix.
//!
//! Each test is one promise (`mutex.rs`) in one world (`world.rs`): its own servers, some of them
//! dead or hung. A test ends only when no node holds a key, the hung ones included, once they are
//! awake.

#[path = "../support/mod.rs"]
mod support;

mod masters;
mod mutex;
mod world;

use libtest_mimic::{Arguments, Trial};
use world::{PREFIXES, TOPOLOGIES, World};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for topology in TOPOLOGIES.iter().copied() {
        for prefix in PREFIXES {
            for (promise, check) in mutex::PROMISES {
                let prefixed = if prefix.is_empty() { "bare" } else { "prefixed" };
                let name = format!("mutex::{}::{prefixed}::{promise}", topology.name);
                trials.push(Trial::test(name, move || {
                    let mut world = World::new(topology, prefix);
                    check(&mut world);
                    world.end();
                    Ok(())
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
