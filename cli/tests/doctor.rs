//! The findings of `doctor`: each check on healthy masters, and on faulty ones.

use std::net::TcpStream;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::program::{ends_with, printed, program, told};
use crate::support::clients::Busy;
use crate::support::offers::{Expected, OFFERS};
use crate::support::proxy::Proxy;
use crate::support::{Server, Servers, access, fake, wait_until};

/// Time limits for a busy machine.
const PATIENT: [&str; 4] = ["--node-timeout", "2s", "--clock-tolerance", "1s"];

fn run(command: &str, urls: &[String], options: &[&str]) -> Output {
    let mut program = program();
    program.env("QUORLOCK_NODES", urls.join(",")).arg(command).args(options);
    program.output().expect("the program starts")
}

/// The findings, and the exit code.
struct Report(Value, i32);

fn doctor_of(urls: &[String], options: &[&str]) -> Report {
    let output = run("doctor", urls, &[&["--json"], options].concat());
    let json = serde_json::from_str(&printed(&output));
    Report(
        json.unwrap_or_else(|_| panic!("{}", told(&output))),
        output.status.code().expect("it exits"),
    )
}

fn doctor(servers: &Servers, options: &[&str]) -> Report {
    doctor_of(&servers.urls(), &[&PATIENT, options].concat())
}

impl Report {
    fn of(&self, findings: &Value, check: &str) -> Value {
        let all = findings.as_array().expect("a list");
        let found = all.iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {}", self.0)).clone()
    }

    /// Returns the finding of that check about the node.
    fn node(&self, node: usize, check: &str) -> Value {
        self.of(&self.0["nodes"][node]["findings"], check)
    }

    fn set(&self, check: &str) -> Value {
        self.of(&self.0["set"], check)
    }

    /// Checks that only that node has a finding of that severity.
    #[track_caller]
    fn is_only(&self, node: usize, check: &str, severity: &str, words: &str) {
        for i in 0..self.0["nodes"].as_array().expect("a list").len() {
            let finding = self.node(i, check);
            let expected = if i == node { severity } else { "fine" };
            assert_eq!(finding["severity"], expected, "{finding} of {i}");
        }
        let found = self.node(node, check);
        assert!(found["what"].as_str().expect("text").contains(words), "{found}");
    }
}

/// Checks that the server has no keys, not even a mark.
#[track_caller]
fn is_empty(server: &Server) {
    assert_eq!(server.command(&["DBSIZE"]), redis::Value::Int(0), "it changes nothing");
}

#[test]
fn nothing_is_wrong_with_masters_that_are_as_they_should_be() {
    let servers = Servers::start(3);
    let new = doctor(&servers, &[]);
    assert_eq!((new.1, &new.0["severity"]), (0, &"note".into()), "{}", new.0);
    (0..3).for_each(|node| assert_eq!(new.node(node, "mark")["value"], "new"));
    servers.iter().for_each(is_empty);

    ends_with(&run("admit", &servers.urls(), &[&PATIENT[..], &["--force"]].concat()), 0);
    let report = doctor(&servers, &[]);
    assert_eq!((report.1, &report.0["severity"]), (0, &"fine".into()), "{}", report.0);
    let checks = [
        "reachable",
        "version",
        "role",
        "server",
        "mark",
        "writes",
        "replicas",
        "persistence",
        "memory",
        "clock",
        "clock rate",
        "latency",
        "rights",
    ];
    for (node, check) in (0..3).flat_map(|node| checks.map(|check| (node, check))) {
        assert_eq!(report.node(node, check)["severity"], "fine");
    }
    assert_eq!(report.set("majority")["value"], "2 of 3");
    let output = run("doctor", &servers.urls(), &PATIENT);
    ends_with(&output, 0);
    let text = printed(&output);
    assert!(text.ends_with("\nNothing is wrong.\n"), "{text}");
    assert!(servers.urls().iter().all(|url| text.contains(url)), "{text}");
}

