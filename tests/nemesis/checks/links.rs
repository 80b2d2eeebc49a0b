//! Links lose, hold back, delay and refuse as they are set, and deliver held data afterwards.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::links::{Conditions, Link};

use super::Check;

pub(crate) const CHECKS: &[Check] = &[
    ("links::an_open_link_carries_both_ways", an_open_link_carries_both_ways),
    ("links::requests_that_are_lost_arrive_later", requests_that_are_lost_arrive_later),
    ("links::answers_that_are_lost_were_asked_for", answers_that_are_lost_were_asked_for),
    (
        "links::held_requests_arrive_after_their_connection",
        held_requests_arrive_after_their_connection,
    ),
    ("links::refused_connections_end", refused_connections_end),
    ("links::a_delay_is_taken_both_ways", a_delay_is_taken_both_ways),
];

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(20);
/// Time without data after which a link counts as quiet.
const QUIET: Duration = Duration::from_millis(100);

/// A master that sends back each byte, and reports it.
fn echo() -> (Link, Receiver<u8>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let link = Link::to(listener.local_addr().expect("it listens").port()).expect("a port is free");
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            thread::spawn(move || {
                let mut byte = [0];
                while (&stream).read_exact(&mut byte).is_ok() {
                    // The receiver is gone if the test is over.
                    let _ = (tell.send(byte[0]), (&stream).write_all(&byte));
                }
            });
        }
    });
    (link, told)
}

fn connect(link: &Link) -> TcpStream {
    let address = link.url().replace("redis://", "");
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("it is no zero");
    stream
}

fn send(mut stream: &TcpStream, byte: u8) {
    stream.write_all(&[byte]).expect("the link reads");
}

fn answer(mut stream: &TcpStream) -> u8 {
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("an answer");
    byte[0]
}

#[track_caller]
fn nothing_arrives(told: &Receiver<u8>) {
    assert_eq!(told.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout));
}

fn an_open_link_carries_both_ways() {
    let (link, told) = echo();
    let stream = connect(&link);
    send(&stream, 1);
    assert_eq!((answer(&stream), told.recv_timeout(LIMIT)), (1, Ok(1)));
}

fn requests_that_are_lost_arrive_later() {
    let (link, told) = echo();
    let stream = connect(&link);
    link.set(Conditions { requests_lost: true, ..Conditions::default() });
    send(&stream, 1);
    nothing_arrives(&told);
    link.set(Conditions::default());
    assert_eq!((answer(&stream), told.recv_timeout(LIMIT)), (1, Ok(1)));
}

fn answers_that_are_lost_were_asked_for() {
    let (link, told) = echo();
    let stream = connect(&link);
    link.set(Conditions { answers_lost: true, ..Conditions::default() });
    send(&stream, 1);
    assert_eq!(told.recv_timeout(LIMIT), Ok(1));
    stream.set_read_timeout(Some(QUIET)).expect("it is no zero");
    let error = (&stream).read(&mut [0]).expect_err("no answer");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(LIMIT)).expect("it is no zero");
    link.set(Conditions::default());
    assert_eq!(answer(&stream), 1);
}

fn held_requests_arrive_after_their_connection() {
    let (link, told) = echo();
    let old = connect(&link);
    send(&old, 1);
    assert_eq!((answer(&old), told.recv_timeout(LIMIT)), (1, Ok(1)));
    link.set(Conditions { requests_held: true, ..Conditions::default() });
    send(&old, 2);
    drop(old);
    let new = connect(&link);
    send(&new, 3);
    assert_eq!((answer(&new), told.recv_timeout(LIMIT)), (3, Ok(3)));
    nothing_arrives(&told);
    link.set(Conditions::default());
    assert_eq!(told.recv_timeout(LIMIT), Ok(2));
}

fn refused_connections_end() {
    let (link, told) = echo();
    let old = connect(&link);
    send(&old, 1);
    assert_eq!((answer(&old), told.recv_timeout(LIMIT)), (1, Ok(1)));
    link.set(Conditions { refused: true, ..Conditions::default() });
    assert!(matches!((&old).read(&mut [0]), Ok(0) | Err(_)), "the old connection has ended");
    assert!(matches!((&connect(&link)).read(&mut [0]), Ok(0) | Err(_)), "a new one ends at once");
    link.set(Conditions::default());
    let new = connect(&link);
    send(&new, 2);
    assert_eq!(answer(&new), 2);
}

fn a_delay_is_taken_both_ways() {
    let (link, _told) = echo();
    let stream = connect(&link);
    link.set(Conditions { delay: QUIET, ..Conditions::default() });
    let began = Instant::now();
    send(&stream, 1);
    assert_eq!(answer(&stream), 1);
    assert!(began.elapsed() >= QUIET * 2, "it took {:?}", began.elapsed());
}
