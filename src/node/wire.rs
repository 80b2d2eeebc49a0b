//! The stream of bytes to one server, and the values that come out of it, within limits.
//!
//! The `redis` crate's own connection reads without any: a server that answers without end fills the
//! memory, and one that sends a byte now and then keeps its reader for ever. So the socket is our own;
//! URLs, commands and the parser are the crate's.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
#[cfg(unix)]
use std::path::Path;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{ConnectionAddr, Parser, RedisError, Value};
#[cfg(feature = "tls")]
use rustls::{ClientConnection, StreamOwned};

use super::address::Address;
use crate::clock;
use crate::core::{Time, exact};

/// The longest answer that is read, in bytes. The largest that there are: a batch of 256 calls, each
/// answered in less than 64 bytes, 16 KB; one section of INFO, below 4 KB; a message on a channel, whose
/// name has at most 6 KB. Parsed, an answer takes up to about 30 times as much memory.
const LONGEST: usize = 256 * 1024;

/// How many lists may be in one another. Our scripts answer two, and HELLO three. The parser, which
/// recurses, gives up at a hundred.
const DEEPEST: usize = 8;

/// The most addresses of one name that are tried.
const ADDRESSES: usize = 8;

pub(super) struct Wire {
    stream: Stream,
    parser: Parser,
    /// How many bytes more the answer may have that is being read.
    left: usize,
    /// Since when part of an answer has been here, as seen when a read ended without the rest.
    incomplete_since: Option<Time>,
    /// The longest that an answer may take once it has begun.
    timeout: Duration,
}

/// Why there is no value.
pub(super) enum Unread {
    /// The answer is no answer to us, for that reason.
    Excess(String),
    Failed(RedisError),
}

impl Wire {
    /// Connects, without a word to the server. Takes at most `timeout` for each of its addresses; no
    /// single read or write takes longer than `per_read` or `timeout` from then on.
    pub(super) fn connect(
        address: &Address,
        timeout: Duration,
        per_read: Duration,
    ) -> io::Result<Self> {
        let socket = Socket::connect(address.info().addr(), timeout)?;
        socket.set_read_timeout(per_read)?;
        socket.set_write_timeout(timeout)?;
        let bounded = Bounded { socket, until: clock::now().after(timeout) };
        #[cfg(feature = "tls")]
        let stream = match address.tls()? {
            // The handshake comes with the first write.
            Some(tls) => Stream::Tls(Box::new(StreamOwned::new(tls, bounded))),
            None => Stream::Plain(bounded),
        };
        #[cfg(not(feature = "tls"))]
        let stream = Stream::Plain(bounded);
        Ok(Self { stream, parser: Parser::new(), left: LONGEST, incomplete_since: None, timeout })
    }

    /// Writes all of it until then; what is under way at that time may take one timeout more.
    pub(super) fn write(&mut self, bytes: &[u8], until: Time) -> Result<(), RedisError> {
        self.stream.bounded().until = until;
        Ok(self.stream.write_all(bytes)?)
    }

    /// The next value, if it is there by then; what is under way at that time may take one timeout
    /// more. After a timeout the rest may still be read, within the time that a whole answer has.
    pub(super) fn read(&mut self, until: Time) -> Result<Value, Unread> {
        if self.incomplete_since.is_some_and(|since| since.after(self.timeout) <= clock::now()) {
            let what = format!("an answer took longer than {} from its begin", exact(self.timeout));
            return Err(Unread::Excess(what));
        }
        self.stream.bounded().until = until;
        let answer = Answer { stream: &mut self.stream, left: &mut self.left };
        match self.parser.parse_value(answer) {
            Ok(value) => {
                self.left = LONGEST;
                self.incomplete_since = None;
                if depth(&value, DEEPEST) > DEEPEST {
                    let what = format!("an answer has lists in lists deeper than {DEEPEST}");
                    return Err(Unread::Excess(what));
                }
                Ok(value)
            }
            Err(_) if self.left == 0 => {
                Err(Unread::Excess(format!("an answer is longer than {LONGEST} bytes")))
            }
            Err(error) => {
                if error.is_timeout() && self.has_begun() {
                    self.incomplete_since.get_or_insert_with(clock::now);
                }
                Err(Unread::Failed(error))
            }
        }
    }

    /// Part of an answer has come, and not all of it.
    pub(super) fn has_begun(&self) -> bool {
        self.left < LONGEST
    }

    /// The longest that a single read takes.
    pub(super) fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.bounded().socket.set_read_timeout(timeout)
    }

    /// The longest that a single write takes.
    pub(super) fn set_write_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.bounded().socket.set_write_timeout(timeout)
    }
}

/// How many lists are in one another, counted up to one more than `limit`.
fn depth(value: &Value, limit: usize) -> usize {
    let deepest = |parts: &mut dyn Iterator<Item = &Value>| match limit {
        0 => 1,
        _ => 1 + parts.map(|part| depth(part, limit - 1)).max().unwrap_or(0),
    };
    match value {
        Value::Array(parts) | Value::Set(parts) | Value::Push { data: parts, .. } => {
            deepest(&mut parts.iter())
        }
        Value::Map(pairs) => deepest(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
        Value::Attribute { data, attributes } => {
            let pairs = attributes.iter().flat_map(|(key, value)| [key, value]);
            deepest(&mut pairs.chain([&**data]))
        }
        _ => 0,
    }
}

/// What is read of one answer.
struct Answer<'a> {
    stream: &'a mut Stream,
    left: &'a mut usize,
}

impl Read for Answer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if *self.left == 0 {
            return Err(io::Error::other("the answer is too long"));
        }
        let read = self.stream.read(buffer)?;
        *self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

enum Stream {
    Plain(Bounded),
    #[cfg(feature = "tls")]
    Tls(Box<StreamOwned<ClientConnection, Bounded>>),
}

impl Stream {
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

/// A socket that nothing is begun on after a time. The socket's own timeouts bound what is under way,
/// so none has to be set for each read.
struct Bounded {
    socket: Socket,
    until: Time,
}

impl Bounded {
    /// Signals interrupt system calls on sockets with a timeout.
    fn in_time<T>(&mut self, mut call: impl FnMut(&mut Socket) -> io::Result<T>) -> io::Result<T> {
        while clock::now() < self.until {
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
        self.in_time(|socket| socket.read(buffer))
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

enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    fn connect(to: &ConnectionAddr, timeout: Duration) -> io::Result<Self> {
        match to {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                connect_tcp(host, *port, timeout).map(Self::Tcp)
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => connect_unix(path, timeout).map(Self::Unix),
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

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            #[cfg(unix)]
            Self::Unix(socket) => socket.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            #[cfg(unix)]
            Self::Unix(socket) => socket.write(bytes),
        }
    }
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut why = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()?.take(ADDRESSES) {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                // Where a firewall forgets idle connections, this keeps them, or has their end noticed.
                let keepalive = TcpKeepalive::new()
                    .with_time(Duration::from_secs(15))
                    .with_interval(Duration::from_secs(5));
                SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
                return Ok(socket);
            }
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Other than the standard library's this does not wait for ever for a server that accepts nobody.
#[cfg(unix)]
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    use redis::io::tcp::socket2::{self, Domain, SockAddr, Type};
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(timeout))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(std::os::fd::OwnedFd::from(socket).into())
}
