//! Random commands: mostly sensible, on few keys, so that they affect each other.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The way to compare two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Exact,
    /// The elements come in any order.
    Unordered,
    /// Pairs of elements come in any order.
    UnorderedPairs,
    /// Numbers are times, and time passes between the two calls.
    Time,
}

/// A command, and the comparison of its answers.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) comparison: Comparison,
}

/// The patterns of commands. `k`: a key; `f`: a field or member; `v`: a value; `i`: an integer; `c`: a mostly
/// small integer; `s`: a score; `b`: a bound of scores; `t`: a time to live in milliseconds; `e`: a time to live that may be
/// wrong; `d`: a deadline; `p`: a pattern. Any longer word stands for itself; `|` separates alternatives.
const FAMILIES: &[&[&str]] = &[
    &[
        "SET k v",
        "SET k v NX|XX|GET",
        "SET k v PX t",
        "SET k v PX|EX|PXAT|EXAT e",
        "SET k v NX PX t",
        "SET k v XX KEEPTTL|GET",
        "SET k v PXAT d",
        "SET k v NX GET",
        "SET k v NX|PX XX|KEEPTTL",
        "GET k",
        "GETDEL k",
        "MGET k k",
        "STRLEN k",
        "INCR|DECR k",
        "INCRBY k i",
    ],
    &[
        "SET k v NX PXAT d",
        "SET k v XX KEEPTTL",
        "PERSIST k",
        "PTTL|TTL|PEXPIRETIME k",
        "PEXPIRE k t",
        "PEXPIRE k t NX|XX|GT|LT",
        "PEXPIRE k t NX|XX|GT|LT XX|GT|LT",
        "EXPIRE|PEXPIRE|EXPIREAT|PEXPIREAT k e",
        "PEXPIREAT k d",
        "PEXPIREAT k other NX|XX|GT|LT",
    ],
    &[
        "HSET k f v f v",
        "HSET k f i",
        "HSETNX k f v",
        "HGET|HEXISTS k f",
        "HMGET k f f",
        "HDEL k f f",
        "HLEN k",
        "HGETALL k",
        "HKEYS|HVALS k",
        "HINCRBY k f i",
    ],
    &["SADD|SREM k f f", "SISMEMBER k f", "SCARD k", "SMEMBERS k"],
    &[
        "ZADD k s f s f",
        "ZADD k NX|XX|GT|LT|CH s f",
        "ZADD k NX|XX|GT CH|LT|GT s f s f",
        "ZREM k f f",
        "ZSCORE|ZRANK k f",
        "ZCARD k",
        "ZRANGE k c c",
        "ZRANGE k c c WITHSCORES",
        "ZRANGE k b b BYSCORE LIMIT c c",
        "ZRANGEBYSCORE k b b",
        "ZRANGEBYSCORE k b b WITHSCORES LIMIT c c",
        "ZCOUNT|ZREMRANGEBYSCORE k b b",
    ],
    &["LPUSH|RPUSH k f f", "LPOP|RPOP|LLEN k", "LINDEX k c", "LRANGE k c c", "LREM k c f"],
    &[
        "DEL k k",
        "EXISTS k k",
        "TYPE k",
        "KEYS p",
        "SCAN 0 MATCH p COUNT 1000",
        "ECHO v",
        "PING",
        "PING v",
        "PUBLISH k v",
        "SELECT 0|-1|99|zero",
        "SCRIPT EXISTS f",
        "FLUSHALL",
        "NOSUCH k",
    ],
];

