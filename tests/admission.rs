//! Masters that grant locks, and the clients that they serve: new masters, replicas, servers with two names, and clients
//! that disagree.

mod support;

use std::time::{Duration, Instant};

use quorlock::{Builder, Error, ErrorKind, Fallback, Quorlock};
use support::{Server, Servers, wait_until};

/// The longest TTL, and so the length of a quarantine.
const MAX_TTL: Duration = Duration::from_secs(4);
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
const MARK: &str = "quorlock:{quorlock}:mark";

fn builder<U: AsRef<str>>(urls: &[U]) -> Builder {
    Quorlock::builder()
        .nodes(urls.iter().map(|url| url.as_ref().to_owned()))
        .ttl(MAX_TTL)
        .max_ttl(MAX_TTL)
        .node_timeout(Duration::from_secs(2))
        .no_quorum_timeout(Duration::from_secs(5))
}

fn build(builder: Builder) -> Quorlock {
    builder.build().expect("the settings are valid")
}

fn admitted(servers: &Servers) -> Quorlock {
    let locks = build(builder(&servers.urls()));
    wait_until("all masters are admitted", LIMIT, || {
        locks.admit().is_ok()
            && servers
                .iter()
                .all(|server| server.get(MARK).is_some_and(|mark| mark.ends_with(" admitted")))
    });
    locks
}

fn error_of(locks: &Quorlock) -> Error {
    locks.try_lock("orders/42").expect_err("the lock must not be granted")
}

/// The texts of an error, as users see them.
fn told(error: &Error) -> String {
    format!("{error:?} {error}")
}

#[test]
fn new_masters_are_waited_for_once() {
    let servers = Servers::start(3);
    // The client begins the quarantine on threads of its own.
    let began = Instant::now();
    let locks = build(builder(&servers.urls()));
    let error = error_of(&locks);
    let ErrorKind::Quarantined { ready_in } = error.kind() else { panic!("{error}") };
    assert!(ready_in <= MAX_TTL * 2, "{ready_in:?}");
    for words in [
        "new, or was emptied or restarted",
        "ends by itself, in ",
        "max_ttl is 4 s",
        "If nothing can be held",
        "Quorlock::admit",
        "For development and CI",
        "restart_quarantine(false)",
        "\"The first seconds\"",
    ] {
        assert!(told(&error).contains(words), "no {words} in {}", told(&error));
    }
    let guard = locks.lock("orders/42").expect("it waits the quarantine out");
    assert!(began.elapsed() >= MAX_TTL, "granted after {:?}", began.elapsed());
    drop(guard);
    let again = Instant::now();
    let other = build(builder(&servers.urls()));
    let guard = other.lock("orders/43").expect("the set is known by now");
    assert!(again.elapsed() < MAX_TTL, "the set was waited for twice");
    assert!(guard.token().is_some());
}

#[test]
fn who_knows_that_nothing_is_held_need_not_wait() {
    let servers = Servers::start(3);
    let locks = build(builder(&servers.urls()).max_ttl(Duration::from_secs(3_600)));
    assert!(matches!(error_of(&locks).kind(), ErrorKind::Quarantined { .. }));
    locks.admit().expect("all masters are up");
    drop(locks.lock("orders/42").expect("nothing is waited for"));
}

/// The operator's admission does not cover locks that are forgotten after it.
#[test]
fn the_word_of_an_operator_is_of_one_quarantine_only() {
    let mut servers = Servers::start(1);
    let locks = admitted(&servers);
    drop(locks.lock("orders/42").expect("it is admitted"));
    servers[0].restart_empty();
    wait_until("the restart is noticed", LIMIT, || {
        matches!(error_of(&locks).kind(), ErrorKind::Quarantined { .. })
    });
}

