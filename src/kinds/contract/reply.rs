//! Reading the scripts' replies as votes; `lua/README.md` states their shapes.

use std::time::Duration;

use crate::core::hold::ReadRequest;
use crate::core::link::Meaning;
use crate::core::operate::{HeldAs, HeldKey, HolderVote, KeyLayout, ScanVote};
use crate::core::vote::{
    ConfirmVote, ExtensionVote, LARGEST_NUMBER, MOST_PERMITS, ReleaseVote, Slots, Vote,
};
use crate::node::Value;

/// A reply that our scripts never give.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unexpected;

pub(crate) fn acquire(value: &Value) -> Result<Vote, Unexpected> {
    let values = match value {
        Value::Text(digits) => return granted(digits),
        Value::List(values) => values,
        _ => return Err(Unexpected),
    };
    match values.as_slice() {
        [Value::Int(1), Value::Int(number)] => fence(*number).map(Vote::Granted),
        [Value::Int(0), Value::Int(ms)] => {
            Ok(Vote::Refused(u64::try_from(*ms).ok().map(Duration::from_millis)))
        }
        // Tickets begin with 1. A value that is larger than any number can be is no ticket.
        [Value::Int(0), Value::Int(ms), Value::Int(ticket)] => Ok(Vote::Queued {
            remaining: u64::try_from(*ms).ok().map(Duration::from_millis),
            ticket: fence(*ticket)?,
        }),
        [Value::Int(0), Value::Int(ms), Value::Text(free)] => {
            Ok(Vote::Taken { remaining: millis(*ms)?, free: slots(free)? })
        }
        [Value::Int(-4), Value::Int(permits), Value::Int(ms)] => Ok(Vote::OtherPermits {
            permits: u64::try_from(*permits).map_err(|_| Unexpected)?,
            remaining: millis(*ms)?,
        }),
        [Value::Int(-1), Value::Int(_)] => Ok(Vote::NotAdmitted),
        [Value::Int(-2), Value::Text(_)] => Ok(Vote::WrongKind),
        [Value::Int(-3), Value::Int(0)] => Ok(Vote::Spent),
        [Value::Int(-3), Value::Int(1)] => Ok(Vote::NoNumber),
        _ => Err(Unexpected),
    }
}

/// The grant with that number: the short form of `{1, number}`.
fn granted(digits: &str) -> Result<Vote, Unexpected> {
    let is_number = digits.bytes().all(|it| it.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number).ok_or(Unexpected)?;
    fence(number).map(Vote::Granted)
}

/// The meaning of an answer to `acquire` for the transport.
pub(crate) fn acquire_meaning(value: &Value) -> Meaning {
    match acquire(value) {
        Ok(Vote::Granted(_)) => Meaning::Granted,
        Ok(Vote::NotAdmitted) => Meaning::NotAdmitted,
        _ => Meaning::Other,
    }
}

pub(crate) fn confirm(value: &Value) -> Result<ConfirmVote, Unexpected> {
    match value {
        Value::Int(1) => Ok(ConfirmVote::Confirmed),
        Value::Int(0) => Ok(ConfirmVote::NotOurs),
        _ => Err(Unexpected),
    }
}

/// The meaning of an answer to `confirm` for the transport.
pub(crate) fn confirm_meaning(value: &Value) -> Meaning {
    match confirm(value) {
        Ok(ConfirmVote::Confirmed) => Meaning::Confirmed,
        _ => Meaning::Other,
    }
}

pub(crate) fn extend(value: &Value) -> Result<ExtensionVote, Unexpected> {
    match value {
        Value::Int(1) => Ok(ExtensionVote::Extended),
        Value::Int(2) => Ok(ExtensionVote::Repaired),
        Value::Int(3) => Ok(ExtensionVote::RepairedInQuarantine),
        Value::Int(0) => Ok(ExtensionVote::NotOurs),
        Value::Int(-1) => Ok(ExtensionVote::Free),
        Value::List(values) => match values.as_slice() {
            [Value::Int(-2), Value::Int(number)] => fence(*number).map(ExtensionVote::FreeAbove),
            [Value::Int(-3), Value::Int(number)] => fence(*number).map(ExtensionVote::InPart),
            _ => Err(Unexpected),
        },
        _ => Err(Unexpected),
    }
}

