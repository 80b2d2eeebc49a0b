//! The floor: the cost of the protocol alone.

use super::contestant::{Caller, Contestant};
use super::wire::{Form, Wire};

/// A floor whose callers write to all nodes over sockets of their own, and read until a majority
/// has answered.
pub(crate) struct Floor {
    ports: Vec<u16>,
    form: Form,
}

impl Floor {
    pub(crate) fn new(ports: Vec<u16>, form: Form) -> Self {
        Self { ports, form }
    }
}

impl Contestant for Floor {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        let mut wire = Wire::connect(&self.ports, self.form);
        let majority = self.ports.len() / 2 + 1;
        let key = format!("{}:{name}", self.form.prefix());
        let (mut rounds, mut bytes) = (0_u64, Vec::new());
        Box::new(move |inside| {
            // As long as the owner ids of libraries. No other caller has this key.
            let owner = format!("{rounds:036}");
            rounds += 1;
            bytes.clear();
            wire.acquire(&mut bytes, &key, &owner);
            assert!(wire.exchange(&bytes, 1)[0] >= majority, "the name is nobody else's");
            inside();
            bytes.clear();
            wire.release(&mut bytes, &key, &owner);
            assert!(wire.exchange(&bytes, 1)[0] >= majority, "it was ours");
        })
    }
}
