//! The handle of one node, and the thread that listens on its port.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::connection::Connection;
use super::machine::Machine;
use crate::clock;

/// One embedded node, from [`Nodes`](super::Nodes): something like a Redis master that can be
/// killed, hung and restarted.
///
/// # Examples
///
/// ```
/// use quorlock::embedded::Nodes;
/// use quorlock::{ErrorKind, Quorlock};
///
/// let nodes = Nodes::start(1)?;
/// let builder = Quorlock::builder().nodes(nodes.urls());
/// // Nobody here minds a lock that is forgotten, and a test need not wait for its end.
/// let locks = builder.restart_quarantine(false).build()?;
/// nodes[0].kill();
/// assert_eq!(locks.try_lock("a").unwrap_err().kind(), ErrorKind::NoQuorum);
/// nodes[0].restart();
/// assert!(locks.lock("a").is_ok());
/// # Ok::<(), quorlock::Error>(())
/// ```
pub struct Node {
    machine: Arc<Machine>,
    address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Node {
    pub(super) fn start(index: usize) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let machine = Arc::new(Machine::new());
        let listening = Listening { index, listener, machine: machine.clone() };
        let thread = clock::spawn(format!("quorlock-embedded-{index}"), move || listening.run())?;
        Ok(Self { machine, address, listener: Some(thread) })
    }

    /// `redis://127.0.0.1:PORT`, the same for the node's whole life.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Ends the node as a power cut would: connections are closed, new ones too, as soon as they are
    /// made, and what it had received but not run is gone. Its data stays for
    /// [`restart`](Self::restart).
    pub fn kill(&self) {
        self.machine.kill();
    }

    /// Brings the node back with its data, as a server that writes each change to disk; kills it
    /// first if it is up.
    pub fn restart(&self) {
        self.machine.restart(true);
    }

    /// Brings the node back without its data, as a server that writes nothing to disk; kills it
    /// first if it is up. It has forgotten the locks that it granted.
    pub fn restart_empty(&self) {
        self.machine.restart(false);
    }

    /// Removes all keys, as `FLUSHALL` does, whether or not the node is up.
    pub fn flush(&self) {
        self.machine.flush();
    }

    /// Stops the node where it is: connections open and stay open, and nothing answers. Does nothing
    /// to a node that is killed.
    pub fn hang(&self) {
        self.machine.hang();
    }

    /// Lets a node go on that hangs. What it has received meanwhile runs now, also from clients that
    /// have given up since: of each connection in its order, but others may come in between, as on a
    /// server.
    pub fn resume(&self) {
        self.machine.resume();
    }

    /// Sets the node's clock forward: keys end earlier, those that are there already, too.
    pub fn move_clock_forward(&self, by: Duration) {
        self.machine.move_clock_forward(by);
    }

    /// Sets the node's clock back: keys end later.
    pub fn move_clock_back(&self, by: Duration) {
        self.machine.move_clock_back(by);
    }

    /// The keys that the node holds now, sorted: of locks, the key prefix and the name; and those
    /// with braces, which are quorlock's own and outlive the locks. Asks the node itself, in
    /// whatever state it is.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.machine.keys()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.machine.end();
        // The thread is woken by a connection. Without one it would be waited for in vain, and it
        // ends with the next one that somebody makes.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.listener.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

struct Listening {
    index: usize,
    listener: TcpListener,
    machine: Arc<Machine>,
}

impl Listening {
    fn run(self) {
        /// After a connection that could not be taken, for want of file descriptors as a rule.
        const PAUSE: Duration = Duration::from_millis(10);
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for stream in self.listener.incoming() {
            if self.machine.is_gone() {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            match stream {
                // One that is not taken is closed here.
                Ok(stream) => threads.extend(self.accept(stream)),
                Err(_) => clock::sleep(PAUSE),
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn accept(&self, stream: TcpStream) -> Option<JoinHandle<()>> {
        let connection = Connection::accept(&self.machine, stream)?;
        let name = format!("quorlock-embedded-{}-connection", self.index);
        clock::spawn(name, move || connection.run()).ok()
    }
}
