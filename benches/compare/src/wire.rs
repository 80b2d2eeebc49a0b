//! Raw sockets to all nodes, and two scripts: the parts of the floors.

use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lua::with_includes;

/// The scripts of the Redlock algorithm, as in the Redis documentation, except that both answer an integer.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 \
                       else return 0 end";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) else return 0 end";

/// This library's own scripts for a mutex.
const FULL_ACQUIRE: &str = include_str!("../../../lua/mutex/acquire.lua");
const FULL_RELEASE: &str = include_str!("../../../lua/mutex/release.lua");
const MARK: &str = "full:mark";
/// About as long as a mark of a set of five nodes.
const ADMITTED: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";
const FENCE_TTL_MS: &str = "630000";
const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";
const CHANNEL: &str = "full:released";

const TTL_MS: &str = "30000";
/// Number of missing answers at which a node is waited for, so that its requests do not fill its socket. A node that
/// does not answer for [`HUNG`] is hung, and gets no requests until it has caught up.
const BEHIND: usize = 256;
const HUNG: Duration = Duration::from_millis(100);
/// Time limit of every wait. After it the benchmark itself has hung.
const LIMIT: Duration = Duration::from_secs(10);

/// The scripts that a floor calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The scripts of the Redlock algorithm.
    Canonical,
    /// This library's own scripts: with the node's mark, a fence, a message, and a reading of the node's clock with
    /// each write.
    Full,
}

impl Form {
    /// The prefix of the keys.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Canonical => "floor",
            Self::Full => "full",
        }
    }
}

/// One connection to each node.
pub(crate) struct Wire {
    form: Form,
    /// The number that is proposed for the next grant. It is the time of the first request, and rises with each one. So it is above
    /// the fence of an earlier wire, as the proposals of the library are.
    proposal: u128,
    nodes: Vec<Node>,
    scripts: Scripts,
}

/// The names by which nodes know the scripts.
#[derive(Clone)]
struct Scripts {
    acquire: String,
    release: String,
}

struct Node {
    stream: TcpStream,
    /// Number of missing answers to earlier requests.
    behind: usize,
    /// Number of answers to the present requests.
    came: usize,
    asked: bool,
    hung: bool,
    /// The bytes of an incomplete answer.
    part: Vec<u8>,
}

impl Wire {
    pub(crate) fn connect(ports: &[u16], form: Form) -> Self {
        let mut scripts = None;
        let (acquire, release) = match form {
            Form::Canonical => (ACQUIRE.to_owned(), RELEASE.to_owned()),
            Form::Full => (with_includes(FULL_ACQUIRE), with_includes(FULL_RELEASE)),
        };
        let nodes = ports.iter().map(|port| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).expect("it listens");
            stream.set_nodelay(true).expect("it is a socket");
            stream.set_read_timeout(Some(LIMIT)).expect("it is no zero");
            let (acquire, release) = (load(&stream, &acquire), load(&stream, &release));
            ask(&stream, &["SET", MARK, ADMITTED]);
            stream.set_nonblocking(true).expect("it is a socket");
            scripts = Some(Scripts { acquire, release });
            Node { stream, behind: 0, came: 0, asked: false, hung: false, part: Vec::new() }
        });
        let nodes = nodes.collect();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let scripts = scripts.expect("there is a node");
        Self { form, proposal: time.as_micros(), nodes, scripts }
    }

    /// Appends the request to `bytes`.
    pub(crate) fn acquire(&mut self, bytes: &mut Vec<u8>, key: &str, owner: &str) {
        let script = &*self.scripts.acquire;
        match self.form {
            Form::Canonical => encode(bytes, &["EVALSHA", script, "1", key, owner, TTL_MS]),
            Form::Full => {
                let [reserved, fence] = ["reserved", "fence"].map(|it| format!("{{{key}}}:{it}"));
                self.proposal += 1;
                let proposal = self.proposal.to_string();
                let keys = ["EVALSHA", script, "4", key, MARK, &reserved, &fence];
                let arguments = [owner, TTL_MS, ADMITTED, &proposal, FENCE_TTL_MS];
                encode(bytes, &[&keys[..], &arguments].concat());
            }
        }
    }

    /// Appends the request to `bytes`.
    pub(crate) fn release(&self, bytes: &mut Vec<u8>, key: &str, owner: &str) {
        let script = &*self.scripts.release;
        let request = ["EVALSHA", script, "1", key, owner, CHANNEL];
        let length = if self.form == Form::Full { 6 } else { 5 };
        encode(bytes, &request[..length]);
    }

    /// Writes `requests` requests to all nodes, and reads until a majority has answered all of them. Returns the number
    /// of nodes that said yes to each.
    pub(crate) fn exchange(&mut self, bytes: &[u8], requests: usize) -> Vec<usize> {
        let majority = self.nodes.len() / 2 + 1;
        let asked = requests;
        let (bytes, requests) = match self.form {
            Form::Canonical => (Cow::Borrowed(bytes), requests),
            Form::Full => (Cow::Owned([bytes, TIME].concat()), requests + 1),
        };
        let mut yes = vec![0; requests];
        for node in &mut self.nodes {
            node.catch_up();
            node.asked = !node.hung;
            node.came = 0;
            if node.asked {
                node.stream.write_all(&bytes).expect("there is room for so little");
            }
        }
        while self.nodes.iter().filter(|node| node.came == requests).count() < majority {
            let waiting = self.nodes.iter_mut().filter(|node| node.asked && node.came < requests);
            let mut waiting: Vec<_> = waiting.collect();
            let ready = readable(&waiting, LIMIT);
            assert!(ready.contains(&true), "no majority answered in {LIMIT:?}");
            for (node, _) in waiting.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                node.take(&mut yes);
            }
        }
        for node in self.nodes.iter_mut().filter(|node| node.asked) {
            node.behind += requests - node.came;
        }
        yes.truncate(asked);
        yes
    }
}

