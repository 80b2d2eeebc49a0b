//! The addresses that the name of a node's host stands for: looked up, and tried, so that a bad one does not keep a good one
//! from being reached.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use parking_lot::{Condvar, Mutex};

use crate::clock;
use crate::core::{Time, rounded};

/// The most addresses of one name that are tried.
const MOST: usize = 8;

/// How long an address is tried alone at most, before the next one is tried beside it, as RFC 8305 (section 5) recommends.
const ALONE: Duration = Duration::from_millis(250);
/// And that part of all the time there is.
const PART: u32 = 4;

/// For how long what was looked up is good for a connection that comes only after the lookup has ended.
const FRESH: Duration = Duration::from_secs(10);

/// The result of a lookup.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// The addresses of one host, for all connections there.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    lookup: Mutex<Lookup>,
    ended: Condvar,
    /// The one that was reached last.
    reached: Mutex<Option<SocketAddr>>,
}

#[derive(Debug, Default)]
struct Lookup {
    goes_on: bool,
    /// So many wait for it.
    waiting: usize,
    /// The result of the last one.
    found: Option<Found>,
    /// When it has found that, if nobody waited for it any more.
    too_late_at: Option<Time>,
}

/// A name was not looked up in time. The system's lookup cannot be ended.
#[derive(Debug)]
pub(super) struct SlowLookup(Duration);

impl fmt::Display for SlowLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name was not looked up within {}", rounded(self.0))
    }
}

impl StdError for SlowLookup {}

impl Addresses {
    /// Connects to the host, by whichever of its addresses is the first to answer. The lookup and the connection take at most
    /// `timeout` each.
    pub(super) fn connect(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return TcpStream::connect_timeout(&SocketAddr::new(address, port), timeout);
        }
        let mut addresses = self.look_up(host, port, timeout)?;
        let reached = *self.reached.lock();
        // The order of the others stays: the system has sorted them.
        addresses.sort_by_key(|address| Some(*address) != reached);
        let stream = first_of(&addresses, timeout)?;
        *self.reached.lock() = stream.peer_addr().ok();
        Ok(stream)
    }

    /// Looks the name up on a thread of its own, since a resolver may take far longer than anybody can wait. There is one
    /// lookup at a time, and who comes while it goes on waits for the same one.
    fn look_up(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        timeout: Duration,
    ) -> io::Result<Vec<SocketAddr>> {
        let until = clock::now().after(timeout);
        let mut lookup = self.lookup.lock();
        if !lookup.goes_on {
            // The next one would be too late as well.
            if lookup.too_late_at.take().is_some_and(|at| clock::now().since(at) < FRESH) {
                return lookup.found();
            }
            let (addresses, host) = (self.clone(), host.to_owned());
            clock::spawn("quorlock-lookup".to_owned(), move || addresses.end(find(&host, port)))?;
            lookup.goes_on = true;
        }
        lookup.waiting += 1;
        while lookup.goes_on
            && let Some(slice) = clock::slice(until)
        {
            self.ended.wait_for(&mut lookup, slice);
        }
        lookup.waiting -= 1;
        match lookup.goes_on {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, SlowLookup(timeout))),
            false => lookup.found(),
        }
    }

    fn end(&self, found: Found) {
        self.lookup.lock().end(found);
        self.ended.notify_all();
    }
}

impl Lookup {
    fn end(&mut self, found: Found) {
        (self.goes_on, self.found) = (false, Some(found));
        self.too_late_at = (self.waiting == 0).then(clock::now);
    }

    fn found(&self) -> io::Result<Vec<SocketAddr>> {
        let found = self.found.clone().unwrap_or_else(|| Ok(Vec::new()));
        found.map_err(|(kind, what)| io::Error::new(kind, what))
    }
}

fn find(host: &str, port: u16) -> Found {
    let found =
        (host, port).to_socket_addrs().map_err(|error| (error.kind(), error.to_string()))?;
    Ok(found.take(MOST).collect())
}

