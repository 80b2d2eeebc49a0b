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