#[test]
fn a_replica_is_found() {
    let servers = Servers::start(3);
    servers[1].command(&["REPLICAOF", "127.0.0.1", &servers[0].port().to_string()]);
    let report = doctor(&servers, &[]);
    report.is_only(1, "role", "problem", "name independent masters");
    assert_eq!(report.1, 2);
}

#[test]
fn a_master_that_writes_without_its_replicas_is_found() {
    let servers = Servers::start(3);
    let master = &servers[1];
    master.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let replica = Server::start_with(&["--replicaof", &format!("127.0.0.1 {}", master.port())]);
    wait_until("the replica has caught up", Duration::from_secs(60), || {
        master.command(&["WAIT", "1", "100"]) == redis::Value::Int(1)
    });
    let report = doctor(&servers, &[]);
    report.is_only(
        1,
        "replicas",
        "warning",
        "set min-replicas-to-write to the number of its replicas (connected now: 1; count those that are away, too)",
    );
    assert_eq!((report.1, &report.node(1, "replicas")["value"]), (1, &"1, not required".into()));
    master.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let report = doctor(&servers, &[]);
    report.is_only(1, "replicas", "note", "grants no new locks for 23 s");
    assert_eq!((report.1, &report.node(1, "replicas")["value"]), (0, &"1, required".into()));
    master.command(&["CONFIG", "SET", "min-replicas-max-lag", "11"]);
    doctor(&servers, &[]).is_only(
        1,
        "replicas",
        "warning",
        "min-replicas-max-lag is 11; set it to 10 at most",
    );
    // A replica that is away just now may be promoted as well.
    drop(replica);
    let away =
        || format!("{:?}", master.command(&["INFO", "replication"])).contains("connected_slaves:0");
    wait_until("the replica is away", Duration::from_secs(60), away);
    master.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    let report = doctor(&servers, &[]);
    report.is_only(1, "replicas", "note", "no replica is connected now");
    assert_eq!((report.1, &report.node(1, "replicas")["value"]), (0, &"none now".into()));
}

#[test]
fn one_server_under_two_addresses_is_found() {
    let servers = Servers::start(2);
    let again = format!("redis://localhost:{}", servers[0].port());
    let report = doctor_of(&[servers.urls(), vec![again]].concat(), &PATIENT);
    let values = [0, 1, 2].map(|node| report.node(node, "server")["value"].clone());
    assert_eq!(values, ["that of 3", "its own", "that of 1"]);
    assert_eq!(report.1, 2);
    // `doctor` asks none of them, since their addresses alone show the fault.
    let output = run("doctor", &[servers.urls(), servers.urls()].concat(), &PATIENT);
    ends_with(&output, 125);
    assert!(told(&output).contains("nodes 1 and 3 are the same server"), "{}", told(&output));
}

#[test]
fn a_policy_that_drops_keys_is_found_and_memory_that_is_almost_full() {
    let servers = Servers::start(3);
    servers[2].command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let report = doctor(&servers, &[]);
    report.is_only(2, "memory", "warning", "allkeys-lru");
    assert_eq!(report.1, 1);
    servers[2].command(&["CONFIG", "SET", "maxmemory", "1gb"]);
    let report = doctor(&servers, &[]);
    report.is_only(2, "memory", "problem", "set maxmemory-policy noeviction");
    assert_eq!(report.1, 2);

    servers[2].command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    servers[2].command(&["SET", "large", &"x".repeat(50_000_000)]);
    let info = format!("{:?}", servers[2].command(&["INFO", "memory"]));
    let used = info.split_once("used_memory:").expect("it tells").1;
    let used: u64 = used[..used.find(|c: char| !c.is_ascii_digit()).expect("an end")]
        .parse()
        .expect("a number");
    servers[2].command(&["CONFIG", "SET", "maxmemory", &(used * 100 / 95).to_string()]);
    let report = doctor(&servers, &[]);
    report.is_only(2, "memory", "warning", "raise maxmemory");
    assert_eq!(report.1, 1);
}

#[test]
fn a_master_that_takes_no_writes_is_found() {
    let servers = Servers::start(3);
    servers[0].command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let report = doctor(&servers, &[]);
    report.is_only(0, "writes", "problem", "min-replicas-to-write");
    assert_eq!(report.1, 2);
}

