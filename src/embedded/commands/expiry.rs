//! Expiry times of keys.

use crate::embedded::keyspace::Bytes;
use crate::embedded::number;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("EXPIRE", -3, |state, words| expire(state, words, Unit::SECONDS, "expire")),
    command("PEXPIRE", -3, |state, words| expire(state, words, Unit::MILLISECONDS, "pexpire")),
    command("EXPIREAT", -3, |state, words| expire(state, words, Unit::AT_SECOND, "expireat")),
    command("PEXPIREAT", -3, |state, words| {
        expire(state, words, Unit::AT_MILLISECOND, "pexpireat")
    }),
    command("PERSIST", 2, persist),
    command("TTL", 2, |state, words| {
        Ok(Reply::Int(remaining(state, &words[0], |ms| (ms + 500) / 1_000)))
    }),
    command("PTTL", 2, |state, words| Ok(Reply::Int(remaining(state, &words[0], |ms| ms)))),
    command("PEXPIRETIME", 2, |state, words| Ok(Reply::Int(deadline(state, &words[0])))),
];

/// The unit of a command's time, and its starting point.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    milliseconds: i64,
    from_now: bool,
}

impl Unit {
    const SECONDS: Self = Self { milliseconds: 1_000, from_now: true };
    const MILLISECONDS: Self = Self { milliseconds: 1, from_now: true };
    const AT_SECOND: Self = Self { milliseconds: 1_000, from_now: false };
    const AT_MILLISECOND: Self = Self { milliseconds: 1, from_now: false };

    /// The unit of the SET option with that name.
    pub(super) fn of_set(word: &[u8]) -> Option<Self> {
        let units = [
            ("EX", Self::SECONDS),
            ("PX", Self::MILLISECONDS),
            ("EXAT", Self::AT_SECOND),
            ("PXAT", Self::AT_MILLISECOND),
        ];
        units.into_iter().find(|(name, _)| is(word, name)).map(|(_, unit)| unit)
    }

    /// In milliseconds of the node's clock; `None` if the sum overflows.
    pub(super) fn to_deadline(self, time: i64, now_ms: i64) -> Option<i64> {
        let start = if self.from_now { now_ms } else { 0 };
        time.checked_mul(self.milliseconds)?.checked_add(start)
    }
}

pub(super) fn invalid(command: &str) -> Fault {
    Fault::new(format!("ERR invalid expire time in '{command}' command"))
}

/// The condition of the command on a key's present deadline.
#[derive(Default)]
struct Condition {
    none: bool,
    some: bool,
    later: bool,
    sooner: bool,
}

impl Condition {
    fn parse(words: &[Bytes]) -> Result<Self, Fault> {
        let mut condition = Self::default();
        for word in words {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => condition.none = true,
                b"XX" => condition.some = true,
                b"GT" => condition.later = true,
                b"LT" => condition.sooner = true,
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Fault::new(format!("ERR Unsupported option {word}")));
                }
            }
        }
        if condition.none && (condition.some || condition.later || condition.sooner) {
            return Err(Fault::of(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        } else if condition.later && condition.sooner {
            return Err(Fault::of("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    fn holds(&self, old: Option<i64>, new: i64) -> bool {
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.sooner && old.is_some_and(|old| new >= old))
    }
}

fn expire(state: &mut State, words: &[Bytes], unit: Unit, name: &str) -> Answer {
    let keyspace = &mut state.keyspace;
    let condition = Condition::parse(&words[2..])?;
    let time = number::integer(&words[1])?;
    let deadline = unit.to_deadline(time, keyspace.now_ms()).ok_or_else(|| invalid(name))?;
    let allowed =
        keyspace.entry(&words[0]).is_some_and(|entry| condition.holds(entry.expires_at, deadline));
    if allowed {
        keyspace.expire(&words[0], Some(deadline));
    }
    Ok(Reply::flag(allowed))
}

fn persist(state: &mut State, words: &[Bytes]) -> Answer {
    let ends = state.keyspace.entry(&words[0]).is_some_and(|entry| entry.expires_at.is_some());
    state.keyspace.expire(&words[0], None);
    Ok(Reply::flag(ends))
}

const NO_KEY: i64 = -2;
const NEVER: i64 = -1;

fn deadline(state: &State, key: &[u8]) -> i64 {
    state.keyspace.entry(key).map_or(NO_KEY, |entry| entry.expires_at.unwrap_or(NEVER))
}

fn remaining(state: &State, key: &[u8], shown: impl Fn(i64) -> i64) -> i64 {
    match deadline(state, key) {
        at if at < 0 => at,
        at => shown(at.saturating_sub(state.keyspace.now_ms()).max(0)),
    }
}
