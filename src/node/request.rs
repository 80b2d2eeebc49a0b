//! Script calls as bytes to write, and answers without a type of the `redis` crate.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use super::quote::quoted;
use crate::core::link::{Form, Meaning};

macro_rules! shared {
    ($($name:literal),* $(,)?) => {
        [$((
            concat!("-- include ", $name, "\n"),
            include_str!(concat!("../../lua/shared/", $name)),
        )),*]
    };
}

/// Texts that several scripts share: a line `-- include NAME` of a script stands for one of them.
const SHARED: [(&str, &str); 21] = shared![
    // The first three contain others. These come after them.
    "take_string.lua",
    "take_field.lua",
    "take_all.lua",
    "read.lua",
    "check.lua",
    "reserve.lua",
    "granted.lua",
    "again.lua",
    "number.lua",
    "next_number.lua",
    "fence.lua",
    "field.lua",
    "confirmed.lua",
    "forced.lua",
    "prolong.lua",
    "repair.lua",
    "repaired.lua",
    "keeps.lua",
    "raise.lua",
    "tell.lua",
    "make.lua",
];

/// A Lua script from `lua/`.
#[derive(Debug)]
pub(crate) struct Script {
    /// The text as it stands in `lua/`.
    written: &'static str,
    /// The text with its includes.
    source: OnceLock<Cow<'static, str>>,
    /// The name of the script in a batch, and the script that makes several calls of it in one step.
    batch: Option<(&'static str, &'static Script)>,
    /// True if its calls go behind all other calls of one write.
    goes_last: bool,
    /// The meaning of an answer to a call of it.
    meaning: fn(&Value) -> Meaning,
    /// `EVALSHA` and the hash, in wire format.
    by_sha: OnceLock<Vec<u8>>,
}

/// Compares the addresses, as each script is one static value.
impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Script {
    /// A script whose answers mean nothing to the transport.
    pub(crate) const fn new(written: &'static str) -> Self {
        Self {
            written,
            source: OnceLock::new(),
            batch: None,
            goes_last: false,
            meaning: |_| Meaning::Other,
            by_sha: OnceLock::new(),
        }
    }

    /// Returns the script with that meaning of its answers.
    pub(crate) const fn with_meaning(mut self, meaning: fn(&Value) -> Meaning) -> Self {
        self.meaning = meaning;
        self
    }

    /// Returns the script as one whose calls go behind all others of one write, batches included.
    pub(crate) const fn last(mut self) -> Self {
        self.goes_last = true;
        self
    }

    /// Returns true for a script whose calls go behind all others of one write.
    pub(crate) const fn goes_last(&self) -> bool {
        self.goes_last
    }

    /// A script of which `batch` can make several calls in one step, along with calls of other scripts. The
    /// batch knows it by `name`, and is called as the header of `lua/mutex/batch.lua` states.
    pub(crate) const fn batched(
        written: &'static str,
        name: &'static str,
        batch: &'static Script,
    ) -> Self {
        let mut script = Self::new(written);
        script.batch = Some((name, batch));
        script
    }

    /// The text that is sent to servers.
    pub(crate) fn source(&self) -> &str {
        self.source.get_or_init(|| {
            SHARED.iter().fold(Cow::Borrowed(self.written), |text, (line, shared)| {
                if text.contains(line) { text.replace(line, shared).into() } else { text }
            })
        })
    }

    pub(crate) fn batch(&self) -> Option<(&'static str, &'static Script)> {
        self.batch
    }

    fn by_sha(&self) -> &[u8] {
        self.by_sha.get_or_init(|| {
            let script = redis::Script::new(self.source());
            let mut call = Vec::new();
            write_bytes(&mut call, b"EVALSHA");
            write_bytes(&mut call, script.get_hash().as_bytes());
            call
        })
    }

    /// Appends the beginning of a call: everything before its keys and other arguments, of which it has these numbers.
    pub(super) fn write_to(&self, buffer: &mut Vec<u8>, form: Form, keys: usize, arguments: usize) {
        // Three more: the command, the script and the number of keys.
        write_head(buffer, b'*', 3 + keys + arguments);
        match form {
            Form::Sha => buffer.extend_from_slice(self.by_sha()),
            Form::Source => {
                write_bytes(buffer, b"EVAL");
                write_bytes(buffer, self.source().as_bytes());
            }
        }
        write_number(buffer, keys);
    }
}