#[test]
fn a_clock_that_is_wrong_is_found() {
    let Some(servers) = Servers::start_with_clocks(3) else { return };
    servers[1].set_clock(3);
    let report = doctor(&servers, &[]);
    report.is_only(1, "clock", "warning", "ahead of the median of the nodes' clocks");
    assert_eq!((report.node(1, "clock")["value"].clone(), report.1), ("+3 s".into(), 1));
    servers[1].set_clock(-3);
    doctor(&servers, &[]).is_only(1, "clock", "warning", "behind the median of the nodes' clocks");
    // For a single server, `doctor` compares the clock with that of this machine.
    let alone = doctor_of(&[servers[1].url()], &PATIENT);
    alone.is_only(0, "clock", "warning", "behind the clock of this machine");
}

#[test]
fn a_clock_that_goes_wrong_is_found() {
    let Some(servers) = Servers::start_with_clocks(3) else { return };
    let ended = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        // The clock gains a fifth of the time, until a minute has passed.
        scope.spawn(|| {
            for step in 0..1_200 {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                servers[0].set_clock_ms(10 * step);
                // A rate of the clock, not a wait for an event.
                thread::sleep(Duration::from_millis(50));
            }
        });
        let report = doctor(&servers, &[]);
        ended.store(true, Ordering::Relaxed);
        report
    });
    report.is_only(0, "clock rate", "problem", "faster than that of this machine");
    assert_eq!(report.1, 2);
}

#[test]
fn masters_that_do_not_answer_are_found() {
    let mut servers = Servers::start(3);
    servers[2].pause();
    let report = doctor(&servers, &[]);
    report.is_only(2, "reachable", "problem", "no answer");
    assert_eq!(report.1, 2);
    assert_eq!(report.set("majority")["severity"], "fine");
    servers[1].kill();
    let report = doctor(&servers, &[]);
    let refused = report.node(1, "reachable");
    assert!(refused["what"].as_str().is_some_and(|what| what.contains("refused")), "{refused}");
    assert_eq!(report.set("majority")["severity"], "problem");
    let output = run("doctor", &servers.urls(), &PATIENT);
    assert!(printed(&output).contains("problem: majority: 1 of 3 nodes"), "{}", printed(&output));
}

#[test]
fn a_wrong_password_is_found_and_not_shown() {
    let servers = Servers::start_with(1, &["--requirepass", "right"]);
    let mut program = program();
    program.env("QUORLOCK_NODES", servers.urls().join(",")).env("QUORLOCK_PASSWORD", "wr0ng");
    let output = program.args(["doctor"]).args(PATIENT).output().expect("the program starts");
    ends_with(&output, 2);
    let text = printed(&output);
    assert!(text.contains("problem: 1: reachable: the server refused"), "{text}");
    assert!(!format!("{text}{}", told(&output)).contains("wr0ng"), "{text}");
}

/// Reports on a server with a user that has the manual's rights, changed by those words.
fn report_with(words: &[&str]) -> Report {
    let server = Server::start();
    let user = access::user("locker", "quorlock:", &access::example_commands());
    let user = user.iter().map(String::as_str).chain(words.iter().copied());
    server.command(&user.collect::<Vec<_>>());
    let url = server.url().replace("redis://", "redis://locker:secret@");
    let report = doctor_of(&[url], &PATIENT);
    is_empty(&server);
    report
}

fn rights_with(words: &[&str]) -> (Value, i32) {
    let report = report_with(words);
    (report.node(0, "rights"), report.1)
}

#[test]
fn whether_writes_are_taken_does_not_show_to_a_user_who_may_only_read() {
    let report = report_with(&["resetkeys", "%R~*"]);
    let findings = report.0["nodes"][0]["findings"].as_array().expect("a list");
    assert!(findings.iter().all(|finding| finding["check"] != "writes"), "{}", report.0);
    assert_eq!((report.node(0, "rights")["severity"].clone(), report.1), ("problem".into(), 2));
}

