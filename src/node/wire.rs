//! The stream of bytes to one server. No single call on it blocks for longer than its timeout.
//!
//! The `redis` crate's own connection reads without limits. A server that answers without end fills the
//! memory, and one that sends a byte now and then keeps its reader for ever. So the socket is our own;
//! URLs, commands and the parser are the crate's.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{ConnectionAddr, RedisError, Value};
#[cfg(feature = "tls")]
use rustls::{ClientConnection, StreamOwned};

use super::address::Address;
use super::reader::{Reader, Unread};
use crate::clock;
use crate::core::base::Time;
use crate::core::link::KEEPALIVE;

pub(super) struct Wire {
    stream: Stream,
    reader: Reader,
    /// The values that were read and not taken yet.
    ready: VecDeque<Value>,
}

impl Wire {
    /// Connects to the one address that is meant, and sends nothing. Takes at most `timeout`. From then on, no single read or write
    /// takes longer than `per_read` or `timeout`.
    pub(super) fn connect(
        address: &Address,
        timeout: Duration,
        per_read: Duration,
    ) -> io::Result<Self> {
        let socket = Socket::connect(address, timeout)?;
        socket.set_read_timeout(per_read)?;
        socket.set_write_timeout(timeout)?;
        let bounded = Bounded { socket, limit: Limit::Until(clock::now().after(timeout)) };
        #[cfg(feature = "tls")]
        let stream = match address.tls()? {
            // The handshake comes with the first write.
            Some(tls) => Stream::Tls(Box::new(StreamOwned::new(tls, bounded))),
            None => Stream::Plain(bounded),
        };
        #[cfg(not(feature = "tls"))]
        let stream = Stream::Plain(bounded);
        Ok(Self { stream, reader: Reader::new(timeout), ready: VecDeque::new() })
    }

    /// Makes a wire of one end of a socket pair.
    #[cfg(all(unix, any(test, fuzzing)))]
    pub(super) fn of_pair(socket: UnixStream, timeout: Duration) -> io::Result<Self> {
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let limit = Limit::Until(clock::now().after(timeout));
        let stream = Stream::Plain(Bounded { socket: Socket::Unix(Arc::new(socket)), limit });
        Ok(Self { stream, reader: Reader::new(timeout), ready: VecDeque::new() })
    }

    /// Writes all bytes by `until`; a write in progress at that time may take one timeout more.
    pub(super) fn write(&mut self, bytes: &[u8], until: Time) -> Result<(), RedisError> {
        self.stream.bounded().limit = Limit::Until(until);
        Ok(self.stream.write_all(bytes)?)
    }

    /// Reads the next value, if it is there by `until`; a read in progress at that time may take one timeout
    /// more. After a timeout the rest may still be read, within the time limit of a whole answer.
    pub(super) fn read(&mut self, until: Time) -> Result<Value, Unread> {
        if let Some(value) = self.ready.pop_front() {
            return Ok(value);
        }
        self.stream.bounded().limit = Limit::Until(until);
        self.reader.read(&mut self.stream)
    }

    /// Reads the bytes that have come, without waiting. Returns true if they are so many whole values, which the next reads return.
    pub(super) fn has_answers(&mut self, needed: usize) -> Result<bool, Unread> {
        self.stream.bounded().limit = Limit::AtOnce;
        while self.ready.len() < needed {
            match self.reader.read_at_once(&mut self.stream) {
                // A pushed message answers no command.
                Ok(Value::Push { .. }) => {}
                Ok(value) => self.ready.push_back(value),
                Err(Unread::Failed(error)) if error.is_timeout() => return Ok(false),
                Err(unread) => return Err(unread),
            };
        }
        Ok(true)
    }

    /// The socket to wait on until something comes.
    pub(super) fn socket(&self) -> &Socket {
        &self.stream.bounded_ref().socket
    }

    /// Returns true if part of an answer has come, and not all of it.
    pub(super) fn has_begun(&self) -> bool {
        self.reader.has_begun()
    }

    /// Sets the time limit of a single read.
    pub(super) fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.bounded().socket.set_read_timeout(timeout)
    }

    /// Sets the time limit of a single write.
    pub(super) fn set_write_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.bounded().socket.set_write_timeout(timeout)
    }
}

