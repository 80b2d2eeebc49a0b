use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::core::acquire::{Priority, Reservation, Waits};
use crate::core::vote::Permits;
use crate::ident::{Name, Names};
use crate::kinds::contract::kind::{Claimant, Fence, Keep, Raise, Repair};
use crate::kinds::contract::reservations::withdraw_request;
use crate::node::Request;
use crate::runtime::administration::{force_request, holder_request};
use crate::runtime::held_locks::names_request;

const TTL: Duration = Duration::from_secs(1);
const PRIORITY: Priority = Priority { began_ms: 1, id: 1 };
const WAITS: Waits = Waits {
    lasts: TTL,
    ticket: Some(1),
    reservation: Some(Reservation { priority: PRIORITY, lasts: TTL, beside_sharers: false }),
};

fn some_names(how_many: usize) -> Names {
    let text: Vec<_> = (0..how_many).map(|i| format!("name-{i}").into_bytes()).collect();
    names(&text.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A call of each script, with all keys and arguments that there are and with those alone that are always given; and the
/// words of its header that say when those are given that are not there.
fn calls(kind: &dyn Kind, of: &Names) -> Vec<(&'static [&'static str], Request)> {
    const ALL: &[&str] = &[];
    const UNFENCED: &[&str] = &["not given without fencing)"];
    const NO_WAITER: &[&str] = &["given only to a waiter)"];
    const PLAIN: &[&str] =
        &["given only to keep or raise)", "given only to keep)", "given only to raise it)"];
    const KEPT: &[&str] = &["given only to raise it)"];
    let keep = || Some(Keep { until_ms: 1, by_ms: 1 });
    let raise = || Some(Raise { to: 2, lasts: TTL });
    let fence = Some(Fence { number: 1, up_to: 2 });
    let repair = |fence| Repair { until_ms: 0, mark_key: b"mark", quarantine: true, fence };
    let leave = kind.leave_queue(of, "caller").map(|leave| (ALL, leave));
    let permits = Permits { slots: [0].into_iter().collect(), of: 1 };
    let owner = Claimant { owner: "owner", permits };
    let confirm = kind.confirm(of, "owner", 1).map(|confirm| (ALL, confirm));
    let mut calls = vec![
        (ALL, withdraw_request(of, PRIORITY)),
        (ALL, kind.acquire(of, b"mark", owner, TTL, WAITS, Some(1))),
        (UNFENCED, kind.acquire(of, b"mark", owner, TTL, WAITS, None)),
        (NO_WAITER, kind.acquire(of, b"mark", owner, TTL, Waits::default(), Some(1))),
        (ALL, kind.extend(of, owner, TTL, repair(fence))),
        (UNFENCED, kind.extend(of, owner, TTL, repair(None))),
        (KEPT, kind.release(of, owner, keep(), None)),
        (PLAIN, kind.release(of, owner, None, None)),
    ];
    if kind.has_numbers() {
        calls.push((ALL, kind.release(of, owner, None, raise())));
        calls.push((ALL, kind.release(of, owner, keep(), raise())));
    }
    calls.into_iter().chain(confirm).chain(leave).collect()
}

/// The header of a script states each of its KEYS and ARGV, in order, and its replies; the call
/// has just as many.
#[test]
fn calls_are_as_the_scripts_headers_state() {
    for kind in KINDS {
        for how_many in [1, kind.most_names()] {
            for (left_out, call) in calls(*kind, &some_names(how_many)) {
                let (source, keys, arguments) = call.shape();
                let stated = |table| stated(source, table, left_out, how_many);
                assert_eq!(stated("KEYS"), keys, "KEYS of:\n{source}");
                assert_eq!(stated("ARGV"), arguments, "ARGV of:\n{source}");
            }
        }
    }
}

/// The same of what operators ask, whatever the kind; there is one argument for each owner.
#[test]
fn operators_calls_are_as_the_scripts_headers_state() {
    let owners = |how_many| (0..how_many).map(|i: u8| vec![b'a' + i]).collect::<Vec<_>>();
    const ALL: &[&str] = &[];
    for (left_out, how_many, call) in [
        (ALL, 1, holder_request(b"name", b"mark", true)),
        (&["not given without fencing)"], 1, holder_request(b"name", b"mark", false)),
        (ALL, 1, names_request("0", b"*")),
        // Each owner may have given the lock back just now.
        (ALL, 2, force_request(b"name", &owners(1), TTL)),
        (ALL, 6, force_request(b"name", &owners(3), TTL)),
    ] {
        let (source, keys, arguments) = call.shape();
        let stated = |table| stated(source, table, left_out, how_many);
        assert_eq!((stated("KEYS"), stated("ARGV")), (keys, arguments), "{source}");
        for key in call.keys() {
            let is_lock = key == b"name" || key == b"mark";
            assert_eq!(Name::new(b"", &key, &auxiliary()).is_ok(), is_lock);
        }
    }
}

fn stated(source: &str, table: &str, left_out: &[&str], names: usize) -> usize {
    let header = source.lines().take_while(|line| line.starts_with("--"));
    let lines = header.filter(|line| line.starts_with(&format!("-- {table}[")));
    let stated = lines.enumerate().map(|(i, line)| {
        assert!(line.starts_with(&format!("-- {table}[{}]  ", i + 1)), "{line}");
        let is_given = !left_out.iter().any(|words| line.ends_with(words));
        let times = if line.contains("(one for each ") { names } else { 1 };
        usize::from(is_given) * times
    });
    stated.sum()
}

/// What a user of a server needs to be allowed, by the kind's word: see the manual.
#[test]
fn a_kind_states_the_commands_that_its_scripts_call_and_no_others() {
    for kind in KINDS {
        let mut called = BTreeSet::new();
        // Whoever may downgrade a lock goes on as a holder of another kind.
        let kinds = [Some(*kind), kind.downgraded("").map(|(kind, _)| kind)].into_iter().flatten();
        let calls: Vec<_> = kinds.flat_map(|kind| calls(kind, &some_names(1))).collect();
        for source in calls.iter().flat_map(|(_, call)| call.sources()) {
            assert!(!source.contains("-- include "), "a text is missing in the list:\n{source}");
            let calls = source.split("call('").skip(1);
            called.extend(calls.filter_map(|call| Some(call.split_once('\'')?.0.to_lowercase())));
        }
        let stated: BTreeSet<_> = kind.commands().iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(stated, called, "{}", kind.label());
    }
}

#[test]
fn what_is_kept_beside_a_lock_is_no_name() {
    for kind in KINDS {
        for (_, call) in calls(*kind, &some_names(kind.most_names())) {
            for key in call.keys() {
                let is_lock = key.starts_with(b"name-") && !key.contains(&b'{') || key == b"mark";
                let name = Name::new(b"", &key, &auxiliary());
                assert_eq!(name.is_ok(), is_lock, "{}", key.escape_ascii());
            }
        }
    }
}

/// Of two traits with this method, one is for each type and the other one for what is `Send`, or `Sync`: which is meant is
/// clear only where a type is not.
trait IsNot<Which> {
    fn holds() {}
}
impl<T: ?Sized> IsNot<()> for T {}
struct Sends;
impl<T: ?Sized + Send> IsNot<Sends> for T {}
struct Syncs;
impl<T: ?Sized + Sync> IsNot<Syncs> for T {}

#[test]
fn the_guards_of_a_reentrant_lock_stay_on_their_thread() {
    <ReentrantGuard as IsNot<_>>::holds();
}

/// As Redisson makes it of the name of its lock.
#[test]
fn releases_of_reentrant_locks_are_told_on_the_channel_of_redisson_as_well() {
    let channels = |name: &[u8]| {
        let channels = <Reentrant as sealed::Kind>::KIND.channels(&names(&[name]));
        channels.iter().map(|channel| channel.escape_ascii().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(channels(b"a"), ["{a}:released", "redisson_lock__channel:{a}"]);
    assert_eq!(channels(b"a{b}c"), ["{a{b}c}:released", "redisson_lock__channel:a{b}c"]);
}

#[test]
fn the_owner_of_a_reentrant_lock_ends_as_one_of_redisson() {
    let owner = |label| <Reentrant as sealed::Kind>::KIND.owner_text(label, 42);
    assert_eq!(owner(""), "00000000-0000-0000-0000-00000000002a:1");
    assert_eq!(owner("web-3:4711"), "web-3:4711#00000000-0000-0000-0000-00000000002a:1");
}