#[test]
fn rights_that_are_missing_are_found() {
    for (words, severity, lack, code) in [
        (&[][..], "fine", "all", 0),
        (&["-publish"], "warning", "no +publish", 1),
        (&["-subscribe"], "warning", "no +subscribe", 1),
        (&["-client|kill"], "warning", "no +client|kill", 1),
        (&["-zadd"], "warning", "no +zadd", 1),
        (&["-hgetall"], "warning", "no +hgetall", 1),
        (&["-exists"], "warning", "no +exists", 1),
        (&["-set"], "problem", "no +set", 2),
        (&["resetkeys", "~quorlock:*", "%W~{quorlock:*"], "problem", "no ~{quorlock:*", 2),
        (&["-pexpire"], "problem", "no +pexpire", 2),
        (&["resetkeys", "~quorlock:*"], "problem", "no ~{quorlock:*", 2),
        (
            &["resetchannels", "&{quorlock:*", "&redisson_lock__channel:*"],
            "warning",
            "no &redisson_rwlock:*",
            1,
        ),
    ] {
        let (found, exit) = rights_with(words);
        assert_eq!(
            (&found["severity"], &found["value"]),
            (&severity.into(), &lack.into()),
            "{words:?}: {found}"
        );
        assert_eq!(exit, code, "{words:?}");
        let is_told = found["what"].as_str().is_some_and(|what| what.contains("Access lists"));
        assert_eq!(is_told, severity != "fine", "{found}");
    }
}

#[test]
fn a_user_who_may_run_no_script_is_found() {
    let (found, exit) = rights_with(&["-eval", "-evalsha"]);
    assert!(found["what"].as_str().is_some_and(|what| what.contains("+eval, +evalsha")), "{found}");
    assert_eq!((&found["severity"], exit), (&"problem".into(), 2), "{found}");
}

#[test]
fn a_command_that_the_server_does_not_have_is_found() {
    let servers = Servers::start_with(1, &["--rename-command", "EVALSHA", "gone"]);
    let report = doctor(&servers, &[]);
    let found = report.node(0, "rights");
    assert_eq!((&found["severity"], report.1), (&"problem".into(), 2), "{found}");
    let what = found["what"].as_str().expect("text");
    assert!(what.contains("the command EVALSHA on the server"), "{what}");
}

#[test]
fn marks_of_other_clients_and_quarantines_are_found() {
    let mut servers = Servers::start(3);
    ends_with(&run("admit", &servers.urls(), &[&PATIENT[..], &["--force"]].concat()), 0);
    let report = doctor(&servers, &["--max-ttl", "20s"]);
    let found = report.node(0, "mark");
    assert_eq!((&found["severity"], report.1), (&"problem".into(), 2), "{found}");
    assert!(
        found["what"].as_str().is_some_and(|what| what.contains("20 s here and 10 s there")),
        "{found}"
    );
    servers[1].restart_empty();
    let report = doctor(&servers, &[]);
    report.is_only(1, "mark", "warning", "quarantine");
    assert_eq!(report.1, 1);
}