/// A key of a call, or another argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Bytes(&'a [u8]),
    Number(i64),
    /// The mark under which the node grants. It is known when the call is written; it is empty in a call
    /// that is not written for a node.
    Mark,
}

impl From<u64> for Part<'_> {
    /// Converts a number of a lock, which is far below the limit.
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Duration> for Part<'_> {
    /// Converts to milliseconds, as scripts take it. Settings are checked to be far below the limit.
    fn from(duration: Duration) -> Self {
        Self::Number(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

/// One call of a script, the same for all its nodes. It is made for each attempt and each release, so it is
/// packed at once and by hand: in one piece of memory for all nodes.
#[derive(Debug)]
pub(crate) struct Request {
    script: &'static Script,
    keys: usize,
    arguments: usize,
    /// The keys and the other arguments, in wire format.
    packed: Vec<u8>,
    /// Position in `packed` where the other arguments begin.
    arguments_at: usize,
    /// Position in `packed` where the mark belongs.
    mark_at: Option<usize>,
    /// Position in `packed` behind the first key, which is that of the lock.
    first_key_to: usize,
    /// The place in `packed` of the key of the mark; empty if there is none.
    mark_key: Range<usize>,
    /// The places in `packed` of the lifetimes of the lock and of its fence; empty if there are none.
    lifetimes: [Range<usize>; 2],
}

/// The parts of a call that takes a lock, in the form in which a batch has them. The mark and its key are the batch's own,
/// and equal lifetimes are common to a run of such calls. So each call costs a server five arguments instead of nine.
#[derive(Clone, Copy)]
pub(super) struct Taking<'a>(&'a Request);

impl Request {
    /// A call whose first `keys` parts are its keys.
    pub(crate) fn new(script: &'static Script, keys: usize, parts: &[Part<'_>]) -> Self {
        let mut request = RequestBuilder::new(script);
        for (i, part) in parts.iter().enumerate() {
            match part {
                Part::Bytes(key) if i < keys => request.key(key),
                part => request.argument(Some(*part)),
            }
        }
        request.build()
    }

    /// The script, and the numbers of KEYS and of ARGV that it is called with.
    #[cfg(test)]
    pub(crate) fn shape(&self) -> (&'static str, usize, usize) {
        (self.script.source(), self.keys, self.arguments)
    }

    /// The sources of the scripts that may make the call: its own, and that of its batch.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> Vec<&'static str> {
        let batch = self.script.batch.map(|(_, batch)| batch.source());
        [self.script.source()].into_iter().chain(batch).collect()
    }

    /// The keys of the call.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut packed = Vec::new();
        write_head(&mut packed, b'*', self.keys);
        self.write_keys(&mut packed);
        let keys = redis::parse_redis_value(&packed).expect("a list");
        redis::from_redis_value(keys).expect("a list of strings")
    }

    /// The call as one command, with the script's source, as a server reads it.
    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn eval(&self, mark: &str) -> Vec<Vec<u8>> {
        let mut buffer = Vec::new();
        self.write_to(&mut buffer, Form::Source, mark);
        let command = redis::parse_redis_value(&buffer).expect("a command");
        redis::from_redis_value(command).expect("a list of strings")
    }

    pub(crate) fn script(&self) -> &'static Script {
        self.script
    }

    /// The meaning of an answer to the call.
    pub(crate) fn meaning(&self, answer: &Value) -> Meaning {
        (self.script.meaning)(answer)
    }

    /// The numbers of keys and of other arguments of the call.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.keys, self.arguments)
    }

    /// The first key, in wire format: that of the lock, if the call is about one.
    pub(crate) fn first_key(&self) -> &[u8] {
        &self.packed[..self.first_key_to]
    }

    /// The call as one that takes a lock, if it does: it has the mark and the key of the mark.
    pub(super) fn as_taking(&self) -> Option<Taking<'_>> {
        let takes = self.mark_at.is_some() && !self.mark_key.is_empty();
        takes.then_some(Taking(self))
    }

    /// Appends the call to what will be written to a node that grants under `mark`.
    pub(super) fn write_to(&self, buffer: &mut Vec<u8>, form: Form, mark: &str) {
        self.script.write_to(buffer, form, self.keys, self.arguments);
        self.write_keys(buffer);
        self.write_arguments(buffer, mark);
    }

    pub(super) fn write_keys(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.packed[..self.arguments_at]);
    }

    pub(super) fn write_arguments(&self, buffer: &mut Vec<u8>, mark: &str) {
        let mark_at = self.mark_at.unwrap_or(self.packed.len());
        buffer.extend_from_slice(&self.packed[self.arguments_at..mark_at]);
        if self.mark_at.is_some() {
            write_bytes(buffer, mark.as_bytes());
        }
        buffer.extend_from_slice(&self.packed[mark_at..]);
    }
}

