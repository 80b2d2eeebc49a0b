//! Wrong input is rejected at once, or reported with the node concerned, in words that say
//! what to do. No password is ever shown.

mod support;

use std::time::Duration;

use quorlock::{Builder, Error, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::fresh;
use support::{Server, Servers, fake};

fn three() -> Builder {
    Quorlock::builder().nodes(["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"])
}

/// A client of servers that exist, with enough time for their answers on a busy machine.
fn client(urls: impl IntoIterator<Item = String>) -> Quorlock {
    let builder = fresh(urls).node_timeout(Duration::from_secs(5));
    builder.build().expect("what is wrong is not known before it connects")
}

/// `build` reports the error, in words that contain all of `words`.
fn rejected(builder: Builder, words: &[&str]) {
    told(&builder.build().expect_err("it is wrong"), ErrorKind::Config, words);
}

fn told(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no \"{word}\" in: {text}");
    }
    assert!(!format!("{text} {error:?}").contains("secret"), "{text}");
}

#[test]
fn no_node() {
    rejected(Quorlock::builder(), &["no node", "in nodes, each by its URL"]);
}

#[test]
fn urls_that_lead_nowhere() {
    let one = |url: &str| Quorlock::builder().nodes(["redis://127.0.0.1:1", url]);
    rejected(
        one("http://user:secret@localhost"),
        &["node 2", "no scheme that quorlock knows", "redis://"],
    );
    rejected(one("localhost:6379"), &["node 2", "no scheme", "redis://host:port"]);
    rejected(one("user:secret@localhost:6379"), &["node 2", "no scheme"]);
    rejected(one("redis://"), &["node 2", "no host"]);
    rejected(one("redis://:secret@localhost:notaport"), &["node 2", "port"]);
    rejected(one("redis://localhost/notanumber"), &["node 2", "database"]);
    if cfg!(not(feature = "tls")) {
        rejected(one("rediss://:secret@localhost"), &["node 2", "TLS", "feature `tls`"]);
    }
    rejected(one(""), &["node 2"]);
}

#[test]
fn one_server_twice() {
    let twice = Quorlock::builder().nodes([
        "redis://127.0.0.1:6379",
        "redis://127.0.0.1:6380",
        "redis://:secret@127.0.0.1/5",
    ]);
    rejected(twice, &["nodes 1 and 3", "same server", "one vote"]);
}

#[test]
fn durations_out_of_range() {
    let ttl = |ttl| three().ttl(ttl);
    rejected(ttl(Duration::ZERO), &["TTL is 0;", "at least 400 ms, twice the node_timeout"]);
    rejected(ttl(Duration::MAX), &["one hour is the maximum", "milliseconds"]);
    rejected(ttl(Duration::from_secs(3_601)), &["one hour is the maximum", "milliseconds"]);
    rejected(ttl(Duration::from_millis(399)), &["399 ms", "twice the node_timeout of 200 ms"]);
    rejected(ttl(Duration::from_micros(500_500)), &["whole milliseconds"]);
    rejected(three().node_timeout(Duration::ZERO), &["node_timeout is 0;", "at least 1 ms"]);
    rejected(
        three().node_timeout(Duration::MAX),
        &["node_timeout is more than 100 years", "30 min is the maximum"],
    );
    rejected(
        three().node_timeout(Duration::from_secs(10)),
        &["the TTL is 10 s (the default)", "at least 20 s", "shorter node_timeout", "max_ttl"],
    );
    let tolerance = |tolerance| three().clock_tolerance(tolerance);
    for wrong in [Duration::ZERO, Duration::from_millis(9), Duration::from_micros(100_500)] {
        rejected(tolerance(wrong), &["clock_tolerance is", "whole milliseconds", "at least 10 ms"]);
    }
    for wrong in [Duration::from_secs(2 * 3_600), Duration::MAX] {
        rejected(tolerance(wrong), &["clock_tolerance is", "whole milliseconds", "1 h at most"]);
    }
    rejected(
        tolerance(Duration::from_millis(101)).ttl(Duration::from_millis(403)),
        &["the TTL is 403 ms", "4 times the clock_tolerance of 101 ms"],
    );
    rejected(three().backoff(Duration::ZERO, Duration::ZERO), &["backoff"]);
    rejected(three().backoff(Duration::from_secs(2), Duration::from_secs(1)), &["backoff"]);
    rejected(three().key_prefix("p".repeat(2_000)), &["key_prefix has 2000 bytes"]);

    let max_ttl = |max_ttl| three().max_ttl(max_ttl);
    for wrong in [Duration::from_millis(3_600_001), Duration::MAX] {
        rejected(
            max_ttl(wrong),
            &["max_ttl is", "one hour is the maximum", "were milliseconds meant"],
        );
    }
    rejected(max_ttl(Duration::from_micros(20_000_500)), &["max_ttl is", "whole milliseconds"]);
    let hour = Duration::from_secs(3_600);
    drop(max_ttl(hour).ttl(hour).build().expect("an hour is not too much"));

    let locks = three().build().expect("the settings are valid");
    for wrong in [Duration::ZERO, Duration::MAX, Duration::from_millis(399)] {
        let error = locks.mutex("orders/42").ttl(wrong).try_lock().expect_err("out of range");
        told(&error, ErrorKind::Config, &["TTL"]);
    }
}

