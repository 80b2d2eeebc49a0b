//! All the ways to reach a server: TLS, a socket, a user with few permissions, another database.

mod support;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use quorlock::crossbeam_channel::bounded;
use quorlock::{
    Builder, Error, ErrorKind, Exclusive, Fair, HoldClass, LockKind, OptionalGuard as _, Quorlock,
    Reading, Writing,
};
use support::clients::{fresh, requests};
use support::kinds::{AnyHandle, AnyKind, KINDS};
use support::{Server, Servers, access, fake};

fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    // Time enough to answer on a busy machine. A refusal is reported without long retries.
    let builder = fresh(urls)
        .max_ttl(Duration::from_secs(600))
        .ttl(Duration::from_secs(60))
        // Each call asks the nodes.
        .local_queue(false)
        .node_timeout(Duration::from_secs(10));
    builder.no_quorum_timeout(Duration::from_millis(200))
}

fn client(urls: impl IntoIterator<Item = String>) -> Quorlock {
    builder(urls).build().expect("the settings are valid")
}

/// Takes a lock of each kind, is refused by it, shares it or takes it again, extends it, gives it back, and loses one by
/// dropping it. So every script is called for the first time and again.
fn everything(locks: &Quorlock) -> Result<(), Error> {
    everything_of(locks, |_| true)
}

/// [`everything`] with the kinds of one name: those with several names need commands of their own.
fn everything_of_one_name(locks: &Quorlock) -> Result<(), Error> {
    everything_of(locks, |kind| kind.most_names() == 1)
}

fn is_of_rw_locks(kind: &dyn AnyKind) -> bool {
    [Reading::label(), Writing::label()].contains(&kind.label())
}

fn everything_of(locks: &Quorlock, is_wanted: fn(&dyn AnyKind) -> bool) -> Result<(), Error> {
    for kind in [KINDS, KINDS].concat().into_iter().filter(|kind| is_wanted(*kind)) {
        let lock = kind.of(locks, &[b"orders/42"]);
        let guard = lock.lock()?;
        // The last of several holders has more to clear away than the others.
        let other = lock.try_lock()?;
        let has_both = kind.hold_class() == HoldClass::Shared || kind.is_reentrant();
        assert_eq!(other.is_some(), has_both, "it is taken");
        // Beyond its TTL, so that there is something to do.
        guard.extend(Duration::from_secs(120))?;
        guard.check()?;
        if kind.label() == Fair::label() {
            stand_in_queue(locks, &*lock)?;
        }
        guard.unlock()?;
        other.map_or(Ok(()), |other| other.unlock())?;
        lock.lock()?.unlock()?;
        drop(lock.try_lock().optional()?.expect("it was given back"));
        lock.lock()?.unlock()?;
    }
    Ok(())
}

/// Waits for a lock that is held, and gives up.
fn stand_in_queue(locks: &Quorlock, lock: &dyn AnyHandle) -> Result<(), Error> {
    let (cancel, cancelled) = bounded(1);
    let (before, ended) = (requests(locks), AtomicBool::new(false));
    let given_up = thread::scope(|scope| {
        scope.spawn(|| {
            // The caller asks first without a ticket, and then with one.
            support::wait_until("it stands in the queue", Duration::from_secs(60), || {
                ended.load(Ordering::Relaxed) || requests(locks) >= before + 2
            });
            let _ = cancel.send(());
        });
        let given_up = lock.lock_cancellable(&cancelled).map(|_| "the lock, which is taken");
        ended.store(true, Ordering::Relaxed);
        given_up
    });
    match given_up {
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        other => other.map(|got| panic!("it has {got}")),
    }
}

/// No lock is granted, and the error has the nodes' reasons, with all of `words`.
fn refused(locks: &Quorlock, words: &[&str]) {
    let error = locks.try_lock("orders/42").expect_err("no node lets us in");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    said(&error, words);
}

/// [`refused`], with an error that waiting would not mend.
fn rejected(locks: &Quorlock, words: &[&str]) {
    let error = locks.try_lock("orders/42").expect_err("no node lets us in");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    said(&error, words);
}

