//! Requests that arrive over a connection that the client has given up, after the release over the
//! next connection.
//!
//! `QUORLOCK_LATE_ROUNDS` sets the number of rounds of each test.

mod support;

use std::time::Duration;

use quorlock::{Builder, ErrorKind, Guard, Quorlock, Renewal};
use support::clients::admitted;
use support::proxy::Proxy;
use support::{Servers, access, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(30);

/// Much longer than [`LIMIT`], so that no key expires.
const TTL: Duration = Duration::from_secs(120);

/// The rounds of one test.
fn rounds() -> u32 {
    let rounds = std::env::var("QUORLOCK_LATE_ROUNDS").ok();
    rounds.map_or(3, |rounds| rounds.parse().expect("a number"))
}

/// Three masters, each behind a proxy.
struct Set {
    servers: Servers,
    proxies: Vec<Proxy>,
}

/// The permissions of the user.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// Everything.
    Default,
    /// The example in `OPERATIONS.md`.
    Documented,
    /// The example without the permission to end connections.
    Limited,
}

impl User {
    /// The user's words for `ACL`, unless it is the default user.
    fn words(self) -> Option<Vec<&'static str>> {
        let words = access::example().into_iter();
        match self {
            Self::Default => None,
            Self::Documented => Some(words.collect()),
            Self::Limited => Some(words.filter(|word| !word.starts_with("+client|")).collect()),
        }
    }
}

impl Set {
    fn start() -> Self {
        let servers = Servers::start(3);
        let proxies = servers.iter().map(|server| Proxy::start(server.port())).collect();
        Self { servers, proxies }
    }

    fn client(&self, user: User, change: impl FnOnce(Builder) -> Builder) -> Quorlock {
        if let Some(words) = user.words() {
            self.servers.iter().for_each(|server| drop(server.command(&words)));
        }
        let login = user.words().map_or("", |_| "locker:password@");
        let urls =
            self.proxies.iter().map(|proxy| proxy.url().replace("://", &format!("://{login}")));
        // A busy machine answers late, and a node that was given up for that may never get a lock that is not renewed.
        let builder = Quorlock::builder().nodes(urls).ttl(TTL).max_ttl(TTL);
        let builder = builder.node_timeout(Duration::from_secs(1));
        admitted(change(builder.renewal(Renewal::Manual)))
    }

    /// The servers that have the lock's key.
    fn taken(&self, name: &str) -> Vec<usize> {
        let key = format!("quorlock:{name}");
        let taken = |server: &usize| self.servers[*server].get(&key).is_some();
        (0..self.servers.len()).filter(taken).collect()
    }

    /// Waits until the client has given up the connections to those nodes that are held up, and has reconnected.
    fn wait_given_up(&self, locks: &Quorlock, nodes: &[usize]) {
        wait_until("the connections are given up", LIMIT, || {
            nodes.iter().all(|node| self.proxies[*node].given_up() > 0)
        });
        support::clients::wait_connected(locks);
    }

    /// Takes a lock, and waits until all nodes have granted it, so that no acquire is on its way any more.
    fn lock_everywhere(&self, locks: &Quorlock, name: &str) -> Guard {
        let guard = locks.lock(name).expect("it is free");
        wait_until("all nodes grant it", LIMIT, || self.taken(name).len() == 3);
        guard
    }

    /// Sends an extension of `guard`, which is held up on its way to all nodes.
    fn hold_extension(&self, locks: &Quorlock, guard: &Guard) {
        self.proxies.iter().for_each(Proxy::hold);
        let error = guard.extend(TTL).expect_err("no answer comes");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        self.wait_given_up(locks, &[0, 1, 2]);
    }

    /// Waits until each node has run all earlier requests of the client.
    fn wait_told(&self, locks: &Quorlock) {
        drop(self.lock_everywhere(locks, "behind"));
        wait_until("all nodes are told", LIMIT, || self.taken("behind").is_empty());
    }

