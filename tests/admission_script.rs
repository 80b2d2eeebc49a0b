//! A probe of a node on real servers: the script that reads and changes its mark, the changes that it refuses, and the changes of
//! a server's ids.

mod support;

use std::time::Duration;

use redis::{RedisResult, Value, from_redis_value};
use support::{Server, access, wait_until};

const ADMIT: &str = include_str!("../lua/node/admit.lua");
const KEY: &str = "quorlock:{quorlock}:mark";
const NONE: &str = "0000000000000000000000000000000000000000";
const LIMIT: Duration = Duration::from_secs(20);

/// The answer of the script.
#[derive(Debug)]
struct Seen {
    changed: bool,
    role: String,
    run: String,
    repl: String,
    repl2: String,
    time_s: u64,
    mark: Option<String>,
}

fn try_run(server: &Server, script: &str, old: &str, new: &str) -> RedisResult<Seen> {
    let call: Vec<_> = ["EVAL", script, "1", KEY, old, new].map(str::as_bytes).into();
    let reply = server.try_command(&call)?;
    type Reply = (i64, u64, u64, Vec<String>, i64);
    let (changed, time_s, time_us, mark, refuses) =
        from_redis_value::<Reply>(reply).expect("the shape that the header states");
    assert!(changed == 0 || changed == 1);
    assert!(time_us < 1_000_000);
    assert!(mark.len() <= 1);
    assert_eq!(refuses, 0, "Redis allows INFO in scripts");
    // Behind the script, as clients do it.
    let run = info(server, "server", "run_id");
    let of_replication = |field| info(server, "replication", field);
    let role = of_replication("role");
    let (repl, repl2) = (of_replication("master_replid"), of_replication("master_replid2"));
    Ok(Seen { changed: changed == 1, role, run, repl, repl2, time_s, mark: mark.first().cloned() })
}

fn probe(server: &Server) -> Seen {
    change(server, "", "")
}

/// Changes the mark from `old` to `new`, if the node has still that mark.
fn change(server: &Server, old: &str, new: &str) -> Seen {
    try_run(server, ADMIT, old, new).expect("a server that answers")
}

