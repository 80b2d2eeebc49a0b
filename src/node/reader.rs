//! Reads one answer after the other from a stream of bytes, within limits.

use std::io::{self, Read};
use std::time::Duration;

use redis::{Parser, RedisError, Value};

use crate::clock;
use crate::core::base::{Time, exact};

/// The longest answer that is read, in bytes. The largest answers are: a batch of 256 calls with less than
/// 64 bytes each, 16 KB; one section of INFO, below 4 KB; and a message on a channel whose name has at most
/// 6 KB. Parsed, an answer takes up to about 30 times as much memory.
pub(super) const LONGEST: usize = 256 * 1024;

/// Deepest nesting of lists in an answer. Our scripts answer two levels, and HELLO three. The parser, which
/// recurses, gives up at a hundred.
pub(super) const DEEPEST: usize = 8;

pub(super) struct Reader {
    parser: Parser,
    /// Number of bytes that may still come of the present answer.
    left: usize,
    /// Time since which part of an answer has been here, noted when a read ended without the rest.
    incomplete_since: Option<Time>,
    /// Time limit of an answer once it has begun.
    timeout: Duration,
}

/// The reason why there is no value.
pub(super) enum Unread {
    /// The answer cannot be one to us, for that reason.
    Excess(String),
    Failed(RedisError),
}

impl Reader {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { parser: Parser::new(), left: LONGEST, incomplete_since: None, timeout }
    }

    /// The next value. After a timeout of the stream the rest may still be read, within the time limit of
    /// a whole answer.
    pub(super) fn read(&mut self, stream: &mut impl Read) -> Result<Value, Unread> {
        let read = self.read_at_once(stream);
        if let Err(Unread::Failed(error)) = &read
            && error.is_timeout()
            && self.has_begun()
        {
            let since = *self.incomplete_since.get_or_insert_with(clock::now);
            if since.after(self.timeout) <= clock::now() {
                let what =
                    format!("an answer took longer than {} from its start", exact(self.timeout));
                return Err(Unread::Excess(what));
            }
        }
        read
    }

    /// The next value of a stream that does not wait, if all of it has come.
    pub(super) fn read_at_once(&mut self, stream: &mut impl Read) -> Result<Value, Unread> {
        let answer = Answer { stream, left: &mut self.left };
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
            Err(error) => Err(Unread::Failed(error)),
        }
    }

    /// Returns true if part of an answer has come, and not all of it.
    pub(super) fn has_begun(&self) -> bool {
        self.left < LONGEST
    }
}

/// The nesting depth of lists, counted up to one more than `limit`.
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

/// The stream of one answer, which ends at the limit.
struct Answer<'a, S> {
    stream: &'a mut S,
    left: &'a mut usize,
}

impl<S: Read> Read for Answer<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if *self.left == 0 {
            return Err(io::Error::other("the answer is too long"));
        }
        let read = self.stream.read(buffer)?;
        *self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}
