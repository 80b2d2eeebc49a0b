//! The scripts that probe a node, change its mark, and check it, on real servers: their answers, the changes that
//! they refuse, and the changes of a server's ids.

mod support;

use std::time::Duration;

use redis::{RedisResult, Value, from_redis_value};
use support::{Server, access, wait_until};

const ADMIT: &str = include_str!("../lua/node/admit.lua");
const CHECK: &str = include_str!("../lua/node/check.lua");
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

fn try_run(server: &Server, script: &str, arguments: [&str; 4]) -> RedisResult<Seen> {
    let call = [&["EVAL", script, "1", KEY][..], &arguments].concat();
    let call: Vec<_> = call.iter().map(|part| part.as_bytes()).collect();
    let reply = server.try_command(&call)?;
    type Reply = (i64, String, String, String, String, u64, u64, Vec<String>);
    let (changed, role, run, repl, repl2, time_s, time_us, mark) =
        from_redis_value::<Reply>(reply).expect("the shape that the header states");
    assert!(changed == 0 || changed == 1);
    assert!(time_us < 1_000_000);
    assert!(mark.len() <= 1);
    Ok(Seen { changed: changed == 1, role, run, repl, repl2, time_s, mark: mark.first().cloned() })
}

fn probe(server: &Server) -> Seen {
    try_run(server, ADMIT, ["", "", "", ""]).expect("a server that answers")
}

/// Changes the mark from `old` to `new`, if the node is still as `seen`.
fn change_with(script: &str, server: &Server, seen: &Seen, old: &str, new: &str) -> Seen {
    try_run(server, script, [old, new, &seen.run, &seen.repl]).expect("a server that answers")
}

fn change(server: &Server, seen: &Seen, old: &str, new: &str) -> Seen {
    change_with(ADMIT, server, seen, old, new)
}

/// The time of a server that is unchanged, or `None` if it has changed.
fn check_with(script: &str, server: &Server, mark: &str, repl: &str) -> Option<(u64, u64)> {
    let reply = server.command(&["EVAL", script, "1", KEY, mark, repl]);
    let fields: Vec<u64> = from_redis_value(reply).expect("the shape that the header states");
    match fields[..] {
        [] => None,
        [seconds, microseconds] => Some((seconds, microseconds)),
        _ => panic!("{fields:?}"),
    }
}

fn check(server: &Server, mark: &str, repl: &str) -> Option<(u64, u64)> {
    check_with(CHECK, server, mark, repl)
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
    let seen = probe(&server);
    let refused = |old: &str, new: &str, now: Option<&str>| {
        let after = change(&server, &seen, old, new);
        assert!(!after.changed, "\"{old}\" is not what was there");
        assert_eq!((after.mark.as_deref(), server.get(KEY).as_deref()), (now, now));
    };
    refused("one", "two", None);
    let first = change(&server, &seen, "", "one");
    assert!(first.changed);
    assert_eq!((first.mark.as_deref(), server.get(KEY).as_deref()), (Some("one"), Some("one")));
    assert_eq!(server.pttl(KEY), -1, "a mark stays");
    refused("", "one", Some("one")); // a late copy
    refused("two", "three", Some("one"));
    refused("one ", "three", Some("one"));
    assert!(change(&server, &seen, "one", "two").changed);
    refused("one", "two", Some("two"));
    server.command(&["SET", KEY, ""]);
    refused("", "three", Some("")); // empty is not absent
}

#[test]
fn a_change_is_for_the_very_server_that_was_seen() {
    let server = Server::start();
    let seen = probe(&server);
    let other = "x".repeat(40);
    let changed = |run: &str, repl: &str| {
        try_run(&server, ADMIT, ["", "one", run, repl]).expect("a server that answers").changed
    };
    assert!(!changed(&other, &seen.repl));
    assert!(!changed(&seen.run, &other));
    assert!(!changed("", ""));
    assert_eq!(server.get(KEY), None);
    assert!(changed(&seen.run, &seen.repl));
}