/// The meaning of an answer to `extend` for the transport.
pub(crate) fn extend_meaning(value: &Value) -> Meaning {
    match extend(value) {
        Ok(ExtensionVote::Extended) => Meaning::Kept,
        Ok(ExtensionVote::RepairedInQuarantine) => Meaning::RepairedInQuarantine,
        _ => Meaning::Other,
    }
}

pub(crate) fn release(value: &Value) -> Result<ReleaseVote, Unexpected> {
    match value {
        Value::Int(1) => Ok(ReleaseVote::Deleted),
        Value::Int(0) => Ok(ReleaseVote::NotOurs),
        Value::List(values) => match values.as_slice() {
            [Value::Int(1), Value::Int(1..)] => Ok(ReleaseVote::Deleted),
            _ => Err(Unexpected),
        },
        _ => Err(Unexpected),
    }
}

/// The number of connections to which a node has reported the release that it answers.
pub(crate) fn told(value: &Value) -> u64 {
    match value {
        Value::List(values) => match values.as_slice() {
            [Value::Int(1), Value::Int(told)] => u64::try_from(*told).unwrap_or(0),
            _ => 0,
        },
        _ => 0,
    }
}

/// A node's answer about the holders of a lock of any kind.
pub(crate) fn holder(value: &Value) -> Result<HolderVote, Unexpected> {
    let Value::List(values) = value else { return Err(Unexpected) };
    let [
        Value::Text(kind),
        Value::Int(ms @ -1..),
        Value::Int(number),
        Value::Int(forgetful @ 0..=1),
        Value::List(owners),
        Value::Text(as_what),
        Value::Int(waiting),
    ] = values.as_slice()
    else {
        return Err(Unexpected);
    };
    let mut owners: Vec<_> = owners.iter().map(from_hex).collect::<Result<_, _>>()?;
    // Each owner counts once for the node.
    owners.sort_unstable();
    owners.dedup();
    let lives = u64::try_from(*ms).ok().map(Duration::from_millis);
    let lock = |layout, owners| HeldKey::Lock { layout, owners, lives };
    let key = match (kind.as_str(), owners.len()) {
        ("none", 0) => HeldKey::Nothing,
        ("string", 1) => lock(KeyLayout::String, owners),
        // Locks that are hashes have an end.
        ("hash", _) if lives.is_some() => lock(KeyLayout::Hash, owners),
        ("none" | "string", _) => return Err(Unexpected),
        // It is a lock whose owner is too long to be reported.
        ("long", _) if lives.is_some() => lock(KeyLayout::String, Vec::new()),
        ("long", _) => HeldKey::NoLock("a value that is too long for an owner".to_owned()),
        (kind, _) => HeldKey::NoLock(kind.to_owned()),
    };
    let (number, forgetful, held_as) = (fence(*number)?, *forgetful == 1, held_as(as_what)?);
    let waiting = u64::try_from(*waiting).map_err(|_| Unexpected)?;
    Ok(HolderVote { key, number, forgetful, held_as, waiting })
}

/// The kind as which the node keeps the lock, if it says so.
fn held_as(text: &str) -> Result<Option<HeldAs>, Unexpected> {
    Ok(Some(match text {
        "" => return Ok(None),
        "exclusive" => HeldAs::Exclusive,
        "reentrant" => HeldAs::Reentrant,
        "read" => HeldAs::Read,
        "write" => HeldAs::Write,
        other => {
            let permits = other.strip_prefix("semaphore ").ok_or(Unexpected)?;
            HeldAs::Semaphore { permits: permits.parse().map_err(|_| Unexpected)? }
        }
    }))
}

/// A node's answer about its keys in one step of a scan.
pub(crate) fn scan(value: &Value) -> Result<ScanVote, Unexpected> {
    let Value::List(values) = value else { return Err(Unexpected) };
    let [Value::Text(cursor), Value::List(keys), Value::Int(seconds)] = values.as_slice() else {
        return Err(Unexpected);
    };
    let whole_for = Duration::from_secs(u64::try_from(*seconds).map_err(|_| Unexpected)?);
    cursor.parse::<u64>().map_err(|_| Unexpected)?;
    let keys = keys.iter().map(from_hex).collect::<Result<_, _>>()?;
    Ok(ScanVote { cursor: (cursor != "0").then(|| cursor.clone()), keys, whole_for })
}

