//! A TCP proxy in front of a server: what stands behind it can change, and clients need not notice.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How long one direction is listened to before it is the other one's turn.
const TURN: Duration = Duration::from_millis(1);

/// Keeps its clients' connections open while the server behind it goes away and comes back.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: AtomicU16,
    accepted: AtomicUsize,
    /// How often all connections have been cut.
    cuts: AtomicUsize,
    ended: AtomicBool,
    /// Whether messages to those who listen are lost on their way, and how many were.
    swallows: AtomicBool,
    swallowed: AtomicUsize,
    /// By how many milliseconds answers are late.
    delay_ms: AtomicUsize,
}

/// How a message of a server to those who listen begins. Nothing else that it says to us does.
const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n";

/// Which side has ended a connection.
enum Gone {
    Client,
    Server,
}

impl Proxy {
    /// Stands in front of the server on that port.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let shared = Arc::new(Shared {
            server: AtomicU16::new(server),
            accepted: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            swallows: AtomicBool::new(false),
            swallowed: AtomicUsize::new(0),
            delay_ms: AtomicUsize::new(0),
        });
        let serving = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if serving.ended.load(Ordering::SeqCst) {
                    return;
                }
                serving.accepted.fetch_add(1, Ordering::SeqCst);
                let serving = serving.clone();
                thread::spawn(move || serving.carry(&client));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Loses each message to those who listen from now on.
    pub fn swallow_messages(&self) {
        self.shared.swallows.store(true, Ordering::SeqCst);
    }

    /// Takes that much longer for each answer from now on.
    pub fn delay(&self, by: Duration) {
        self.shared.delay_ms.store(by.as_millis() as usize, Ordering::SeqCst);
    }

    /// How many messages were lost.
    pub fn swallowed(&self) -> usize {
        self.shared.swallowed.load(Ordering::SeqCst)
    }

    /// Has another server stand behind it, and cuts all connections, as a failover does.
    pub fn fail_over_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::SeqCst);
        self.shared.cuts.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn carry(&self, client: &TcpStream) {
        let cuts = self.cuts.load(Ordering::SeqCst);
        let goes_on =
            || !self.ended.load(Ordering::SeqCst) && self.cuts.load(Ordering::SeqCst) == cuts;
        while goes_on() {
            let server = (Ipv4Addr::LOCALHOST, self.server.load(Ordering::SeqCst));
            match TcpStream::connect(server) {
                Ok(server) => match self.pump(client, &server, goes_on) {
                    Gone::Client => return,
                    Gone::Server => {}
                },
                Err(_) => thread::sleep(TURN),
            }
        }
    }

    fn pump(&self, client: &TcpStream, server: &TcpStream, goes_on: impl Fn() -> bool) -> Gone {
        for stream in [client, server] {
            stream.set_nodelay(true).expect("it is a socket");
            stream.set_read_timeout(Some(TURN)).expect("it is no zero");
        }
        while goes_on() {
            if pass(client, server, |_| true).is_err() {
                return Gone::Client;
            }
            if pass(server, client, |bytes| self.lets_through(bytes)).is_err() {
                return Gone::Server;
            }
        }
        Gone::Client
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

/// Passes on what has come, if it is `wanted`; an error once `from` has been closed. What cannot be written
/// is lost, as it is on the way to a server that has just gone.
fn pass(
    mut from: &TcpStream,
    mut to: &TcpStream,
    wanted: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let mut bytes = [0; 65_536];
    match from.read(&mut bytes) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(some) => {
            if wanted(&bytes[..some]) {
                let _ = to.write_all(&bytes[..some]);
            }
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
