//! The messages to users and operators in case of trouble: the event, the node, and the remedy.
//!
//! The tests check the remedy in a message, and not whole sentences. With `--nocapture` each message is
//! printed.

#![allow(clippy::print_stderr, reason = "whoever changes a message wants to read all of them")]

mod support;

use std::error::Error as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, Error, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::fresh;
use support::reaper::Folder;
use support::{Server, Servers, events, fake, wait_until};

const LIMIT: Duration = Duration::from_secs(20);

/// Settings with time for an answer on a busy machine. Fresh servers have forgotten nothing, so their quarantine is
/// switched off. Retries go on for longer than any test takes.
fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    fresh(urls)
        .ttl(Duration::from_secs(30))
        .max_ttl(Duration::from_secs(30))
        .node_timeout(Duration::from_secs(10))
        .no_quorum_timeout(Duration::from_secs(600))
}

fn client(urls: impl IntoIterator<Item = String>) -> Quorlock {
    builder(urls).build().expect("the settings are valid")
}

fn three() -> Builder {
    Quorlock::builder().nodes(["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"])
}

fn refused(locks: &Quorlock) -> Error {
    locks.try_lock("orders/42").expect_err("it cannot be had")
}

/// The message contains all of `words`, and nothing that is forbidden in every message.
#[track_caller]
fn says(situation: &str, message: &str, words: &[&str]) {
    eprintln!("{situation} | {message}");
    for word in words {
        assert!(message.contains(word), "{situation}: no \"{word}\" in: {message}");
    }
    assert!(!message.contains("secret"), "{situation}: a password is shown: {message}");
    assert_eq!(
        raw_duration(message),
        None,
        "{situation}: a duration as no human writes it: {message}"
    );
}

/// The first duration in the message with several decimal places, or in nanoseconds.
fn raw_duration(message: &str) -> Option<&str> {
    let words = message.split(|c: char| c.is_whitespace() || ",;:()".contains(c));
    let mut raw = words.filter(|word| {
        let Some(number) = word.strip_suffix('s') else { return false };
        let number = number.trim_end_matches(['m', 'n', 'µ']);
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        number.parse::<f64>().is_ok() && (decimals > 1 || word.ends_with("ns"))
    });
    raw.next()
}

#[track_caller]
fn told(situation: &str, error: &Error, kind: ErrorKind, words: &[&str]) {
    says(&format!("{situation} | {:?}", error.kind()), &error.to_string(), words);
    assert_eq!(error.kind(), kind, "{situation}: {error}");
    for secret in [format!("{error:?}"), format!("{error:#?}")] {
        assert!(!secret.contains("secret"), "{secret}");
    }
}

/// All nodes refuse until a person changes something, so waiting does not help. The call ends at
/// once, even if it may wait, and names each node.
#[track_caller]
fn for_good(situation: &str, locks: &Quorlock, words: &[&str]) {
    told(situation, &refused(locks), ErrorKind::Config, words);
    let start = Instant::now();
    let error = locks.lock("orders/42").expect_err("it cannot be had");
    told(situation, &error, ErrorKind::Config, words);
    assert!(start.elapsed() < LIMIT, "{situation}: it waited for {:?}", start.elapsed());
    let nodes = locks.node_stats().len();
    assert_eq!(error.node_faults().len(), nodes, "{situation}: {error}");
    let error = locks.admit().expect_err("no node can be admitted");
    told(situation, &error, ErrorKind::Config, words);
}

#[track_caller]
fn wrong(situation: &str, builder: Builder, words: &[&str]) {
    told(situation, &builder.build().expect_err("it is wrong"), ErrorKind::Config, words);
}

#[test]
fn a_bad_name_is_the_callers() {
    let locks = three().key_prefix("").build().expect("the settings are valid");
    let refused = |name: &[u8]| locks.lock(name).expect_err("a bad name");
    told("an empty name", &refused(b""), ErrorKind::InvalidName, &["empty"]);
    let long = vec![b'a'; 1 << 20];
    told("a long name", &refused(&long), ErrorKind::InvalidName, &["1048576 bytes", "hash"]);
    let ours = refused(b"{orders/42}:fence");
    told("a name of our own", &ours, ErrorKind::InvalidName, &["quorlock's own", "another name"]);
}

