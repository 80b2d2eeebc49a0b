//! Random calls of scripts: those in `lua/`, and small ones that move values between Lua and Redis.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::commands::{Call, Comparison, PATTERNS, Source};
use crate::support::lua::{named, with_includes};

/// A script of `lua/`, with the keys and arguments that its header names.
pub(crate) struct Shipped {
    source: String,
    keys: Vec<Times>,
    arguments: Vec<(Times, Argument)>,
}

/// The number of values that a call has for a key, or for an argument.
#[derive(Clone, Copy)]
enum Times {
    Once,
    /// One value for each name of the lock.
    ForEachName,
}

impl Times {
    fn of(line: &str) -> Self {
        let repeats = line.contains("(one for each name") || line.ends_with("..");
        if repeats { Self::ForEachName } else { Self::Once }
    }

    fn with(self, names: usize) -> usize {
        match self {
            Self::Once => 1,
            Self::ForEachName => names,
        }
    }
}

/// The maximum of names that a lock has in these calls.
const MOST_NAMES: usize = 3;

#[derive(Clone, Copy)]
enum Argument {
    Milliseconds,
    RunId,
    ReplicationId,
    /// The cursor of a scan: servers have their keys in another order than embedded nodes.
    Cursor,
    Pattern,
    Other,
}

/// The number of milliseconds in some calls of scripts.
pub(crate) const LONGEST_TTL: Duration = Duration::from_millis(99_999_999_999_999);

/// Placeholders for the identity of each of the two nodes.
pub(crate) const RUN_ID: &[u8] = b"<run id>";
pub(crate) const REPLICATION_ID: &[u8] = b"<replication id>";

pub(crate) fn shipped() -> Vec<Shipped> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("lua")];
    let mut scripts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lua") {
                scripts.push(Shipped::read(fs::read_to_string(path).expect("a text file")));
            }
        }
    }
    assert!(scripts.len() >= 3, "the scripts in lua/");
    scripts
}

impl Shipped {
    fn read(source: String) -> Self {
        let stated = |table: &str| {
            let start = format!("-- {table}[");
            let lines = source.lines().filter(|line| line.starts_with(&start));
            lines.map(str::to_owned).chain(named(&source, table)).collect::<Vec<_>>()
        };
        let keys: Vec<_> = stated("KEYS").iter().map(|line| Times::of(line)).collect();
        let argument = |line: &String| (Times::of(line), Argument::of(line));
        let arguments: Vec<_> = stated("ARGV").iter().map(argument).collect();
        let is_part = ["-- Part of ", "-- The end of "].iter().any(|it| source.starts_with(it));
        assert!(is_part || keys.len() + arguments.len() > 0, "called with nothing:\n{source}");
        Self { source: with_includes(&source), keys, arguments }
    }
}

/// Owners, marks, numbers of grants.
const OTHERS: &[&str] = &["owner", "owner", "other", "", "7", "123456789012345"];

impl Argument {
    fn of(line: &str) -> Self {
        [
            ("milliseconds", Self::Milliseconds),
            ("TTL", Self::Milliseconds),
            ("UNTIL", Self::Milliseconds),
            ("KEEP_BY", Self::Milliseconds),
            ("OUTLIVES", Self::Milliseconds),
            ("STAYS_FOR", Self::Milliseconds),
            ("run id", Self::RunId),
            ("replication id", Self::ReplicationId),
            ("the cursor", Self::Cursor),
            ("the pattern", Self::Pattern),
        ]
        .into_iter()
        .find(|(word, _)| line.contains(word))
        .map_or(Self::Other, |(_, argument)| argument)
    }
}