/// Clients that wait for the end of a quarantine, one after the other for a short time each, still see it: none of
/// them restarts it.
#[test]
fn clients_that_come_and_go_do_not_prolong_a_quarantine() {
    let servers = Servers::start(3);
    let began = Instant::now();
    loop {
        let locks = build(builder(&servers.urls()));
        match locks.try_lock_for("orders/42", MAX_TTL / 4) {
            Ok(_) => break,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Quarantined { .. }), "{error}");
                assert!(began.elapsed() < LIMIT, "the quarantine never ends");
            }
        }
    }
    assert!(began.elapsed() >= MAX_TTL);
}

#[test]
fn a_replica_is_no_master() {
    let (servers, replica) = (Servers::start(3), Server::start());
    drop(admitted(&servers));
    replica.command(&["REPLICAOF", "127.0.0.1", &servers[0].port().to_string()]);
    let [first, second, _] = &servers.urls()[..] else { panic!("three") };
    let locks = build(builder(&[first, second, &replica.url()]));
    let guard = locks.lock("orders/42").expect("two of three are masters");
    guard.unlock().expect("it is ours");
    assert_eq!(replica.get("quorlock:orders/42"), None);
    let alone = build(builder(&[replica.url()]));
    let error = error_of(&alone);
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert!(told(&error).contains("is a replica"), "{}", told(&error));
}

#[test]
fn one_server_with_two_addresses_has_one_vote() {
    let servers = Servers::start(2);
    let port = servers[0].port();
    let urls = [servers[0].url(), format!("redis://localhost:{port}"), servers[1].url()];
    let locks = build(builder(&urls));
    let error = locks.lock("orders/42").expect_err("two of the three are one");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(told(&error).contains("the same server"), "{}", told(&error));
    assert_eq!(servers[0].get("quorlock:orders/42"), None, "nothing is left behind");
}

/// A client with other settings takes no lock, and its error names the difference. The other clients go on.
#[test]
fn clients_of_one_set_must_agree() {
    let servers = Servers::start(3);
    let urls = servers.urls();
    let ours = admitted(&servers);
    let fourth = Server::start();
    let more: Vec<_> = urls.iter().cloned().chain([fourth.url()]).collect();
    let others = [
        (builder(&urls).max_ttl(MAX_TTL * 2), "max_ttl"),
        (builder(&urls).set_name("another"), "set"),
        (builder(&urls).restart_quarantine(false), "restart_quarantine"),
        (builder(&urls).fallback(Fallback::SingleNode { after: LIMIT }), "fallback"),
        (builder(&more), "nodes"),
    ];
    for (other, what) in others {
        let error = build(other).lock("orders/42").expect_err("they do not agree");
        assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error}");
        assert!(told(&error).contains(what), "{what}: {}", told(&error));
        assert!(told(&error).contains(MARK), "what to do: {}", told(&error));
    }
    assert_eq!(fourth.get(MARK), None, "no mark is written into a set that is in use");
    drop(ours.lock("orders/42").expect("nobody has harmed the set"));
}

/// An operator who has moved a set to another configuration must delete the old marks.
#[test]
fn the_marks_of_clients_that_are_gone_are_deleted_by_hand() {
    let servers = Servers::start(3);
    drop(admitted(&servers));
    let locks = build(builder(&servers.urls()).set_name("next"));
    assert_eq!(error_of(&locks).kind(), ErrorKind::Config);
    for server in servers.iter() {
        server.command(&["DEL", MARK]);
    }
    wait_until("the masters are probed again", LIMIT, || {
        locks.try_lock("orders/42").is_err_and(|error| error.kind() != ErrorKind::Config)
    });
    drop(locks.lock("orders/42").expect("the set is theirs after a quarantine"));
}