const KEYS: &[&str] = &["a", "a", "b", "lock"];
const FIELDS: &[&str] = &["f", "g", "h", "", "owner:1"];
const VALUES: &[&str] = &[
    "",
    "v",
    "1",
    "-1",
    "10",
    "owner",
    "100000000000001",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    " 1",
    "01",
    "+1",
    "1.5",
    "1e3",
    "a b\r\n",
    "größe",
];
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "-2",
    "-3",
    "100",
    "-100",
    "123456789012345",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "x",
    "1.5",
    "",
    "01",
];
const COUNTS: &[&str] = &["0", "1", "-1", "2", "-2"];
const SCORES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "1.5",
    "0.1",
    "1e20",
    "-3e-7",
    "inf",
    "-inf",
    "+5",
    "123456789012345678",
    "9007199254740993",
    "nan",
    "x",
    "",
];
const BOUNDS: &[&str] = &["-inf", "+inf", "0", "(0", "1", "(1", "1.5", "2", "-1", "(x", "nan"];
/// Times to live that are long, past or wrong, but none that ends within the test.
const EXPIRIES: &[&str] = &[
    "0",
    "-1",
    "-100",
    "123456789012345",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "",
    "01",
    "1.5",
];
/// Deadlines, mostly in the future and some in the past.
const DEADLINES: &[&str] =
    &["4102444800000", "4102444800000", "4102444800001", "4102448400000", "1500000000000", "-1"];
/// Deadlines that are compared with those of keys, half an hour away from each. A key may have a deadline that a script has made
/// from its time to live: on a busy server that is a millisecond later. `borders.rs` has equal ones.
const OTHER_DEADLINES: &[&str] = &["4102446600000", "4102450200000", "1500000000000", "-1"];
pub(crate) const PATTERNS: &[&str] = &["*", "?", "l*k", "[a-b]", "[^a]", "lock", "\\a", "x*"];

/// The source of random words: the same words for the same seed.
pub(crate) struct Source {
    random: StdRng,
    drawn: u64,
    /// The family of most commands in a sequence, so that they affect each other.
    family: Option<usize>,
}

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let mut source = Self { random, drawn: 0, family: None };
        source.family = (!source.once_in(4)).then(|| source.below(FAMILIES.len()));
        source
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    /// Returns true once in `n` times.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    pub(crate) fn key(&mut self) -> &'static str {
        self.one(KEYS)
    }

    pub(crate) fn value(&mut self) -> &'static str {
        self.one(VALUES)
    }

    /// Hours to live, each time different: their order must not depend on the times when they are set.
    pub(crate) fn ttl(&mut self) -> String {
        self.drawn += 1;
        (10_000_000 * (1 + self.below(9) as u64) + self.drawn * 10_000).to_string()
    }

    pub(crate) fn command(&mut self) -> Call {
        let family = self.family.filter(|_| !self.once_in(4));
        let family = FAMILIES[family.unwrap_or_else(|| self.below(FAMILIES.len()))];
        let template = self.one(family);
        let mut words: Vec<_> = template.split(' ').map(|word| self.word(word)).collect();
        let mut comparison = match words[0].as_slice() {
            b"KEYS" | b"SCAN" | b"HKEYS" | b"HVALS" | b"SMEMBERS" => Comparison::Unordered,
            b"HGETALL" => Comparison::UnorderedPairs,
            b"PTTL" | b"TTL" | b"PEXPIRETIME" => Comparison::Time,
            _ => Comparison::Exact,
        };
        if self.once_in(30) {
            // Removes a word: most often, too few words are left.
            words.pop();
            if words.is_empty() {
                words.push(b"GET".to_vec());
                comparison = Comparison::Exact;
            }
        } else if self.once_in(50) && !words[0].ends_with(b"POP") {
            // Adds a word, but not to POP: it would be a number of elements, which embedded nodes do not support.
            words.push(self.value().into());
        }
        if self.once_in(10) {
            words[0].make_ascii_lowercase();
        }
        Call { words, comparison }
    }

    fn word(&mut self, template: &str) -> Vec<u8> {
        let word = match template {
            "k" => self.key(),
            "f" => self.one(FIELDS),
            "v" if self.once_in(20) => return vec![0, 0xff, b'\r', b'\n'],
            "v" => self.value(),
            "c" if !self.once_in(4) => self.one(COUNTS),
            "i" | "c" => self.one(INTEGERS),
            "s" => self.one(SCORES),
            "b" => self.one(BOUNDS),
            "e" => self.one(EXPIRIES),
            "d" => self.one(DEADLINES),
            "other" => self.one(OTHER_DEADLINES),
            "p" => self.one(PATTERNS),
            "t" => return self.ttl().into_bytes(),
            words => self.one(&words.split('|').collect::<Vec<_>>()),
        };
        word.as_bytes().to_vec()
    }
}
