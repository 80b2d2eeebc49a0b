//! The promises of the kinds with one holder at a time.

use std::thread;
use std::time::{Duration, Instant};

use quorlock::ErrorKind;
use quorlock::crossbeam_channel::bounded;

use crate::Promise;
use crate::clients::Client;
use crate::world::World;

pub(crate) const PROMISES: &[Promise] = &[
    ("clients_exclude_each_other", clients_exclude_each_other),
    ("threads_of_one_client_exclude_each_other", threads_of_one_client_exclude_each_other),
    ("held_by_a_thread_of_the_client", held_by_a_thread_of_the_client),
    ("given_back_and_kept", given_back_and_kept),
];

/// The promises of kinds whose guards have tokens.
pub(crate) const OF_TOKENS: &[Promise] =
    &[("tokens_rise_from_holder_to_holder", tokens_rise_from_holder_to_holder)];

fn clients_exclude_each_other(world: &mut World) {
    let clients = [world.client(), world.client(), world.client()];
    let inside = parking_lot::Mutex::new(());
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| {
                for _ in 0..5 {
                    let guard = client.lock("orders/42");
                    let alone = inside.try_lock().expect("two hold the lock at once");
                    thread::yield_now();
                    drop(alone);
                    guard.unlock().expect("a majority is healthy");
                }
            });
        }
    });
}

fn threads_of_one_client_exclude_each_other(world: &mut World) {
    let (client, other) = (world.client(), world.client());
    let (last, has_tokens) = (parking_lot::Mutex::new(None), world.kind.has_tokens());
    thread::scope(|scope| {
        for client in [&client, &client, &client, &other] {
            let last = &last;
            scope.spawn(move || {
                for i in 0..5 {
                    let guard = client.lock("orders/42");
                    guard.check().expect("what is handed out is held");
                    let mut last = last.try_lock().expect("two hold the lock at once");
                    let before = last.replace(guard.token());
                    assert!(!has_tokens || Some(guard.token()) > before, "after {before:?}");
                    drop(last);
                    if i % 2 == 0 {
                        guard.unlock().expect("a majority is healthy");
                    }
                }
            });
        }
    });
}

/// A lock that one thread holds is held for the others, and their waits can be cancelled.
fn held_by_a_thread_of_the_client(world: &mut World) {
    let client = world.client();
    let guard = client.lock("orders/42");
    let try_lock = || client.try_lock("orders/42").is_none();
    thread::scope(|scope| assert!(scope.spawn(try_lock).join().expect("no panic")));
    let (cancel, cancelled) = bounded(1);
    let wait = |client: &Client| {
        let handle = client.handle("orders/42");
        handle.lock_cancellable(&cancelled).map(drop).expect_err("cancelled").kind()
    };
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&client));
        cancel.send(()).expect("the waiter listens");
        assert_eq!(waiting.join().expect("no panic"), ErrorKind::Cancelled);

        // The drop of the sender cancels every waiter.
        let waiting = [scope.spawn(|| wait(&client)), scope.spawn(|| wait(&client))];
        drop(cancel);
        for waiting in waiting {
            assert_eq!(waiting.join().expect("no panic"), ErrorKind::Cancelled);
        }
    });
    guard.unlock().expect("it was ours all the time");
    assert!(client.try_lock("orders/42").is_some());
}

/// The nodes keep the lock for a while, although its holder has given it back.
fn given_back_and_kept(world: &mut World) {
    // Long enough for a busy machine to check the lock.
    let min_hold = Duration::from_secs(3);
    let (client, other) = (world.client(), world.client());
    let begun = Instant::now();
    drop(client.handle("orders/42").min_hold(min_hold).lock().expect("a majority is healthy"));
    assert!(client.try_lock("orders/42").is_none() || begun.elapsed() >= min_hold);
    assert!(other.try_lock("orders/42").is_none() || begun.elapsed() >= min_hold);
    let again = other.lock("orders/42");
    assert!(begun.elapsed() >= min_hold, "{:?}", begun.elapsed());
    again.unlock().expect("a majority is healthy");
}

fn tokens_rise_from_holder_to_holder(world: &mut World) {
    let clients = [world.client(), world.client(), world.client()];
    let last = parking_lot::Mutex::new(None);
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| {
                for i in 0..5 {
                    let guard = client.lock("orders/42");
                    let token = guard.token().expect("fencing is on");
                    let before = last.lock().replace(token);
                    assert!(Some(token) > before, "{token} after {before:?}");
                    if i % 2 == 0 {
                        guard.unlock().expect("a majority is healthy");
                    }
                }
            });
        }
    });
}
