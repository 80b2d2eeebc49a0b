//! Properties that hold for all answers of a server, and for all URLs. See `crate::fuzzing`.

#![allow(unreachable_pub, reason = "as there")]
#![allow(clippy::missing_panics_doc, reason = "as there")]

use std::io::{self, Read};
use std::time::Duration;

use redis::{ErrorKind, RedisError, Value as Reply};

use super::address::Address;
use super::batch;
use super::connection::microseconds;
use super::faults::{Progress, broken_fault, connect_fault, server_fault};
use super::fitness::field;
use super::listening::{Event, Message, event};
use super::login::{Said, refused};
use super::offers::Shown;
use super::question::read;
use super::quote::quoted;
use super::reader::{DEEPEST, LONGEST, Reader, Unread};
use super::request::Value;
use crate::core::base::Time;
use crate::core::link::Answers;
use crate::core::vote::{LARGEST_NUMBER, Vote};
use crate::error::NodeFault;
use crate::fuzzing::is_printable;
use crate::holders::NodeAnswer;
use crate::kinds::contract::reply;
use crate::release_request::ReleaseRequest;

#[cfg(unix)]
mod conversation;

#[cfg(all(test, unix))]
pub(super) use conversation::HANDSHAKE;
#[cfg(unix)]
pub use conversation::{conversation, listening};

/// Longer than any test takes: streams in memory never make a reader wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Longest message in bytes, however much a server has said. Our longest ones have some 400 bytes, and they
/// quote a server up to ten times, with 200 characters each.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// Answers in pieces are read like answers that come at once. The first two bytes choose the pieces, and
/// timeouts between them.
///
/// The parser skips a byte that begins no answer if it is the last one that has come so far. So with pieces,
/// more answers may follow after a byte that is no answer. The answers before it must be the same.
pub fn answers_in_pieces(data: &[u8]) {
    let Some((pieces, bytes)) = data.split_first_chunk::<2>() else { return };
    let (values, end) = read_all(Pieces { left: bytes, state: 0, timeouts: false });
    let state = u32::from(u16::from_le_bytes(*pieces)) | 1 << 16;
    let in_pieces = read_all(Pieces { left: bytes, state, timeouts: state & 1 == 1 });
    match end {
        "no answer" => assert!(in_pieces.0.starts_with(&values), "{values:?} {in_pieces:?}"),
        _ => assert_eq!((values, end), in_pieces),
    }
}

/// All answers as text, and the reason why they ended.
fn read_all(mut stream: Pieces<'_>) -> (Vec<String>, &'static str) {
    let mut reader = Reader::new(TIMEOUT);
    let mut values = Vec::new();
    loop {
        match reader.read(&mut stream) {
            Ok(value) => {
                assert!(lists_in_lists(&value) <= DEEPEST);
                values.push(format!("{value:?}"));
            }
            Err(Unread::Failed(error)) if error.is_timeout() => {
                assert!(!stream.left.is_empty(), "what is there is read");
            }
            Err(Unread::Failed(error)) if error.kind() == ErrorKind::Parse => {
                return (values, "no answer");
            }
            Err(Unread::Failed(error)) => {
                assert!(error.is_connection_dropped(), "{error}");
                return (values, "closed");
            }
            Err(Unread::Excess(_)) => return (values, "beyond the limits"),
        }
    }
}

/// An endless answer is given up at the limit, whatever its bytes are. The first byte is the number of
/// following bytes that come only once; the rest repeats for ever.
pub fn endless_answer(data: &[u8]) {
    let Some((once, bytes)) = data.split_first() else { return };
    let (begin, more) = bytes.split_at(bytes.len().min(usize::from(*once)));
    if more.is_empty() {
        return;
    }
    let mut stream = Endless { begin, more, read: 0 };
    let mut reader = Reader::new(TIMEOUT);
    // Short answers come again and again.
    for _ in 0..64 {
        let before = stream.read;
        let read = reader.read(&mut stream);
        assert!(stream.read - before <= LONGEST + Endless::AT_ONCE, "it reads on and on");
        match read {
            Ok(value) => assert!(lists_in_lists(&value) <= DEEPEST),
            Err(Unread::Failed(error)) => {
                assert_eq!(error.kind(), ErrorKind::Parse, "{error}");
                return;
            }
            Err(Unread::Excess(what)) => return assert!(is_printable(&what)),
        }
    }
}

/// An answer to a script, TIME or a probe is read exactly as documented, or not at all.
pub fn script_replies(bytes: &[u8]) {
    let mut reader = Reader::new(TIMEOUT);
    let mut stream = Pieces { left: bytes, state: 0, timeouts: false };
    while let Ok(value) = reader.read(&mut stream) {
        script_reply(value.into());
    }
}

