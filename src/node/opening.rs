//! Opening a connection to a node whose name may have several addresses, so that a bad one does not keep a good one from
//! being reached.

use std::io;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::address::Address;
use super::connection::Connection;
use super::faults::connect_fault;
use super::reader::Unread;
use crate::clock;
use crate::core::base::Time;
use crate::core::link::PATIENCE;
use crate::error::{Cause, NodeFault};

/// Most addresses that are tried for one connection. The next try begins with the others.
const MOST: usize = 8;

/// Longest time for which one address is tried alone, before the next one is tried as well, as RFC 8305 (section 5) recommends. All
/// get their turn within the time of one step.
const ALONE: Duration = Duration::from_millis(250);

/// Number of steps behind the connect: to log in, and to identify the server.
const STEPS: u32 = 2;

impl Connection {
    /// Looks up the name, connects, logs in and checks that the server is one that we can use. The first two steps take `timeout`
    /// at most each; the others do as well, or take [`PATIENCE`] if that is longer.
    /// Among several addresses, the first one whose server lets us in is taken, and a replica only if no other server does: a near
    /// replica would always come before a far master. The caller must report if the server is usable
    /// ([`Address::has_answered`], [`Address::has_failed`]).
    pub(super) fn open(address: &Address, timeout: Duration) -> Result<Self, NodeFault> {
        let address = &address.with_login(timeout)?;
        let mut addresses = address
            .in_order(timeout)
            .map_err(|error| connect_fault(address, Unread::Failed(error.into())))?;
        addresses.truncate(MOST);
        match &addresses[..] {
            [only] => Self::open_at(only, timeout),
            several => first_of(address, several, timeout),
        }
    }
}

type Opened = Result<Connection, NodeFault>;

/// Tries each address once the one before it has failed, or has had its time alone. The first one, which may be known to be good,
/// has more time alone.
fn first_of(name: &Address, addresses: &[Address], timeout: Duration) -> Opened {
    let count = addresses.len();
    let (sender, results) = bounded(count);
    let alone = ALONE.min(timeout / u32::try_from(count + 1).unwrap_or(u32::MAX));
    let until = clock::now().after(timeout).after(timeout.max(PATIENCE).saturating_mul(STEPS));
    let first = ALONE.min(timeout / 3).max(alone);
    let (mut fault, mut replica) = (None, None);
    let (mut left, mut open) = (addresses.iter(), 0);
    loop {
        let next = left.next();
        if let Some(address) = next {
            start(address, timeout, &sender);
            open += 1;
        } else if open == 0 {
            let fault = || fault.unwrap_or_else(|| failed(name, io::Error::other(NO_ADDRESS)));
            return replica.ok_or_else(fault);
        }
        let alone = if left.len() + 1 == count { first } else { alone };
        match results.recv_timeout(left_until(until, alone, left.len() == 0)) {
            Ok((address, Ok(connection))) if connection.leads_to_replica() => {
                address.has_failed();
                open -= 1;
                replica = replica.or(Some(connection));
            }
            Ok((_, Ok(connection))) => return Ok(connection),
            Ok((address, Err(new))) => {
                address.has_failed();
                open -= 1;
                fault = Some(the_one_to_tell(fault, new));
            }
            Err(RecvTimeoutError::Timeout) if left.len() > 0 => {
                next.into_iter().for_each(Address::has_failed);
            }
            Err(_) => {
                next.into_iter().for_each(Address::has_failed);
                let silent = failed(name, io::ErrorKind::TimedOut.into());
                return replica.ok_or_else(|| the_one_to_tell(fault, silent));
            }
        }
    }
}

const NO_ADDRESS: &str = "the name has no address";

fn left_until(until: Time, alone: Duration, is_last: bool) -> Duration {
    let left = until.since(clock::now());
    if is_last { left } else { left.min(alone) }
}

/// Opens a connection to the address on a thread of its own, or on this thread if none can start. A connection that comes
/// after another one is closed.
fn start(address: &Address, timeout: Duration, sender: &Sender<(Address, Opened)>) {
    let open = {
        let (address, sender) = (address.clone(), sender.clone());
        move || {
            let opened = Connection::open_at(&address, timeout);
            let _ = sender.send((address, opened));
        }
    };
    if clock::spawn("quorlock-connect".to_owned(), open).is_err() {
        let _ = sender.send((address.clone(), Connection::open_at(address, timeout)));
    }
}

/// The more useful one of two faults. A server that answers says more about the problem than a silent address. A server that
/// may let us in soon says more than one that never will.
fn the_one_to_tell(before: Option<NodeFault>, new: NodeFault) -> NodeFault {
    let rank = |fault: &NodeFault| match fault.cause() {
        Cause::Way => 0,
        _ if fault.is_for_good() => 1,
        _ => 2,
    };
    match before {
        Some(before) if rank(&before) > rank(&new) => before,
        _ => new,
    }
}

fn failed(address: &Address, error: io::Error) -> NodeFault {
    connect_fault(address, Unread::Failed(error.into()))
}

#[cfg(all(test, target_os = "linux"))]
#[path = "opening_tests.rs"]
mod tests;