fn info(server: &Server, section: &str, field: &str) -> String {
    let Value::BulkString(text) = server.command(&["INFO", section]) else { panic!("a text") };
    let text = String::from_utf8(text).expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

/// A server that sends its data to the first replica without waiting for further ones.
fn prompt() -> Server {
    Server::start_with(&["--repl-diskless-sync-delay", "0"])
}

fn replicate(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    wait_until("the replica to have its master's data", LIMIT, || {
        info(replica, "replication", "role") == "slave"
            && info(replica, "replication", "master_link_status") == "up"
    });
}

#[test]
fn a_probe_shows_the_server_its_time_and_the_mark_and_changes_nothing() {
    let server = Server::start();
    let time = || -> u64 {
        let (seconds, _): (u64, u64) =
            from_redis_value(server.command(&["TIME"])).expect("seconds and microseconds");
        seconds
    };
    let before = time();
    let seen = probe(&server);
    let after = time();
    assert_eq!((seen.role.as_str(), seen.mark, seen.changed), ("master", None, false));
    assert_eq!(seen.run, info(&server, "server", "run_id"));
    assert_eq!(seen.repl, info(&server, "replication", "master_replid"));
    assert_eq!(seen.repl2, NONE);
    assert!((before..=after).contains(&seen.time_s), "{before} {} {after}", seen.time_s);
    assert_eq!(server.keys(), Vec::<String>::new());
    server.command(&["SET", KEY, "a mark"]);
    assert_eq!(probe(&server).mark.as_deref(), Some("a mark"));
}

#[test]
fn a_change_names_what_it_replaces() {
    let server = Server::start();
    let refused = |old: &str, new: &str, now: Option<&str>| {
        let after = change(&server, old, new);
        assert!(!after.changed, "\"{old}\" is not what was there");
        assert_eq!((after.mark.as_deref(), server.get(KEY).as_deref()), (now, now));
    };
    refused("one", "two", None);
    let first = change(&server, "", "one");
    assert!(first.changed);
    assert_eq!((first.mark.as_deref(), server.get(KEY).as_deref()), (Some("one"), Some("one")));
    assert_eq!(server.pttl(KEY), -1, "a mark stays");
    refused("", "one", Some("one")); // a late copy
    refused("two", "three", Some("one"));
    refused("one ", "three", Some("one"));
    assert!(change(&server, "one", "two").changed);
    refused("one", "two", Some("two"));
    server.command(&["SET", KEY, ""]);
    refused("", "three", Some("")); // empty is not absent
}

#[test]
fn what_is_no_mark_is_shown_and_left_alone() {
    let server = Server::start();
    server.command(&["RPUSH", KEY, "data"]);
    for old in ["", "list"] {
        let after = change(&server, old, "one");
        assert_eq!((after.changed, after.mark.as_deref()), (false, Some("list")));
    }
    assert_eq!(server.command(&["LLEN", KEY]), Value::Int(1));
    server.command(&["SET", KEY, &"m".repeat(100_000)]);
    assert_eq!(probe(&server).mark.map(|mark| mark.len()), Some(512), "as much as ours can have");
}

#[test]
fn a_server_that_comes_back_has_another_run_id_with_its_data_or_without() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let seen = probe(&server);
    assert!(change(&server, "", "one").changed);
    server.restart_with_data();
    let with_data = probe(&server);
    assert_eq!(with_data.mark.as_deref(), Some("one"));
    assert_ne!(with_data.run, seen.run);
    assert_eq!(with_data.repl2, NONE, "a restart looks like no promotion");
    server.restart_empty();
    let without = probe(&server);
    assert_eq!(without.mark, None);
    assert_ne!(without.run, with_data.run);
}

#[test]
fn a_flush_takes_the_mark_and_leaves_the_ids() {
    let server = Server::start();
    let seen = probe(&server);
    assert!(change(&server, "", "one").changed);
    server.command(&["FLUSHALL"]);
    let flushed = probe(&server);
    assert_eq!((flushed.mark, flushed.run, flushed.repl), (None, seen.run, seen.repl));
}

#[test]
fn the_replication_id_changes_with_the_first_replica_and_after_the_last() {
    let master = prompt();
    master.command(&["CONFIG", "SET", "repl-backlog-ttl", "1"]);
    let replica = Server::start();
    let alone = probe(&master);
    assert!(change(&master, "", "one").changed);
    replicate(&replica, &master);
    let with_replica = probe(&master);
    assert_ne!(with_replica.repl, alone.repl);
    assert_eq!((&with_replica.run, with_replica.repl2.as_str()), (&alone.run, NONE));
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    wait_until("another replication id", LIMIT, || probe(&master).repl != with_replica.repl);
    assert_eq!(probe(&master).repl2, NONE);
}

#[test]
fn a_replica_shows_its_masters_mark_and_changes_nothing() {
    let (master, replica) = (prompt(), prompt());
    let seen = probe(&master);
    assert!(change(&master, "", "one").changed);
    replicate(&replica, &master);
    let copy = probe(&replica);
    assert_eq!((copy.role.as_str(), copy.mark.as_deref()), ("slave", Some("one")));
    assert_ne!(copy.run, seen.run, "each server has its own");
    let after = change(&replica, "one", "two");
    assert_eq!((after.changed, after.mark.as_deref()), (false, Some("one")), "and no error");
    // A replica may take writes of its own. It is a replica nevertheless.
    replica.command(&["CONFIG", "SET", "replica-read-only", "no"]);
    assert_eq!(change(&replica, "one", "two").role, "slave");
}

