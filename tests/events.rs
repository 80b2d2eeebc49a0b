//! The events that operators see. Alone in its program, since it subscribes to the whole process.

mod support;

use std::time::Duration;

use support::clients::{connected, fresh};
use support::events::{self, told};
use support::{Server, Servers, wait_until};

fn wait_told(words: &[&str]) {
    wait_until(&format!("an event says {words:?}"), Duration::from_secs(20), || told(words) > 0);
}

/// The number of the server's connections, including that of this query.
fn connections(server: &Server) -> usize {
    let list: String =
        redis::from_redis_value(server.command(&["CLIENT", "LIST", "TYPE", "normal"]))
            .expect("a list of clients is text");
    list.lines().count()
}

#[test]
fn nodes_and_quorums_that_come_and_go_are_told_once() {
    events::remember();
    let mut servers = Servers::start_with(3, &["--requirepass", "secret"]);
    let urls = servers.urls().into_iter().map(|url| url.replace("://", "://:secret@"));
    let locks = fresh(urls).node_timeout(Duration::from_secs(5)).build().expect("valid settings");
    let url = servers[0].url();
    wait_told(&["INFO", "node is up", &url]);

    // A caller's own short deadline says nothing about the nodes.
    let guard = locks.lock("orders/42").expect("three of three");
    for _ in 0..50 {
        drop(locks.try_lock_for("orders/42", Duration::from_micros(5_300)));
    }
    drop(guard);
    assert_eq!(told(&["WARN"]), 0, "{:?}", events::all());

    // A connection that is closed because it is idle does not mean that the node is down. The client misses it when it reads
    // the clock. Requests of that moment go out over a new connection, and are not kept for later.
    for server in servers.iter() {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    wait_until("all are connected again", Duration::from_secs(20), || {
        servers.iter().all(|server| connections(server) > 1)
    });
    assert_eq!(told(&["node is down"]), 0, "{:?}", events::all());

    servers.iter_mut().take(2).for_each(Server::kill);
    for _ in 0..5 {
        locks.try_lock("orders/42").expect_err("one of three");
    }
    wait_told(&["WARN", "node is down", &url, "reason="]);
    assert_eq!(told(&["WARN", "no quorum can be reached", &url]), 1, "{:?}", events::all());

    servers.iter_mut().take(2).for_each(Server::restart_empty);
    locks.lock("orders/42").expect("they are back").unlock().expect("they are back");
    wait_told(&["INFO", "a quorum can be reached again"]);
    wait_until("each return is told", Duration::from_secs(20), || {
        told(&["INFO", "node is up", &url]) == 2
    });
    assert_eq!(told(&["node is down", &url]), 1, "{:?}", events::all());

    // Without the permission to listen, locks still work, and each node reports that once.
    let user = ["ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-subscribe"];
    servers.iter().for_each(|server| drop(server.command(&user)));
    let urls = servers.iter().map(|server| server.url().replace("://", "://mute:secret@"));
    let builder = fresh(urls);
    // A call with a short deadline would not wait for a slow connect.
    let mute = connected(builder.node_timeout(Duration::from_secs(5)));
    // Another client holds the lock: waiters for a lock of their own client stand in a local queue.
    let guard = locks.lock("orders/43").expect("three of three");
    for _ in 0..2 {
        let waited = mute.try_lock_for("orders/43", Duration::from_secs(1));
        assert!(waited.is_err_and(|error| error.is_held()));
    }
    let silent = ["WARN", "does not announce releases", "lacks a permission"];
    wait_until("each node to be told", Duration::from_secs(20), || told(&silent) == servers.len());
    guard.unlock().expect("three of three");
    assert_eq!(told(&["secret"]), 0, "{:?}", events::all());
}
