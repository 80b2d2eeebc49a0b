//! The properties of everything that a server or a user sends: it is read or refused, in bounded time and memory, and none
//! of it ends a thread.
//!
//! Property tests call these functions with nearly correct input, and with any input; the targets in `fuzz/` have a fuzzer
//! look for worse. So the functions are public under `cfg(fuzzing)`, and only there.

#![allow(unreachable_pub, reason = "the tests are in the crate, and the fuzzer is not")]
#![allow(clippy::missing_panics_doc, reason = "that is how each of them tells what it has found")]

use std::time::Duration;

use crate::core::admission::Admission;
use crate::core::admission::mark::Mark;
use crate::core::admission::{
    Chance, Configuration, Grants, Identity, NextProbe, NodeState, Offset, Probe, Role,
};
use crate::core::base::{Allowance, Time};
use crate::core::link::Via;
use crate::core::vote::{Attempt, Ballot, Conclusion, Failure, Proposal, Vote};
use crate::ident::{self, Name, NameText};

pub use crate::node::fuzzing::*;

#[cfg(test)]
mod tests;

/// Returns true if the text contains no line break and no control sequence for a log or a terminal.
pub(crate) fn is_printable(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// A text is a mark in exactly one spelling, or no mark.
pub fn mark(text: &str) {
    if let Some(mark) = Mark::parse(text) {
        assert_eq!(mark.to_string(), text);
        assert!(text.len() <= 512 && is_printable(text), "{text}");
        let ours = configuration();
        for difference in ours.differences(&mark.configuration) {
            assert!(
                is_printable(&difference.ours) && is_printable(&difference.theirs),
                "{difference:?}"
            );
        }
    }
}

/// A name can be locked or is refused; no key of one lock is a key of another lock.
pub fn name(prefix: &[u8], bytes: &[u8]) {
    let shown = format!("{:?}", NameText(bytes));
    assert!(is_printable(&shown) && shown.len() < 1_024, "{shown}");
    match Name::new(prefix, bytes) {
        Ok(name) => {
            assert_eq!(name.as_bytes(), bytes);
            assert!((1..=4_096).contains(&bytes.len()));
            assert!(is_printable(&name.to_string()) && name.to_string().len() < 1_024, "{name}");
            let beside = [
                ident::fence_key(name.key()),
                ident::mark_key(prefix),
                ident::replicated_key(prefix),
                ident::tombstone_key(name.key(), bytes),
                ident::release_channel(name.key()),
            ];
            assert!(!beside.iter().any(|key| key == name.key()), "{name}");
            // The keys kept next to a lock cannot be locked themselves, whatever the prefix is.
            for key in &beside[..4] {
                assert!(Name::new(b"", key).is_err(), "{}", key.escape_ascii());
            }
        }
        Err(error) => assert!(is_printable(&error.to_string()), "{error}"),
    }
}

/// Nodes answer an attempt in any order, with anything, several times, or not at all. A lock is won only by a majority of
/// nodes that grant it.
pub fn votes(data: &[u8]) {
    const NODES: usize = 5;
    let at = |ms| Time::from_start(Duration::from_millis(ms));
    let allowance = Allowance { clock_tolerance: Duration::ZERO };
    let mut attempt = Attempt::new(NODES, at(0), at(200), Duration::from_secs(10), allowance);
    attempt.proposes(Proposal { number: 1 << 20, reached: 1 << 24 });
    let mut first = [None; NODES];
    for event in data.chunks_exact(10) {
        let node = usize::from(event[0]) % NODES;
        let number = u64::from_le_bytes(event[2..].try_into().expect("eight bytes"));
        let remaining = Duration::from_millis(number);
        let vote = match event[1] % 14 {
            0..5 => Vote::Granted(number),
            5 => Vote::Refused(Some(remaining)),
            6 => Vote::Refused(None),
            7 => Vote::NotAdmitted,
            8 => Vote::WrongKind,
            9 => Vote::Spent,
            10 => Vote::NoNumber,
            11 => Vote::Taken { remaining, free: [node].into_iter().collect() },
            12 => Vote::OtherPermits { permits: number, remaining },
            _ => {
                attempt.fail(node, Failure::Unknown);
                first[node].get_or_insert(false);
                continue;
            }
        };
        if first[node].is_none() {
            attempt.sending(node, Via { connection: 1, fenced: false }, at(1));
        }
        attempt.vote(node, vote);
        first[node].get_or_insert(matches!(vote, Vote::Granted(_)));
    }
    let granted = first.iter().filter(|granted| **granted == Some(true)).count();
    let won = matches!(attempt.conclude(at(100)), Conclusion::Won { .. } | Conclusion::Unconfirmed);
    assert!(!won || granted > NODES / 2, "{first:?}");
    let _ = (attempt.number_to_write_back(), attempt.number_of_several(), attempt.is_split());
    for cleanup in attempt.close(0) {
        assert!(first[cleanup.node].is_some(), "it was never asked");
    }
}

/// One of five nodes answers probes with any mark, clock and identity from the beginning, or two do once the others grant
/// locks. The others grant locks nevertheless. The exception is a lying node that claims to be used by clients with another
/// configuration, or to be another node: that stops all grants, and is reported.
pub fn probes(data: &[u8]) {
    const NODES: usize = 5;
    let Some((two, data)) = data.split_first() else { return };
    let (liars, honest_until) = if two & 1 == 1 { (2, 50) } else { (1, 0) };
    let mut admission = Admission::new(&configuration(), false);
    let mut marks: [Option<String>; NODES] = Default::default();
    let mut steps = data.chunks(64).chain(std::iter::repeat(&[][..]));
    let mut now_ms = 1_000_000;
    for round in 0..150_u64 {
        now_ms += 300;
        let now = Time::from_start(Duration::from_millis(now_ms));
        for node in 0..NODES {
            let time = admission.set_time(now);
            let chance = Chance { id: round << 8 | node as u64, jitter: 0.5 };
            let change = match admission.next(node, now, time, chance) {
                NextProbe::Ask(change) => change,
                NextProbe::Wait(_) if node >= liars => continue,
                NextProbe::Wait(_) => None,
            };
            let server_us = i64::try_from(now_ms).expect("it is small") * 1_000;
            let honest = Probe {
                changed: change.is_some(),
                role: Role::Master,
                identity: identity(node),
                promoted: false,
                clock: Offset::new(server_us, now, now),
                mark: change.map(|change| change.new).or_else(|| marks[node].clone()),
            };
            let probe = match node < liars {
                true if round >= honest_until => {
                    lie(honest, steps.next().unwrap_or_default(), &marks, now)
                }
                _ => honest,
            };
            marks[node].clone_from(&probe.mark);
            admission.probed(node, probe, now);
            let _ = admission.take_clock_news();
        }
        let _ = (admission.ready_in(now, admission.set_time(now)), admission.time_us(now, false));
    }
    let conflict = admission.conflict();
    assert!(conflict.is_none_or(|node| node < liars || is_twin(&admission, node, liars)));
    for node in liars..NODES {
        let grants = matches!(admission.grants(node), Grants::Under(_));
        assert!(grants || conflict.is_some(), "{node}: {admission:#?}");
        let serves = admission.serves_holders(node);
        assert!(serves || is_twin(&admission, node, liars), "{node}");
    }
}

/// Returns true if the node is reported as the same server as one of the lying nodes.
fn is_twin(admission: &Admission, node: usize, liars: usize) -> bool {
    matches!(admission.node_state(node), NodeState::Twin(other) if other < liars)
}

/// Returns a false probe of a node, made from these bytes.
fn lie(honest: Probe, bytes: &[u8], marks: &[Option<String>], now: Time) -> Probe {
    let Some(([what, numbers @ ..], rest)) = bytes.split_first_chunk::<17>() else { return honest };
    let (one, other) = numbers.split_at(8);
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let (clock_us, other) = (number(one), number(other));
    let text = honest.mark.clone().unwrap_or_default();
    let changed_field = |field: &str, value: String| {
        let words = text.split(' ').map(|word| match word.split_once('=') {
            Some((name, _)) if name == field => format!("{name}={value}"),
            _ => word.to_owned(),
        });
        Some(words.collect::<Vec<_>>().join(" "))
    };
    let mark = match what >> 4 {
        0 => None,
        1 => changed_field("ahead_ms", other.to_string()),
        2 => changed_field("noted_at_ms", other.unsigned_abs().to_string()),
        3 => Some(String::from_utf8_lossy(rest).into_owned()),
        4 => changed_field("until_ms", other.unsigned_abs().to_string()),
        5 => changed_field("max_ttl_ms", other.unsigned_abs().to_string()),
        6 => marks[usize::from(*what & 3)].clone(),
        7 => Some(text.replace("admitted", "quarantined until_ms=- id=00c0ffee00c0ffee")),
        _ => honest.mark,
    };
    Probe {
        mark,
        changed: what & 1 == 1,
        promoted: what & 2 == 2,
        role: match other.rem_euclid(16) {
            0 => Role::Replica,
            1 => Role::Cluster,
            _ => Role::Master,
        },
        identity: match what & 15 {
            15 => identity(3),
            14 => Identity::new("again", "again").expect("ids"),
            _ => honest.identity,
        },
        clock: match what & 12 {
            0 => Offset::new(clock_us, now, now),
            4 => Offset::new(clock_us.rem_euclid(4_000_000_000), now, now),
            _ => honest.clock,
        },
    }
}

fn identity(node: usize) -> Identity {
    Identity::new(&format!("run{node}"), &format!("repl{node}")).expect("ids")
}

fn configuration() -> Configuration {
    Configuration {
        set_name: "default".to_owned(),
        nodes: 5,
        max_ttl: Duration::from_secs(10),
        clock_tolerance: Duration::from_millis(100),
        quarantine: true,
        index: None,
    }
}
