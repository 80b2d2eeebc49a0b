//! The network between one worker and one master: a TCP proxy that loses, delays and holds back data.
//!
//! Two threads carry a connection, one each way. They sleep in `read` or at a closed gate. A closed gate acts like
//! a network that loses packets: both ends go on, and the kernels keep what was written. The gate delivers
//! that data when it opens, also over a connection that its client has closed meanwhile.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The treatment of data on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// Nothing reaches the master.
    pub(crate) requests_lost: bool,
    /// Nothing comes back from the master.
    pub(crate) answers_lost: bool,
    /// Connections are closed at once.
    pub(crate) refused: bool,
    /// The delay of each way.
    pub(crate) delay: Duration,
    /// Nothing reaches the master over the present connections. New connections work.
    pub(crate) requests_held: bool,
}

/// One link. Its connections end with it.
#[derive(Debug)]
pub(crate) struct Link {
    port: u16,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    /// The number of the next connection.
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    conditions: Conditions,
    /// Requests over connections with smaller numbers are held.
    held_below: u64,
    /// Connections with smaller numbers are closed.
    closed_below: u64,
    /// Both ends of each connection.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Requests,
    Answers,
}

impl Link {
    /// A link to the master on that port.
    pub(crate) fn to(master: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let gate =
            Gate { state: Mutex::default(), changed: Condvar::new(), next: AtomicU64::new(0) };
        let gate = Arc::new(gate);
        let serving = Arc::clone(&gate);
        thread::Builder::new().name("link".to_owned()).spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if serving.lock().closed_below == ENDED {
                    return;
                }
                let number = serving.next.fetch_add(1, Ordering::SeqCst);
                // A connection that cannot be carried is closed, as by a host that is out of resources.
                let _: io::Result<()> = carry(&serving, client, number, master);
            }
        })?;
        Ok(Self { port, gate })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sets the conditions from now on.
    pub(crate) fn set(&self, conditions: Conditions) {
        let next = self.gate.next.load(Ordering::SeqCst);
        let mut state = self.gate.lock();
        state.held_below = if conditions.requests_held { next } else { 0 };
        if conditions.refused {
            state.close_below(REFUSED);
        } else if state.conditions.refused {
            state.closed_below = next;
        }
        state.conditions = conditions;
        drop(state);
        self.gate.changed.notify_all();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.gate.lock().close_below(ENDED);
        self.gate.changed.notify_all();
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Carries one connection, on two threads of its own.
fn carry(gate: &Arc<Gate>, client: TcpStream, number: u64, master: u16) -> io::Result<()> {
    if gate.lock().is_closed(number) {
        return Ok(());
    }
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, master))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let ends = [client.try_clone()?, server.try_clone()?];
    {
        let mut state = gate.lock();
        if state.is_closed(number) {
            return Ok(());
        }
        state.open.insert(number, ends);
    }
    let ways =
        [(Way::Requests, client.try_clone()?, server.try_clone()?), (Way::Answers, server, client)];
    for (way, from, to) in ways {
        let gate = Arc::clone(gate);
        thread::Builder::new().name("link".to_owned()).spawn(move || {
            // An error means that one of the two ends has closed the connection.
            let _: io::Result<()> = gate.pump(way, number, &from, &to);
            let _ = gate.pass(way, number);
            // Answers on their way may still arrive if it was the client that closed.
            let _ = to.shutdown(Shutdown::Write);
            if way == Way::Answers {
                gate.lock().open.remove(&number);
            }
        })?;
    }
    Ok(())
}

/// Numbers that no connection has.
const REFUSED: u64 = u64::MAX - 1;
const ENDED: u64 = u64::MAX;

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pump(
        &self,
        way: Way,
        number: u64,
        mut from: &TcpStream,
        mut to: &TcpStream,
    ) -> io::Result<()> {
        let mut bytes = [0; 65_536];
        loop {
            let read = from.read(&mut bytes)?;
            if read == 0 {
                return Ok(());
            }
            let delay = self.lock().conditions.delay;
            if !delay.is_zero() {
                thread::sleep(delay);
            }
            if !self.pass(way, number) {
                return Ok(());
            }
            to.write_all(&bytes[..read])?;
        }
    }

    /// Waits until the gate is open. Returns `false` if the connection must be closed instead.
    fn pass(&self, way: Way, number: u64) -> bool {
        let stops = |state: &mut State| !state.is_closed(number) && state.stops(way, number);
        let state = self.changed.wait_while(self.lock(), stops);
        !state.unwrap_or_else(PoisonError::into_inner).is_closed(number)
    }
}

impl State {
    fn is_closed(&self, number: u64) -> bool {
        number < self.closed_below
    }

    fn close_below(&mut self, number: u64) {
        self.closed_below = number;
        for stream in std::mem::take(&mut self.open).into_values().flatten() {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn stops(&self, way: Way, number: u64) -> bool {
        match way {
            Way::Requests => self.conditions.requests_lost || number < self.held_below,
            Way::Answers => self.conditions.answers_lost,
        }
    }
}
