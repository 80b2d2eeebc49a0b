//! Script calls as bytes to write, and answers without a type of the `redis` crate.

use std::fmt;
use std::sync::OnceLock;

/// A Lua script out of `lua/`.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self { source, sha: OnceLock::new() }
    }

    fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(self.source).get_hash().to_owned())
    }
}

/// One call of a script, the same for all nodes it goes to.
#[derive(Debug)]
pub(crate) struct Request {
    script: &'static Script,
    keys: usize,
    arguments: Vec<Vec<u8>>,
    by_sha: Vec<u8>,
}

impl Request {
    /// A call with the keys first among `arguments`.
    pub(crate) fn new(script: &'static Script, keys: usize, arguments: Vec<Vec<u8>>) -> Self {
        let by_sha = packed("EVALSHA", script.sha(), keys, &arguments);
        Self { script, keys, arguments, by_sha }
    }

    /// The script, and the numbers of KEYS and of ARGV that it is called with.
    #[cfg(test)]
    pub(crate) fn shape(&self) -> (&'static str, usize, usize) {
        (self.script.source, self.keys, self.arguments.len() - self.keys)
    }

    /// The call as one command, with the script's source.
    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn eval(&self) -> Vec<Vec<u8>> {
        let keys = self.keys.to_string();
        let head = ["EVAL", self.script.source, &keys].map(|part| part.as_bytes().to_vec());
        head.into_iter().chain(self.arguments.iter().cloned()).collect()
    }

    pub(super) fn script(&self) -> &'static Script {
        self.script
    }

    /// Appends the call to what will be written to a node.
    pub(super) fn write_to(&self, buffer: &mut Vec<u8>, form: Form) {
        match form {
            Form::Sha => buffer.extend_from_slice(&self.by_sha),
            Form::Source => {
                let source = packed("EVAL", self.script.source, self.keys, &self.arguments);
                buffer.extend_from_slice(&source);
            }
        }
    }
}

/// How a script is named to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By its hash: short, and refused with NOSCRIPT by a server that has not seen it.
    Sha,
    /// With its source, which the server remembers until it restarts or is told to forget.
    Source,
}

fn packed(command: &str, script: &str, keys: usize, arguments: &[Vec<u8>]) -> Vec<u8> {
    redis::cmd(command).arg(script).arg(keys).arg(arguments).get_packed_command()
}

/// What a script answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
    List(Vec<Value>),
    /// Anything that our scripts never answer, as text.
    Strange(String),
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
            other => Self::Strange(format!("{other:?}")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) | Self::Strange(text) => write!(f, "{text:.100}"),
            Self::List(values) => f.debug_list().entries(values.iter().take(10)).finish(),
        }
    }
}