/// An owner or a key, with two hexadecimal digits for each byte.
fn from_hex(value: &Value) -> Result<Vec<u8>, Unexpected> {
    let Value::Text(digits) = value else { return Err(Unexpected) };
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(byte).collect::<Option<_>>().ok_or(Unexpected)
}

/// The number of owners that had the lock, and that lost it by force or were asked to release it.
pub(crate) fn telling(value: &Value) -> Result<u64, Unexpected> {
    match value {
        Value::Int(owners) => u64::try_from(*owners).map_err(|_| Unexpected),
        _ => Err(Unexpected),
    }
}

/// The requests to release the lock that the node keeps for an owner. Any client may have written them, so malformed
/// ones are left out.
pub(crate) fn asked(value: &Value) -> Vec<ReadRequest> {
    let Value::List(values) = value else { return Vec::new() };
    let request = |value: &Value| {
        let Value::Text(text) = value else { return None };
        let (id, reason) = text.split_once(' ')?;
        Some(ReadRequest { id: id.to_owned(), reason: reason.to_owned() })
    };
    values.iter().filter_map(request).collect()
}

/// A time that must be known, so a negative value is unexpected.
fn millis(ms: i64) -> Result<Duration, Unexpected> {
    u64::try_from(ms).map(Duration::from_millis).map_err(|_| Unexpected)
}

/// The slots of a semaphore. Each hexadecimal digit stands for four slots: the lowest bit for the lowest slot.
fn slots(digits: &str) -> Result<Slots, Unexpected> {
    if digits.is_empty() || digits.len() > MOST_PERMITS.div_ceil(4) as usize {
        return Err(Unexpected);
    }
    let mut slots = Slots::default();
    for (i, digit) in digits.chars().enumerate() {
        let digit = digit.to_digit(16).ok_or(Unexpected)?;
        (0..4).filter(|bit| digit & (1 << bit) != 0).for_each(|bit| slots.insert(i * 4 + bit));
    }
    Ok(slots)
}

