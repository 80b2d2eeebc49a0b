//! Servers that answer a login with an error that is not about the login, and permissions that change. Clients wait for the end
//! of such a state.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use quorlock::{Error, ErrorKind, Fallback, Quorlock};
use support::clients::{Busy, fresh};
use support::{Server, Servers, fake, wait_until};

const LIMIT: Duration = Duration::from_secs(20);

/// The logins that a URL may begin a connection with, with the password of [`Server::start_with`] below.
const LOGINS: [(&str, &str); 4] =
    [(":secret@", ""), (":secret@", "/1"), (":secret@", "?protocol=resp3"), ("", "/1")];

fn client(server: &str, login: &str, parameters: &str) -> Quorlock {
    let url = server.replace("://", &format!("://{login}")) + parameters;
    fresh([url])
        .ttl(Duration::from_secs(30))
        .max_ttl(Duration::from_secs(30))
        .node_timeout(Duration::from_secs(10))
        .no_quorum_timeout(Duration::from_secs(600))
        .build()
        .expect("the settings are valid")
}

#[track_caller]
fn refused(locks: &Quorlock, kind: ErrorKind, words: &str) -> Error {
    let error = locks.try_lock("orders/42").expect_err("it cannot be had");
    assert!(error.to_string().contains(words), "no \"{words}\" in: {error}");
    assert!(!error.to_string().contains("secret"), "a password is shown: {error}");
    assert_eq!(error.kind(), kind, "{error}");
    error
}

/// Gives the user "locker" all permissions, except for those rules.
fn set_user(server: &Server, rules: &[&str]) {
    let usual = ["ACL", "SETUSER", "locker", "on", "~*", "&*", "+@all"];
    server.command(&[&usual[..], rules].concat());
}

/// The error of Redis 7.0, up to the part with the remedy. It mentions passwords.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the \
                      default user. In this mode connections are only accepted from the loopback interface.\r\n";

/// The number of the server's connections.
fn connections(helper: &mut redis::Connection) -> usize {
    let info: String = redis::cmd("INFO").arg("clients").query(helper).expect("it answers");
    let count = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    count.and_then(|count| count.trim().parse().ok()).expect("a number")
}

#[test]
fn a_server_without_free_connections_is_waited_for() {
    for (login, parameters) in LOGINS {
        let password: &[&str] = if login.is_empty() { &[] } else { &["--requirepass", "secret"] };
        let server = Server::start_with(&[&["--maxclients", "5"], password].concat());
        let url = server.url().replace("://", &format!("://{login}"));
        let helper = redis::Client::open(url).expect("a URL").get_connection();
        let mut helper = helper.expect("it listens");
        wait_until("only this connection is left", LIMIT, || connections(&mut helper) == 1);
        let others: Vec<_> = (0..4)
            .map(|_| TcpStream::connect(("127.0.0.1", server.port())).expect("it listens"))
            .collect();
        wait_until("all connections are taken", LIMIT, || connections(&mut helper) == 5);

        let locks = client(&server.url(), login, parameters);
        refused(&locks, ErrorKind::NoQuorum, "maxclients");
        thread::scope(|scope| {
            let waits = scope.spawn(|| locks.lock("orders/42").map(drop));
            drop(others);
            waits.join().expect("no panic").expect("it is waited for");
        });
    }
}

/// A foreign script runs for long, and the server refuses SELECT, but not AUTH.
#[test]
fn a_busy_server_is_waited_for_at_the_login() {
    for (login, parameters) in LOGINS {
        let password: &[&str] = if login.is_empty() { &[] } else { &["--requirepass", "secret"] };
        let server = Server::start_with(&[&["--lua-time-limit", "1"], password].concat());
        let was_connected = client(&server.url(), login, parameters);
        was_connected.lock("orders/42").expect("one of one").unlock().expect("one of one");
        thread::scope(|scope| {
            scope.spawn(|| server.try_command(&[b"EVAL", b"while true do end", b"0"]));
            let busy = Busy(&server);
            wait_until("the server is busy", LIMIT, || server.try_command(&[b"PING"]).is_err());
            let clients = [was_connected, client(&server.url(), login, parameters)];
            for locks in &clients {
                // The second try uses a new connection.
                for _ in 0..3 {
                    refused(locks, ErrorKind::NoQuorum, "(BUSY)");
                }
            }
            let lock = |locks: Quorlock| move || locks.lock("orders/42").map(drop);
            let waiting = clients.map(|locks| scope.spawn(lock(locks)));
            drop(busy);
            for waits in waiting {
                waits.join().expect("no panic").expect("it is waited for");
            }
        });
    }
}

/// A password is changed, and for a while the servers have another one than the clients. A client that was let in before
/// waits; one that was not gets an error at once.
#[test]
fn a_password_that_worked_before_is_waited_for() {
    let server = Server::start();
    let user = |rules: &[&str]| set_user(&server, rules);
    user(&[">secret"]);
    for parameters in ["", "/1", "?protocol=resp3"] {
        let locks = client(&server.url(), "locker:secret@", parameters);
        let guard = locks.lock("orders/42").expect("one of one");
        thread::scope(|scope| {
            let waits = scope.spawn(|| locks.lock("orders/42").map(drop));
            user(&["resetpass", ">other"]);
            server.command(&["CLIENT", "KILL", "USER", "locker"]);
            wait_until("it is refused", LIMIT, || {
                let error = locks
                    .try_lock("other")
                    .err()
                    .filter(|error| error.to_string().contains("it let this client in before"));
                error.is_some_and(|error| error.kind() == ErrorKind::NoQuorum)
            });
            let newcomer = client(&server.url(), "locker:secret@", parameters);
            refused(&newcomer, ErrorKind::Config, "the user or the password");
            assert!(!waits.is_finished(), "it waits");
            user(&["resetpass", ">secret"]);
            drop(guard);
            waits.join().expect("no panic").expect("it is waited for");
        });
    }
}