#[test]
fn a_login_that_no_node_accepts() {
    let servers = Servers::start_with(3, &["--requirepass", "right"]);
    let with = |login: &str| {
        let url = |url: String| url.replace("://", &format!("://{login}"));
        client(servers.urls().into_iter().map(url))
    };
    let none = ["the server wants a password", "redis://user:password@host"];
    for_good("no login, and one is wanted", &with(""), &none);
    let wrong = ["refused the user or the password", "check both"];
    for_good("a wrong password", &with(":secret@"), &wrong);
    for_good("a wrong user", &with("nobody:secret@"), &wrong);
    let without = ["refused the user", "without a password", "redis://user:password@host"];
    for_good("a user without the password", &with("nobody@"), &without);
    let resp3 = |url: String| url.replace("://", "://nobody@") + "?protocol=resp3";
    let resp3 = client(servers.urls().into_iter().map(resp3));
    for_good("a user without the password, RESP3", &resp3, &without);
    servers.iter().for_each(|server| {
        let user = ["ACL", "SETUSER", "guest", "on", ">secret", "~*", "&*", "+ping", "+auth"];
        server.command(&user);
    });
    let rights = ["lacks a permission", "/operations/index.html#access-lists"];
    for_good("a user without permissions", &with("guest:secret@"), &rights);

    let open = Servers::start(3);
    let url = |url: String| url.replace("://", "://:secret@");
    let unwanted = client(open.urls().into_iter().map(url));
    for_good("a password, and none is wanted", &unwanted, &["has no password", "leave it out"]);
}

/// The locks belong to the user of the URL, and never to the default user instead.
#[test]
fn a_user_who_needs_no_password() {
    let server = Server::start();
    let user = ["ACL", "SETUSER", "np", "on", "nopass", "~*", "&*", "+@all"];
    server.command(&user);
    for parameters in ["", "?protocol=resp3"] {
        let url = server.url().replace("://", "://np@") + parameters;
        let locks = client([url]);
        locks.lock("orders/42").expect("it is let in").unlock().expect("one of one");
        let list: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"]))
            .expect("a list of clients is text");
        assert!(list.contains("user=np"), "{list}");
    }
    let nobody = client([server.url().replace("://", "://nobody@")]);
    for_good(
        "a user that is not there",
        &nobody,
        &["refused the user, who comes without a password"],
    );
}

/// The other nodes cannot decide then: no majority is left.
#[test]
fn a_majority_that_refuses_for_good() {
    let servers = Servers::start_with(3, &["--requirepass", "right"]);
    let mut urls = servers.urls();
    urls[0] = urls[0].replace("://", "://:right@");
    let locks = client(urls.clone());
    let error = locks.lock("orders/42").expect_err("one of three lets us in");
    told("two of three refuse the login", &error, ErrorKind::Config, &["wants a password"]);
    assert_eq!(error.node_faults().len(), 2, "{error}");

    // Two of three are enough, and a node that is down may come back.
    urls[1] = urls[1].replace("://", "://:right@");
    client(urls.clone()).lock("orders/42").expect("two of three").unlock().expect("two of three");
    urls[1] = "redis://127.0.0.1:1".to_owned();
    let error = refused(&client(urls));
    told(
        "one refuses the login, one is down",
        &error,
        ErrorKind::NoQuorum,
        &["wants a password", "refused"],
    );

    // The refusal is not remembered: after the servers are corrected, no client must restart.
    let locks = client(servers.urls());
    for_good("three refuse the login", &locks, &["wants a password"]);
    for server in servers.iter() {
        server.command(&["CONFIG", "SET", "requirepass", ""]);
    }
    wait_until("the nodes let us in", LIMIT, || locks.try_lock("orders/42").optional().is_ok());
}

#[test]
fn a_database_that_there_is_not() {
    let server = Server::start();
    let locks = client([format!("{}/99", server.url())]);
    for_good("database 99", &locks, &["no database 99", "redis://host:port/0"]);
    server.command(&["ACL", "SETUSER", "guest", "on", ">secret", "~*", "&*", "+@all", "-select"]);
    let locks = client([format!("{}/3", server.url().replace("://", "://guest:secret@"))]);
    for_good("SELECT is not allowed", &locks, &["database 3", "+select"]);
}

