//! The floors of `benches/compare` still speak the protocol of the scripts: each takes its lock, and gives it back.

mod support;
#[path = "../benches/compare/src/wire.rs"]
mod wire;

use support::{Servers, lua};
use wire::{Form, Wire};

#[test]
fn a_later_wire_of_a_floor_takes_and_gives_back_the_lock_of_an_earlier_one() {
    let servers = Servers::start(3);
    let ports: Vec<_> = servers.iter().map(|server| server.port()).collect();
    for form in [Form::Canonical, Form::Full] {
        for owner in ["first", "second"] {
            let mut wire = Wire::connect(&ports, form);
            for _ in 0..2 {
                let mut bytes = Vec::new();
                wire.acquire(&mut bytes, form.prefix(), owner);
                assert!(wire.exchange(&bytes, 1)[0] >= 2, "{owner} takes the lock");
                bytes.clear();
                wire.release(&mut bytes, form.prefix(), owner);
                assert!(wire.exchange(&bytes, 1)[0] >= 2, "{owner} gives the lock back");
            }
        }
    }
}