enum Stream {
    Plain(Bounded),
    #[cfg(feature = "tls")]
    Tls(Box<StreamOwned<ClientConnection, Bounded>>),
}

impl Stream {
    fn bounded_ref(&self) -> &Bounded {
        match self {
            Self::Plain(bounded) => bounded,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => &tls.sock,
        }
    }

    fn bounded(&mut self) -> &mut Bounded {
        match self {
            Self::Plain(bounded) => bounded,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => &mut tls.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bounded) => bounded.read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bounded) => bounded.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(bounded) => bounded.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// A socket on which no call begins after a certain time. The socket's own timeouts bound a call in progress,
/// so that none must be set for each read.
struct Bounded {
    socket: Socket,
    limit: Limit,
}

/// The limit of a call.
#[derive(Clone, Copy)]
enum Limit {
    /// The call begins before this time.
    Until(Time),
    /// The call does not wait at all.
    AtOnce,
}

impl Bounded {
    /// Repeats a call that a signal has interrupted: signals interrupt system calls on sockets with a timeout.
    fn in_time<T>(&mut self, mut call: impl FnMut(&mut Socket) -> io::Result<T>) -> io::Result<T> {
        while matches!(self.limit, Limit::Until(until) if clock::now() < until) {
            match call(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.limit {
            Limit::AtOnce => self.socket.read_at_once(buffer),
            Limit::Until(_) => self.in_time(|socket| socket.read(buffer)),
        }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.in_time(|socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket. Its clones are used for waiting only.
#[derive(Clone)]
pub(super) enum Socket {
    Tcp(Arc<TcpStream>),
    #[cfg(unix)]
    Unix(Arc<UnixStream>),
}

#[cfg(unix)]
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Socket {
    /// Returns true if the socket takes two kilobytes at once.
    #[cfg(unix)]
    pub(super) fn has_room(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(self, PollFlags::OUT)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1))
    }

    /// No caller writes to the socket on these systems.
    #[cfg(not(unix))]
    pub(super) fn has_room(&self) -> bool {
        false
    }

    fn connect(address: &Address, timeout: Duration) -> io::Result<Self> {
        match address.info().addr() {
            ConnectionAddr::Tcp(..) | ConnectionAddr::TcpTls { .. } => {
                let to = address.socket_address();
                let to = to.ok_or_else(|| io::Error::other("the name has not been looked up"))?;
                let socket = TcpStream::connect_timeout(&to, timeout)?;
                set_up(&socket)?;
                Ok(Self::Tcp(Arc::new(socket)))
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                connect_unix(path, timeout).map(|socket| Self::Unix(Arc::new(socket)))
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_read_timeout(Some(timeout)),
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_read_timeout(Some(timeout)),
        }
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_write_timeout(Some(timeout)),
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_write_timeout(Some(timeout)),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => (&**socket).read(buffer),
            #[cfg(unix)]
            Self::Unix(socket) => (&**socket).read(buffer),
        }
    }

    /// Reads the bytes that have come, without waiting.
    #[cfg(unix)]
    fn read_at_once(&self, buffer: &mut [u8]) -> io::Result<usize> {
        use rustix::io::retry_on_intr;
        use rustix::net::{RecvFlags, recv};
        let (_, read) = retry_on_intr(|| recv(self, &mut *buffer, RecvFlags::DONTWAIT))?;
        Ok(read)
    }

    /// Reads nothing: these systems have no way to read without waiting.
    #[cfg(not(unix))]
    fn read_at_once(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => (&**socket).write(bytes),
            #[cfg(unix)]
            Self::Unix(socket) => (&**socket).write(bytes),
        }
    }
}

fn set_up(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE.idle)
        .with_interval(KEEPALIVE.interval)
        .with_retries(KEEPALIVE.checks);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

/// Connects within `timeout`. The standard library's function would wait for ever for a server that accepts no connection.
#[cfg(unix)]
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    use redis::io::tcp::socket2::{self, Domain, SockAddr, Type};
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(timeout))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(std::os::fd::OwnedFd::from(socket).into())
}