/// A call that fails because the masters are not one set orders nothing: clients with other settings may have used the master
/// when the conflict ends.
#[test]
fn a_master_is_not_admitted_after_a_conflict_by_a_call_that_failed() {
    let mut servers = Servers::start(3);
    let locks = build(builder(&servers.urls()).max_ttl(LIMIT));
    wait_until("all masters are admitted", LIMIT, || locks.admit().is_ok_and(|it| it.is_empty()));
    servers[0].restart_empty();
    let mark = |node: usize| servers[node].get(MARK).unwrap_or_default();
    wait_until("its quarantine has begun", LIMIT, || mark(0).contains("quarantined"));
    let ours = mark(1);
    for admit in [Quorlock::admit, Quorlock::admit_if_unused] {
        servers[1].command(&["SET", MARK, "of somebody else"]);
        wait_until("the client sees the conflict", LIMIT, || {
            locks.try_lock("orders/42").is_err_and(|error| error.kind() == ErrorKind::Config)
        });
        let error = admit(&locks).expect_err("the masters are not one set");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        servers[1].command(&["SET", MARK, &ours]);
        wait_until("the conflict is over", LIMIT, || locks.try_lock("orders/42").is_ok());
        // An order that was left would be carried out at once. The other masters are checked once a second.
        let scripts = || servers[1].script_calls();
        let before = scripts();
        wait_until("another master was checked", LIMIT, || scripts() >= before + 3);
        assert!(mark(0).contains("quarantined"), "{}", mark(0));
    }
}

/// If one master of two configurations comes back empty, neither configuration becomes valid.
#[test]
fn one_empty_master_does_not_let_two_configurations_live_side_by_side() {
    let mut servers = Servers::start(3);
    let ours = admitted(&servers);
    servers[2].restart_empty();
    let theirs = build(builder(&servers.urls()).max_ttl(MAX_TTL * 2));
    let error = theirs.lock("orders/42").expect_err("the other masters are ours");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    wait_until("the third master is ours again", LIMIT, || {
        let _ = ours.try_lock("orders/42");
        servers[2].get(MARK).is_some_and(|mark| mark.ends_with(" admitted"))
    });
}

/// A user without the permission to probe the server gets no lock, and an error with the reason.
#[test]
fn a_user_who_may_not_probe_is_told_what_is_missing() {
    let servers = Servers::start(3);
    drop(admitted(&servers));
    for server in servers.iter() {
        let may = ["~quorlock:*", "~{quorlock:*", "+@all", "-info"];
        server.command(&[&["ACL", "SETUSER", "locker", "on", ">secret"], &may[..]].concat());
    }
    let urls =
        servers.iter().map(|server| format!("redis://locker:secret@127.0.0.1:{}", server.port()));
    let error = error_of(&build(builder(&urls.collect::<Vec<_>>())));
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(!told(&error).contains("not one set"), "that is no conflict: {error}");
    assert!(told(&error).to_lowercase().contains("info"), "{}", told(&error));
    assert!(!told(&error).contains("secret"));
}

/// `restart_quarantine(false)` is meant for sets on which nothing depends, so that they never wait.
#[test]
fn a_set_without_quarantine_waits_for_nothing() {
    let mut servers = Servers::start(3);
    let locks = build(builder(&servers.urls()).restart_quarantine(false));
    drop(locks.lock("orders/42").expect("new masters grant at once"));
    (0..3).for_each(|node| servers[node].restart_empty());
    wait_until("all are back", LIMIT, || locks.try_lock("orders/42").is_ok());
    let other = build(builder(&servers.urls()));
    assert_eq!(error_of(&other).kind(), ErrorKind::Config, "the mode is the set's");
}

#[test]
fn no_lock_lives_longer_than_what_masters_wait_for() {
    let servers = Servers::start(1);
    let locks = admitted(&servers);
    let error = locks.mutex("orders/42").ttl(MAX_TTL * 2).lock().expect_err("it is too long");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(told(&error).contains("max_ttl"), "{}", told(&error));
    let guard = locks.lock("orders/42").expect("it is free");
    let error = guard.extend(MAX_TTL * 2).expect_err("it is too long");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    guard.check().expect("it is ours as it was");
}
