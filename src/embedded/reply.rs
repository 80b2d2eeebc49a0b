//! The answers of a node, and their wire format.

use std::borrow::Cow;

/// The answer to one command, in the types of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Status(String),
    /// The first word is the class of the error: `ERR`, `WRONGTYPE`, `NOSCRIPT` ..
    Error(String),
    List(Vec<Reply>),
}

/// An error reply on its way out of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(Cow<'static, str>);

/// The result of a command.
pub(super) type Answer = Result<Reply, Fault>;

impl Fault {
    pub(super) const WRONG_TYPE: Self =
        Self::of("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const SYNTAX: Self = Self::of("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self = Self::of("ERR value is not an integer or out of range");
    pub(super) const NOT_A_FLOAT: Self = Self::of("ERR value is not a valid float");
    pub(super) const OVERFLOW: Self = Self::of("ERR increment or decrement would overflow");

    pub(super) const fn of(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(super) fn new(text: String) -> Self {
        Self(Cow::Owned(one_line(&text)))
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self::Error(fault.0.into_owned())
    }
}

impl Reply {
    pub(super) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    /// 1 for yes, 0 for no.
    pub(super) fn flag(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }

    /// Appends the answer in the wire format of RESP2.
    pub(super) fn write_to(&self, buffer: &mut Vec<u8>) {
        match self {
            Self::Int(number) => line(buffer, ':', number),
            Self::Bulk(bytes) => {
                line(buffer, '$', bytes.len());
                buffer.extend_from_slice(bytes);
                buffer.extend_from_slice(b"\r\n");
            }
            Self::Nil => line(buffer, '$', -1),
            Self::Status(text) => line(buffer, '+', text),
            Self::Error(text) => line(buffer, '-', text),
            Self::List(replies) => {
                line(buffer, '*', replies.len());
                replies.iter().for_each(|reply| reply.write_to(buffer));
            }
        }
    }

    /// An integer reply for a number of things in memory.
    pub(super) fn count(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(super) fn bulk(value: impl AsRef<[u8]>) -> Self {
        Self::Bulk(value.as_ref().to_vec())
    }

    pub(super) fn bulk_or_nil(value: Option<impl AsRef<[u8]>>) -> Self {
        value.map_or(Self::Nil, Self::bulk)
    }

    pub(super) fn bulks(values: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        Self::List(values.into_iter().map(Self::bulk).collect())
    }
}

fn line(buffer: &mut Vec<u8>, sign: char, what: impl std::fmt::Display) {
    buffer.extend_from_slice(format!("{sign}{what}\r\n").as_bytes());
}

/// Makes a text fit for a status or an error, which ends with its line. It is also a C string, so a zero byte ends it.
pub(super) fn one_line(text: &str) -> String {
    text.split('\0').next().unwrap_or_default().replace(['\r', '\n'], " ")
}
