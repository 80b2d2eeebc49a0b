//! Addresses that answer, refuse, or are silent. Only Linux has all of 127.0.0.0/8.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use redis::io::tcp::socket2::{Domain, Socket, Type};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A port of the address that answers nobody: its listener has as many waiting connections as it takes.
fn dead(address: SocketAddr) -> (Socket, Vec<TcpStream>) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&address.into()).expect("the port is free there");
    socket.listen(0).expect("it is bound");
    let connects = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
    let waiting = std::iter::from_fn(connects).collect();
    (socket, waiting)
}

/// Starts a server that answers each of our first questions with `answers`; or, without these, accepts connections and is silent.
fn server(address: SocketAddr, answers: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("the port is free there");
    let address = listener.local_addr().expect("it is bound");
    let accepts = move || {
        for mut stream in listener.incoming().flatten() {
            let talks = move || {
                let mut questions = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut questions) {
                    let count = questions[..length].iter().filter(|it| **it == b'*').count();
                    let answers = answers.unwrap_or_default().repeat(count);
                    let _ = stream.write_all(answers.as_bytes());
                }
            };
            clock::spawn("talks".to_owned(), talks).expect("a thread");
        }
    };
    clock::spawn("accepts".to_owned(), accepts).expect("a thread");
    address
}

fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], port))
}

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

/// The reported fault of the addresses: a server there is loading, or something else is wrong.
fn told(addresses: &[SocketAddr], timeout: Duration) -> String {
    let name = Address::parse("redis://name.test:6379", 1).expect("a URL");
    let addresses: Vec<_> = addresses.iter().map(|it| name.at(*it)).collect();
    match first_of(&name, &addresses, timeout) {
        Ok(_) => panic!("nothing there is a server"),
        Err(fault) => fault.what().to_owned(),
    }
}

#[test]
fn an_address_without_an_answer_does_not_keep_the_next_one_from_being_asked() {
    let live = server(at(1, 0), Some(LOADING));
    let port = live.port();
    let _dead = dead(at(2, port));
    let (dead, refuses) = (at(2, port), at(3, port));
    let silent = server(at(4, port), None);
    for addresses in [
        &[dead, live][..],
        &[refuses, live],
        &[silent, live],
        &[live, dead],
        &[dead, silent, refuses, live],
        &[live, refuses],
    ] {
        let began = clock::now();
        let short = Duration::from_secs(1);
        assert!(told(addresses, short).contains("LOADING"), "{addresses:?}");
        assert!(clock::now().since(began) < short * STEPS + short, "{addresses:?}");
    }
    let short = Duration::from_millis(200);
    assert!(told(&[dead, dead], short).contains("no answer to the connection in time"));
    assert!(told(&[refuses, refuses], TIMEOUT).contains("connection refused"));
    assert!(told(&[], short).contains(NO_ADDRESS));
}

#[test]
fn all_addresses_get_their_turn_within_the_time_of_one_step() {
    let live = server(at(1, 0), Some(LOADING));
    let silent = server(at(5, live.port()), None);
    let all = [silent, silent, silent, silent, silent, silent, silent, live];
    let began = clock::now();
    assert!(told(&all, TIMEOUT / 10).contains("LOADING"));
    assert!(clock::now().since(began) < TIMEOUT);
}

/// Starts a server that lets everybody in, after that time.
fn lets_in(address: SocketAddr, role: &str, after: Duration) -> SocketAddr {
    let text = |text: String| format!("${}\r\n{text}\r\n", text.len());
    let info = text(format!("redis_version:7.0.15\r\nrun_id:{role}"));
    let replication = text(format!("role:{role}\r\nmaster_replid:b1"));
    let memory = text("maxmemory:0".to_owned());
    let time = "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n";
    let answers = format!("+PONG\r\n{time}{info}{replication}{memory}:1\r\n+OK\r\n");
    let listener = TcpListener::bind(address).expect("the port is free there");
    let address = listener.local_addr().expect("it is bound");
    let accepts = move || {
        for mut stream in listener.incoming().flatten() {
            let answers = answers.clone();
            let talks = move || {
                let mut questions = [0; 4096];
                while let Ok(1..) = stream.read(&mut questions) {
                    clock::sleep(after);
                    let _ = stream.write_all(answers.as_bytes());
                }
            };
            clock::spawn("talks".to_owned(), talks).expect("a thread");
        }
    };
    clock::spawn("accepts".to_owned(), accepts).expect("a thread");
    address
}

/// A name may lead to a far master and to a near replica of it. The replica always answers first.
#[test]
fn a_near_replica_does_not_keep_a_far_master_from_being_reached() {
    let replica = lets_in(at(1, 0), "slave", Duration::ZERO);
    let port = replica.port();
    let far = lets_in(at(2, port), "master", ALONE * 2);
    let (refuses, silent) = (at(3, port), server(at(4, port), None));
    let leads_to = |addresses: &[SocketAddr], timeout: Duration| {
        let name = Address::parse("redis://name.test:6379", 1).expect("a URL");
        let addresses: Vec<_> = addresses.iter().map(|it| name.at(*it)).collect();
        let opened = first_of(&name, &addresses, timeout).map_err(|fault| fault.to_string());
        opened.expect("a server lets us in").run_id().to_owned()
    };
    for addresses in [[replica, far], [far, replica]] {
        assert_eq!(leads_to(&addresses, TIMEOUT), "master", "{addresses:?}");
    }
    // It may be promoted later on.
    let short = Duration::from_secs(1);
    for addresses in [[replica, refuses], [refuses, replica], [replica, silent], [silent, replica]]
    {
        let began = clock::now();
        assert_eq!(leads_to(&addresses, short), "slave", "{addresses:?}");
        assert!(clock::now().since(began) < short * STEPS + short, "{addresses:?}");
    }
}