fn script_reply(value: Value) {
    fine(&value.to_string());
    if let Ok(Vote::Granted(number)) = reply::acquire(&value) {
        assert!(number <= LARGEST_NUMBER);
    }
    assert!(reply::told(&value) == 0 || reply::release(&value).is_ok());
    let _ = (reply::confirm(&value), reply::extend(&value), microseconds(&value));
    if let Ok(vote) = reply::holder(&value) {
        assert!(vote.number <= LARGEST_NUMBER);
        let shown = NodeAnswer::new(&vote).to_string();
        assert!(is_printable(&shown) && shown.len() < 8_192, "{shown}");
    }
    let _ = (reply::telling(&value), reply::scan(&value));
    let asked = reply::asked(&value).into_iter();
    asked.for_each(|request| _ = ReleaseRequest::new(&request.reason));
    let info = "role:master\r\nrun_id:a\r\nmaster_replid:b\r\n";
    probe(value.clone(), info);
    for requests in 1..=4 {
        match batch::answers(value.clone(), requests) {
            Ok(Answers::NothingDone) => assert_eq!(value, Value::Int(0)),
            Ok(Answers::Each(answers)) => assert_eq!(answers.len(), requests),
            Err(same) => assert_eq!(same, value),
        }
    }
}

/// Reads the answers to a probe, with that text as all sections of INFO.
fn probe(script: Value, info: &str) {
    let info = Value::Text(info.to_owned());
    let now = Time::from_start(TIMEOUT);
    if let Some(answer) = read(&[script, info.clone(), info], Time::default(), now) {
        let run_id = answer.probe.identity.run_id();
        assert!(is_printable(run_id) && run_id.len() <= 64);
    }
}

/// INFO is read and shown within bounds.
pub fn info(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for host in ["", "a.upstash.io", "a.redis-cloud.com"] {
        let shown = Shown { host, server: &text, replication: &text };
        if let Some(what) = shown.unfit_as_node() {
            fine(&what);
        }
    }
    let time = ["1700000000", "0"].map(|part| Value::Text(part.to_owned()));
    let [seconds, microseconds] = time;
    let script = vec![Value::Int(0), seconds, microseconds, Value::List(vec![]), Value::Int(0)];
    probe(Value::List(script), &text);
    for name in ["run_id", "redis_version", "maxmemory_policy", "cluster_enabled", ""] {
        if let Some(value) = field(&text, name) {
            assert!(!value.contains('\n') && text.contains(value));
            fine(&quoted(value).to_string());
        }
    }
}

/// Errors of a server make messages within bounds, each under the name of its own node.
pub fn errors(bytes: &[u8]) {
    let urls = ["redis://host", "redis://:secret@host/1?protocol=resp3", "unix:///run/redis.sock"];
    for url in urls {
        let Ok(address) = Address::parse(url, 1) else { panic!("{url} can be read") };
        for sign in [b"-".as_slice(), b"!9\r\n", b""] {
            let answer = [sign, bytes, b"\r\n"].concat();
            let read =
                Reader::new(TIMEOUT).read(&mut Pieces { left: &answer, state: 0, timeouts: false });
            match read {
                Ok(Reply::ServerError(error)) => {
                    for said in [Said::Auth, Said::Hello, Said::Select] {
                        fine(&refused(said, &error, &address).1);
                    }
                    fine_fault(&server_fault(&address, &RedisError::from(error)), &address);
                }
                Ok(_) => {}
                Err(Unread::Excess(what)) => {
                    fine_fault(&connect_fault(&address, Unread::Excess(what)), &address);
                }
                Err(Unread::Failed(error)) => {
                    let progress =
                        Progress { is_fresh: bytes.len().is_multiple_of(2), has_begun: true };
                    let again = Unread::Failed(error.clone());
                    fine_fault(&connect_fault(&address, Unread::Failed(error)), &address);
                    fine_fault(&broken_fault(&address, again, progress), &address);
                }
            }
        }
    }
}

/// A message is heard only if one was published, in both versions of the protocol.
pub fn messages(bytes: &[u8]) {
    let mut reader = Reader::new(TIMEOUT);
    let mut stream = Pieces { left: bytes, state: 0, timeouts: false };
    while let Ok(value) = reader.read(&mut stream) {
        let shown = format!("{value:?}");
        if let Event::Message(Message { channel, text }) = event(value) {
            assert!(shown.contains("essage"), "{shown}");
            assert!(channel.len() + text.len() <= bytes.len());
        }
    }
}

