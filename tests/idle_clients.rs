//! Idle clients: their load on the servers, and the changes that they still notice.

mod support;

use std::time::Duration;

use quorlock::Quorlock;
use support::clients::admitted;
use support::{Server, Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const MARK: &str = "quorlock:{quorlock}:mark";

/// A client that is connected and admitted, and not used any more.
fn idle(servers: &Servers) -> Quorlock {
    let builder = Quorlock::builder().nodes(servers.urls()).node_timeout(Duration::from_secs(2));
    let locks = admitted(builder);
    wait_until("the marks say so", LIMIT, || servers.iter().all(is_admitted));
    locks
}

fn is_admitted(server: &Server) -> bool {
    server.get(MARK).is_some_and(|mark| mark.ends_with(" admitted"))
}

fn is_quarantined(server: &Server) -> bool {
    server.get(MARK).is_some_and(|mark| mark.contains(" quarantined "))
}

/// The number of calls by command that a server has got.
#[derive(Debug)]
struct Calls {
    time: u64,
    get: u64,
    info: u64,
    /// One for each connection of a client.
    ping: u64,
}

impl Calls {
    fn of(server: &Server) -> Self {
        let info = server.command(&["INFO", "commandstats"]);
        let info: String = redis::from_redis_value(info).expect("INFO is text");
        let calls = |command: &str| {
            let prefix = format!("cmdstat_{command}:calls=");
            let line = info.lines().find_map(|line| line.strip_prefix(&prefix));
            let count = line.and_then(|line| line.split(',').next());
            count.map_or(0, |count| count.parse().expect("a number"))
        };
        Self { time: calls("time"), get: calls("get"), info: calls("info"), ping: calls("ping") }
    }
}

/// A probe asks the server for two sections of `INFO`. A further connection, which checks the server's identity, asks for three and
/// makes a probe.
#[test]
fn a_client_at_rest_asks_nodes_no_more_than_it_must() {
    let servers = Servers::start(1);
    let server = &servers[0];
    let _locks = idle(&servers);
    server.command(&["CONFIG", "RESETSTAT"]);
    let mut ours = 0;
    let mut calls = Calls::of(server);
    wait_until("five probes", LIMIT, || {
        ours += 1;
        calls = Calls::of(server);
        calls.time >= calls.ping + 5
    });
    let probes = calls.time - calls.ping;
    // Each script tries another `INFO`, of no section. A request from before the admission of all nodes may be answered after it.
    let info = 3 * probes + 3 * calls.ping + 3;
    assert!(calls.info - ours <= info, "{ours} are ours of {calls:?}");
    assert!(calls.get >= probes, "the mark is compared: {calls:?}");
}

#[test]
fn a_client_at_rest_notices_that_a_master_was_flushed() {
    let servers = Servers::start(3);
    let _locks = idle(&servers);
    servers[0].command(&["FLUSHALL"]);
    wait_until("its quarantine", LIMIT, || is_quarantined(&servers[0]));
    assert!(servers[1..].iter().all(is_admitted));
}

/// The master was a replica for a while, and has the same mark as before, through its own replica. Its other
/// data may not have reached that replica.
#[test]
fn a_client_at_rest_notices_that_a_master_was_a_replica_meanwhile() {
    let servers = Servers::start_with(3, &["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
    let _locks = idle(&servers);
    let mark = servers[0].get(MARK);
    replicate(&replica, &servers[0]);
    wait_until("the mark is written anew, for the first replica", LIMIT, || {
        servers[0].get(MARK) != mark && is_admitted(&servers[0])
    });
    let mark = servers[0].get(MARK);
    wait_until("the replica has it", LIMIT, || replica.get(MARK) == mark);
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    replicate(&servers[0], &replica);
    servers[0].command(&["REPLICAOF", "NO", "ONE"]);
    wait_until("its quarantine", LIMIT, || is_quarantined(&servers[0]));
}

fn replicate(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    wait_until("the replica has its master's data", LIMIT, || {
        let info = replica.command(&["INFO", "replication"]);
        let info: String = redis::from_redis_value(info).expect("INFO is text");
        info.contains("role:slave") && info.contains("master_link_status:up")
    });
}