/// A TTL longer than the masters' quarantine is rejected at once, with both figures and the setting to change;
/// it is rejected by the set, if clients with another figure use it.
#[test]
fn a_ttl_above_max_ttl() {
    let seconds = Duration::from_secs;
    let what_to_do =
        ["set max_ttl to 1 min or more", "same figure on all clients", "\"Another max_ttl\""];
    let says = |figures: [&'static str; 2]| [&figures[..], &what_to_do[..]].concat();
    rejected(three().ttl(seconds(60)), &says(["TTL is 1 min", "max_ttl is 10 s"]));
    rejected(
        three().ttl(seconds(60)).max_ttl(seconds(30)),
        &says(["TTL is 1 min", "max_ttl is 30 s"]),
    );
    let alone = ["TTL is 10 s (the default)", "max_ttl is 5 s", "shorter TTL", "restarted"];
    rejected(three().max_ttl(seconds(5)), &alone);
    let no_quarantine = three().max_ttl(seconds(5)).restart_quarantine(false);
    let error = no_quarantine.build().expect_err("the TTL is longer");
    told(&error, ErrorKind::Config, &alone[..3]);
    assert!(!error.to_string().contains("restarted"), "nothing waits then: {error}");
    drop(three().ttl(seconds(60)).max_ttl(seconds(60)).build().expect("both are set"));

    let locks = three().build().expect("the settings are valid");
    let error = locks.mutex("orders/42").ttl(seconds(60)).lock().expect_err("too long");
    told(&error, ErrorKind::Config, &says(["TTL is 1 min", "max_ttl is 10 s"]));

    let server = Server::start();
    let guard = client([server.url()]).lock("orders/42").expect("it is free");
    let error = guard.extend(seconds(60)).expect_err("too long");
    told(&error, ErrorKind::Config, &says(["TTL is 1 min", "max_ttl is 10 s"]));
    guard.check().expect("it is ours as it was");
    assert!(guard.remaining() <= seconds(10), "the default is 10 s: {:?}", guard.remaining());
}

#[test]
fn labels_that_nobody_could_read() {
    let long = "l".repeat(65);
    rejected(three().owner_label(&long), &["owner_label has 65 bytes", "64 is the maximum"]);
    for label in ["two\nlines", "\u{1b}[2J", "größe"] {
        let shown = label.escape_debug().to_string();
        rejected(three().owner_label(label), &["owner_label", &shown, "printable ASCII"]);
    }
    for label in ["", "#", "a label", &long[..64]] {
        three().owner_label(label).build().expect("it is printable");
    }
}

#[test]
fn names_that_cannot_be_locked() {
    let locks = three().key_prefix("").build().expect("the settings are valid");
    let refused = |name: &[u8]| locks.lock(name).expect_err("a bad name");
    told(&refused(b""), ErrorKind::InvalidName, &["empty"]);
    told(&refused(&vec![b'a'; 1 << 20]), ErrorKind::InvalidName, &["1048576 bytes", "4096"]);
    told(&refused(b"{orders/42}:fence"), ErrorKind::InvalidName, &[":fence", "quorlock's own"]);
    told(&refused(b"{quorlock}:mark"), ErrorKind::InvalidName, &[":mark", "quorlock's own"]);
}

#[test]
fn the_environment_names_no_nodes() {
    // Without the variable. A test must not set it, since other tests read the environment meanwhile.
    if std::env::var_os("QUORLOCK_NODES").is_none() {
        let error = Builder::from_env().expect_err("it is not set");
        told(&error, ErrorKind::Config, &["QUORLOCK_NODES", "separated by commas"]);
    }
}

#[test]
fn a_wrong_password() {
    let servers = Servers::start_with(3, &["--requirepass", "right"]);
    let with = |login: &str| {
        let urls = servers.urls().into_iter().map(|url| url.replace("://", &format!("://{login}")));
        client(urls)
    };
    let locks = with(":secret@");
    let error = locks.try_lock("orders/42").expect_err("nobody lets us in");
    told(&error, ErrorKind::Config, &["refused the user or the password", "check both"]);
    assert_eq!(error.node_faults().len(), 3, "{error}");
    for (fault, url) in error.node_faults().iter().zip(servers.urls()) {
        assert_eq!(fault.node(), url, "the node is named, without the login");
    }
    assert!(!format!("{locks:?} {:?}", locks.mutex("a")).contains("secret"));

    let error = with("").try_lock("orders/42").expect_err("nobody lets us in");
    told(&error, ErrorKind::Config, &["wants a password"]);
    let guard = with(":right@").try_lock("orders/42").optional().expect("the login is right");
    guard.expect("it is free").unlock().expect("three healthy nodes");
}

/// A valid URL with all parts that it may have.
#[test]
fn urls_with_everything() {
    let server = Server::start_with(&["--requirepass", "s@cret/"]);
    let url = format!("redis://:s%40cret%2F@127.0.0.1:{}/3?protocol=resp3", server.port());
    let locks = client([url]);
    let guard = locks.try_lock("orders/42").expect("it is free");
    assert_eq!(server.command(&["DBSIZE"]), redis::Value::Int(0), "it is in database 3");
    assert!(locks.try_lock("orders/42").optional().expect("the login is right").is_none());
    guard.unlock().expect("one of one");

    let wrong = format!("redis://:s%40cret%2F@127.0.0.1:{}/99", server.port());
    let locks = client([wrong]);
    let error = locks.try_lock("orders/42").expect_err("there is no database 99");
    told(&error, ErrorKind::Config, &["no database 99"]);
}

#[test]
fn a_port_that_is_not_redis() {
    let http = fake::server(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let locks = client([http.clone()]);
    let error = locks.try_lock("orders/42").expect_err("it is no Redis");
    told(&error, ErrorKind::NoQuorum, &[&http, "does not speak the Redis protocol"]);
}

#[test]
fn a_server_that_is_too_old() {
    let old = fake::redis("6.0.16", |_| Vec::new());
    let locks = client([old.clone()]);
    let error = locks.try_lock("orders/42").expect_err("it is too old");
    told(&error, ErrorKind::Config, &[&old, "6.0.16", "6.2"]);
}

#[test]
fn a_script_reply_of_the_wrong_type() {
    let strange = fake::redis("7.0.15", |_| b"+OK\r\n".to_vec());
    let locks = client([strange.clone()]);
    let error = locks.try_lock("orders/42").expect_err("that is no vote");
    told(&error, ErrorKind::NoQuorum, &[&strange, "answered with OK", "proxy"]);
}

/// A server's error may quote an unknown command, and with it the password.
#[test]
fn a_server_that_knows_no_login_shows_no_password() {
    let auth = ("AUTH", "", "knows no AUTH command");
    for (command, parameters, says) in [auth, ("HELLO", "?protocol=resp3", "refused the login")] {
        let server = Server::start_with(&["--rename-command", command, ""]);
        let locks = client([format!("redis://:secret@127.0.0.1:{}/{parameters}", server.port())]);
        let error = locks.try_lock("orders/42").expect_err("it cannot log in");
        told(&error, ErrorKind::Config, &[says]);
    }
}

#[test]
fn a_server_error_names_its_cause() {
    let full = Server::start_with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let locks = client([full.url()]);
    let error = locks.try_lock("orders/42").expect_err("it has no memory left");
    told(&error, ErrorKind::NoQuorum, &[&full.url(), "out of memory", "maxmemory"]);

    let replica = Server::start_with(&["--replicaof", "127.0.0.1", "1"]);
    let locks = client([replica.url()]);
    let error = locks.try_lock("orders/42").expect_err("it takes no writes");
    told(&error, ErrorKind::NoQuorum, &[&replica.url(), "replica, not a master"]);
}
