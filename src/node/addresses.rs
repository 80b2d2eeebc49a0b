//! The addresses of a node's host name: their lookup, and the order in which they are tried.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock;
use crate::core::base::{Time, rounded};

/// Most addresses that are kept of one name.
const MOST: usize = 64;

/// Time for which a later connection may use a result that came too late for every waiting caller.
const FRESH: Duration = Duration::from_secs(10);

/// The result of a lookup.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// The addresses of one host, shared by all connections to it.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    lookup: Mutex<Lookup>,
    ended: Condvar,
    tried: Mutex<Tried>,
}

/// The results of the connection attempts.
#[derive(Debug, Default)]
struct Tried {
    /// The address whose server was usable last.
    answered: Option<SocketAddr>,
    /// The addresses that were tried in vain since then, the latest one at the end.
    in_vain: Vec<SocketAddr>,
}

impl Tried {
    /// Sort key: the address that answered comes first, those tried in vain come last, the latest at the end. Others keep order.
    fn place(&self, address: SocketAddr) -> usize {
        match self.in_vain.iter().position(|it| *it == address) {
            _ if self.answered == Some(address) => 0,
            None => 1,
            Some(place) => 2 + place,
        }
    }
}

#[derive(Debug, Default)]
struct Lookup {
    goes_on: bool,
    /// Number of callers that wait for the lookup.
    waiting: usize,
    /// The result of the last lookup.
    found: Option<Found>,
    /// End of the last lookup, if no caller waited for it any more.
    too_late_at: Option<Time>,
}

/// A lookup of a name that did not end in time. The system's lookup cannot be cancelled.
#[derive(Debug)]
pub(super) struct SlowLookup(Duration);

impl fmt::Display for SlowLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name was not looked up within {}", rounded(self.0))
    }
}

impl StdError for SlowLookup {}

/// A lookup for which no thread could be started.
#[derive(Debug)]
pub(super) struct NoThread(io::Error);

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this process may start no further thread ({})", self.0)
    }
}

impl StdError for NoThread {}

impl Addresses {
    /// The addresses of the host, the most promising one first.
    pub(super) fn in_order(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        timeout: Duration,
    ) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = self.look_up(host, port, timeout)?;
        let tried = self.tried.lock();
        addresses.sort_by_key(|address| tried.place(*address));
        Ok(addresses)
    }

    /// Notes that `address` was tried in vain. It comes last from now on, until a server of the host is usable.
    pub(super) fn has_failed(&self, address: SocketAddr) {
        let mut tried = self.tried.lock();
        tried.answered = tried.answered.filter(|it| *it != address);
        tried.in_vain.retain(|it| *it != address);
        if tried.in_vain.len() == MOST {
            tried.in_vain.remove(0);
        }
        tried.in_vain.push(address);
    }

    /// Notes that the server at `address` is usable. Earlier tries in vain no longer count.
    pub(super) fn has_answered(&self, address: SocketAddr) {
        *self.tried.lock() = Tried { answered: Some(address), in_vain: Vec::new() };
    }

    /// The addresses of the host, in the order of the system. The lookup has its own thread, since a resolver may take far
    /// longer than any caller can wait. There is one lookup at a time; callers that come meanwhile wait for its result.
    pub(super) fn look_up(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        timeout: Duration,
    ) -> io::Result<Vec<SocketAddr>> {
        let until = clock::now().after(timeout);
        let mut lookup = self.lookup.lock();
        if !lookup.goes_on {
            // A new lookup would be too late as well.
            if lookup.too_late_at.take().is_some_and(|at| clock::now().since(at) < FRESH) {
                return lookup.found();
            }
            let (addresses, host) = (self.clone(), host.to_owned());
            clock::spawn("quorlock-lookup".to_owned(), move || addresses.end(find(&host, port)))
                .map_err(|error| io::Error::other(NoThread(error)))?;
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
    #[cfg(all(test, target_os = "linux"))]
    if let Some(addresses) = several::addresses_of(host) {
        return Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect());
    }
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in
        (host, port).to_socket_addrs().map_err(|error| (error.kind(), error.to_string()))?
    {
        if found.len() < MOST && !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

#[cfg(all(test, target_os = "linux"))]
#[path = "several_addresses_tests.rs"]
mod several;

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 6379))
    }

    #[test]
    fn the_one_that_answered_comes_first_and_those_tried_in_vain_come_last() {
        let addresses = Arc::new(Addresses::default());
        let order = || {
            let found: Vec<_> = (1..=4).map(address).collect();
            addresses.lookup.lock().end(Ok(found));
            let found = addresses.in_order("test", 6379, TIMEOUT).expect("it was found");
            found.iter().map(|it| it.ip().to_string()[8..].to_owned()).collect::<String>()
        };
        assert_eq!(order(), "1234");
        addresses.has_failed(address(1));
        assert_eq!(order(), "2341");
        addresses.has_failed(address(2));
        addresses.has_failed(address(3));
        assert_eq!(order(), "4123");
        addresses.has_answered(address(3));
        assert_eq!(order(), "3124");
        addresses.has_failed(address(3));
        assert_eq!(order(), "1243", "it has not answered this time");
        (0..200).for_each(|last| addresses.has_failed(address(last)));
        assert_eq!(addresses.tried.lock().in_vain.len(), MOST);
    }

    /// No caller waits for a lookup longer than its timeout, and a late result is used.
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