/// This happens while an operator rewrites a user's rules, one after the other.
#[test]
fn a_right_to_run_scripts_that_is_taken_away_for_a_while_is_waited_for() {
    let server = Server::start();
    let user = |rules: &[&str]| set_user(&server, rules);
    user(&[">secret"]);
    let locks = client(&server.url(), "locker:secret@", "");
    let guard = locks.lock("orders/42").expect("one of one");
    for _ in 0..2 {
        locks.lock("other").expect("one of one").unlock().expect("one of one");
    }
    thread::scope(|scope| {
        let waits = scope.spawn(|| locks.lock("orders/42").map(drop));
        user(&["-@scripting"]);
        let error = locks.try_lock("other").expect_err("no script is run");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        assert!(error.to_string().contains("the user had it before"), "{error}");
        let newcomer = client(&server.url(), "locker:secret@", "");
        refused(&newcomer, ErrorKind::Config, "the user lacks a permission");
        assert!(!waits.is_finished(), "it waits");
        user(&[]);
        drop(guard);
        waits.join().expect("no panic").expect("it is waited for");
    });
}

/// The lock is free long before its key would expire.
#[test]
fn a_lock_that_is_given_back_while_a_right_is_gone_is_free_once_it_is_back() {
    let server = Server::start();
    let user = |rules: &[&str]| set_user(&server, rules);
    user(&[">secret"]);
    let locks = client(&server.url(), "locker:secret@", "");
    // From now on the scripts are called by their hashes.
    for _ in 0..2 {
        locks.lock("orders/42").expect("one of one").unlock().expect("one of one");
    }
    for right in ["-@scripting", "-del"] {
        let guard = locks.lock("orders/42").expect("one of one");
        user(&[right]);
        let error = guard.unlock().expect_err("no key is deleted");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        user(&[]);
        let is_free = || !locks.mutex("orders/42").is_locked().expect("it answers");
        wait_until("it is given back", Duration::from_secs(15), is_free);
    }
}

/// The first call of a script sends its source, and further ones its hash.
#[test]
fn a_user_who_may_send_sources_alone_is_not_waited_for() {
    let server = Server::start();
    set_user(&server, &[">secret", "-evalsha"]);
    let locks = client(&server.url(), "locker:secret@", "");
    wait_until("it is refused", LIMIT, || {
        let refused = locks.try_lock("orders/42").map(quorlock::Guard::unlock).err();
        refused.is_some_and(|error| error.kind() == ErrorKind::Config)
    });
}

/// If clients may fall back, another client may hold a lock on the first node alone. A first node that refuses a login is
/// reachable, so no lock is granted without it.
#[test]
fn a_first_node_that_refuses_a_login_is_none_that_is_away() {
    let servers = Servers::start(3);
    servers.iter().for_each(|server| set_user(server, &[">secret"]));
    let nodes = servers.urls().into_iter().map(|url| url.replace("://", "://locker:secret@"));
    let locks = fresh(nodes)
        .fallback(Fallback::SingleNode { after: Duration::from_secs(1) })
        .ttl(Duration::from_secs(30))
        .max_ttl(Duration::from_secs(30))
        .node_timeout(Duration::from_secs(10))
        .build()
        .expect("valid settings");
    locks.lock("other").expect("three of three").unlock().expect("three of three");

    set_user(&servers[0], &["resetpass", ">other"]);
    servers[0].command(&["CLIENT", "KILL", "USER", "locker"]);
    wait_until("it is refused", LIMIT, || {
        let refused = locks.try_lock("other").err();
        refused.is_some_and(|error| error.to_string().contains("it let this client in before"))
    });
    servers[0].command(&["SET", "quorlock:orders/42", "somebody", "PX", "600000"]);
    for _ in 0..3 {
        let error = locks.try_lock("orders/42").expect_err("somebody has it on the first node");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    }
}

/// Only the code of an unknown error is quoted: the server may quote the password.
#[test]
fn an_unknown_error_passes_and_protected_mode_does_not() {
    let says = |answer: &'static str| {
        let server = fake::serve(move |words, writer| {
            let known = fake::handshake("7.4.0", words);
            let answer = match words[0].as_str() {
                "AUTH" | "SELECT" | "HELLO" => answer.into(),
                _ => known.unwrap_or_else(|| b"+OK\r\n".into()),
            };
            writer.write_all(&answer).ok()
        });
        LOGINS.map(|(login, parameters)| client(&server, login, parameters))
    };
    for locks in says("-NOTYET the upstream of secret is not there yet\r\n") {
        refused(&locks, ErrorKind::NoQuorum, "NOTYET");
    }
    for locks in says(DENIED) {
        refused(&locks, ErrorKind::Config, "protected mode");
    }
    for locks in says("-LOADING Redis is loading the dataset in memory\r\n") {
        refused(&locks, ErrorKind::NoQuorum, "(LOADING)");
    }
}
