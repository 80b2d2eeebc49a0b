//! A TCP proxy in front of a server. The server can change without a sign to clients.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// Time for which one direction is read before it is the other direction's turn.
const TURN: Duration = Duration::from_millis(1);

/// Keeps its clients' connections open while the server behind it goes away and comes back.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: AtomicU16,
    /// The port of the server that every other connection leads to. 0 stands for none.
    other: AtomicU16,
    accepted: AtomicUsize,
    /// The numbers of the open connections.
    open: Mutex<BTreeSet<usize>>,
    /// The number of times that all connections were cut.
    cuts: AtomicUsize,
    ended: AtomicBool,
    /// True if messages to subscribers are lost on their way, and the number of lost ones.
    swallows: AtomicBool,
    swallowed: AtomicUsize,
    /// The delay of answers in milliseconds.
    delay_ms: AtomicUsize,
    /// True if answers are held up.
    holds_answers: AtomicBool,
    /// The number of first connections whose requests are held up.
    held: AtomicUsize,
    /// The number of held connections that their clients have closed.
    given_up: AtomicUsize,
}

/// The beginning of a server's message to subscribers. No other answer to our clients begins so.
const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n";

/// The side that has ended a connection.
enum Gone {
    Client,
    Server,
}

impl Proxy {
    /// Starts a proxy in front of the server on that port.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let shared = Arc::new(Shared {
            server: AtomicU16::new(server),
            other: AtomicU16::new(0),
            accepted: AtomicUsize::new(0),
            open: Mutex::default(),
            cuts: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            swallows: AtomicBool::new(false),
            swallowed: AtomicUsize::new(0),
            delay_ms: AtomicUsize::new(0),
            holds_answers: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            given_up: AtomicUsize::new(0),
        });
        let serving = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The proxy keeps its port: a client that goes on for a while would meet the port's next owner.
                if serving.ended.load(Ordering::SeqCst) {
                    continue;
                }
                let number = serving.accepted.fetch_add(1, Ordering::SeqCst);
                let serving = serving.clone();
                thread::spawn(move || {
                    serving.open.lock().insert(number);
                    serving.carry(&client, number);
                    serving.open.lock().remove(&number);
                });
            }
        });
        Self { port, shared }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The number of connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The numbers of the open connections, in the order in which they were made.
    pub fn open(&self) -> BTreeSet<usize> {
        self.shared.open.lock().clone()
    }

    /// Loses each message to subscribers from now on.
    pub fn swallow_messages(&self) {
        self.shared.swallows.store(true, Ordering::SeqCst);
    }

    /// Delays each answer by that time from now on.
    pub fn delay(&self, by: Duration) {
        self.shared.delay_ms.store(by.as_millis() as usize, Ordering::SeqCst);
    }

    /// The number of lost messages.
    pub fn swallowed(&self) -> usize {
        self.shared.swallowed.load(Ordering::SeqCst)
    }

    /// Holds up requests over the present connections. New connections work.
    pub fn hold(&self) {
        self.shared.held.store(self.accepted(), Ordering::SeqCst);
    }

    /// Holds up answers, or lets them go. Requests still arrive.
    pub fn hold_answers(&self, holds: bool) {
        self.shared.holds_answers.store(holds, Ordering::SeqCst);
    }

    /// The number of held connections that their clients have given up.
    pub fn given_up(&self) -> usize {
        self.shared.given_up.load(Ordering::SeqCst)
    }

    /// Delivers the held requests, like a network that has lost packets for a while. When this returns,
    /// the server has run or refused them, even if the client has closed the connection
    /// meanwhile.
    pub fn let_go(&self) {
        self.shared.held.store(0, Ordering::SeqCst);
        while self.given_up() > 0 {
            thread::sleep(TURN);
        }
    }

    /// Switches to another server, and cuts all connections, as a failover does.
    pub fn fail_over_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::SeqCst);
        self.shared.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// Leads new connections to another server from now on. The present ones go on.
    pub fn lead_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::SeqCst);
    }

    /// Leads every other new connection to the server on that port from now on, as a load balancer does. `None` ends that,
    /// and cuts all connections.
    pub fn spread(&self, other: Option<u16>) {
        self.shared.other.store(other.unwrap_or(0), Ordering::SeqCst);
        if other.is_none() {
            self.shared.cuts.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn carry(&self, client: &TcpStream, number: usize) {
        let cuts = self.cuts.load(Ordering::SeqCst);
        let goes_on =
            || !self.ended.load(Ordering::SeqCst) && self.cuts.load(Ordering::SeqCst) == cuts;
        let other = self.other.load(Ordering::SeqCst);
        while goes_on() {
            let server = match other {
                1.. if number % 2 == 1 => other,
                _ => self.server.load(Ordering::SeqCst),
            };
            match TcpStream::connect((Ipv4Addr::LOCALHOST, server)) {
                Ok(server) => match self.pump(client, &server, number, goes_on) {
                    Gone::Client => return,
                    Gone::Server => {}
                },
                Err(_) => thread::sleep(TURN),
            }
        }
    }

    fn pump(
        &self,
        client: &TcpStream,
        mut server: &TcpStream,
        number: usize,
        goes_on: impl Fn() -> bool,
    ) -> Gone {
        for stream in [client, server] {
            stream.set_nodelay(true).expect("it is a socket");
            stream.set_read_timeout(Some(TURN)).expect("it is no zero");
        }
        let mut held = Vec::new();
        while goes_on() {
            let open = keep(client, &mut held);
            // Checked after the read, which may have begun before the hold.
            if self.holds(number) {
                if open.is_err() {
                    self.deliver_late(server, &held, number, goes_on);
                    return Gone::Client;
                }
            } else if open.is_err() {
                return Gone::Client;
            } else {
                // Failed writes lose their bytes, as on the way to a server that has just gone.
                let _ = server.write_all(&std::mem::take(&mut held));
            }
            let answers = !self.holds_answers.load(Ordering::SeqCst);
            if answers && pass(server, client, |bytes| self.lets_through(bytes)).is_err() {
                return Gone::Server;
            }
        }
        Gone::Client
    }

    fn holds(&self, number: usize) -> bool {
        number < self.held.load(Ordering::SeqCst)
    }

    /// Delivers the requests of a client that has gone once they are let go. They have run when the server
    /// closes the connection as well.
    fn deliver_late(
        &self,
        mut server: &TcpStream,
        held: &[u8],
        number: usize,
        goes_on: impl Fn() -> bool,
    ) {
        self.given_up.fetch_add(1, Ordering::SeqCst);
        while self.holds(number) && goes_on() {
            thread::sleep(TURN);
        }
        let delivered = server.write_all(held).and_then(|()| server.shutdown(Shutdown::Write));
        if delivered.is_ok() {
            while goes_on() && keep(server, &mut Vec::new()).is_ok() {}
        }
        self.given_up.fetch_sub(1, Ordering::SeqCst);
    }

    fn lets_through(&self, bytes: &[u8]) -> bool {
        thread::sleep(Duration::from_millis(self.delay_ms.load(Ordering::SeqCst) as u64));
        let lost = self.swallows.load(Ordering::SeqCst) && bytes.starts_with(MESSAGE);
        if lost {
            self.swallowed.fetch_add(1, Ordering::SeqCst);
        }
        !lost
    }
}

/// Passes on the bytes that have come, if they are `wanted`. Fails once `from` has been closed. Bytes that cannot be
/// written are lost, as on the way to a server that has just gone.
fn pass(from: &TcpStream, mut to: &TcpStream, wanted: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    let mut bytes = Vec::new();
    keep(from, &mut bytes)?;
    if wanted(&bytes) {
        let _ = to.write_all(&bytes);
    }
    Ok(())
}

/// Appends the bytes that have come to `kept`. Fails once `from` has been closed.
fn keep(mut from: &TcpStream, kept: &mut Vec<u8>) -> io::Result<()> {
    let mut bytes = [0; 65_536];
    match from.read(&mut bytes) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(some) => {
            kept.extend_from_slice(&bytes[..some]);
            Ok(())
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