    fn let_go(&self) {
        self.proxies.iter().for_each(Proxy::let_go);
    }
}

fn late_extensions_bring_nothing_back(user: User) {
    let set = Set::start();
    let locks = set.client(user, |builder| builder);
    let mut came_back = Vec::new();
    for round in 0..rounds() {
        let name = format!("extended-{round}");
        let guard = set.lock_everywhere(&locks, &name);
        set.hold_extension(&locks, &guard);
        guard.unlock().expect("a majority answers");
        set.wait_told(&locks);
        assert_eq!(set.taken(&name), []);
        set.let_go();
        came_back.extend(Some(set.taken(&name)).filter(|taken| !taken.is_empty()));
    }
    let count = came_back.len();
    assert_eq!(count, 0, "{count} of {} locks came back: {came_back:?}", rounds());
}

#[test]
fn a_late_extension_brings_no_lock_back() {
    late_extensions_bring_nothing_back(User::Default);
}

#[test]
fn a_late_extension_brings_no_lock_back_where_no_connection_may_be_ended() {
    late_extensions_bring_nothing_back(User::Limited);
}

/// Wins a lock while the request to the last node is held up, and gives it back.
fn with_a_late_acquisition(set: &Set, locks: &Quorlock, name: &str) {
    set.proxies[2].hold();
    let guard = locks.lock(name).expect("two nodes grant it");
    set.wait_given_up(locks, &[2]);
    guard.unlock().expect("a majority answers");
    set.wait_told(locks);
    set.let_go();
}

fn late_acquisitions_take_nothing(user: User) {
    let set = Set::start();
    let locks = set.client(user, |builder| builder);
    let names = (0..rounds()).map(|round| format!("acquired-{round}"));
    let taken = |name: &String| {
        with_a_late_acquisition(&set, &locks, name);
        !set.taken(name).is_empty()
    };
    let taken = names.filter(taken).count();
    assert_eq!(taken, 0, "{taken} of {} locks are taken again", rounds());
}

#[test]
fn a_late_acquisition_takes_nothing() {
    late_acquisitions_take_nothing(User::Default);
}

#[test]
fn the_documented_permissions_are_enough_to_end_old_connections() {
    late_acquisitions_take_nothing(User::Documented);
}

/// The late grant is given back long before it would expire.
#[test]
fn a_late_acquisition_is_given_back_where_no_connection_may_be_ended() {
    let set = Set::start();
    let locks = set.client(User::Limited, |builder| builder);
    let names: Vec<_> = (0..rounds()).map(|round| format!("acquired-{round}")).collect();
    names.iter().for_each(|name| with_a_late_acquisition(&set, &locks, name));
    wait_until("all of it is given back", LIMIT, || {
        names.iter().all(|name| set.taken(name).is_empty())
    });
}

/// Then nothing stops the late extension. The caller gets an error, and the lock is given back again.
#[test]
fn without_fences_and_where_no_connection_may_be_ended_a_caller_is_told() {
    let set = Set::start();
    let locks = set.client(User::Limited, |builder| builder.fencing(false));
    let guard = set.lock_everywhere(&locks, "extended");
    set.hold_extension(&locks, &guard);
    let error = guard.unlock().expect_err("it may come back");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(format!("{error:?} {error}").contains("client|kill"), "{error:?}");
    set.let_go();
    wait_until("it is given back again", LIMIT, || set.taken("extended").is_empty());
}

/// A client that is dropped meanwhile leaves its workers behind for this task, for a while.
#[test]
fn a_late_acquisition_is_given_back_for_a_client_that_has_gone() {
    let set = Set::start();
    let locks = set.client(User::Limited, |builder| builder);
    set.proxies[2].hold();
    let guard = locks.lock("acquired").expect("two nodes grant it");
    set.wait_given_up(&locks, &[2]);
    guard.unlock().expect("a majority answers");
    drop(locks);
    set.let_go();
    wait_until("it is given back", LIMIT, || set.taken("acquired").is_empty());
}
