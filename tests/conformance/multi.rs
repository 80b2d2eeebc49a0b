//! The promises of the lock with several names about these names, and about its layout on the nodes.

use std::thread;

use quorlock::{ErrorKind, Guard, LossReason, MultiMutex, OptionalGuard as _, Quorlock};

use crate::Promise;
use crate::clients::Client;
use crate::support::wait_until;
use crate::world::{SHORT_TTL, TTL, World};

pub(crate) const PROMISES: &[Promise] = &[
    ("order_and_repetition_say_nothing", order_and_repetition_say_nothing),
    ("clients_that_name_them_in_other_orders_all_finish", other_orders_all_finish),
    ("each_name_is_kept_as_a_mutex_keeps_it", each_name_is_kept_as_a_mutex_keeps_it),
    ("one_token_is_above_those_of_all_names", one_token_is_above_those_of_all_names),
    ("whichever_name_was_in_the_way_wakes_a_waiter", whichever_name_wakes_a_waiter),
    ("a_refused_lock_leaves_the_free_names_alone", a_refused_lock_leaves_the_free_names_alone),
    ("a_name_that_is_deleted_ends_the_whole_lock", a_name_that_is_deleted_ends_the_whole_lock),
    ("so_many_names_and_no_more", so_many_names_and_no_more),
];

const NAMES: [&str; 3] = ["a", "b", "c"];

fn lock(locks: &Quorlock, names: &[&str]) -> Guard {
    locks.multi_mutex(names).lock().expect("a majority is healthy")
}

fn is_free(locks: &Quorlock, name: &str) -> bool {
    let guard = locks.try_lock(name).optional().expect("held is no error");
    guard.map(|guard| guard.unlock().expect("a majority is healthy")).is_some()
}

fn order_and_repetition_say_nothing(world: &mut World) {
    let (one, other) = (world.client().locks, world.client().locks);
    let guard = lock(&one, &["b", "a", "b"]);
    let names: Vec<_> = guard.names().collect();
    assert_eq!(names, [b"a", b"b"]);
    for names in [["a", "b"], ["b", "a"], ["b", "c"]] {
        let handle: MultiMutex = other.multi_mutex(names);
        assert!(handle.try_lock().optional().expect("held is no error").is_none());
    }
    assert!(is_free(&other, "c"));
    guard.unlock().expect("a majority is healthy");
    lock(&other, &["a", "b"]).unlock().expect("a majority is healthy");
}

/// The callers would wait for each other in a circle, if any held some of its names while it waits for the rest.
fn other_orders_all_finish(world: &mut World) {
    let orders = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]];
    let clients: [Client; 4] = [(); 4].map(|()| world.client());
    let inside = parking_lot::Mutex::new(());
    thread::scope(|scope| {
        for (client, order) in clients.iter().zip(orders) {
            let inside = &inside;
            scope.spawn(move || {
                for names in [&order[..], &order[..2], &order[..]] {
                    let guard = lock(&client.locks, names);
                    // Any two of three names have one in common.
                    let alone = inside.try_lock().expect("two hold one name at once");
                    guard.check().expect("it is ours");
                    drop(alone);
                    guard.unlock().expect("a majority is healthy");
                }
            });
        }
    });
}

fn each_name_is_kept_as_a_mutex_keeps_it(world: &mut World) {
    let locks = world.client().locks;
    let guard = lock(&locks, &NAMES);
    for name in NAMES {
        let key = world.key(name);
        let set = ["SET", &key, "another-client", "NX", "PX", "60000"];
        let replies = world.command_everywhere(&set);
        let taken = replies.iter().filter(|reply| **reply == redis::Value::Nil).count();
        let free = world.servers.len() - taken;
        let majority = world.servers.len() / 2 + 1;
        assert!(taken >= majority || free < majority, "it got {free} nodes under {name}");
    }
    guard.unlock().expect("it was ours all the time");
    for name in NAMES {
        world.command_everywhere(&["DEL", &world.key(name)]);
    }
}

fn one_token_is_above_those_of_all_names(world: &mut World) {
    let (one, other) = (world.client().locks, world.client().locks);
    let mut last = None;
    for round in 0..3 {
        // Tokens of different names cannot be compared with each other.
        let of_all = last;
        for name in &NAMES[..=round] {
            let guard = other.lock(name).expect("a majority is healthy");
            assert!(guard.token() > of_all, "{:?} after {of_all:?}", guard.token());
            last = last.max(guard.token());
            guard.unlock().expect("a majority is healthy");
        }
        let guard = lock(&one, &NAMES);
        assert!(guard.token() > last, "{:?} after {last:?}", guard.token());
        last = guard.token();
        guard.unlock().expect("a majority is healthy");
    }
}

fn whichever_name_wakes_a_waiter(world: &mut World) {
    let (holder, waiter) = (world.client().locks, world.client());
    for name in NAMES {
        let guard = holder.lock(name).expect("a majority is healthy");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&waiter.locks, &NAMES).unlock());
            waiter.waits();
            assert!(!waiting.is_finished());
            guard.unlock().expect("a majority is healthy");
            waiting.join().expect("no panic").expect("a majority is healthy");
        });
    }
}

fn a_refused_lock_leaves_the_free_names_alone(world: &mut World) {
    let (holder, other, third) = (world.client().locks, world.client().locks, world.client().locks);
    for (i, name) in NAMES.into_iter().enumerate() {
        let guard = holder.lock(name).expect("a majority is healthy");
        let refused = other.multi_mutex(NAMES).try_lock().optional().expect("held is no error");
        assert!(refused.is_none());
        for (j, free) in NAMES.into_iter().enumerate() {
            assert_eq!(is_free(&third, free), i != j, "{free}, while {name} is held");
        }
        guard.unlock().expect("a majority is healthy");
    }
}

fn a_name_that_is_deleted_ends_the_whole_lock(world: &mut World) {
    let (holder, other) = (world.client().locks, world.client().locks);
    let guard = holder.multi_mutex(NAMES).ttl(SHORT_TTL).lock().expect("a majority is healthy");
    // The nodes that do not answer keep their keys, but are a minority.
    let deleted = world.command_everywhere(&["DEL", &world.key("b")]).len();
    let left = world.servers.len() - deleted;
    assert!(left <= world.servers.len() / 2);
    let other_guard = other.multi_mutex(["b"]).lock().expect("a majority is healthy");
    let lost = guard.lost().recv_timeout(TTL);
    let reasons = [LossReason::KeysGone, LossReason::Unconfirmed, LossReason::Expired];
    assert!(lost.is_ok_and(|lost| reasons.contains(&lost)), "{lost:?}");
    assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
    // The rest of the lost lock is given back at once.
    for name in ["a", "c"] {
        wait_until("the other names are free", TTL, || is_free(&other, name));
    }
    other_guard.unlock().expect("a majority is healthy");
    drop(guard);
}

fn so_many_names_and_no_more(world: &mut World) {
    let locks = world.client().locks;
    let names: Vec<_> = (0..17).map(|i| format!("name/{i}")).collect();
    let guard = locks.multi_mutex(&names[1..]).lock().expect("a majority is healthy");
    assert_eq!(guard.names().count(), 16);
    guard.unlock().expect("a majority is healthy");
    let error = locks.multi_mutex(&names).lock().map(drop).expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    assert!(error.to_string().contains("17 names"), "{error}");
    let none: [&str; 0] = [];
    let error = locks.multi_mutex(none).try_lock().optional().map(drop).expect_err("none");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}
