//! Response times of the masters, measured over no link and by no client of the library. On a busy machine a master may be
//! as slow as under a fault, and the clients that wait for it are not to blame.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::witness::{Client, Event};

/// Time between two probes of a master.
const EVERY: Duration = Duration::from_millis(100);

/// A request of a client takes as long again, in both directions. Two of them are as long as the default node timeout.
const SLOW: Duration = Duration::from_millis(50);

/// A master that has not answered for this long is asked over a new connection.
const LIMIT: Duration = Duration::from_secs(1);

/// A write, as a grant is, so that the answer waits for the disk.
const REQUEST: &[u8] = b"*3\r\n$3\r\nSET\r\n$13\r\nnemesis-probe\r\n$1\r\n1\r\n";

/// One probing thread per master, until this is dropped.
pub(crate) struct Probes {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Probes {
    /// Starts to probe the masters at these ports of this machine. Reports each late answer to `witness`.
    pub(crate) fn start(ports: &[u16], witness: &str) -> io::Result<Self> {
        let mut probes = Self { over: Arc::default(), threads: Vec::new() };
        for (master, port) in ports.iter().enumerate() {
            let (over, address) = (probes.over.clone(), SocketAddr::from(([127, 0, 0, 1], *port)));
            let mut witness = Client::connect(witness, &format!("probe {master}"))?;
            let ask = move || {
                let mut connection = None;
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let answered = ask(&mut connection, address);
                    let took = began.elapsed();
                    // A master that is down refuses at once, which is a fault and not slowness.
                    let is_slow = took >= SLOW && (answered.is_ok() || took >= LIMIT);
                    if is_slow && witness.tell(&Event::Slow { master, took }).is_err() {
                        return;
                    }
                    if answered.is_err() {
                        connection = None;
                    }
                    thread::sleep(EVERY.saturating_sub(took));
                }
            };
            probes.threads.push(thread::Builder::new().name("probe".to_owned()).spawn(ask)?);
        }
        Ok(probes)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The panic message of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// Probes the master once, over a new connection if none is open.
fn ask(connection: &mut Option<TcpStream>, address: SocketAddr) -> io::Result<()> {
    let stream = match connection {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect_timeout(&address, LIMIT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_write_timeout(Some(LIMIT))?;
            connection.insert(stream)
        }
    };
    stream.write_all(REQUEST)?;
    let mut answer = [0; 64];
    match stream.read(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