#[test]
fn what_is_no_mark_is_shown_and_left_alone() {
    let server = Server::start();
    let seen = probe(&server);
    server.command(&["RPUSH", KEY, "data"]);
    for old in ["", "list"] {
        let after = change(&server, &seen, old, "one");
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
    assert!(change(&server, &seen, "", "one").changed);
    server.restart_with_data();
    let with_data = probe(&server);
    assert_eq!(with_data.mark.as_deref(), Some("one"));
    assert_ne!(with_data.run, seen.run);
    assert_eq!(with_data.repl2, NONE, "a restart looks like no promotion");
    assert!(!change(&server, &seen, "one", "two").changed, "decided on before the restart");
    server.restart_empty();
    let without = probe(&server);
    assert_eq!(without.mark, None);
    assert_ne!(without.run, with_data.run);
}

#[test]
fn a_flush_takes_the_mark_and_leaves_the_ids() {
    let server = Server::start();
    let seen = probe(&server);
    assert!(change(&server, &seen, "", "one").changed);
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
    assert!(change(&master, &alone, "", "one").changed);
    replicate(&replica, &master);
    let with_replica = probe(&master);
    assert_ne!(with_replica.repl, alone.repl);
    assert_eq!((&with_replica.run, with_replica.repl2.as_str()), (&alone.run, NONE));
    assert!(!change(&master, &alone, "one", "two").changed, "decided on before it came");
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    wait_until("another replication id", LIMIT, || probe(&master).repl != with_replica.repl);
    assert_eq!(probe(&master).repl2, NONE);
}

#[test]
fn a_replica_shows_its_masters_mark_and_changes_nothing() {
    let (master, replica) = (prompt(), prompt());
    let seen = probe(&master);
    assert!(change(&master, &seen, "", "one").changed);
    replicate(&replica, &master);
    let copy = probe(&replica);
    assert_eq!((copy.role.as_str(), copy.mark.as_deref()), ("slave", Some("one")));
    assert_ne!(copy.run, seen.run, "each server has its own");
    for read_only in ["yes", "no"] {
        replica.command(&["CONFIG", "SET", "replica-read-only", read_only]);
        let after = change(&replica, &copy, "one", "two");
        assert!(!after.changed, "no error, and no change, with replica-read-only {read_only}");
    }
}

#[test]
fn a_promoted_server_names_the_id_that_it_had_as_a_replica() {
    let (first, second) = (prompt(), prompt());
    let seen = probe(&first);
    assert!(change(&first, &seen, "", "one").changed);
    replicate(&second, &first);
    let as_replica = probe(&second);
    second.command(&["REPLICAOF", "NO", "ONE"]);
    let promoted = probe(&second);
    assert_eq!((promoted.role.as_str(), promoted.mark.as_deref()), ("master", Some("one")));
    assert_eq!(promoted.repl2, as_replica.repl);
    assert_ne!(promoted.repl, as_replica.repl);
    assert!(!change(&second, &as_replica, "one", "two").changed, "decided on before");

    // And back: the first server never stopped, and has got its own mark again, through the second one.
    replicate(&first, &second);
    first.command(&["REPLICAOF", "NO", "ONE"]);
    let back = probe(&first);
    assert_eq!((&back.run, back.mark.as_deref()), (&seen.run, Some("one")));
    assert_ne!(back.repl, seen.repl);
    assert_ne!(back.repl2, NONE, "that is how to tell");
    assert_eq!(check(&first, "one", &seen.repl), None, "so a check compares the id, too");
    assert!(check(&first, "one", &back.repl).is_some());
    let without = CHECK.replace("'\\nmaster_replid:(%w+)') ~= ARGV[2]", "'') ~= ''");
    assert_ne!(without, CHECK);
    assert!(check_with(&without, &first, "one", &seen.repl).is_some());
}

#[test]
fn a_check_shows_the_time_of_a_server_that_is_as_it_was_seen() {
    let server = Server::start();
    let seen = probe(&server);
    let (seconds, microseconds) = check(&server, "", &seen.repl).expect("it has no mark");
    assert!(seen.time_s <= seconds && seconds <= probe(&server).time_s && microseconds < 1_000_000);
    assert_eq!(check(&server, "one", &seen.repl), None);
    assert!(change(&server, &seen, "", "one").changed);
    assert_eq!(check(&server, "", &seen.repl), None);
    assert_eq!(check(&server, "two", &seen.repl), None);
    assert!(check(&server, "one", &seen.repl).is_some());
    assert_eq!(check(&server, "one", &"x".repeat(40)), None);
    let without = CHECK.replace("mark ~= (ARGV[1] ~= '' and ARGV[1])", "false");
    assert_ne!(without, CHECK);
    assert!(check_with(&without, &server, "two", &seen.repl).is_some());
    // A server that is out of memory can still be checked.
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(check(&server, "one", &seen.repl).is_some());
    assert_eq!(server.get(KEY).as_deref(), Some("one"), "a check changes nothing");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    server.command(&["DEL", KEY]);
    server.command(&["RPUSH", KEY, "data"]);
    assert_eq!(check(&server, "", &seen.repl), None);
    assert_eq!(check(&server, "list", &seen.repl), None);
}

#[test]
fn a_replica_is_never_as_it_was_seen() {
    let (master, replica) = (prompt(), prompt());
    let seen = probe(&master);
    assert!(change(&master, &seen, "", "one").changed);
    replicate(&replica, &master);
    let copy = probe(&replica);
    assert_eq!(check(&replica, "one", &copy.repl), None);
    let without = CHECK.replace("~= 'master'", "== ''");
    assert_ne!(without, CHECK);
    assert!(check_with(&without, &replica, "one", &copy.repl).is_some());
}

#[test]
fn a_server_out_of_memory_can_be_probed_and_put_into_quarantine() {
    let server = Server::start();
    let seen = probe(&server);
    assert!(change(&server, &seen, "", "one").changed);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(probe(&server).mark.as_deref(), Some("one"));
    let deletes = "redis.call('DEL', KEYS[1])";
    assert!(ADMIT.contains(deletes));
    let without = ADMIT.replace(deletes, "");
    let error = try_run(&server, &without, ["one", "two", &seen.run, &seen.repl])
        .expect_err("nothing can be written");
    assert_eq!(error.code(), Some("OOM"));
    assert_eq!(server.get(KEY).as_deref(), Some("one"));
    assert!(change(&server, &seen, "one", "two").changed);
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
    let seen = probe(&server);
    assert_eq!(seen.role, "cluster");
    assert!(!change(&server, &seen, "", "one").changed);
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
    let seen = probe(&server);
    let reply: Value = call.arg(&seen.run).arg(&seen.repl).query(&mut connection).expect("allowed");
    assert!(matches!(reply, Value::Array(fields) if fields.first() == Some(&Value::Int(1))));
    server.command(&["ACL", "SETUSER", "locker", "-get"]);
    let error = call.query::<Value>(&mut connection).expect_err("GET is not allowed any more");
    let says = error.to_string();
    let refusals = ["executing the script can't", "ACL failure in script"];
    assert!(refusals.iter().any(|refusal| says.contains(refusal)), "{says}");
}

/// Each condition of the change is needed: without it, a forbidden change goes through.
#[test]
fn without_any_of_its_conditions_the_script_overwrites_what_it_must_not() {
    let (master, replica) = (prompt(), prompt());
    let seen = probe(&master);
    assert!(change(&master, &seen, "", "one").changed);
    replicate(&replica, &master);
    replica.command(&["CONFIG", "SET", "replica-read-only", "no"]);
    let (seen, copy) = (probe(&master), probe(&replica));
    let other = "x".repeat(40);
    for (condition, server, [old, run, repl]) in [
        ("mark == (ARGV[1] ~= '' and ARGV[1])", &master, ["two", &seen.run, &seen.repl]),
        ("run == ARGV[3]", &master, ["one", &other, &seen.repl]),
        ("repl == ARGV[4]", &master, ["one", &seen.run, &other]),
        ("role == 'master'", &replica, ["one", &copy.run, &copy.repl]),
    ] {
        assert!(ADMIT.contains(condition), "{condition}");
        let without = ADMIT.replace(condition, "true");
        let changed = |script: &str| {
            server.command(&["SET", KEY, "one"]);
            let arguments = [old, "three", run, repl];
            try_run(server, script, arguments).expect("a server that answers").changed
        };
        assert!(!changed(ADMIT), "{condition}");
        assert!(changed(&without), "{condition}");
    }
}