#[test]
fn a_promoted_server_names_the_id_that_it_had_as_a_replica() {
    let (first, second) = (prompt(), prompt());
    let seen = probe(&first);
    assert!(change(&first, "", "one").changed);
    replicate(&second, &first);
    let as_replica = probe(&second);
    second.command(&["REPLICAOF", "NO", "ONE"]);
    let promoted = probe(&second);
    assert_eq!((promoted.role.as_str(), promoted.mark.as_deref()), ("master", Some("one")));
    assert_eq!(promoted.repl2, as_replica.repl);
    assert_ne!(promoted.repl, as_replica.repl);

    // And back: the first server never stopped, and has got its own mark again, through the second one.
    replicate(&first, &second);
    first.command(&["REPLICAOF", "NO", "ONE"]);
    let back = probe(&first);
    assert_eq!((&back.run, back.mark.as_deref()), (&seen.run, Some("one")));
    assert_ne!(back.repl, seen.repl);
    assert_ne!(back.repl2, NONE, "that is how to tell");
}

#[test]
fn a_server_out_of_memory_can_be_probed_and_put_into_quarantine() {
    let server = Server::start();
    assert!(change(&server, "", "one").changed);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(probe(&server).mark.as_deref(), Some("one"));
    let deletes = "redis.pcall('DEL', KEYS[1])";
    assert!(ADMIT.contains(deletes));
    let without = ADMIT.replace(deletes, "1");
    let error = try_run(&server, &without, "one", "two").expect_err("nothing can be written");
    assert_eq!(error.code(), Some("OOM"));
    assert_eq!(server.get(KEY).as_deref(), Some("one"));
    assert!(change(&server, "one", "two").changed);
    assert_eq!(server.get(KEY).as_deref(), Some("two"));
}

#[test]
fn a_cluster_is_recognised() {
    let server =
        Server::start_with(&["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"]);
    let Value::Int(slot) = server.command(&["CLUSTER", "KEYSLOT", KEY]) else { panic!("a number") };
    server.command(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
    wait_until("the cluster to serve the slot", LIMIT, || {
        server.try_command(&[b"GET", KEY.as_bytes()]).is_ok()
    });
    assert_eq!(probe(&server).mark, None);
    assert_eq!(info(&server, "server", "redis_mode"), "cluster");
}

#[test]
fn the_permissions_of_every_client_are_enough() {
    let server = Server::start();
    let user = access::user("locker", "quorlock:", access::EVERY_CLIENT);
    server.command(&user.iter().map(String::as_str).collect::<Vec<_>>());
    let client = redis::Client::open(format!("redis://locker:secret@127.0.0.1:{}", server.port()));
    let mut connection = client.and_then(|client| client.get_connection()).expect("a login");
    let mut call = redis::cmd("EVAL");
    call.arg(ADMIT).arg(1).arg(KEY).arg("").arg("one");
    let reply: Value = call.query(&mut connection).expect("allowed");
    assert!(matches!(reply, Value::Array(fields) if fields.first() == Some(&Value::Int(1))));
    server.command(&["ACL", "SETUSER", "locker", "-get"]);
    let error = call.query::<Value>(&mut connection).expect_err("GET is not allowed any more");
    let says = error.to_string();
    let refusals = ["executing the script can't", "ACL failure in script"];
    assert!(refusals.iter().any(|refusal| says.contains(refusal)), "{says}");
}

/// The comparison is needed: without it, a forbidden change goes through.
#[test]
fn without_the_comparison_the_script_overwrites_another_mark() {
    let server = Server::start();
    let condition = "mark == (ARGV[1] ~= '' and ARGV[1])";
    assert!(ADMIT.contains(condition));
    let changed = |script: &str| {
        server.command(&["SET", KEY, "one"]);
        try_run(&server, script, "two", "three").expect("a server that answers").changed
    };
    assert!(!changed(ADMIT));
    assert!(changed(&ADMIT.replace(condition, "true")));
}