/// The number of a grant.
fn fence(number: i64) -> Result<u64, Unexpected> {
    u64::try_from(number).ok().filter(|number| *number <= LARGEST_NUMBER).ok_or(Unexpected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(code: i64, value: Value) -> Value {
        Value::List(vec![Value::Int(code), value])
    }

    #[test]
    fn what_an_answer_means_to_the_transport_is_read_off_its_vote() {
        use Meaning::{Confirmed, Granted, Kept, NotAdmitted, Other, RepairedInQuarantine};
        for (value, meaning) in [
            (pair(1, Value::Int(7)), Granted),
            (pair(-1, Value::Int(0)), NotAdmitted),
            (pair(0, Value::Int(5)), Other),
            (pair(1, Value::Int(-1)), Other),
        ] {
            assert_eq!(acquire_meaning(&value), meaning, "{value}");
        }
        for (value, meaning) in [(1, Kept), (2, Other), (3, RepairedInQuarantine), (0, Other)] {
            assert_eq!(extend_meaning(&Value::Int(value)), meaning, "{value}");
        }
        assert_eq!(confirm_meaning(&Value::Int(1)), Confirmed);
        assert_eq!(confirm_meaning(&Value::Int(0)), Other);
    }

    #[test]
    fn each_shape_reads_as_its_vote() {
        assert_eq!(acquire(&pair(1, Value::Int(7))), Ok(Vote::Granted(7)));
        for number in [0, 7, LARGEST_NUMBER] {
            assert_eq!(acquire(&Value::Text(number.to_string())), Ok(Vote::Granted(number)));
        }
        let larger = (LARGEST_NUMBER + 1).to_string();
        for strange in ["", "+7", "-7", " 7", "7.0", "0x7", &larger, "99999999999999999999"] {
            assert_eq!(acquire(&Value::Text(strange.to_owned())), Err(Unexpected), "{strange}");
        }
        let remaining = Some(Duration::from_millis(1_500));
        assert_eq!(acquire(&pair(0, Value::Int(1_500))), Ok(Vote::Refused(remaining)));
        assert_eq!(acquire(&pair(0, Value::Int(-1))), Ok(Vote::Refused(None)));
        let queued = |ticket| {
            acquire(&Value::List(vec![Value::Int(0), Value::Int(1_500), Value::Int(ticket)]))
        };
        assert_eq!(queued(7), Ok(Vote::Queued { remaining, ticket: 7 }));
        assert_eq!((queued(-1), queued(1 << 51)), (Err(Unexpected), Err(Unexpected)));
        let three =
            |code, ms, last| acquire(&Value::List(vec![Value::Int(code), Value::Int(ms), last]));
        let second = Duration::from_secs(1);
        let free = [1, 4, 7].into_iter().collect();
        let taken = Vote::Taken { remaining: second, free };
        assert_eq!(three(0, 1_000, Value::Text("29".into())), Ok(taken));
        for (ms, digits) in [(-1, "29"), (1, ""), (1, "2g"), (1, &"0".repeat(251))] {
            assert_eq!(three(0, ms, Value::Text(digits.into())), Err(Unexpected), "{digits}");
        }
        let other = Vote::OtherPermits { permits: 5, remaining: second };
        assert_eq!(three(-4, 5, Value::Int(1_000)), Ok(other));
        assert_eq!(three(-4, -5, Value::Int(1_000)), Err(Unexpected));
        assert_eq!(acquire(&pair(-1, Value::Int(0))), Ok(Vote::NotAdmitted));
        assert_eq!(acquire(&pair(-2, Value::Text("list".into()))), Ok(Vote::WrongKind));
        assert_eq!(acquire(&pair(-3, Value::Int(0))), Ok(Vote::Spent));
        assert_eq!(acquire(&pair(-3, Value::Int(1))), Ok(Vote::NoNumber));
        assert_eq!(extend(&pair(-2, Value::Int(9))), Ok(ExtensionVote::FreeAbove(9)));
        assert_eq!(extend(&pair(-3, Value::Int(0))), Ok(ExtensionVote::InPart(0)));
        assert_eq!(confirm(&Value::Int(0)), Ok(ConfirmVote::NotOurs));
    }

    #[test]
    fn any_other_shape_is_no_vote() {
        for value in [
            Value::Int(1),
            Value::Text("OK".into()),
            Value::List(vec![]),
            Value::List(vec![Value::Int(1)]),
            pair(1, Value::Int(-1)),
            pair(1, Value::Int(1 << 51)),
            pair(7, Value::Int(0)),
        ] {
            assert_eq!(acquire(&value), Err(Unexpected), "{value}");
        }
        assert_eq!(extend(&Value::Int(4)), Err(Unexpected));
        assert_eq!(extend(&pair(-2, Value::Int(-9))), Err(Unexpected));
        assert_eq!(extend(&pair(2, Value::Int(9))), Err(Unexpected));
        assert_eq!(confirm(&Value::Int(2)), Err(Unexpected));
        assert_eq!(release(&Value::Text("OK".into())), Err(Unexpected));
        assert_eq!(release(&Value::Int(3)), Err(Unexpected));
        assert_eq!(release(&pair(1, Value::Int(0))), Err(Unexpected));
    }

    #[test]
    fn what_a_node_says_of_holders_is_read_whatever_the_layout() {
        let text = |text: &str| Value::Text(text.to_owned());
        let said = |kind: &str, ms, number, owners: &[&str]| {
            let owners = Value::List(owners.iter().map(|owner| text(owner)).collect());
            holder(&Value::List(vec![
                text(kind),
                Value::Int(ms),
                Value::Int(number),
                Value::Int(1),
                owners,
                text("semaphore 5"),
                Value::Int(3),
            ]))
        };
        let held_as = Some(HeldAs::Semaphore { permits: 5 });
        let vote = |key| Ok(HolderVote { key, number: 7, forgetful: true, held_as, waiting: 3 });
        let lock = |layout, owners: &[&[u8]], lives| HeldKey::Lock {
            layout,
            owners: owners.iter().map(|owner| owner.to_vec()).collect(),
            lives,
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(said("none", 0, 7, &[]), vote(HeldKey::Nothing));
        let string = lock(KeyLayout::String, &[b"a\xff\0"], second);
        assert_eq!(said("string", 1_000, 7, &["61fF00"]), vote(string));
        let endless = lock(KeyLayout::String, &[b""], None);
        assert_eq!(said("string", -1, 7, &[""]), vote(endless));
        let two = lock(KeyLayout::Hash, &[b"a", b"b"], second);
        assert_eq!(said("hash", 1_000, 7, &["61", "62"]), vote(two));
        for kind in ["hash", "list"] {
            assert_eq!(said(kind, -1, 7, &[]), vote(HeldKey::NoLock(kind.to_owned())));
        }
        for strange in [
            said("none", 0, 7, &["61"]),
            said("string", 0, 7, &[]),
            said("string", 0, 7, &["6"]),
            said("string", 0, 7, &["6g"]),
            said("string", -2, 7, &["61"]),
            said("none", 0, -1, &[]),
            said("none", 0, 1 << 51, &[]),
            holder(&Value::Int(1)),
        ] {
            assert_eq!(strange, Err(Unexpected));
        }
        for (text, as_what) in [
            ("", None),
            ("exclusive", Some(HeldAs::Exclusive)),
            ("reentrant", Some(HeldAs::Reentrant)),
            ("read", Some(HeldAs::Read)),
            ("write", Some(HeldAs::Write)),
        ] {
            assert_eq!(super::held_as(text), Ok(as_what));
        }
        for strange in ["semaphore", "semaphore x", "semaphore -1", "list"] {
            assert_eq!(super::held_as(strange), Err(Unexpected));
        }
        assert_eq!((telling(&Value::Int(2)), telling(&Value::Int(-1))), (Ok(2), Err(Unexpected)));
        let text = |text: &str| Value::Text(text.to_owned());
        let list = |all: &[&str]| Value::List(all.iter().map(|one| text(one)).collect());
        let request = |id: &str, reason: &str| ReadRequest { id: id.into(), reason: reason.into() };
        let two = list(&["7 a deploy", "x", "", "8 "]);
        assert_eq!(asked(&two), [request("7", "a deploy"), request("8", "")]);
        for nothing in [list(&[]), list(&["7"]), text("7 a"), Value::Int(1)] {
            assert_eq!(asked(&nothing), []);
        }
    }

    #[test]
    fn a_step_of_a_scan_is_read() {
        let text = |text: &str| Value::Text(text.to_owned());
        let said = |cursor: &str, keys: &[&str]| {
            let keys = Value::List(keys.iter().map(|key| text(key)).collect());
            scan(&Value::List(vec![text(cursor), keys, Value::Int(7)]))
        };
        let vote = |cursor: Option<&str>, keys: &[&[u8]]| {
            let keys = keys.iter().map(|key| key.to_vec()).collect();
            let whole_for = Duration::from_secs(7);
            Ok(ScanVote { cursor: cursor.map(str::to_owned), keys, whole_for })
        };
        assert_eq!(said("0", &["61fF00", "62"]), vote(None, &[b"a\xff\0", b"b"]));
        let largest = u64::MAX.to_string();
        assert_eq!(said(&largest, &[]), vote(Some(&largest), &[]));
        for cursor in ["", "-1", "x", "18446744073709551616"] {
            assert_eq!(said(cursor, &[]), Err(Unexpected), "{cursor}");
        }
        assert_eq!(said("0", &["6"]), Err(Unexpected));
        assert_eq!(scan(&pair(0, Value::List(Vec::new()))), Err(Unexpected));
        let backwards = vec![text("0"), Value::List(Vec::new()), Value::Int(-1)];
        assert_eq!(scan(&Value::List(backwards)), Err(Unexpected));
    }

    #[test]
    fn a_release_says_how_many_were_told() {
        assert_eq!((release(&Value::Int(0)), told(&Value::Int(0))), (Ok(ReleaseVote::NotOurs), 0));
        assert_eq!((release(&Value::Int(1)), told(&Value::Int(1))), (Ok(ReleaseVote::Deleted), 0));
        let three = pair(1, Value::Int(3));
        assert_eq!((release(&three), told(&three)), (Ok(ReleaseVote::Deleted), 3));
    }
}