impl<'a> Taking<'a> {
    /// The numbers of keys and of other arguments of the call itself.
    pub(super) fn counts(self) -> (usize, usize) {
        let (mark_key, mark) = (1, 1);
        let lifetimes = self.lifetimes().filter(|packed| !packed.is_empty()).count();
        (self.0.keys - mark_key, self.0.arguments - mark - lifetimes)
    }

    /// The lifetimes of the lock and of its fence, in wire format; empty if there are none.
    pub(super) fn lifetimes(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.0.lifetimes.iter().map(move |place| &self.0.packed[place.clone()])
    }

    /// Appends these lifetimes.
    pub(super) fn write_lifetimes(self, buffer: &mut Vec<u8>) {
        for lifetime in self.lifetimes() {
            if lifetime.is_empty() {
                write_bytes(buffer, b"");
            }
            buffer.extend_from_slice(lifetime);
        }
    }

    /// The keys behind that of the lock, in wire format.
    pub(super) fn other_keys(self) -> &'a [u8] {
        &self.0.packed[self.0.mark_key.end..self.0.arguments_at]
    }

    /// Appends the arguments of the call itself.
    pub(super) fn write_arguments(self, buffer: &mut Vec<u8>) {
        let Request { packed, lifetimes: [lock, fence], arguments_at, .. } = self.0;
        buffer.extend_from_slice(&packed[*arguments_at..lock.start]);
        buffer.extend_from_slice(&packed[lock.end..fence.start]);
        buffer.extend_from_slice(&packed[fence.end..]);
    }
}

/// Packs a call from its keys, and then from its other arguments.
pub(crate) struct RequestBuilder {
    request: Request,
    /// Number of missing arguments before the next one. They are left out at the end, and empty before another one.
    lacking: usize,
    /// Position of the last argument.
    last_at: usize,
}

impl RequestBuilder {
    pub(crate) fn new(script: &'static Script) -> Self {
        // Enough for most names and owners.
        let packed = Vec::with_capacity(256);
        let request = Request {
            script,
            keys: 0,
            arguments: 0,
            packed,
            arguments_at: 0,
            mark_at: None,
            first_key_to: 0,
            mark_key: 0..0,
            lifetimes: [0..0, 0..0],
        };
        Self { request, lacking: 0, last_at: 0 }
    }

    /// Appends a key. All keys come before the arguments.
    pub(crate) fn key(&mut self, key: &[u8]) {
        write_bytes(&mut self.request.packed, key);
        self.request.keys += 1;
        self.request.arguments_at = self.request.packed.len();
        if self.request.keys == 1 {
            self.request.first_key_to = self.request.arguments_at;
        }
    }

    /// Appends the key of the mark.
    pub(crate) fn mark_key(&mut self, key: &[u8]) {
        let start = self.request.packed.len();
        self.key(key);
        self.request.mark_key = start..self.request.packed.len();
    }

    /// Appends the lifetime of the lock.
    pub(crate) fn ttl(&mut self, part: Part<'_>) {
        self.lifetime(0, Some(part));
    }

    /// Appends the lifetime of the fence; `None` if the call lacks it.
    pub(crate) fn fence_ttl(&mut self, part: Option<Part<'_>>) {
        self.lifetime(1, part);
    }

    fn lifetime(&mut self, which: usize, part: Option<Part<'_>>) {
        self.argument(part);
        let length = self.request.packed.len();
        let start = part.map_or(length, |_| self.last_at);
        self.request.lifetimes[which] = start..length;
    }

    /// Appends an argument; `None` if the call lacks it.
    pub(crate) fn argument(&mut self, part: Option<Part<'_>>) {
        let Some(part) = part else {
            self.lacking += 1;
            return;
        };
        let request = &mut self.request;
        for _ in 0..self.lacking {
            write_bytes(&mut request.packed, b"");
        }
        request.arguments += self.lacking + 1;
        self.lacking = 0;
        self.last_at = request.packed.len();
        match part {
            Part::Bytes(bytes) => write_bytes(&mut request.packed, bytes),
            Part::Number(number) => write_number(&mut request.packed, number),
            Part::Mark => request.mark_at = Some(request.packed.len()),
        }
    }

    pub(crate) fn build(self) -> Request {
        self.request
    }
}

