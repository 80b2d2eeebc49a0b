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

/// One embedded node, from [`Nodes`](super::Nodes). It behaves like a Redis master that can be
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

    /// Returns `redis://127.0.0.1:PORT`, which stays the same for the node's whole life.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Ends the node as a power cut would. It closes its connections, and each new one at once.
    /// Commands that it has received but not run are lost. Its data stays for
    /// [`restart`](Self::restart).
    pub fn kill(&self) {
        self.machine.kill();
    }

    /// Brings the node back with its data, like a server that writes each change to disk. A node that
    /// is up is killed first.
    pub fn restart(&self) {
        self.machine.restart(true);
    }

    /// Brings the node back without its data, like a server that writes nothing to disk. A node that
    /// is up is killed first. The node has forgotten the locks that it granted.
    pub fn restart_empty(&self) {
        self.machine.restart(false);
    }

    /// Removes all keys, as `FLUSHALL` does, whether or not the node is up.
    pub fn flush(&self) {
        self.machine.flush();
    }

    /// Suspends the node: connections open and stay open, and nothing answers. Has no effect on a
    /// killed node.
    pub fn hang(&self) {
        self.machine.hang();
    }

    /// Lets a hung node continue. Commands that it received meanwhile run now, also those of clients
    /// that have given up since. Commands of one connection run in their order; those of others may
    /// come in between, as on a server.
    pub fn resume(&self) {
        self.machine.resume();
    }

    /// Sets the node's clock forward: keys expire earlier, existing keys included.
    pub fn move_clock_forward(&self, by: Duration) {
        self.machine.move_clock_forward(by);
    }

    /// Sets the node's clock back: keys end later.
    pub fn move_clock_back(&self, by: Duration) {
        self.machine.move_clock_back(by);
    }

    /// Returns the keys that the node holds now, sorted. A lock's key is the key prefix and the name.
    /// Keys with braces are quorlock's own and outlive the locks. Reads the node's memory directly, so
    /// this works in any state of the node.
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
        // A connection wakes the listening thread. If none can be made, joining the thread could block
        // for ever. The thread then ends at the next connection from elsewhere.
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
        /// Pause after a failed accept, which is mostly due to a lack of file descriptors.
        const PAUSE: Duration = Duration::from_millis(10);
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for stream in self.listener.incoming() {
            if self.machine.is_gone() {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            match stream {
                // A connection that is not accepted is closed by dropping it.
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
