//! Clients of real servers whose names have several addresses, some of which refuse connections or are silent. A test may give a
//! name its addresses here, since the system's lookup cannot be changed for one process.

use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::thread;

use redis::io::tcp::socket2::{Domain, Socket, Type};

use super::*;
use crate::{Builder, OptionalGuard as _, Quorlock};
#[cfg(feature = "diagnosis")]
use crate::{Check, Severity};

#[path = "../../tests/support/server.rs"]
mod server;
use server::{Server, wait_until};

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// The time of one step of a connect, for a busy machine.
const PATIENT: Duration = Duration::from_secs(10);

const LIVE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The names that tests have made, with their addresses.
static NAMES: Mutex<Vec<(String, Vec<IpAddr>)>> = Mutex::new(Vec::new());

pub(super) fn addresses_of(host: &str) -> Option<Vec<IpAddr>> {
    let names = NAMES.lock();
    names.iter().find(|(name, _)| name == host).map(|(_, addresses)| addresses.clone())
}

/// The behaviour of an address without a server.
#[derive(Clone, Copy, Debug)]
enum Bad {
    Refuses,
    /// It accepts connections, as a device in between may do.
    Silent,
    /// It accepts no further connection, as a host that is down.
    Hangs,
}

const BAD: [Bad; 3] = [Bad::Refuses, Bad::Silent, Bad::Hangs];

/// The sockets that keep the address as it is.
type Kept = (Option<Socket>, Vec<std::net::TcpStream>);

impl Bad {
    /// Makes that port of the address so.
    fn at(self, address: SocketAddr) -> Kept {
        if matches!(self, Self::Refuses) {
            return (None, Vec::new());
        }
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.bind(&address.into()).expect("the port is free there");
        let is_silent = matches!(self, Self::Silent);
        socket.listen(if is_silent { 128 } else { 0 }).expect("it is bound");
        let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
        let waiting =
            if is_silent { Vec::new() } else { std::iter::from_fn(|| connect().ok()).collect() };
        (Some(socket), waiting)
    }
}

/// The addresses beside that of the server: one of the other family, if this machine has it.
fn others() -> Vec<IpAddr> {
    let six = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let has_six = TcpListener::bind((six, 0)).is_ok();
    let mut others = vec!["127.0.0.2".parse().expect("an address")];
    if has_six {
        others.push(six);
    }
    others
}

/// A server under a name with one bad address besides its own, which comes first or last.
struct Named {
    server: Server,
    url: String,
    bad_at: SocketAddr,
    _bad: Kept,
}

fn each() -> impl Iterator<Item = (String, Named)> {
    let all = others().into_iter().flat_map(|other| BAD.map(|bad| (other, bad)));
    let all = all.flat_map(|(other, bad)| [true, false].map(|first| (other, bad, first)));
    all.map(|(other, bad, first)| {
        let server = Server::start();
        let bad_at = SocketAddr::new(other, server.port());
        let kept = bad.at(bad_at);
        let name = format!("n{}.test", server.port());
        let addresses = if first { vec![other, LIVE] } else { vec![LIVE, other] };
        NAMES.lock().push((name.clone(), addresses));
        let url = format!("redis://{name}:{}", server.port());
        (format!("{other} {bad:?}, first: {first}"), Named { server, url, bad_at, _bad: kept })
    })
}

impl Named {
    fn builder(&self) -> Builder {
        let builder = Quorlock::builder().nodes([&self.url]).restart_quarantine(false);
        let builder = builder.max_ttl(LIMIT).ttl(LIMIT).node_timeout(PATIENT);
        builder.no_quorum_timeout(LIMIT)
    }

    fn client(&self) -> Quorlock {
        self.builder().build().expect("valid settings")
    }
}

/// A bad address costs a login a moment, and not the time of a step.
#[test]
fn a_client_reaches_the_server_behind_a_bad_address() {
    thread::scope(|scope| {
        for (case, named) in each() {
            scope.spawn(move || {
                for _ in 0..2 {
                    let began = clock::now();
                    let locks = named.client();
                    drop(locks.lock("orders/42").expect("the server is up"));
                    let took = clock::now().since(began);
                    assert!(took < PATIENT, "{case}: {took:?}");
                }
            });
        }
    });
}

#[test]
fn a_client_comes_back_to_a_server_that_was_restarted_behind_a_bad_address() {
    thread::scope(|scope| {
        for (case, mut named) in each() {
            scope.spawn(move || {
                // The server refuses connections for a moment. Then a silent address is all that is left, for the time of a step.
                let locks = named.builder().node_timeout(PATIENT / 10).build();
                let locks = locks.expect("valid settings");
                drop(locks.lock("orders/42").expect("the server is up"));
                named.server.restart_empty();
                let began = clock::now();
                drop(locks.lock("orders/42").expect("the server is up again"));
                let took = clock::now().since(began);
                assert!(took < PATIENT, "{case}: {took:?}");
            });
        }
    });
}

#[test]
fn a_waiter_listens_to_the_server_behind_a_bad_address() {
    thread::scope(|scope| {
        for (case, named) in each() {
            scope.spawn(move || {
                let (holder, waiter) = (named.client(), named.client());
                let guard = holder.lock("orders/42").expect("the server is up");
                thread::scope(|scope| {
                    let waits = scope.spawn(|| waiter.try_lock_for("orders/42", LIMIT));
                    let listens = || waiter.node_stats()[0].listened_to == 1;
                    wait_until(&case, LIMIT, listens);
                    guard.unlock().expect("one of one");
                    let granted = waits.join().expect("no panic").optional();
                    assert!(granted.expect("the server is up").is_some(), "{case}");
                });
            });
        }
    });
}

/// Users would not look for the address otherwise: locks work.
#[cfg(feature = "diagnosis")]
#[test]
fn a_diagnosis_finds_the_server_and_names_the_bad_address() {
    thread::scope(|scope| {
        for (case, named) in each() {
            scope.spawn(move || {
                let began = clock::now();
                let diagnosis = named.builder().diagnose().expect("valid settings");
                assert!(clock::now().since(began) < LIMIT, "{case}");
                assert!(diagnosis.severity() < Severity::Problem, "{case}: {diagnosis}");
                let found = diagnosis.nodes[0].finding(Check::Reachable).expect("it is made");
                assert_eq!(found.severity, Severity::Note, "{case}: {diagnosis}");
                assert!(found.what.contains(&named.bad_at.to_string()), "{case}: {diagnosis}");
            });
        }
    });
}