#[test]
fn servers_that_only_look_like_redis() {
    let garnet = fake::of_info("# Server\r\ngarnet_version:1.0.84\r\nos:Unix 6.8\r\n");
    let use_redis = "use Redis 6.2 or newer, or Valkey";
    for_good("Garnet", &client([garnet]), &["Garnet 1.0.84", "not atomic", use_redis]);
    let dragonfly = "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\n";
    let dragonfly = client([fake::of_info(dragonfly)]);
    for_good("Dragonfly", &dragonfly, &["Dragonfly df-v1.40.1", "run id", use_redis]);
    let unknown = client([fake::of_info("# Server\r\nredis_version:7.4.0\r\n")]);
    for_good("a server without a run id", &unknown, &["run id", use_redis]);

    let mute = Server::start_with(&["--rename-command", "EVAL", ""]);
    for_good("EVAL is switched off", &client([mute.url()]), &["runs no Lua scripts", "EVAL"]);
    let valkey =
        fake::redis("7.2.4", |_| b"-ERR Could not find scripting engine 'lua'\r\n".to_vec());
    // The fake answers probes, which are scripts as well, so the test asks for a lock.
    let error = client([valkey]).lock("orders/42").expect_err("it runs no scripts");
    told("a Valkey without Lua", &error, ErrorKind::Config, &["runs no Lua scripts", "EVAL"]);

    let old = client([fake::redis("6.0.16", |_| Vec::new())]);
    for_good("Redis 6.0", &old, &["Redis 6.0.16", "6.2 or newer"]);
    let sentinel = Server::start_with(&["--sentinel"]);
    let sentinel_client = client([sentinel.url()]);
    let words = ["a Sentinel", "name the masters themselves"];
    for_good("a Sentinel", &sentinel_client, &words);
    for_good("database 3 of a Sentinel", &client([format!("{}/3", sentinel.url())]), &words);
    let cluster = Server::start_with(&["--cluster-enabled", "yes"]);
    let words = ["Redis Cluster", "independent masters"];
    for_good("a cluster", &client([cluster.url()]), &words);
    for_good("database 3 of a cluster", &client([format!("{}/3", cluster.url())]), &words);
}

/// The state ends by itself, or through the server's operator.
#[test]
fn servers_that_take_no_writes() {
    let alone = Server::start_with(&["--min-replicas-to-write", "1"]);
    let words = ["min-replicas-to-write", "its old master", "connect the replicas"];
    told("NOREPLICAS", &refused(&client([alone.url()])), ErrorKind::NoQuorum, &words);
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", "1"]);
    let words = ["replica, not a master", "independent masters"];
    told("a replica", &refused(&client([replica.url()])), ErrorKind::NoQuorum, &words);
    let full = Server::start_with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    told("full", &refused(&client([full.url()])), ErrorKind::NoQuorum, &["raise maxmemory"]);
}

#[cfg(unix)]
#[test]
fn a_socket_that_is_not_there() {
    let missing = client(["unix:///nowhere/redis.sock".to_owned()]);
    let error = refused(&missing);
    let words = ["unix:///nowhere/redis.sock", "no such socket", "unixsocket"];
    told("a missing socket", &error, ErrorKind::NoQuorum, &words);
    assert!(!error.to_string().contains("port"), "{error}");

    let folder = Folder::create("quorlock-socket").expect("there is room");
    let path = folder.join("redis.sock");
    drop(UnixListener::bind(&path).expect("a socket among the temporary files"));
    let error = refused(&client([format!("unix://{}", path.display())]));
    told("a socket without a server", &error, ErrorKind::NoQuorum, &["is the server running"]);
    assert!(!error.to_string().contains("port"), "{error}");
}

