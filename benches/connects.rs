//! Cost of a connect to one master, in several ways: `cargo bench --bench connects --features tls`, with `-- --times N` for another
//! number of connects than 300.
//!
//! A proxy counts the waits and the bytes. It delays the answers, so that all that a client sends without waiting comes before
//! them. The times are taken without that proxy, from the call that builds the client to the guard of its first lock, and to that
//! of a second lock.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::argument;
use common::server::{Server, wait_until};
use quorlock::{Builder, OptionalGuard as _, Quorlock};

mod common;
use common::server;
#[path = "../tests/support/authority.rs"]
mod authority;
#[path = "../tests/support/cpu.rs"]
mod cpu;
#[path = "../tests/support/relay.rs"]
mod relay;

/// The delay of the proxy's answers.
const DELAY: Duration = Duration::from_millis(20);
/// The time without a byte after which a client is connected.
const QUIET: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(20);

/// A way to connect.
struct Way {
    name: &'static str,
    server: Server,
    /// The port for clients, if it is that of a relay.
    relay: Option<relay::Relay>,
    tune: Box<dyn Fn(Builder) -> Builder>,
}

impl Way {
    fn new(
        name: &'static str,
        server: Server,
        tune: impl Fn(Builder) -> Builder + 'static,
    ) -> Self {
        Self { name, server, relay: None, tune: Box::new(tune) }
    }

    fn port(&self) -> u16 {
        self.relay.as_ref().map_or(self.server.port(), |relay| relay.address().port())
    }

    fn build(&self, port: u16) -> Quorlock {
        let scheme = self.server.url();
        let (scheme, _) = scheme.split_once("://").expect("a URL");
        let builder = Quorlock::builder().nodes([format!("{scheme}://127.0.0.1:{port}")]);
        let built = (self.tune)(builder.restart_quarantine(false)).build();
        built.expect("valid settings")
    }
}

fn main() {
    let times = usize::try_from(argument("--times", 300)).expect("a small number");
    println!("{times} connects to one master, with the time of the first lock; medians");
    println!("{:<42} waits   sent  received  first lock  second   client  server", "");
    let authority = authority::Authority::new();
    let pem = authority.pem.clone();
    let password = Server::start_with(&["--requirepass", "secret"]);
    let refuses = relay::refuses_info();
    let in_front = relay::Relay::start(&refuses);
    let ways = [
        Way::new("a plain server", Server::start(), |builder| builder),
        Way::new("a password", password, |builder| builder.password("secret")),
        Way::new("TLS", authority.ordinary_server("no"), move |builder| builder.tls_ca(&*pem)),
        Way {
            relay: Some(in_front),
            ..Way::new("a server that refuses INFO (with a relay)", refuses, |builder| builder)
        },
    ];
    for way in &ways {
        figures(way, times);
    }
}

fn figures(way: &Way, times: usize) {
    // Another client uses the server already.
    let other = way.build(way.port());
    wait_until("the server is in use", LIMIT, || other.try_lock("orders/1").optional().is_ok());
    let counted = Counted::start(way.port());
    let locks = way.build(counted.port);
    let (waits, sent, received) = counted.once_quiet();
    drop((locks, other));
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    let pid = way.server.pid();
    let (client, server) = (cpu::cpu_seconds(), cpu::cpu_seconds_of(pid));
    for _ in 0..times {
        let began = Instant::now();
        let locks = way.build(way.port());
        drop(locks.lock("orders/1").expect("the server is up"));
        firsts.push(began.elapsed());
        let began = Instant::now();
        drop(locks.lock("orders/2").expect("the server is up"));
        seconds.push(began.elapsed());
    }
    let each = |took: f64| took * 1_000.0 / times as f64;
    let (client, server) =
        (each(cpu::cpu_seconds() - client), each(cpu::cpu_seconds_of(pid) - server));
    println!(
        "{:<42} {waits:>5} {sent:>6} {received:>9} {:>8.2} ms {:>4.2} ms {client:>5.2} ms {server:>4.2} ms",
        way.name,
        median(&mut firsts),
        median(&mut seconds),
    );
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

/// A proxy that counts.
struct Counted {
    port: u16,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    target: AtomicU16,
    /// The number of times that the client went on after an answer, and at the beginning.
    waits: AtomicUsize,
    sent: AtomicUsize,
    received: AtomicUsize,
}

impl Counted {
    fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let counts = Arc::new(Counts::default());
        counts.target.store(target, Ordering::SeqCst);
        let counting = counts.clone();
        // The first connection is that of the client's worker.
        thread::spawn(move || {
            let (client, _) = listener.accept().ok()?;
            counting.carry(client)
        });
        Self { port, counts }
    }

    fn once_quiet(&self) -> (usize, usize, usize) {
        let read = || {
            let Counts { waits, sent, received, .. } = &*self.counts;
            [waits, sent, received].map(|it| it.load(Ordering::SeqCst))
        };
        let (mut last, mut since) = (read(), Instant::now());
        while last[2] == 0 || since.elapsed() < QUIET {
            thread::sleep(Duration::from_millis(1));
            if read() != last {
                (last, since) = (read(), Instant::now());
            }
        }
        let [waits, sent, received] = last;
        (waits, sent, received)
    }
}

impl Counts {
    fn carry(self: &Arc<Self>, mut client: TcpStream) -> Option<()> {
        let server = (Ipv4Addr::LOCALHOST, self.target.load(Ordering::SeqCst));
        let mut server = TcpStream::connect(server).ok()?;
        let (mut from_server, mut to_client) = (server.try_clone().ok()?, client.try_clone().ok()?);
        let (counts, answered) = (self.clone(), Arc::new(AtomicUsize::new(1)));
        let has_answered = answered.clone();
        thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(length @ 1..) = from_server.read(&mut bytes) {
                thread::sleep(DELAY);
                has_answered.store(1, Ordering::SeqCst);
                counts.received.fetch_add(length, Ordering::SeqCst);
                to_client.write_all(&bytes[..length]).ok()?;
            }
            Some(())
        });
        let mut bytes = [0; 65_536];
        while let Ok(length @ 1..) = client.read(&mut bytes) {
            self.waits.fetch_add(answered.swap(0, Ordering::SeqCst), Ordering::SeqCst);
            self.sent.fetch_add(length, Ordering::SeqCst);
            server.write_all(&bytes[..length]).ok()?;
        }
        Some(())
    }
}
