//! A driver's whole conversation with a server that answers arbitrary bytes.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::super::address::Address;
use super::super::connection::Connection;
use super::super::driver::Driver;
use super::super::job::{self, Answer, Ask, Job, Sink};
use super::super::listening::Listening;
use super::super::request::{Part, Request, Script};
use super::super::set::NodeSet;
use super::super::shared::Shared;
use super::super::status::Status;
use super::super::wire::Wire;
use super::fine_fault;
use crate::core::admission::Configuration;
use crate::core::link::{Purpose, Release, Via};

/// A timeout that is never reached: the server closes after its last byte.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes that the server says. A socket takes so many at once; more would have to be read meanwhile.
const MOST: usize = 64 * 1024;

static BATCH: Script = Script::new("return 2");
static BATCHED: Script = Script::batched("return 1", "acquire", &BATCH);
static ALONE: Script = Script::new("return 1");

/// The answers of a fit server to a client without a password.
pub(in super::super) const HANDSHAKE: &[u8] = b"+PONG\r\n*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n\
    $37\r\nredis_version:7.0.15\r\nrun_id:aaaaaa\r\n\r\n$35\r\nrole:master\r\nmaster_replid:bbbbbb\r\n\r\n\
    $2\r\n\r\n\r\n:7\r\n+OK\r\n";

/// A driver logs in, probes the node and carries jobs, and these bytes are all that the server answers.
/// The driver comes to an end, and each job is answered once. The first byte chooses the beginning.
pub fn conversation(data: &[u8]) {
    let Some((begins, answers)) = data.split_first() else { return };
    let url = ["unix:///nowhere/at/all", "unix:///nowhere/at/all?pass=secret&db=1"];
    let address = address(url[usize::from(begins >> 1 & 1)]);
    let mut driver = driver(&address, begins >> 2 & 1 == 1);
    let Some((connection, _server)) = connected(&address, begins & 1 == 1, answers) else {
        return;
    };
    driver.connected(Ok(connection));
    driver.work();
    if !driver.is_up {
        return;
    }
    let asked: Vec<_> = (0..7).map(|_| Arc::<Asked>::default()).collect();
    asked.iter().enumerate().for_each(|(i, asked)| driver.link.submit(job(i, asked)));
    driver.work();
    if let Some(fault) = driver.shared.status.fault() {
        fine_fault(&fault, &address);
    }
    for asked in asked {
        assert_eq!(asked.answers.load(Ordering::SeqCst), 1, "each is answered once");
    }
}

/// A subscriber gets confirmations of its channels, and messages, as far as these bytes have them.
pub fn listening(data: &[u8]) {
    let address = address("unix:///nowhere/at/all");
    let Some((connection, _server)) = connected(&address, true, data) else { return };
    let mut listening = Listening::new(connection, TIMEOUT);
    let mut heard = 0;
    let channels = [b"{one}:released".to_vec(), b"{two}:released".to_vec()];
    let confirmed = listening.subscribe(&channels, |_| heard += 1);
    // Each message takes some bytes, so there are no more messages than bytes.
    while confirmed.is_ok() && listening.next(TIMEOUT).is_ok_and(|message| message.is_some()) {
        heard += 1;
        assert!(heard <= data.len());
    }
}

fn address(url: &str) -> Address {
    Address::parse(url, 1).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// A connection to a server that says `answers` and closes. A correct handshake comes first if `good`; else `answers` have it.
fn connected(address: &Address, good: bool, answers: &[u8]) -> Option<(Connection, UnixStream)> {
    let (ours, mut server) = UnixStream::pair().expect("there are sockets");
    let logs_in = address.info().redis_settings().password().is_some();
    let mut said = Vec::new();
    if good {
        said.extend_from_slice(if logs_in { b"+OK\r\n+OK\r\n" } else { b"" });
        said.extend_from_slice(HANDSHAKE);
    }
    said.extend_from_slice(&answers[..answers.len().min(MOST)]);
    server.write_all(&said).expect("it fits");
    server.shutdown(Shutdown::Write).expect("it is connected");
    let wire = Wire::of_pair(ours, TIMEOUT).expect("without TLS");
    match Connection::over(wire, address, TIMEOUT) {
        Ok(connection) => Some((connection, server)),
        Err(fault) => {
            fine_fault(&fault, address);
            None
        }
    }
}

/// The driver of the first one of three nodes.
fn driver(address: &Address, quarantine: bool) -> Driver {
    let names: Arc<[Arc<str>]> =
        [address.shown().as_ref(), "redis://b", "redis://c"].map(Arc::from).into();
    let configuration = Configuration {
        set_name: "default".to_owned(),
        nodes: names.len(),
        max_ttl: Duration::from_secs(10),
        clock_tolerance: Duration::from_millis(100),
        quarantine,
        index: None,
    };
    let set = NodeSet::new(b"mark".to_vec(), &names, &configuration, false);
    let shared = Arc::new(Shared::new(Status::new(address.shown().clone(), TIMEOUT)));
    Driver::new(0, (address.clone(), TIMEOUT), shared, set, None)
}

fn job(i: usize, asked: &Arc<Asked>) -> Job {
    let script = if i < 2 { &ALONE } else { &BATCHED };
    let request = Arc::new(Request::new(script, 1, &[Part::Bytes(b"key"), Part::Mark]));
    match i {
        0 | 2 | 3 => Ask::Taking(request).into_job(0, asked.clone()),
        4 => Ask::Holding(request).into_job(0, asked.clone()),
        1 => Ask::Anyway(request).into_job(0, asked.clone()),
        _ => {
            let sink: Option<Arc<dyn Sink>> = Some(asked.clone());
            let request = job::Asked { node: 0, request, sink, unanswered: None, untold: None };
            let release = Release::of_key(None, None);
            Job::new(request, Purpose::Release(release))
        }
    }
}

#[derive(Default)]
struct Asked {
    answers: AtomicUsize,
}

impl Sink for Asked {
    fn sending(&self, _node: usize, _via: Via) -> bool {
        assert_eq!(self.answers.load(Ordering::SeqCst), 0, "it was answered");
        true
    }

    fn unsent(&self, _node: usize) {}

    fn answer(&self, _node: usize, answer: Answer) {
        self.answers.fetch_add(1, Ordering::SeqCst);
        if let Ok(value) = answer {
            assert!(value.is_of_script(), "{value}");
        }
    }
}
