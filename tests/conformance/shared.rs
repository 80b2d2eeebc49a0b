//! The promises of the kinds with several holders at a time.

use crate::Promise;
use crate::clients::{Client, unlock};
use crate::world::{TTL, World};

pub(crate) const PROMISES: &[Promise] = &[("clients_hold_side_by_side", clients_hold_side_by_side)];

fn clients_hold_side_by_side(world: &mut World) {
    let clients = [world.client(), world.client(), world.client()];
    let rival = world.rival();
    for _ in 0..3 {
        let try_lock = |client: &Client| client.try_lock("orders/42");
        let held = clients.each_ref().map(|client| try_lock(client).expect("nobody is in the way"));
        for guard in &held {
            guard.check().expect("it is ours");
            assert!(guard.token().is_some(), "fencing is on");
        }
        // The first two holders leave, and the last one keeps the lock.
        let [first, second, last] = held;
        unlock(vec![second, first]);
        assert!(rival.is_taken("orders/42"));
        last.check().expect("it is ours");
        last.extend(TTL).expect("a majority is healthy");
        last.unlock().expect("a majority is healthy");
        assert!(rival.is_free("orders/42"));
    }
}