#[test]
fn a_server_that_says_nothing_and_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || listener.incoming().for_each(drop));
    for login in ["", ":secret@"] {
        let error = refused(&client([url.replace("://", &format!("://{login}"))]));
        let words = ["closed the connection", "write rediss://", "maxclients"];
        told("it closes without a word", &error, ErrorKind::NoQuorum, &words);
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_that_does_not_fit() {
    use rcgen::{BasicConstraints, IsCa};
    use support::authority::Authority;

    let authority = Authority::new();
    let server = authority.ordinary_server("no");
    for login in ["", ":secret@"] {
        let plain = client([server.url().replace("rediss://", &format!("redis://{login}"))]);
        let words = ["closed the connection", "TLS", "write rediss://"];
        told("plain to a TLS port", &refused(&plain), ErrorKind::NoQuorum, &words);
    }
    let certificate = Authority::self_signed(IsCa::Ca(BasicConstraints::Unconstrained));
    let server = authority.server(&certificate, "no");
    let words = ["CA's own certificate", "CA:FALSE", "tls_ca"];
    let trusting = builder([server.url()]).tls_ca(certificate[0].as_str());
    let trusting = trusting.build().expect("it is a certificate");
    for_good("self-signed, a CA's", &trusting, &[&words[..], &["subjectAltName"]].concat());
    for_good("self-signed, a CA's, and no tls_ca", &client([server.url()]), &["tls_ca"]);

    let of = |server: &Server| {
        let builder = builder([server.url()]).tls_ca(authority.pem.as_str());
        builder.build().expect("it is a certificate")
    };
    let server = authority.ordinary_server("yes");
    let words = ["wants a client certificate", "set tls_client_cert"];
    for_good("no client certificate", &of(&server), &words);
    let server = authority.ordinary_server("no");
    for_good("an unknown CA", &client([server.url()]), &["not trusted", "set tls_ca to its CA"]);
    let certificate = authority.sign(&["127.0.0.1"], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    let server = authority.server(&certificate, "no");
    let locks = of(&server);
    for_good(
        "a client's certificate",
        &locks,
        &["not one for servers", "extendedKeyUsage=serverAuth"],
    );
    assert!(!refused(&locks).to_string().contains("tls_ca"), "its CA is right");

    // The remedy in the message works.
    let certificate = Authority::self_signed(IsCa::ExplicitNoCa);
    let server = authority.server(&certificate, "no");
    let trusting = builder([server.url()]).tls_ca(certificate[0].as_str());
    let trusting = trusting.build().expect("it is a certificate");
    trusting.lock("orders/42").expect("it is trusted").unlock().expect("one of one");
}

#[test]
fn a_url_says_which_part_is_wrong() {
    let part = |url: &str, words: &[&str]| {
        let builder = Quorlock::builder().nodes(["redis://127.0.0.1:1", url]);
        wrong(url.replace("secret", "..").as_str(), builder, &[&["node 2"], words].concat());
    };
    part("", &["no scheme", "redis://host:port"]);
    part("localhost:6379", &["no scheme", "redis://host:port"]);
    part("http://user:secret@localhost", &["no scheme"]);
    part("redis://", &["no host"]);
    part("redis://:secret@", &["no host"]);
    part("redis://user:secret", &["port", "1 to 65535", "@host"]);
    part("redis://localhost:65536", &["port", "1 to 65535"]);
    part("redis://localhost:0", &["port 0"]);
    part("redis://[::1", &["host", "[::1]"]);
    part("redis://::1", &["IPv6", "[::1]"]);
    part("redis://local host", &["blank"]);
    part("unix:/run/redis.sock", &["//", "unix:///path"]);
    part("redis:secret@localhost", &["//", "redis://host:port"]);
    for between in [",", ";", " ", ", "] {
        let urls = format!("redis://:secret@one{between}redis://two");
        part(&urls, &["another URL", "one of its own"]);
    }
    part("redis://one,two", &["several hosts", "URL of its own"]);
    part("redis://:secret@one:6379;two:6379", &["several hosts", "URL of its own"]);
    part("redis://localhost/0/", &["database", "number"]);
    part("redis://localhost/99999999999", &["database", "number"]);
    part("redis://:secret%zz@localhost", &["\"%\"", "%25"]);
    #[cfg(feature = "tls")]
    part("rediss://1.2.3.4.5", &["1.2.3.4.5", "host", "TLS", "certificate"]);
    part("redis://localhost/secret", &["database", "number"]);
    part("redis://localhost/-1", &["database", "number"]);
    part("redis://localhost/1/2", &["database", "number"]);
    part("redis://:pa/secret@localhost", &["password", "%2F"]);
    part("redis://:pa#secret@localhost", &["password", "%23"]);
    part("redis://:pa?secret@localhost", &["password", "%3F"]);
    part("redis://localhost?protokol=resp3", &["parameter that means nothing", "protocol="]);
    part("redis://localhost?protocol=resp9", &["protocol", "resp3"]);
    part("redis://localhost#3", &["\"#\""]);
    part("unix:///tmp/x?db=three", &["database", "number"]);
    part("unix://", &["unix:///path"]);
}

#[test]
fn durations_read_as_a_human_writes_them() {
    let ttl = |ttl| three().ttl(ttl);
    wrong("a TTL of nothing", ttl(Duration::ZERO), &["the TTL is 0;", "400 ms"]);
    wrong("a short TTL", ttl(Duration::from_millis(399)), &["the TTL is 399 ms", "200 ms"]);
    wrong("a TTL of half a millisecond", ttl(Duration::from_micros(500_500)), &["500.5 ms"]);
    wrong("an endless TTL", ttl(Duration::MAX), &["the TTL is more than 100 years"]);
    wrong("a long TTL", ttl(Duration::from_secs(86_401)), &["the TTL is 24 h 1 s"]);
    wrong("a node_timeout of nothing", three().node_timeout(Duration::ZERO), &["at least 1 ms"]);
    wrong(
        "a backoff",
        three().backoff(Duration::from_micros(10), Duration::MAX),
        &["0.01 ms", "1 min"],
    );
    wrong("max_hold", three().max_hold(Duration::from_nanos(1)), &["200 ms"]);
    let nodes = ["redis://one", "redis:/two", "redis://one"];
    let several = three().ttl(Duration::from_millis(150)).set_name("a set").nodes(nodes);
    let words = [
        "(1) the set_name",
        "(2) the TTL",
        "(3) the TTL",
        "(4) the URL of node 2",
        "(5) nodes 1 and 3",
    ];
    wrong("all that is wrong, at once", several, &[&["5 settings are wrong"], &words[..]].concat());

    let server = Server::start();
    let locks = client([server.url()]);
    let guard = locks.mutex("kept").max_hold(Duration::from_secs(11)).lock();
    guard.expect("it is free").unlock().expect("one of one");
    let locks = builder([server.url()]).node_timeout(Duration::from_millis(250));
    let locks = locks.renewal(quorlock::Renewal::Manual).ttl(Duration::from_millis(600));
    let guard = locks.build().expect("valid settings").lock("short").expect("it is free");
    wait_until("the end of the lock", LIMIT, || guard.check().is_err());
    let error = guard.check().expect_err("it is over");
    told(
        "a lock that is over",
        &error,
        ErrorKind::Lost,
        &["ended", "ago", "stop what it protects"],
    );
}

/// Two nodes are down, and the third one is healthy but has had no time yet.
#[test]
fn a_node_that_has_had_no_time_is_not_blamed() {
    let slow = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let slow = format!("redis://{}", slow.local_addr().expect("it is bound"));
    // The system accepts connections, but no program answers.
    let slow_one = slow.clone();
    let urls = ["redis://127.0.0.1:1".to_owned(), "redis://127.0.0.1:2".to_owned(), slow_one];
    let error = refused(&client(urls));
    told("two are down at the first try", &error, ErrorKind::NoQuorum, &["connection refused"]);
    assert!(!error.to_string().contains("is the host reachable"), "{error}");
    assert_eq!(error.node_faults().len(), 2, "{error}");

    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("it is bound"));
    let locks = client([url.clone()]);
    let error = locks.try_lock_for("orders/42", Duration::from_millis(18)).expect_err("no time");
    told(
        "the caller's time is short",
        &error,
        ErrorKind::NoQuorum,
        &["the time of this call", &url],
    );
    assert!(!error.to_string().contains("is the host reachable"), "{error}");

    // Now the node has had its time, so it is to blame. On a busy machine, its worker may begin behind the call.
    let locks = builder([url.clone()]).node_timeout(Duration::from_millis(100)).build();
    let locks = locks.expect("valid settings");
    let words = ["the server", "the URL and the port agree on TLS", &url];
    let mut error = refused(&locks);
    wait_until("the node has had its time", LIMIT, || {
        let is_told = error.to_string().contains(words[1]);
        if !is_told {
            error = refused(&locks);
        }
        is_told
    });
    told("a host that does not answer", &error, ErrorKind::NoQuorum, &words);
}

/// A single node is not called several.
#[test]
fn a_single_node_that_is_new() {
    let server = Server::start();
    let locks = builder([server.url()]).restart_quarantine(true).build().expect("valid settings");
    wait_until("it is in quarantine", LIMIT, || {
        matches!(refused(&locks).kind(), ErrorKind::Quarantined { .. })
    });
    let error = refused(&locks);
    let words = ["the node may have forgotten locks", "and is in quarantine", "The node: redis://"];
    says("a single node that is new", &error.to_string(), &words);
    assert!(!error.to_string().contains("nodes"), "{error}");
}

/// The healthy node is not to blame for the others: it can grant nothing before it is compared with them.
#[test]
fn a_healthy_node_is_not_blamed_for_others_that_hang() {
    let mut servers = Servers::start(3);
    let urls = servers.urls();
    let set = || builder(urls.clone()).restart_quarantine(true);
    drop(support::clients::admitted(set()));
    servers.iter_mut().take(2).for_each(Server::pause);
    // Time enough for the answer of the healthy one on a busy machine.
    let locks = set().node_timeout(Duration::from_secs(2)).build().expect("valid settings");
    wait_until("the healthy one is up", LIMIT, || locks.node_stats()[2].connected);
    for i in 0..3 {
        let error = refused(&locks);
        told(
            &format!("two of three hang: {i}"),
            &error,
            ErrorKind::NoQuorum,
            &[&urls[0], &urls[1]],
        );
        for fault in error.node_faults() {
            let answers = fault.what().contains("it answers");
            assert_eq!(answers, fault.node() == urls[2], "{error}");
            assert!(!answers || !fault.what().contains("hangs"), "{error}");
        }
    }
}

/// `try_lock` returns the error within the node timeout; `lock` goes on for its own time limit.
#[test]
fn a_hung_majority() {
    let timeout = Duration::from_millis(250);
    let mut servers = Servers::start(3);
    // Far longer than the node timeout, since a busy machine may be late.
    let patience = timeout * 12;
    let builder = builder(servers.urls()).node_timeout(timeout).no_quorum_timeout(patience);
    let locks = support::clients::connected(builder);
    servers.iter_mut().take(2).for_each(Server::pause);
    let urls = servers.urls();
    let words = ["no answer", &urls[0], &urls[1]];
    let start = Instant::now();
    told("a hung majority: try_lock", &refused(&locks), ErrorKind::NoQuorum, &words);
    assert!(start.elapsed() < patience, "{:?}", start.elapsed());
    let start = Instant::now();
    let error = locks.lock("orders/42").expect_err("one of three answers");
    told("a hung majority: lock", &error, ErrorKind::NoQuorum, &words);
    assert!(start.elapsed() >= patience, "it gave up after {:?}", start.elapsed());
}

#[test]
fn the_same_sentence_is_said_once() {
    let locks = three().build().expect("the settings are valid");
    // A call does not wait long for the last node, once two are down.
    let mut error = refused(&locks);
    wait_until("all are known to be down", LIMIT, || {
        error = refused(&locks);
        error.node_faults().len() == 3
    });
    let words =
        ["redis://127.0.0.1:1, redis://127.0.0.1:2 and redis://127.0.0.1:3: connection refused"];
    told("three are down", &error, ErrorKind::NoQuorum, &words);
    assert_eq!(error.to_string().matches("is the server running").count(), 1, "{error}");
    let shown = format!("{error:?}");
    assert_eq!(shown.matches("is the server running").count(), 1, "{shown}");
    assert!(shown.contains("NoQuorum") && !shown.contains('\\'), "{shown}");
}

/// A program that prints an error and all its sources, as `anyhow` does, prints each fact once.
#[test]
fn nothing_is_in_a_message_and_in_its_source() {
    let server = Server::start_with(&["--requirepass", "right"]);
    let urls = ["redis://127.0.0.1:1".to_owned(), "redis://127.0.0.1:2".to_owned(), server.url()];
    let locks = builder(urls).build().expect("the settings are valid");
    wait_until("all are known to be down", LIMIT, || refused(&locks).node_faults().len() == 3);
    let error = refused(&locks);
    let chain = |error: &dyn std::error::Error| {
        let mut texts = vec![error.to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            texts.push(cause.to_string());
            source = cause.source();
        }
        texts
    };
    says("the chain of sources", &chain(&error).join(" <- "), &["connection refused"]);
    assert!(error.source().is_none(), "{:?}", chain(&error));
    for fault in error.node_faults() {
        let texts = chain(fault);
        assert_eq!(texts.len(), 1, "{texts:?}");
    }
}

#[test]
fn a_key_without_expiry_is_told() {
    events::remember();
    let server = Server::start();
    let locks = client([server.url()]);
    server.command(&["SET", "quorlock:kept for ever", "somebody"]);
    for _ in 0..3 {
        assert!(locks.try_lock("kept for ever").optional().expect("one of one").is_none());
    }
    let words = ["WARN", "quorlock:kept for ever", "no expiry", "delete it", &server.url()];
    let event = || events::all().into_iter().find(|event| event.contains("kept for ever"));
    says("a key without expiry (event)", &event().unwrap_or_default(), &words);
    assert_eq!(events::told(&["kept for ever", "delete it"]), 1, "{:?}", events::all());
    // A key with an expiry is a lock.
    server.command(&["SET", "quorlock:ends", "somebody", "PX", "60000"]);
    assert!(locks.try_lock("ends").optional().expect("one of one").is_none());
    assert_eq!(events::told(&["quorlock:ends", "delete it"]), 0, "{:?}", events::all());
}

#[test]
fn a_fence_that_is_no_number() {
    let server = Server::start();
    let locks = client([server.url()]);
    let fence = "{quorlock:orders/42}:fence";
    server.command(&["SET", fence, "a text"]);
    let words = [fence, "is no number", "DEL"];
    told("a fence that is text", &refused(&locks), ErrorKind::WrongKind, &words);
    server.command(&["DEL", fence]);
    server.command(&["RPUSH", fence, "1"]);
    told("a fence that is a list", &refused(&locks), ErrorKind::WrongKind, &words);
    // The remedy in the message works.
    server.command(&["DEL", fence]);
    locks.lock("orders/42").expect("it is free").unlock().expect("one of one");
    server.command(&["SET", fence, "2251799813685247"]);
    let words = [fence, "the largest number", "another name"];
    told("a fence at its end", &refused(&locks), ErrorKind::WrongKind, &words);
}

#[test]
fn debug_shows_names_and_settings_as_they_were_given() {
    let server = Server::start();
    let locks = client([server.url()]);
    let guard = locks.lock("orders/42").expect("it is free");
    let mutex = locks.mutex("orders/42");
    let bytes = locks.mutex(b"\xff\"");
    let builder = builder([server.url().replace("://", "://:secret@")]).key_prefix("shop:");
    let endless = three().max_hold(Duration::MAX).no_quorum_timeout(Duration::MAX);
    let no_limit = locks.mutex("orders/42").max_hold(Duration::MAX);
    for (situation, shown, words) in [
        ("Debug of a guard", format!("{guard:?}"), &["name: \"orders/42\""][..]),
        ("Debug of a mutex", format!("{mutex:?}"), &["name: \"orders/42\""]),
        ("Debug of a mutex with bytes", format!("{bytes:?}"), &[r#"name: b"\xff\"""#]),
        ("Debug of a bad name", format!("{:?}", locks.mutex("")), &["name: \"\""]),
        ("Debug of a builder", format!("{builder:?}"), &["key_prefix: \"shop:\"", "ttl: 30s"]),
        ("Debug of a client", format!("{locks:?}"), &["127.0.0.1"]),
        ("Debug of no limit", format!("{endless:?}"), &["max_hold: None"]),
        ("Debug of an endless wait", format!("{endless:?}"), &["no_quorum_timeout: Duration::MAX"]),
        ("Debug of a mutex without a limit", format!("{no_limit:?}"), &["max_hold: None"]),
    ] {
        eprintln!("{situation} | {shown}");
        words.iter().for_each(|word| assert!(shown.contains(word), "no {word} in: {shown}"));
        let inner = ["Ok(", "lock \\", "\\\\", "mechanisms", "Settings", "secret"];
        let inner = inner.iter().find(|word| shown.contains(**word));
        assert_eq!(inner, None, "{shown}");
    }
    guard.unlock().expect("one of one");
}

#[test]
fn events_name_locks_without_doubled_quotes() {
    events::remember();
    let mut server = Server::start();
    let locks = builder([server.url()]).node_timeout(Duration::from_millis(250));
    let locks = locks.ttl(Duration::from_millis(600)).build().expect("valid settings");
    let guard = locks.lock("lost in an event").expect("it is free");
    server.kill();
    let of_lock = || -> Vec<String> {
        let events = events::all().into_iter();
        events.filter(|event| event.contains("lost in an event")).collect()
    };
    wait_until("the loss is told", LIMIT, || {
        guard.check().is_err() && of_lock().iter().any(|event| event.contains("ERROR"))
    });
    for event in of_lock() {
        says("an event about a lock", &event, &["lock=lost in an event"]);
        if event.contains("ERROR") {
            says("an event about a loss", &event, &["its validity ended", "stop what it"]);
        }
        assert!(!event.contains('\\') && !event.contains("lock \""), "{event}");
    }
}