/// The patterns of scripts that process values: `E` is an expression, `L` a literal, `N` a number, `K` a key, `C` and `P` calls.
/// (The text of a table is different each time, and as an error a table ends Redis 7.0.)
const EXPRESSIONS: &[&str] = &[
    "E",
    "{E, E}",
    "{E, {E}, E}",
    "{E, nil, E}",
    "{E, a = E}",
    "tostring(L)",
    "type(E)",
    "tonumber(E)",
    "select(2, E, E)",
    "pcall((E))",
    "pcall(tostring, L)",
    "pcall(error, L)",
    "{pcall(redis.call, 'GET', KEYS[1])}",
    "N + N",
    "N * N",
    "N / N",
    "N .. ''",
    "-N",
    "math.floor(N)",
    "string.format('%d', 7)",
    "string.format('%.17g', N)",
    "string.rep('x', 3)",
    "{string.find('abc', 'b')}",
    "('abc'):upper()",
    "#ARGV",
    "#KEYS",
    "unpack({E, E})",
    "{unpack({E, E})}",
    "next({})",
    "redis.sha1hex(E)",
    "redis.error_reply(E)",
    "redis.status_reply(E)",
    "{ok = E}",
    "{err = E}",
    "nosuch",
    "(E).field",
    "E == E",
    "E and E or E",
    "error(L)",
    "error({err = 'MY words'})",
    "KEYS",
    "ARGV",
    "C",
    "C",
    "C",
    "C",
    "P",
    "P",
    "{C, P}",
    "tonumber(ARGV[1])",
    "KEYS[9]",
    "table.concat({E, E}, ',')",
    "rawequal(E, E)",
    "assert(E, 'an assertion')",
    "pcall(function() return E end)",
    "math.max(N, N)",
    "N % 7",
    "setmetatable({E}, {__index = function() return E end})",
];
const LITERALS: &[&str] = &[
    "nil",
    "true",
    "false",
    "''",
    "'text'",
    "'1'",
    "'two words'",
    "'-MY words'",
    "'a\\r\\nb'",
    "KEYS[1]",
    "ARGV[1]",
    "'\\195\\164\\0'",
    "'1e3'",
    "'0x10'",
    "' 7 '",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3.99",
    "-3.99",
    "0.1",
    "1/3",
    "1e14",
    "123456789012345",
    "-123456789012345.5",
    "999999999999999",
    "1e15",
    "1e15 + 0.3",
    "2^53",
    "2^53 + 1",
    "2^62",
    "1e17",
    "1e18",
    "2^63",
    "-2^63",
    "1e100",
    "-1e100",
    "1e-5",
    "1/0",
    "-1/0",
    "100000000000000000000",
];
/// Commands of scripts, without those with answers in any order or with times in them.
const COMMANDS: &[&str] = &[
    "'GET', K",
    "'SET', K, E",
    "'SET', K, N",
    "'SET', K, E, 'NX'",
    "'SET', K, E, 'PX', 50000000",
    "'SET', K, E, 'PXAT', N",
    "'SET', K, 'x', 'GET'",
    "'DEL', K",
    "'EXISTS', K",
    "'TYPE', K",
    "'INCR', K",
    "'INCRBY', K, N",
    "'STRLEN', K",
    "'HSET', K, E, E",
    "'HSET', K, 'n', N",
    "'HGET', K, E",
    "'HINCRBY', K, 'n', N",
    "'HDEL', K, E",
    "'HMGET', K, E, 'n'",
    "'HLEN', K",
    "'SADD', K, E",
    "'SREM', K, E",
    "'SCARD', K",
    "'ZADD', K, N, E",
    "'ZSCORE', K, E",
    "'ZRANGE', K, 0, -1, 'WITHSCORES'",
    "'ZRANGEBYSCORE', K, '-inf', N",
    "'ZREM', K, E",
    "'RPUSH', K, E",
    "'LRANGE', K, 0, -1",
    "'LPOP', K",
    "'PEXPIREAT', K, N",
    "'PERSIST', K",
    "'PING'",
    "'ECHO', E",
    "'NOSUCH', E",
    "'GET'",
    "E",
    "",
    "'SCRIPT', 'FLUSH'",
    "'EVAL', 'return 1', 0",
    "'SUBSCRIBE', 'x'",
    "'get', K",
];

impl Source {
    pub(crate) fn shipped_call(&mut self, scripts: &[Shipped]) -> Call {
        let script = &scripts[self.below(scripts.len())];
        let names = 1 + self.below(MOST_NAMES);
        let keys: usize = script.keys.iter().map(|times| times.with(names)).sum();
        let keys = (0..keys).map(|_| self.key().to_owned()).collect();
        let all = script.arguments.iter();
        let all = all.flat_map(|(times, argument)| [argument].repeat(times.with(names)));
        let arguments = all.map(|argument| match argument {
            Argument::Milliseconds => match self.below(8) {
                0 => "0".to_owned(),
                1 => LONGEST_TTL.as_millis().to_string(),
                _ => self.ttl(),
            },
            Argument::RunId if !self.once_in(8) => text(RUN_ID),
            Argument::ReplicationId if !self.once_in(8) => text(REPLICATION_ID),
            Argument::Cursor => "0".to_owned(),
            Argument::Pattern => self.one(PATTERNS).to_owned(),
            _ => self.one(OTHERS).to_owned(),
        });
        let arguments = arguments.collect();
        call(&script.source, keys, arguments, Comparison::Time)
    }

    pub(crate) fn fuzzed_call(&mut self) -> Call {
        let mut source = String::new();
        for _ in 0..self.below(3) {
            source += &format!("local _ = {}\n", self.fill("P", 2));
        }
        if self.once_in(8) {
            source += "x = 1\n";
        }
        source += &format!("return {}", self.fill("E", 0));
        let keys = (0..self.below(3)).map(|_| self.key().to_owned()).collect();
        let arguments = (0..self.below(3)).map(|_| self.value().to_owned()).collect();
        call(&source, keys, arguments, Comparison::Exact)
    }

    fn literal(&mut self) -> &'static str {
        let literals = if self.once_in(2) { LITERALS } else { NUMBERS };
        self.one(literals)
    }

    /// Replaces the single capital letters of a template.
    fn fill(&mut self, template: &str, depth: usize) -> String {
        let mut filled = String::new();
        let bytes = template.as_bytes();
        for (i, byte) in bytes.iter().enumerate() {
            let apart = |at: Option<usize>| {
                at.and_then(|at| bytes.get(at))
                    .is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b"'_.".contains(byte))
            };
            let stands_alone = apart(i.checked_sub(1)) && apart(Some(i + 1));
            match byte {
                b'E' if stands_alone && depth >= 3 => filled += self.literal(),
                b'L' if stands_alone => filled += self.literal(),
                b'E' if stands_alone => {
                    let template = self.one(EXPRESSIONS);
                    filled += &self.fill(template, depth + 1);
                }
                b'N' if stands_alone => filled += &format!("({})", self.one(NUMBERS)),
                b'K' if stands_alone => filled += &format!("'{}'", self.key()),
                b'C' | b'P' if stands_alone => {
                    let template = self.one(COMMANDS);
                    let arguments = self.fill(template, depth.max(2));
                    filled += if *byte == b'C' { "redis.call(" } else { "redis.pcall(" };
                    filled += &arguments;
                    filled.push(')');
                }
                byte => filled.push(char::from(*byte)),
            }
        }
        filled
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn call(source: &str, keys: Vec<String>, arguments: Vec<String>, comparison: Comparison) -> Call {
    let mut words = vec!["EVAL".to_owned(), source.to_owned(), keys.len().to_string()];
    words.extend(keys);
    words.extend(arguments);
    Call { words: words.into_iter().map(String::into_bytes).collect(), comparison }
}