/// Connects to the first address that answers. Each one is tried once the one before has failed, or has had its time alone.
fn first_of(addresses: &[SocketAddr], timeout: Duration) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect_timeout(only, timeout);
    }
    let (sender, results) = bounded(addresses.len());
    let (until, alone) = (clock::now().after(timeout), ALONE.min(timeout / PART));
    let mut why = io::Error::other("the name has no address");
    let (mut left, mut open) = (addresses.iter().copied(), 0);
    loop {
        if let Some(address) = left.next() {
            let sender = sender.clone();
            let connects = move || {
                // One that comes after another one is closed.
                let _ = sender.send(TcpStream::connect_timeout(&address, timeout));
            };
            clock::spawn("quorlock-connect".to_owned(), connects)?;
            open += 1;
        } else if open == 0 {
            return Err(why);
        }
        let is_last = left.len() == 0;
        let left_time = until.since(clock::now());
        match results.recv_timeout(if is_last { left_time } else { left_time.min(alone) }) {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => (why, open) = (error, open - 1),
            Err(RecvTimeoutError::Timeout) if !is_last && clock::now() < until => {}
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Only Linux has all of 127.0.0.0/8.
    #[cfg(target_os = "linux")]
    mod dead {
        use redis::io::tcp::socket2::{Domain, Socket, Type};

        use super::*;

        /// A port of that address on which nobody answers: what listens there has as many connections waiting as it takes.
        fn dead(address: &str, port: u16) -> (Socket, Vec<TcpStream>) {
            let address = SocketAddr::new(address.parse().expect("an address"), port);
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.bind(&address.into()).expect("the port is free there");
            socket.listen(0).expect("it is bound");
            let connects = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
            let waiting = std::iter::from_fn(connects).collect();
            (socket, waiting)
        }

        #[test]
        fn a_dead_address_in_front_does_not_keep_the_next_one_from_being_reached() {
            let live = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let live = live.local_addr().expect("it is bound");
            let _dead = dead("127.0.0.2", live.port());
            let dead = SocketAddr::new("127.0.0.2".parse().expect("an address"), live.port());
            let refuses = SocketAddr::new("127.0.0.3".parse().expect("an address"), live.port());
            for addresses in
                [&[dead, live][..], &[refuses, live], &[dead, refuses, live], &[live, dead]]
            {
                let began = clock::now();
                let stream = first_of(addresses, TIMEOUT).expect("one of them is reached");
                assert_eq!(stream.peer_addr().expect("it is connected"), live);
                assert!(clock::now().since(began) < TIMEOUT / 2, "it waited for the dead one");
            }
            let short = Duration::from_millis(200);
            let kind =
                |addresses: &[SocketAddr]| first_of(addresses, short).map_err(|error| error.kind());
            assert_eq!(kind(&[dead, dead]).err(), Some(io::ErrorKind::TimedOut));
            assert_eq!(kind(&[refuses, refuses]).err(), Some(io::ErrorKind::ConnectionRefused));
            assert_eq!(kind(&[]).err(), Some(io::ErrorKind::Other));
        }
    }

    #[test]
    fn the_address_that_was_reached_last_is_tried_first() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let live = listener.local_addr().expect("it is bound");
        let addresses = Arc::new(Addresses::default());
        let stream = addresses.connect("localhost", live.port(), TIMEOUT).expect("it listens");
        assert_eq!(stream.peer_addr().ok(), *addresses.reached.lock());
        assert_eq!(*addresses.reached.lock(), Some(live));
    }

    /// Nobody is held by a lookup for longer than he has, and what it finds at last is used.
    #[test]
    fn a_slow_lookup_holds_nobody_and_is_not_in_vain() {
        let addresses = Arc::new(Addresses::default());
        addresses.lookup.lock().goes_on = true;
        let short = Duration::from_millis(20);
        let error = addresses.look_up("slow.test", 1, short).expect_err("it goes on");
        assert!(error.get_ref().is_some_and(|error| error.is::<SlowLookup>()), "{error}");
        let found = vec![SocketAddr::new("127.0.0.1".parse().expect("an address"), 1)];
        addresses.end(Ok(found.clone()));
        assert_eq!(addresses.look_up("slow.test", 1, short).expect("it was found"), found);
        assert!(addresses.lookup.lock().too_late_at.is_none(), "the next one looks it up anew");

        // Two that wait for the same lookup.
        addresses.lookup.lock().goes_on = true;
        std::thread::scope(|scope| {
            let waiting = [(); 2].map(|()| {
                scope.spawn(|| addresses.look_up("slow.test", 1, TIMEOUT).expect("it is found"))
            });
            while addresses.lookup.lock().waiting < 2 {
                std::thread::yield_now();
            }
            addresses.end(Ok(found.clone()));
            for one in waiting {
                assert_eq!(one.join().expect("no panic"), found);
            }
        });
        assert!(addresses.lookup.lock().too_late_at.is_none());
    }
}
