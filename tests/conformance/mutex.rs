//! The promises of the exclusive lock about its type, and about its layout on the nodes.

use std::thread;

use quorlock::{Guard, OptionalGuard as _, Quorlock};

use crate::Promise;
use crate::support::wait_until;
use crate::world::{TTL, World};

pub(crate) const PROMISES: &[Promise] = &[
    ("the_keys_live_as_long_as_an_extension", the_keys_live_as_long_as_an_extension),
    ("a_guard_goes_to_another_thread", a_guard_goes_to_another_thread),
    ("another_redlock_client_is_excluded", another_redlock_client_is_excluded),
];

fn lock(locks: &Quorlock) -> Guard {
    locks.lock("orders/42").expect("a majority is healthy")
}

fn is_free(locks: &Quorlock) -> bool {
    locks.try_lock("orders/42").optional().expect("a majority is healthy").is_some()
}

fn the_keys_live_as_long_as_an_extension(world: &mut World) {
    let locks = world.client().locks;
    let guard = lock(&locks);
    guard.extend(TTL * 6).expect("a majority is healthy");
    guard.extend(TTL).expect("a majority is healthy");
    assert!(guard.remaining() < TTL);
    let five_times = i64::try_from((TTL * 5).as_millis()).expect("small");
    wait_until("the keys live on", TTL, || {
        let remaining = world.command_everywhere(&["PTTL", &world.key("orders/42")]);
        remaining.iter().all(|ms| matches!(ms, redis::Value::Int(ms) if *ms > five_times))
    });
    guard.unlock().expect("a majority is healthy");
}

fn a_guard_goes_to_another_thread(world: &mut World) {
    let (locks, other) = (world.client().locks, world.client().locks);
    let guard = lock(&locks);
    drop(locks);
    let guard = thread::spawn(move || {
        guard.check().expect("it is ours");
        guard
    });
    let guard = guard.join().expect("no panic");
    assert_eq!(guard.name(), b"orders/42");
    assert!(!is_free(&other));
    guard.unlock().expect("a majority is healthy");
    assert!(is_free(&other));
}

/// The layout of the Redlock algorithm: a string that `SET NX PX` makes and that its owner deletes.
fn another_redlock_client_is_excluded(world: &mut World) {
    let locks = world.client().locks;
    let key = world.key("orders/42");
    let set = ["SET", &key, "another-client", "NX", "PX", "60000"];
    let guard = lock(&locks);
    let majority = world.servers.len() / 2 + 1;
    let taken =
        world.command_everywhere(&set).iter().filter(|reply| **reply == redis::Value::Nil).count();
    let free = world.servers.len() - taken;
    assert!(taken >= majority || free < majority, "it got {free} nodes");
    guard.unlock().expect("it was ours all the time");

    world.command_everywhere(&["DEL", &key]);
    world.command_everywhere(&set);
    assert!(!is_free(&locks));
    let release = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) \
                   else return 0 end";
    world.command_everywhere(&["EVAL", release, "1", &key, "another-client"]);
    assert!(is_free(&locks));
}
