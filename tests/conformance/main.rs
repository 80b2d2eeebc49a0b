//! What every kind of lock must do, over every topology of nodes, with and without a key prefix, and
//! with and without local queues.
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
use world::{TOPOLOGIES, VARIANTS, World};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for topology in TOPOLOGIES.iter().copied() {
        for variant in VARIANTS {
            for (promise, check) in mutex::PROMISES {
                let name = format!("mutex::{}::{}::{promise}", topology.name, variant.name);
                trials.push(Trial::test(name, move || {
                    let mut world = World::new(topology, variant);
                    check(&mut world);
                    world.end();
                    Ok(())
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
