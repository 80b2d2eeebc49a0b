//! The ports of servers. Each belongs to one server for its life, and to the process of that server for longer.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Below the range from which systems choose the source ports of outgoing connections, which begins at 32,768 on Linux. While
/// a server is down, such a connection could take its port, or even connect to itself. The bus of a server in cluster mode has
/// the port that is 10,000 higher, which is below that range too, and is no server's port.
const RANGE: Range<u16> = 12_000..22_000;
/// The ports of a block, which one process has for its life.
pub(crate) const BLOCK: u16 = 50;
const TRIES: usize = 1_000;
/// Longer than any client tries to reach a server that is gone, which is two minutes.
const RESTS: Duration = Duration::from_secs(150);

/// A TCP port that belongs to its owner, even while nothing listens on it.
#[derive(Debug)]
pub(crate) struct Port(u16);

/// The ports of this process.
///
/// A client still tries for a while to do its remaining work on a server that is gone, and must not do it on the server of
/// another test, be that of this process or of another one. So a port rests after its use, and no other process gets it.
static PORTS: Mutex<Ports> = Mutex::new(Ports { blocks: Vec::new(), used: BTreeMap::new() });

struct Ports {
    blocks: Vec<Block>,
    /// The times at which used ports became free again; `None` for those in use.
    used: BTreeMap<u16, Option<Instant>>,
}

struct Block {
    first: u16,
    /// The UDP port with the number of the first port. Redis does not use it, and only one process can hold it. So it shows all
    /// other processes that the block is taken. The claim cannot outlive its process.
    _claim: UdpSocket,
}

impl Port {
    pub(crate) fn claim() -> Self {
        Self(PORTS.lock().unwrap_or_else(PoisonError::into_inner).claim())
    }

    pub(crate) const fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        ports.used.insert(self.0, Some(Instant::now()));
    }
}

impl Ports {
    fn claim(&mut self) -> u16 {
        for _ in 0..TRIES {
            if let Some(number) = self.free() {
                self.used.insert(number, None);
                return number;
            }
            self.add_block();
        }
        panic!("no free port in {RANGE:?}");
    }

    /// A port of this process that no server has, or had a moment ago.
    fn free(&self) -> Option<u16> {
        let has_rested = |free: &Option<Instant>| free.is_some_and(|at| at.elapsed() > RESTS);
        let mut numbers = self.blocks.iter().flat_map(|block| block.first..block.first + BLOCK);
        numbers.find(|number| {
            self.used.get(number).is_none_or(has_rested)
                // Other programs know nothing of the claim, and may use the port.
                && TcpListener::bind((Ipv4Addr::LOCALHOST, *number)).is_ok()
        })
    }

    fn add_block(&mut self) {
        let blocks = (RANGE.end - RANGE.start) / BLOCK;
        let first = RANGE.start + rand::random_range(0..blocks) * BLOCK;
        if let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)) {
            self.blocks.push(Block { first, _claim: claim });
        }
    }
}