/// Waits until one of the nodes has something to read. Returns true for each such node.
fn readable(nodes: &[&mut Node], limit: Duration) -> Vec<bool> {
    let polled = nodes.iter().map(|node| PollFd::new(&node.stream, PollFlags::IN));
    let mut polled: Vec<_> = polled.collect();
    let limit = Timespec::try_from(limit).expect("it is not long");
    poll(&mut polled, Some(&limit)).expect("sockets can be waited for");
    polled.iter().map(|polled| !polled.revents().is_empty()).collect()
}

impl Node {
    /// Reads the available answers that no caller waits for any more.
    fn catch_up(&mut self) {
        while self.behind > 0 && self.take(&mut []) {}
        let start = Instant::now();
        while self.behind >= BEHIND && !self.hung {
            self.hung = !readable(&[self], HUNG.saturating_sub(start.elapsed()))[0];
            self.take(&mut []);
        }
        self.hung &= self.behind > 0;
    }

    /// Reads once. Returns true if anything came.
    fn take(&mut self, yes: &mut [usize]) -> bool {
        let mut room = [0; 4096];
        let some = match (&self.stream).read(&mut room) {
            Ok(0) => panic!("a node has closed the connection"),
            Ok(some) => some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("a node cannot be read from: {error}"),
        };
        self.part.extend_from_slice(&room[..some]);
        let mut taken = 0;
        while let Some(length) = answer(&self.part[taken..]) {
            let answer = &self.part[taken..taken + length];
            assert!(answer[0] != b'-', "an error: {}", self.part.escape_ascii());
            if self.behind > 0 {
                self.behind -= 1;
            } else {
                // The proposal as text is a grant of it.
                let is_yes = answer.starts_with(b":1\r") || answer[0] == b'$';
                yes[self.came] += usize::from(is_yes);
                self.came += 1;
            }
            taken += length;
        }
        self.part.drain(..taken);
        true
    }
}

/// The length of the answer at the beginning of `bytes`; `None`: it is not complete.
fn answer(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|it| it == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<usize>().ok();
    match bytes[0] {
        b'$' => Some(line + number()? + 2).filter(|length| *length <= bytes.len()),
        b'*' => (0..number()?).try_fold(line, |at, _| Some(at + answer(&bytes[at..])?)),
        _ => Some(line),
    }
}

/// Sends a command that is answered with OK.
fn ask(mut stream: &TcpStream, parts: &[&str]) {
    let mut bytes = Vec::new();
    encode(&mut bytes, parts);
    stream.write_all(&bytes).expect("it listens");
    let mut answer = [0; "+OK\r\n".len()];
    stream.read_exact(&mut answer).expect("it answers");
}

fn load(mut stream: &TcpStream, script: &str) -> String {
    let mut bytes = Vec::new();
    encode(&mut bytes, &["SCRIPT", "LOAD", script]);
    stream.write_all(&bytes).expect("it listens");
    let mut answer = [0; "$40\r\n\r\n".len() + 40];
    stream.read_exact(&mut answer).expect("it answers");
    String::from_utf8(answer[5..45].to_vec()).expect("it is ASCII")
}

fn encode(bytes: &mut Vec<u8>, parts: &[&str]) {
    write!(bytes, "*{}\r\n", parts.len()).expect("memory takes all");
    for part in parts {
        write!(bytes, "${}\r\n{part}\r\n", part.len()).expect("memory takes all");
    }
}