/// A URL is read or refused. The shown form of a URL that is read leads to the same server.
pub fn url(text: &str) {
    match Address::parse(text, 1) {
        Ok(address) => {
            let shown = address.shown();
            assert!(is_printable(shown), "{shown}");
            let secret = if address.is_socket() { "?" } else { "@" };
            assert!(!shown.contains(secret), "{text}: {shown}");
            let Ok(again) = Address::parse(shown, 1) else { panic!("{text}: {shown}") };
            assert!(again.same_server(&address) && again.shown() == shown, "{text}: {shown}");
        }
        Err(error) => fine(&error.to_string()),
    }
}

/// No part of a URL's user or password is shown, encoded or not. Both are made of `bytes`: of characters that
/// mean something in a URL, and of letters of which no message of ours has two in a row.
pub fn secret(bytes: &[u8]) {
    const LETTERS: [char; 4] = ['Q', 'X', 'Z', 'W'];
    const OTHERS: &[u8] = b":/?#[]@!$&'()*+,;=%7 9.-_~|\\\"<>^`{}";
    let text: String = bytes
        .iter()
        .map(|byte| match byte {
            0..128 => LETTERS[usize::from(*byte) % LETTERS.len()],
            _ => char::from(OTHERS[usize::from(*byte) % OTHERS.len()]),
        })
        .collect();
    let (user, password) = text.split_at(text.len() / 3);
    for url in [
        format!("redis://{user}:{password}@host:6379/1"),
        format!("rediss://{user}:{password}@host?protocol=resp3"),
        format!("valkey://:{password}@[::1]"),
        format!("{user}:{password}@host"),
        format!("unix:///run/redis.sock?user={user}&pass={password}"),
        format!("unix:///run/redis.sock?pass={password}&db=0"),
    ] {
        let shown = match Address::parse(&url, 1) {
            Ok(address) => NodeFault::new(address.shown(), "it hangs").to_string(),
            Err(error) => format!("{error} {error:?}"),
        };
        let is_letter = |byte: &u8| LETTERS.contains(&char::from(*byte));
        for two in text.as_bytes().windows(2).filter(|two| two.iter().all(is_letter)) {
            let part = String::from_utf8_lossy(two);
            assert!(!shown.contains(&*part), "{url}: {shown}");
        }
    }
}

/// The nesting depth of lists in a value.
fn lists_in_lists(value: &Reply) -> usize {
    match value {
        Reply::Array(parts) | Reply::Set(parts) | Reply::Push { data: parts, .. } => {
            1 + parts.iter().map(lists_in_lists).max().unwrap_or(0)
        }
        Reply::Map(pairs) => {
            let parts = pairs.iter().flat_map(|(key, value)| [key, value]);
            1 + parts.map(lists_in_lists).max().unwrap_or(0)
        }
        Reply::Attribute { data, attributes } => {
            let parts = attributes.iter().flat_map(|(key, value)| [key, value]);
            1 + parts.chain([&**data]).map(lists_in_lists).max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn fine(message: &str) {
    assert!(is_printable(message), "{message:?}");
    assert!(message.len() <= LONGEST_MESSAGE, "{} bytes: {message:.999}", message.len());
}

fn fine_fault(fault: &NodeFault, address: &Address) {
    assert_eq!(fault.node(), &**address.shown());
    fine(&fault.to_string());
    assert!(!fault.to_string().contains("secret"), "{fault}");
}

/// Bytes that come in pieces by a generator with this `state`; 0: all at once. With `timeouts`, some reads time out in between.
struct Pieces<'a> {
    left: &'a [u8],
    state: u32,
    timeouts: bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut length = self.left.len().min(buffer.len());
        if self.state > 0 {
            self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) | 1;
            length = length.min((self.state >> 24) as usize % 9);
            if length == 0 && !self.left.is_empty() {
                if self.timeouts {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                length = 1;
            }
        }
        let (now, later) = self.left.split_at(length);
        buffer[..length].copy_from_slice(now);
        self.left = later;
        Ok(length)
    }
}

/// Bytes without end.
struct Endless<'a> {
    begin: &'a [u8],
    more: &'a [u8],
    read: usize,
}

impl Endless<'_> {
    /// Most bytes that the parser asks for at once.
    const AT_ONCE: usize = 8 * 1024;
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(Self::AT_ONCE);
        for byte in &mut buffer[..length] {
            *byte = match self.begin.get(self.read) {
                Some(byte) => *byte,
                None => self.more[(self.read - self.begin.len()) % self.more.len()],
            };
            self.read += 1;
        }
        Ok(length)
    }
}
