//! Credentials that change: tokens that end, passwords that are rotated, and providers that fail.

#![allow(clippy::print_stdout, reason = "figures are shown with --nocapture")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use parking_lot::Mutex;
use quorlock::{Credentials, ErrorKind, Quorlock};
use support::clients::{fresh, wait_connected};
use support::{Server, Servers, events, fake, wait_until};

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a server's answer, for busy machines.
const PATIENT: Duration = Duration::from_secs(10);

/// Time between two tokens. A token is valid for the rest of its period and the next one.
const PERIOD: Duration = Duration::from_secs(2);

/// The server takes a token for one period longer than it is said to be valid, so that a busy machine may be late.
const ACCEPTED: u64 = 3;

/// Number of periods of the test: a minute among the long tests.
fn periods() -> u64 {
    if std::env::var_os("QUORLOCK_LONG_TESTS").is_some() { 30 } else { 6 }
}

/// The number of the period.
fn period(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis() / PERIOD.as_millis()).expect("a short test")
}

/// The user whose password is the token of that period.
fn user(period: u64) -> String {
    format!("token-{period}")
}

fn password(period: u64) -> String {
    format!("secret-{period}")
}

/// Makes the server accept the tokens of the given period and of those around it. The connections with an older one are cut off.
fn accept(servers: &Servers, period: u64) {
    for server in servers.iter() {
        for next in [period, period + 1] {
            let (user, password) = (user(next), format!(">{}", password(next)));
            server.command(&["ACL", "SETUSER", &user, "on", &password, "~*", "&*", "+@all"]);
        }
        if let Some(old) = period.checked_sub(ACCEPTED) {
            server.command(&["ACL", "DELUSER", &user(old)]);
        }
    }
}

/// The users of all connections but those of this test.
fn users(server: &Server) -> BTreeSet<String> {
    let list: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"])).expect("text");
    let field = |line: &str, name: &str| {
        let found = line.split(' ').find_map(|word| word.strip_prefix(name).map(str::to_owned));
        found.unwrap_or_default()
    };
    let users = list.lines().map(|line| field(line, "user="));
    users.filter(|user| user != "default").collect()
}

/// The number of logins and commands that the server has refused.
fn refusals(server: &Server) -> usize {
    let log: Vec<redis::Value> =
        redis::from_redis_value(server.command(&["ACL", "LOG"])).expect("a list");
    log.len()
}

