//! Servers that are far away: a process in between, which is another run of this program, delivers all bytes late.
//! Its processor time is not counted.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::server::{Server, Servers};

/// The first argument of the process in between.
pub(crate) const ARGUMENT: &str = "--distance";

/// The servers as contestants reach them.
pub(crate) struct Reach {
    pub(crate) ports: Vec<u16>,
    between: Option<Child>,
}

impl Reach {
    /// The round trip to each server takes that much longer. The last figure applies to all servers after it as well.
    pub(crate) fn new(servers: &Servers, round_trips: &[Duration]) -> Self {
        let ports: Vec<_> = servers.iter().map(Server::port).collect();
        let Some(last) = round_trips.last() else { return Self { ports, between: None } };
        let round_trips = round_trips.iter().chain(std::iter::repeat(last));
        let ways = ports.iter().zip(round_trips);
        let ways = ways.map(|(port, it)| format!("{port}:{}", (*it / 2).as_micros()));
        let program = std::env::current_exe().expect("the path of this program is known");
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .args(ways)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started once more");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let line = output.lines().next().expect("it says its ports").expect("it can be read from");
        let ports = line.split(' ').map(|port| port.parse().expect("a port")).collect();
        Self { ports, between: Some(child) }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        if let Some(mut child) = self.between.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One direction of a connection.
struct Way {
    from: TcpStream,
    to: TcpStream,
    takes: Duration,
    /// The pieces, each with the time of its delivery.
    on_their_way: VecDeque<(Instant, Vec<u8>)>,
}

/// The process in between. Its arguments are the port of each server and the time of one way in microseconds; it ends
/// with its input.
pub(crate) fn run(arguments: impl Iterator<Item = String>) {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let doors: Vec<_> = arguments
        .map(|argument| {
            let (port, us) = argument.split_once(':').expect("a port and a time");
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
            listener.set_nonblocking(true).expect("it is a socket");
            let takes = Duration::from_micros(us.parse().expect("a number"));
            (listener, port.parse::<u16>().expect("a port"), takes)
        })
        .collect();
    let port = |(door, ..): &(TcpListener, u16, Duration)| {
        door.local_addr().expect("it listens").port().to_string()
    };
    println!("{}", doors.iter().map(port).collect::<Vec<_>>().join(" "));
    let mut ways: Vec<Way> = Vec::new();
    loop {
        ways.retain_mut(|way| way.deliver().is_ok());
        let due = ways.iter().filter_map(|way| way.on_their_way.front()).map(|(at, _)| *at).min();
        let wait = due.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = wait.map(|it| Timespec::try_from(it).expect("it is not long"));
        let listeners = doors.iter().map(|(door, ..)| PollFd::new(door, PollFlags::IN));
        let sockets = ways.iter().map(|way| PollFd::new(&way.from, PollFlags::IN));
        let mut polled: Vec<_> = listeners.chain(sockets).collect();
        poll(&mut polled, wait.as_ref()).expect("sockets can be waited for");
        let ready: Vec<_> = polled.iter().map(|it| !it.revents().is_empty()).collect();
        let (at_doors, at_ways) = ready.split_at(doors.len());
        let mut open = at_ways.iter();
        ways.retain_mut(|way| open.next() != Some(&true) || way.take().is_ok());
        for ((door, port, takes), _) in doors.iter().zip(at_doors).filter(|(_, ready)| **ready) {
            if let Ok((client, _)) = door.accept() {
                ways.extend(connection(client, *port, *takes));
            }
        }
    }
}

/// Both directions of a connection to the server on that port.
fn connection(client: TcpStream, port: u16, takes: Duration) -> [Way; 2] {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    let copy = |stream: &TcpStream| {
        stream.set_nodelay(true).expect("it is a socket");
        stream.try_clone().expect("there are file descriptors")
    };
    let (to_client, to_server) = (copy(&client), copy(&server));
    let way = |from, to| Way { from, to, takes, on_their_way: VecDeque::new() };
    [way(client, to_server), way(server, to_client)]
}

impl Way {
    /// Reads the bytes that are available. An error means that the connection has ended.
    fn take(&mut self) -> io::Result<()> {
        let mut room = [0; 65_536];
        match self.from.read(&mut room)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            some => {
                self.on_their_way.push_back((Instant::now() + self.takes, room[..some].to_vec()));
                Ok(())
            }
        }
    }

    /// Delivers the pieces that are due.
    fn deliver(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while let Some((_, bytes)) = self.on_their_way.front().filter(|(at, _)| *at <= now) {
            self.to.write_all(bytes)?;
            self.on_their_way.pop_front();
        }
        Ok(())
    }
}