#[test]
fn without_quarantine_each_lock_has_to_be_on_disk() {
    let servers = Servers::start(1);
    let persistence = |options: &[&str]| {
        let finding = doctor(&servers, options).node(0, "persistence");
        (finding["severity"].clone(), finding["value"].clone())
    };
    assert_eq!(persistence(&[]), ("fine".into(), "no AOF".into()));
    assert_eq!(persistence(&["--no-quarantine"]), ("warning".into(), "no AOF".into()));
    servers[0].command(&["CONFIG", "SET", "appendonly", "yes"]);
    assert_eq!(persistence(&["--no-quarantine"]), ("warning".into(), "AOF, everysec".into()));
    servers[0].command(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(persistence(&["--no-quarantine"]), ("fine".into(), "AOF, always".into()));
    assert_eq!(persistence(&[]), ("note".into(), "AOF, always".into()));
}

/// Checks that the node cannot be examined, for a reason with these words.
#[track_caller]
fn is_unreachable(report: &Report, words: &str) {
    let found = report.node(0, "reachable");
    assert_eq!((&found["severity"], report.1), (&"problem".into(), 2), "{}", report.0);
    assert!(found["what"].as_str().is_some_and(|what| what.contains(words)), "{found}");
}

#[test]
fn servers_that_let_nobody_in_are_found() {
    let full = Server::start_with(&["--maxclients", "3"]);
    let mut others = Vec::new();
    wait_until("all connections are taken", Duration::from_secs(20), || {
        others.push(TcpStream::connect(("127.0.0.1", full.port())));
        full.try_command(&[b"PING"]).is_err()
    });
    for _ in 0..5 {
        is_unreachable(&doctor_of(&[full.url()], &PATIENT), "maxclients");
    }

    let busy = Server::start_with(&["--lua-time-limit", "1"]);
    thread::scope(|scope| {
        scope.spawn(|| busy.try_command(&[b"EVAL", b"while true do end", b"0"]));
        let _ends = Busy(&busy);
        wait_until("it is busy", Duration::from_secs(20), || busy.try_command(&[b"PING"]).is_err());
        is_unreachable(&doctor_of(&[busy.url()], &PATIENT), "SCRIPT KILL");
    });

    for (answer, words) in [
        ("-DENIED Redis is running in protected mode\r\n", "is in protected mode"),
        ("-LOADING Redis is loading the dataset in memory\r\n", "(LOADING)"),
    ] {
        let url = fake::server(move |_| answer.into());
        is_unreachable(&doctor_of(&[url], &PATIENT), words);
    }
}

#[test]
fn a_server_that_is_too_old_is_found() {
    let url = fake::redis("5.0.14", |_| b"+OK\r\n".to_vec());
    let found = doctor_of(&[url], &PATIENT).node(0, "reachable");
    assert!(found["what"].as_str().is_some_and(|what| what.contains("too old")), "{found}");
}

#[test]
fn each_offer_is_named_with_what_is_known_of_it_and_of_a_proxy() {
    for offer in OFFERS {
        let report = doctor_of(&[offer.start()], &PATIENT);
        let (check, severity, words) = match offer.expected {
            Expected::Works => ("version", "fine", &[][..]),
            Expected::Doubted(words) => ("version", "note", words),
            Expected::Refused(words) => ("reachable", "problem", words),
        };
        let found = report.node(0, check);
        assert_eq!(found["severity"], severity, "{}: {}", offer.name, report.0);
        let what = found["what"].as_str().expect("text");
        words.iter().for_each(|word| assert!(what.contains(word), "{}: {what}", offer.name));
        if severity == "problem" {
            assert_eq!(report.1, 2, "{}: {}", offer.name, report.0);
            continue;
        }
        let server = report.node(0, "server");
        let expected = if offer.is_relayed { "note" } else { "fine" };
        assert_eq!(server["severity"], expected, "{}: {server}", offer.name);
        let what = server["what"].as_str().expect("text");
        let words = ["proxy must pass `INFO`", "a vote counts only if", "may still run"];
        assert!(!offer.is_relayed || words.iter().all(|word| what.contains(word)), "{what}");
    }
}

#[test]
fn a_way_that_takes_longer_than_the_node_timeout_is_found() {
    let servers = Servers::start(3);
    let proxy = Proxy::start(servers[0].port());
    proxy.delay(Duration::from_millis(300));
    let urls = [proxy.url(), servers[1].url(), servers[2].url()];
    let options = ["--clock-tolerance", "1s", "--node-timeout", "250ms"];
    let found = doctor_of(&urls, &options).node(0, "latency");
    assert_eq!(found["severity"], "problem", "{found}");
    assert!(
        found["what"].as_str().is_some_and(|what| what.contains("raise --node-timeout")),
        "{found}"
    );
}

#[test]
fn one_master_and_two_are_worth_a_note() {
    let servers = Servers::start(2);
    for (urls, words) in [
        (servers.urls(), "2 nodes survive no more failures than 1"),
        (vec![servers[0].url()], "while the only node is down"),
    ] {
        let found = doctor_of(&urls, &PATIENT).set("majority");
        assert_eq!(found["severity"], "note");
        assert!(found["what"].as_str().is_some_and(|what| what.contains(words)), "{found}");
    }
}