/// Appends a number as servers take it: as a string.
pub(super) fn write_number(buffer: &mut Vec<u8>, number: impl itoa::Integer) {
    write_bytes(buffer, itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a string as servers take it: its length, and itself.
pub(super) fn write_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    write_head(buffer, b'$', bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.extend_from_slice(b"\r\n");
}

fn write_head(buffer: &mut Vec<u8>, sign: u8, count: usize) {
    buffer.push(sign);
    buffer.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    buffer.extend_from_slice(b"\r\n");
}

/// The answer of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
    List(Vec<Value>),
    /// Anything that our scripts never answer, as text.
    Strange(String),
}

impl Value {
    /// Returns true for an answer that scripts about locks may give: an integer, a list, or the digits of a number.
    pub(crate) fn is_of_script(&self) -> bool {
        match self {
            Self::Int(_) | Self::List(_) => true,
            Self::Text(text) => !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()),
            Self::Strange(_) => false,
        }
    }
}

impl From<redis::Value> for Value {
    fn from(value: redis::Value) -> Self {
        match value {
            redis::Value::Int(number) => Self::Int(number),
            redis::Value::BulkString(bytes) => {
                Self::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            redis::Value::SimpleString(text) => Self::Text(text),
            redis::Value::VerbatimString { text, .. } => Self::Text(text),
            redis::Value::Okay => Self::Text("OK".to_owned()),
            redis::Value::Array(values) => Self::List(values.into_iter().map(Self::from).collect()),
            other => Self::Strange(strange(&other).to_owned()),
        }
    }
}

/// The name of any other type of answer, which none of our scripts gives.
fn strange(value: &redis::Value) -> &'static str {
    match value {
        redis::Value::Nil => "nothing (nil)",
        redis::Value::Map(_) => "a map",
        redis::Value::Set(_) => "a set",
        redis::Value::Double(_) => "a fraction",
        redis::Value::Boolean(_) => "true or false",
        redis::Value::BigNumber(_) => "a big number",
        redis::Value::ServerError(_) => "an error in a list",
        _ => "something unknown",
    }
}

/// Number of parts of a list that are shown.
const SHOWN: usize = 10;

/// A short form for messages: the answer of a server may be long, and deep.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => quoted(text).fmt(f),
            Self::Strange(what) => what.fmt(f),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().take(SHOWN).enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match value {
                        Self::List(_) => f.write_str("a list")?,
                        value => value.fmt(f)?,
                    }
                }
                f.write_str(if values.len() > SHOWN { ", ..]" } else { "]" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SCRIPT: Script = Script::new("return 1");

    #[test]
    fn what_a_server_answers_is_shown_in_short() {
        let text = |text: &str| Value::Text(text.to_owned());
        let list = Value::List(vec![Value::Int(-2), text("a\n"), Value::List(vec![text("b")])]);
        assert_eq!(list.to_string(), "[-2, a\\n, a list]");
        assert!(text(&"a".repeat(1 << 18)).to_string().len() < 300);
        let long = Value::List(vec![Value::List(vec![text(&"a".repeat(1 << 18))]); 11]);
        assert!(long.to_string().ends_with("a list, ..]"), "{long}");
    }

    /// The `redis` crate writes the same bytes.
    #[test]
    fn a_call_is_written_as_servers_read_it() {
        let parts = [
            Part::Bytes(b"key\r\n$1"),
            Part::Bytes(b""),
            Part::from(Duration::from_secs(24 * 60 * 60)),
            Part::Mark,
            Part::from(u64::MAX),
            Part::Number(-1),
        ];
        let request = Request::new(&SCRIPT, 2, &parts);
        assert_eq!(request.shape(), ("return 1", 2, 4));
        let hash = redis::Script::new("return 1").get_hash().to_owned();
        for (form, command, script) in
            [(Form::Sha, "EVALSHA", hash.as_str()), (Form::Source, "EVAL", "return 1")]
        {
            for mark in ["", "quorlock 1 admitted"] {
                let mut written = b"before".to_vec();
                request.write_to(&mut written, form, mark);
                let expected = redis::cmd(command)
                    .arg(script)
                    .arg(2)
                    .arg(b"key\r\n$1")
                    .arg("")
                    .arg(86_400_000)
                    .arg(mark)
                    .arg(i64::MAX)
                    .arg(-1)
                    .get_packed_command();
                assert_eq!(written, [b"before".as_slice(), &expected].concat());
            }
        }
    }
}