#[test]
fn tokens_that_end_cost_no_lock_and_no_connection() {
    for parameters in ["", "?protocol=resp3"] {
        let servers = Servers::start(3);
        let began = Instant::now();
        accept(&servers, 0);
        let asked = Arc::new(AtomicU64::new(0));
        let counted = asked.clone();
        let urls = servers.iter().map(|server| server.url() + parameters);
        let locks = fresh(urls)
            .credentials(move |node| {
                assert!(node.starts_with("redis://127.0.0.1:"), "{node}");
                counted.fetch_add(1, Ordering::Relaxed);
                let period = period(began);
                let end = PERIOD * u32::try_from(period + 2).expect("a short test");
                let left = end.saturating_sub(began.elapsed());
                Ok(Credentials::new(password(period)).user(user(period)).valid_for(left))
            })
            .ttl(LIMIT)
            .max_ttl(LIMIT)
            .node_timeout(PATIENT)
            .build()
            .expect("valid settings");
        wait_connected(&locks);
        let held = locks.lock("held").expect("three masters");
        let before: Vec<_> = locks.node_stats().iter().map(|node| node.connections).collect();
        let stops = Stops::default();
        let taken = AtomicU64::new(0);
        thread::scope(|scope| {
            for i in 0..4 {
                let (locks, stops, taken) = (&locks, &stops.0, &taken);
                scope.spawn(move || {
                    while !stops.load(Ordering::Relaxed) {
                        let guard = locks.lock(format!("orders/{i}")).expect("three masters");
                        guard.unlock().expect("three masters");
                        taken.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            // A panic ends the workers as well.
            let _ends = stops.at_the_end();
            for next in 1..=periods() {
                wait_until("the next period", LIMIT, || period(began) >= next);
                accept(&servers, next);
            }
            let seen: Vec<_> = servers.iter().map(users).collect();
            let first = [0, 1].map(user);
            let are_new = |users: &BTreeSet<_>| {
                !users.is_empty() && !first.iter().any(|it| users.contains(it))
            };
            assert!(seen.iter().all(are_new), "they have logged in again: {seen:?}");
        });
        held.check().expect("it was never lost");
        let after: Vec<_> = locks.node_stats().iter().map(|node| node.connections).collect();
        assert_eq!(after, before, "no connection was cut off");
        assert!(servers.iter().all(|server| refusals(server) == 0), "nothing was refused");
        let (taken, asked) = (taken.into_inner(), asked.load(Ordering::Relaxed));
        println!("{taken} locks in {} s, {asked} questions", periods() * PERIOD.as_secs());
        assert!(taken > 0 && asked >= periods());
    }
}

/// True once the workers must end.
#[derive(Default)]
struct Stops(AtomicBool);

struct AtTheEnd<'a>(&'a Stops);

impl Stops {
    fn at_the_end(&self) -> AtTheEnd<'_> {
        AtTheEnd(self)
    }
}

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A password that operators replace, as clients get it from a store.
#[derive(Clone)]
struct Stored(Arc<Mutex<Result<String, &'static str>>>);

impl Stored {
    fn new(password: &str) -> Self {
        Self(Arc::new(Mutex::new(Ok(password.to_owned()))))
    }

    fn set(&self, password: Result<&str, &'static str>) {
        *self.0.lock() = password.map(str::to_owned);
    }

    fn client(
        &self,
        servers: &Servers,
        valid_for: Option<Duration>,
        patience: Duration,
    ) -> Quorlock {
        let stored = self.0.clone();
        let provider = move |_: &str| {
            let credentials = Credentials::new(stored.lock().clone()?);
            Ok(valid_for.into_iter().fold(credentials, Credentials::valid_for))
        };
        let urls: Vec<_> = servers.iter().map(Server::url).collect();
        fresh(urls)
            .credentials(provider)
            .ttl(LIMIT)
            .max_ttl(LIMIT)
            .node_timeout(PATIENT)
            .no_quorum_timeout(patience)
            .build()
            .expect("valid settings")
    }
}

#[test]
fn a_rotated_password_is_asked_for_at_the_next_login() {
    let servers = Servers::start_with(3, &["--requirepass", "first"]);
    let stored = Stored::new("first");
    let locks = stored.client(&servers, None, Duration::ZERO);
    wait_connected(&locks);
    let before: Vec<_> = locks.node_stats().iter().map(|node| node.connections).collect();
    stored.set(Ok("second"));
    for server in servers.iter() {
        server.command(&["ACL", "SETUSER", "default", ">second", "<first"]);
    }
    for server in servers.iter() {
        let mut login = redis::Client::open(server.url().replace("://", "://:second@"))
            .and_then(|client| client.get_connection())
            .expect("the new password");
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).exec(&mut login).expect("allowed");
    }
    wait_until("new connections", LIMIT, || {
        let now = locks.node_stats();
        now.iter().zip(&before).all(|(node, before)| node.connected && node.connections > *before)
    });
    wait_until("another lock", LIMIT, || locks.try_lock("orders/42").is_ok());
}

#[test]
fn a_provider_that_fails_is_told_and_asked_again() {
    let servers = Servers::start_with(3, &["--requirepass", "first"]);
    let stored = Stored::new("first");
    stored.set(Err("the vault is sealed"));
    let locks = stored.client(&servers, None, Duration::ZERO);
    let error = locks.try_lock("orders/42").expect_err("no login");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert!(error.to_string().contains("the vault is sealed"), "{error}");
    stored.set(Ok("wrong-secret"));
    wait_until("the refusal", LIMIT, || {
        let error = locks.try_lock("orders/42").expect_err("a wrong password");
        assert!(!error.to_string().contains("wrong-secret"), "{error}");
        error.to_string().contains("the provider gave for the login")
    });
    stored.set(Ok("first"));
    wait_until("a lock", LIMIT, || locks.try_lock("orders/42").is_ok());
}

#[test]
fn a_live_connection_keeps_its_login_if_another_one_is_refused() {
    let servers = Servers::start_with(3, &["--requirepass", "first"]);
    let stored = Stored::new("first");
    let locks = stored.client(&servers, Some(Duration::from_secs(2)), LIMIT);
    wait_connected(&locks);
    let before: Vec<_> = locks.node_stats().iter().map(|node| node.connections).collect();
    stored.set(Ok("wrong"));
    let refused = |server: &Server| {
        let info: String =
            redis::from_redis_value(server.command(&["INFO", "stats"])).expect("text");
        info.contains("acl_access_denied_auth:") && !info.contains("acl_access_denied_auth:0")
            || refusals(server) > 0
    };
    wait_until("refused logins", LIMIT, || {
        drop(locks.lock("orders/42").expect("the connections are logged in"));
        servers.iter().all(refused)
    });
    stored.set(Err("the vault is sealed"));
    for _ in 0..10 {
        drop(locks.lock("orders/42").expect("the connections are logged in"));
    }
    let after: Vec<_> = locks.node_stats().iter().map(|node| node.connections).collect();
    assert_eq!(after, before);
}

/// A proxy answers the second login over a connection with something that no server answers. All further answers may be out of step,
/// so nothing more is written there.
#[test]
fn a_connection_whose_login_is_answered_strangely_ends() {
    for strange in [":1\r\n", "$2\r\nOK\r\n", "*0\r\n", "$-1\r\n"] {
        let logins = Arc::new(Mutex::new(BTreeMap::<_, (u32, u32)>::new()));
        let seen = logins.clone();
        let url = fake::serve(move |words, writer| {
            let mut seen = seen.lock();
            let (logins, behind) = seen.entry(writer.peer_addr().ok()?).or_default();
            let answer = match words[0].as_str() {
                "AUTH" => {
                    *logins += 1;
                    if *logins == 1 { "+OK\r\n" } else { strange }.as_bytes().to_vec()
                }
                _ if fake::is_probe(words) => fake::admit(&words[5]),
                // It comes in the write of the strange answer's login at the earliest.
                "EVAL" | "EVALSHA" => {
                    *behind += u32::from(*logins > 1);
                    b"*2\r\n:1\r\n:0\r\n".to_vec()
                }
                _ => fake::handshake("7.0.15", words).unwrap_or_else(|| b"+OK\r\n".to_vec()),
            };
            drop(seen);
            writer.write_all(&answer).ok()
        });
        let given = AtomicU64::new(0);
        let provider = move |_: &str| {
            let password = format!("secret-{}", given.fetch_add(1, Ordering::Relaxed));
            Ok(Credentials::new(password).valid_for(Duration::from_secs(2)))
        };
        let settings = fresh([url]).credentials(provider).ttl(LIMIT).max_ttl(LIMIT);
        let locks = settings.node_timeout(PATIENT).build().expect("valid settings");
        wait_until("several connections have ended so", LIMIT, || {
            drop(locks.try_lock("orders/42"));
            let again = |(logins, _): &&(u32, u32)| *logins > 1;
            logins.lock().values().filter(again).count() >= 3
        });
        assert!(logins.lock().values().all(|(logins, _)| *logins <= 2), "{:?}", logins.lock());
        drop(locks.lock("orders/42").expect("new connections log in"));
    }
}

#[test]
fn a_password_and_a_provider_exclude_each_other() {
    let builder = Quorlock::builder().nodes(["redis://127.0.0.1:1"]).password("secret");
    let error = builder.credentials(|_| Ok(Credentials::new("other"))).build();
    let error = error.expect_err("one of them is wrong");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    for words in ["password", "credentials"] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A URL with a password needs no provider.
#[test]
fn a_password_in_the_url_counts() {
    let servers = Servers::start_with(1, &["--requirepass", "first"]);
    let url = servers[0].url().replace("://", "://:first@");
    let builder = fresh([url]).credentials(|_| Err("nobody asks".into()));
    let locks = builder.build().expect("valid settings");
    drop(locks.lock("orders/42").expect("the password of the URL"));
}

/// A provider that hangs: live connections work, and would end one day without a word.
#[test]
fn a_provider_that_does_not_answer_is_told() {
    events::remember();
    let servers = Servers::start_with(1, &["--requirepass", "first"]);
    let hangs = Arc::new(AtomicBool::new(false));
    let (hanging, (release, released)) = (hangs.clone(), bounded::<()>(0));
    let provider = move |_: &str| {
        if hanging.load(Ordering::SeqCst) {
            // Until the test is over.
            let _ = released.recv();
        }
        Ok(Credentials::new("first").valid_for(Duration::from_secs(2)))
    };
    let locks = fresh(servers.urls()).credentials(provider).ttl(LIMIT).max_ttl(LIMIT);
    let locks = locks.node_timeout(PATIENT).build().expect("valid settings");
    drop(locks.lock("orders/42").expect("the server is up"));
    hangs.store(true, Ordering::SeqCst);
    let url = servers[0].url();
    // The event comes after five seconds, or a little later on a busy machine.
    let waited = [5, 6, 7, 8, 9].map(|seconds| format!("waited={seconds}"));
    let silent = "the provider of credentials does not answer";
    let is_told = || {
        drop(locks.lock("orders/42").expect("the connection is logged in"));
        waited.iter().any(|waited| events::told(&[silent, &url, waited]) > 0)
    };
    wait_until("the event", LIMIT, is_told);
    drop(release);
}
