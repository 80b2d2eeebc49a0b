//! A node that is far away: requests go out before the answers to earlier ones.

mod support;

use std::thread;
use std::time::Duration;

use redis::Value;
use support::clients::connected;
use support::proxy::Proxy;
use support::{Server, holds_within, wait_until};

use quorlock::Quorlock;

/// A delay with several writes on their way.
const LATE: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a request to reach a server that does not answer.
const SOON: Duration = Duration::from_secs(2);

#[test]
fn a_request_goes_out_although_an_earlier_one_is_not_answered() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.delay(LATE);
    // The connection lives that long without an answer.
    let builder = Quorlock::builder().nodes([proxy.url()]).ttl(LIMIT * 5).max_ttl(LIMIT * 5);
    let locks = connected(builder.restart_quarantine(false).node_timeout(LIMIT));
    let lock_and_unlock = |name: &str| locks.lock(name).and_then(|guard| guard.unlock());
    lock_and_unlock("warm").expect("it is free");
    let is_locked =
        |name: &str| server.command(&["EXISTS", &format!("quorlock:{name}")]) == Value::Int(1);
    // A node is probed each second, and no request goes out before the probe's answer.
    wait_until("three requests have run without an answer", LIMIT, || {
        proxy.hold_answers(true);
        let mut have_run = 0;
        thread::scope(|scope| {
            let holders = ["one", "two", "three"].map(|name| {
                let holder = scope.spawn(move || lock_and_unlock(name));
                have_run += usize::from(holds_within(SOON, || is_locked(name)));
                holder
            });
            proxy.hold_answers(false);
            for holder in holders {
                holder.join().expect("no panic").expect("it is free");
            }
        });
        have_run == 3
    });
    server.wait_no_keys_in(0);
}