fn said(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no \"{word}\" in: {text}");
    }
    assert!(!format!("{text} {error:?}").contains("secret"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_socket() {
    let server = Server::start_with(&["--unixsocket", "redis.sock", "--requirepass", "secret"]);
    let socket = server.socket();
    for scheme in ["unix", "redis+unix"] {
        let url = format!("{scheme}://{}?db=3&pass=secret", socket.display());
        everything(&client([url])).expect("it works as over TCP");
    }
    server.wait_no_keys_in(3);
    rejected(&client([format!("unix://{}", socket.display())]), &["wants a password"]);
    refused(
        &client(["unix:///nowhere/redis.sock".to_owned()]),
        &["/nowhere/redis.sock", "no such socket"],
    );
}

#[test]
fn another_database() {
    let servers = Servers::start(3);
    let in_database = |n: u32| client(servers.urls().into_iter().map(|url| format!("{url}/{n}")));
    let locks = in_database(3);
    everything(&locks).expect("it works as in database 0");
    let guard = locks.lock("orders/42").expect("it is free");
    assert!(servers.iter().all(|server| server.keys().is_empty()), "database 0 has none of it");
    let other = in_database(4).lock("orders/42").expect("another database has other locks");
    other.unlock().expect("three healthy nodes");
    guard.unlock().expect("three healthy nodes");
    servers.iter().for_each(|server| server.wait_no_keys_in(3));
}

/// The connection for requests and the one for messages.
#[test]
fn operators_see_which_client_a_connection_belongs_to() {
    let server = Server::start();
    let locks = builder([server.url()]).owner_label("web 3:4711").build().expect("valid settings");
    let values = |field: &str| {
        let list: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"]))
            .expect("a list of clients is text");
        let words = list.split_whitespace().filter_map(|word| word.strip_prefix(field));
        words.filter(|value| !value.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let names = || values("name=");
    let guard = locks.lock("orders/42").expect("it is free");
    assert_eq!(names(), ["quorlock/web-3:4711"]);
    let libraries = values("lib-name=");
    // The list has them from Redis 7.2 on. The connections of this test have another one, or none.
    if server.try_command(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"other"]).is_ok() {
        assert!(libraries.contains(&"quorlock".to_owned()), "{libraries:?}");
        assert!(values("lib-ver=").contains(&env!("CARGO_PKG_VERSION").to_owned()));
    }
    thread::scope(|scope| {
        scope.spawn(|| drop(locks.lock("orders/42").expect("it is given back")));
        support::wait_until("the waiter listens", Duration::from_secs(60), || {
            names() == ["quorlock/web-3:4711"; 2]
        });
        drop(guard);
    });
}

/// A server of that version that notes the names which it is told, and answers them with that line. The answers to `CLIENT SETINFO`
/// come with the next one: a client that waited for them would wait in vain.
fn named(version: &'static str, answer: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let (noted, kept) = (said.clone(), RefCell::new(Vec::new()));
    let url = fake::serve(move |words, writer| {
        let answer = match words.get(1).map(String::as_str) {
            Some(what @ ("SETNAME" | "SETINFO")) => {
                noted.lock().push(words[1..].join(" "));
                if what == "SETINFO" {
                    kept.borrow_mut().extend_from_slice(answer.as_bytes());
                    return Some(());
                }
                answer.into()
            }
            _ if fake::is_probe(words) => fake::admit(&words[5]),
            _ if words[0] == "PING" => {
                noted.lock().push("PING".to_owned());
                b"+PONG\r\n".to_vec()
            }
            _ if words[0] == "EVAL" => b"*2\r\n:1\r\n:0\r\n".to_vec(),
            _ => fake::handshake(version, words).unwrap_or_else(|| b"+OK\r\n".to_vec()),
        };
        writer.write_all(&[take(&mut *kept.borrow_mut()), answer].concat()).ok()
    });
    (url, said)
}

#[test]
fn the_library_is_named_where_that_makes_no_noise() {
    let library = format!("SETINFO LIB-VER {}", env!("CARGO_PKG_VERSION"));
    let all = ["PING", "SETNAME quorlock/web", "SETINFO LIB-NAME quorlock", &library];
    let names = |url: String, said: &Mutex<Vec<String>>| {
        let locks = builder([url]).owner_label("web").build().expect("valid settings");
        drop(locks.try_lock("orders/42").expect("it is free"));
        // Those of the first connection. Another one, which looks which server answers, begins with a PING as well.
        let said = said.lock().clone();
        let first = said.iter().enumerate().take_while(|(i, it)| *i == 0 || *it != "PING");
        first.map(|(_, it)| it.clone()).take(4).collect::<Vec<_>>()
    };
    for parameters in ["", "?protocol=resp3"] {
        let (url, said) = named("7.2.4", "+OK\r\n");
        assert_eq!(names(url + parameters, &said), all);
        let (url, said) = named("8.0.0", "-ERR something else\r\n");
        assert_eq!(names(url + parameters, &said), all);
    }
    // An older server has no such command.
    let (url, said) = named("7.0.15", "+OK\r\n");
    assert_eq!(names(url, &said), all[..2]);
    // The access list of a user with a name may lack it.
    let (url, said) = named("7.2.4", "+OK\r\n");
    assert_eq!(names(url.replace("://", "://locker:secret@"), &said), all[..2]);
}

#[test]
fn a_name_that_an_access_list_refuses_is_not_asked_for_again() {
    let (url, said) = named("7.2.4", "-NOPERM User default has no permissions to run it\r\n");
    let locks = builder([url]).build().expect("valid settings");
    drop(locks.try_lock("orders/42").expect("it is free"));
    let count = |what: &str| said.lock().iter().filter(|said| said.starts_with(what)).count();
    // Further connections look which server answers.
    support::wait_until("further connections", Duration::from_secs(60), || count("PING") >= 3);
    assert_eq!((count("SETNAME"), count("SETINFO")), (1, 2), "{:?}", said.lock());
}

/// A proxy may answer a command that it does not know with anything. Then its answers are out of step, and the next connection does
/// without the command.
#[test]
fn a_library_whose_name_is_answered_strangely_is_not_named_again() {
    for answer in [":1\r\n", "$2\r\nno\r\n", "*0\r\n"] {
        let (url, said) = named("7.2.4", answer);
        let locks = builder([url]).build().expect("valid settings");
        drop(locks.lock("orders/42").expect("the name of the library is of no use to a lock"));
        let count = |what: &str| said.lock().iter().filter(|said| said.starts_with(what)).count();
        let asked = count("SETINFO");
        let before = count("PING");
        support::wait_until("further connections", Duration::from_secs(60), || {
            count("PING") >= before + 3
        });
        assert!(asked >= 2 && count("SETINFO") == asked, "{:?}", said.lock());
    }
}

/// The commands that the access list must allow according to `OPERATIONS.md`, without the conditional ones.
fn documented() -> Vec<&'static str> {
    let text = include_str!("../OPERATIONS.md");
    let (_, list) = text.split_once("has to allow: ").expect("the list of commands");
    let (list, _) = list.split_once('.').expect("the end of the list");
    let commands: Vec<_> = list.split('`').skip(1).step_by(2).collect();
    assert!(commands.len() > 5, "{commands:?}");
    commands
}

/// A user that may do nothing but `commands`, on keys with the default prefix.
fn limited_user(server: &Server, commands: &[&str]) -> Quorlock {
    limited_user_on(server, &access::example_patterns('~'), commands)
}

fn limited_user_on(server: &Server, keys: &[&str], commands: &[&str]) -> Quorlock {
    let commands: Vec<_> = commands.iter().map(|command| format!("+{command}")).collect();
    let user = ["ACL", "SETUSER", "locker", "reset", "on", ">secret"];
    let commands = commands.iter().map(String::as_str);
    let words = user.into_iter().chain(keys.iter().copied()).chain(commands);
    server.command(&words.collect::<Vec<_>>());
    client([server.url().replace("://", "://locker:secret@")])
}

/// The conformance suite checks this for each kind, and this test for all kinds together.
#[test]
fn the_example_allows_what_every_client_and_each_kind_needs_and_nothing_else() {
    let example = access::example_commands();
    let of_kinds = KINDS.iter().flat_map(|kind| kind.commands());
    let needed: BTreeSet<_> = access::EVERY_CLIENT.iter().chain(of_kinds).copied().collect();
    assert_eq!(example.iter().copied().collect::<BTreeSet<_>>(), needed);
    assert_eq!(example.len(), needed.len(), "each of them once: {example:?}");
    assert_eq!(access::example_patterns('~').len(), 2);
    assert_eq!(access::example_patterns('&').len(), 3);
}

#[test]
fn a_user_who_may_do_what_is_documented_and_nothing_else() {
    let server = Server::start();
    let locks = limited_user(&server, &documented());
    everything_of_one_name(&locks).expect("no command is missing in the list");
    server.wait_no_keys_in(0);
    let of_several_names = [documented(), vec!["MGET", "EXISTS"]].concat();
    everything(&limited_user(&server, &of_several_names)).expect("nor of those for several names");

    // Commands further down the list are needed for single features only.
    let all = [documented(), vec!["SELECT"]].concat();
    drop(limited_user(&server, &all));
    let url = server.url().replace("://", "://locker:secret@");
    let in_database = client([format!("{url}/3")]);
    everything_of_one_name(&in_database).expect("SELECT is enough for a database");
    let refused_select = limited_user(&server, &documented());
    everything_of_one_name(&refused_select).expect("database 0 needs no SELECT");
    rejected(&client([format!("{url}/3")]), &["database 3", "+select"]);
}

#[test]
fn a_key_that_the_user_may_not_touch() {
    let server = Server::start();
    drop(limited_user(&server, &documented()));
    let url = server.url().replace("://", "://locker:secret@");
    let locks = builder([url]).key_prefix("other:").build().expect("the settings are valid");
    rejected(&locks, &["lacks a permission", "/operations/index.html#access-lists"]);
}

/// Operators need no permission beyond those for the kinds. A user with permissions for mutexes only cannot read hashes.
#[test]
fn operators_need_what_the_kinds_need_whose_locks_are_hashes() {
    const KEY: &str = "quorlock:orders/42";
    let server = Server::start();
    let of_mutexes = [access::EVERY_CLIENT, Exclusive::commands()].concat();
    let plain = limited_user(&server, &of_mutexes);
    let guard = plain.lock("orders/42").expect("it is free");
    assert!(plain.mutex("orders/42").is_locked().expect("it may look"));
    assert!(plain.mutex("orders/42").force_unlock().expect("it may do so"));
    drop(guard);

    let hash = || {
        server.command(&["HSET", KEY, "uuid:1", "1"]);
        server.command(&["PEXPIRE", KEY, "60000"]);
    };
    hash();
    let error = plain.mutex("orders/42").holder().expect_err("it may not look");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    said(&error, &["lacks a permission", "/operations/index.html#access-lists"]);
    let operator = limited_user(&server, &documented());
    let lock = operator.mutex("orders/42");
    assert!(lock.is_locked().expect("it may look"));
    assert!(lock.force_unlock().expect("it may do so"));
    assert!(!lock.is_locked().expect("it may look"));
}

/// No other call needs `SCAN`, which shows the names of all keys, even of those that the user may not touch.
#[test]
fn operators_need_scan_to_list_the_locks_that_are_held() {
    let server = Server::start();
    let within = Duration::from_secs(60);
    let user = limited_user(&server, &documented());
    let guard = user.lock("orders/42").expect("it is free");
    let error = user.held_locks("", 10, within).expect_err("it may not scan");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let words = ["lacks a permission", "(SCAN)", "/operations/index.html#access-lists"];
    said(&error, &[&words[..], &[&server.url()]].concat());

    let of_operators = [access::EVERY_CLIENT, access::OPERATORS].concat();
    let operator = limited_user(&server, &of_operators);
    // A key of another user, which this user may not touch.
    server.command(&["SET", "elsewhere", "a", "PX", "60000"]);
    let held = operator.held_locks("", 10, within).expect("it may scan");
    assert!(held.is_complete() && held.names.len() == 1, "{held:?}");
    drop(guard);
}

/// A user without access to the fences can lock without them. Read-write and fair locks are an exception, since they keep
/// further keys next to the fence. Reservations are kept next to locks of all kinds.
#[test]
fn fences_that_the_user_may_not_touch() {
    let server = Server::start();
    let locks = limited_user_on(&server, &["~quorlock:*"], &documented());
    rejected(&locks, &["lacks a permission", "/operations/index.html#access-lists"]);
    let url = server.url().replace("://", "://locker:secret@");
    server.command(&["ACL", "SETUSER", "locker", "~{quorlock:*}:reserved"]);
    let locks = builder([url]).fencing(false).build().expect("the settings are valid");
    let has_one_key = |kind: &dyn AnyKind| {
        kind.most_names() == 1 && !is_of_rw_locks(kind) && kind.label() != Fair::label()
    };
    everything_of(&locks, has_one_key).expect("no fence is touched");
    for error in [
        locks.rw_lock("orders/42").try_read().optional().map(drop),
        locks.fair_mutex("orders/42").try_lock().optional().map(drop),
    ] {
        let error = error.expect_err("its keys begin otherwise");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    server.wait_no_keys_in(0);
}

#[test]
fn every_command_of_the_list_is_needed_and_missed_aloud() {
    let server = Server::start();
    for missing in documented() {
        let rest: Vec<_> = documented().into_iter().filter(|one| *one != missing).collect();
        let locks = limited_user(&server, &rest);
        let Err(error) = everything_of_one_name(&locks) else { panic!("{missing} is not needed") };
        said(&error, &["lacks a permission", "/operations/index.html#access-lists"]);
        drop(locks);
        server.command(&["FLUSHALL"]);
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::io::{self, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::support::authority::Authority;
    use super::*;

    /// A client of the server that trusts this authority.
    fn client_of(authority: &Authority, server: &Server) -> Quorlock {
        let builder = builder([server.url()]).tls_ca(authority.pem.as_str());
        builder.build().expect("the settings are valid")
    }

    #[test]
    fn a_ca_of_our_own() {
        let authority = Authority::new();
        let mut server = authority.ordinary_server("no");
        let locks = client_of(&authority, &server);
        everything(&locks).expect("it works as without TLS");

        let by_name = format!("valkeys://localhost:{}/3", server.port());
        let by_name = builder([by_name]).tls_ca(authority.pem.clone()).build();
        everything(&by_name.expect("the settings are valid")).expect("a name, and a database");

        // A connection that worked once, and broke, is made again.
        server.restart_empty();
        support::wait_until("the reconnect", Duration::from_secs(10), || {
            everything(&locks).is_ok()
        });
        server.wait_no_keys_in(0);
    }

    /// A server takes the place of another one with another authority. The files are replaced after that, one after the
    /// other.
    #[test]
    fn certificates_in_files_are_read_again_for_each_connection() {
        let authorities = [Authority::new(), Authority::new()];
        let servers = authorities.each_ref().map(|authority| authority.ordinary_server("yes"));
        let [before, after] = authorities.each_ref().map(|authority| {
            let [certificate, key] = authority.sign(&["a client"], |_| ());
            [("ca.crt", authority.pem.clone()), ("client.crt", certificate), ("client.key", key)]
        });
        let folder =
            support::server::reaper::Folder::create("quorlock-files").expect("there is room");
        let write = |(name, text): &(&str, String)| {
            std::fs::write(folder.join(name), text).expect("there is room");
        };
        before.iter().for_each(write);
        let proxy = support::proxy::Proxy::start(servers[0].port());
        let [ca, certificate, key] = before.each_ref().map(|(name, _)| folder.join(name));
        let builder = builder([proxy.url().replace("redis:", "rediss:")]).tls_ca_file(ca);
        let locks = builder.tls_client_cert_files(certificate, key).build();
        let locks = locks.expect("the settings are valid");
        everything(&locks).expect("they fit");

        proxy.fail_over_to(servers[1].port());
        for file in &after {
            let mut told = String::new();
            support::wait_until("it is told that they do not fit", Duration::from_secs(20), || {
                told = locks.try_lock("n").err().map_or_else(String::new, |it| it.to_string());
                told.contains("it let this client in before")
            });
            write(file);
        }
        support::wait_until("they fit", Duration::from_secs(20), || everything(&locks).is_ok());
    }

    #[test]
    fn a_server_that_wants_a_client_certificate() {
        let authority = Authority::new();
        let server = authority.ordinary_server("yes");
        rejected(&client_of(&authority, &server), &["client certificate", "set tls_client_cert"]);

        let with = |[certificate, key]: [String; 2]| {
            let builder = builder([server.url()]).tls_ca(authority.pem.as_str());
            let builder = builder.tls_client_cert(certificate, key);
            let shown = format!("{builder:?}");
            assert!(!shown.contains("PRIVATE") && !shown.contains("BEGIN"), "{shown}");
            builder.build().expect("the settings are valid")
        };
        everything(&with(authority.sign(&["a client"], |_| ()))).expect("it is let in");

        let strangers = Authority::new().sign(&["a client"], |_| ());
        rejected(&with(strangers), &["tls_client_cert"]);
    }

    #[test]
    fn a_client_certificate_and_a_login() {
        let authority = Authority::new();
        let server = authority.ordinary_server("yes");
        server.command(&["ACL", "SETUSER", "locker", "on", ">secret", "~*", "+@all"]);
        let url = |login: &str| server.url().replace("://", &format!("://{login}@"));
        let with = |login: &str, [certificate, key]: [String; 2]| {
            let builder = builder([url(login)]).tls_ca(authority.pem.as_str());
            builder.tls_client_cert(certificate, key).build().expect("the settings are valid")
        };
        let sign = || authority.sign(&["a client"], |_| ());
        everything(&with("locker:secret", sign())).expect("both are right");
        rejected(&with("locker:wrong", sign()), &["refused the user or the password"]);
        let builder = builder([url("locker:secret")]).tls_ca(authority.pem.as_str());
        rejected(&builder.build().expect("the settings are valid"), &["set tls_client_cert"]);
    }

    #[test]
    fn a_server_that_is_not_to_be_trusted() {
        let authority = Authority::new();
        let server = authority.ordinary_server("no");
        let url = server.url();
        let untrusted = ["the server's certificate is not trusted", "set tls_ca to its CA"];
        rejected(&client_of(&Authority::new(), &server), &[&url, untrusted[0], untrusted[1]]);
        rejected(&client([url]), &untrusted);
    }

    #[test]
    fn a_certificate_for_another_name_or_another_time() {
        let authority = Authority::new();
        let other = authority.sign(&["redis.example.com"], |_| ());
        let server = authority.server(&other, "no");
        let words = ["for another name", "127.0.0.1", "redis.example.com"];
        rejected(&client_of(&authority, &server), &words);

        let old = authority.sign(&["127.0.0.1"], |params| {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        });
        let server = authority.server(&old, "no");
        rejected(&client_of(&authority, &server), &["certificate has expired", "clock"]);

        let new = authority.sign(&["127.0.0.1"], |params| {
            params.not_before = rcgen::date_time_ymd(2500, 1, 1);
        });
        let server = authority.server(&new, "no");
        rejected(&client_of(&authority, &server), &["certificate is not valid yet", "clock"]);
    }

    #[test]
    fn tls_on_one_side_only() {
        let authority = Authority::new();
        let secure = authority.ordinary_server("no");
        let plain = client([secure.url().replace("rediss", "redis")]);
        let error = plain.try_lock("orders/42").expect_err("it speaks nothing but TLS");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");

        // Redis' reaction to a handshake depends on a newline in it.
        let plain = Server::start();
        let builder = builder([plain.url().replace("redis", "rediss")]);
        let builder = builder.node_timeout(Duration::from_millis(500));
        let locks = builder.tls_ca(authority.pem.as_str()).build().expect("the settings are valid");
        support::wait_until("the reason", Duration::from_secs(20), || {
            let error = locks.try_lock("orders/42").expect_err("it speaks no TLS").to_string();
            error.contains("TLS") && error.contains("check") && error.contains("port")
        });

        let http = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let url = format!("rediss://{}", http.local_addr().expect("it has an address"));
        let answering = thread::spawn(move || {
            let (mut stream, _) = http.accept().expect("a connection");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is open");
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        refused(&client([url]), &["does not speak TLS", "redis://"]);
        answering.join().expect("it has answered");
    }

    #[test]
    fn certificates_that_are_none() {
        let authority = Authority::new();
        let [certificate, key] = authority.sign(&["a client"], |_| ());
        let [_, other_key] = authority.sign(&["a client"], |_| ());
        let start = || Quorlock::builder().nodes(["rediss://127.0.0.1:1"]);
        let rejected = |builder: Builder, words: &[&str]| {
            let error = builder.build().expect_err("it is wrong");
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            said(&error, words);
        };
        let broken = authority.pem.replace("MI", "!secret!");
        for wrong in ["", "secret", &key, &broken] {
            rejected(start().tls_ca(wrong), &["tls_ca", "PEM"]);
            let builder = start().tls_client_cert(wrong, key.as_str());
            rejected(builder, &["certificate of tls_client_cert", "PEM"]);
        }
        for wrong in ["", "secret", &certificate] {
            let builder = start().tls_client_cert(certificate.as_str(), wrong);
            rejected(builder, &["key of tls_client_cert", "PEM"]);
        }
        let builder = start().tls_client_cert(certificate, other_key);
        rejected(builder, &["tls_client_cert", "cannot be used together"]);
        let insecure = Quorlock::builder().nodes(["rediss://:secret@127.0.0.1:1/#insecure"]);
        rejected(insecure, &["node 1", "does not verify", "tls_ca"]);
        let twice = ["redis://127.0.0.1:6379", "rediss://127.0.0.1:6379/3"];
        rejected(Quorlock::builder().nodes(twice), &["same server"]);
    }
}
