use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::core::acquire::{Priority, Reservation, Waits};
use crate::core::base::HoldClass;
use crate::core::vote::Permits;
use crate::ident::{Name, Names};
use crate::kinds::contract::layout::{Argument, Key};
use crate::kinds::contract::reservations::withdraw_request;
use crate::kinds::contract::values::{Claimant, Fence, Keep, Raise, Repair};
use crate::node::Request;
use crate::runtime::administration::{force_request, holder_request};
use crate::runtime::held_locks::names_request;

#[path = "../../tests/support/lua.rs"]
#[allow(dead_code, unreachable_pub, reason = "only a part of it is used here")]
mod lua;

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

/// A call of each script, with all possible keys and arguments, and with fewer.
fn calls(kind: &Kind, of: &Names) -> Vec<Request> {
    let keep = || Some(Keep { until_ms: 1, by_ms: 1 });
    let raise = || Some(Raise { to: 2, lasts: TTL });
    let fence = Some(Fence { number: 1, up_to: 2 });
    let repair = |fence| Repair { until_ms: 0, mark_key: b"mark", quarantine: true, fence };
    let permits = Permits { slots: [0].into_iter().collect(), of: 1 };
    let owner = Claimant { owner: "owner", permits };
    let calls = [
        kind.acquire(of, b"mark", owner, TTL, WAITS, Some(1)),
        kind.acquire(of, b"mark", owner, TTL, WAITS, None),
        kind.acquire(of, b"mark", owner, TTL, Waits::default(), Some(1)),
        kind.extend(of, owner, TTL, repair(fence)),
        kind.extend(of, owner, TTL, repair(None)),
        kind.release(of, owner, keep(), raise()),
        kind.release(of, owner, keep(), None),
        kind.release(of, owner, None, raise()),
        kind.release(of, owner, None, None),
    ];
    let more = [kind.confirm(of, "owner", 1), kind.leave_queue(of, "caller")];
    calls.into_iter().chain(more.into_iter().flatten()).collect()
}

/// A script names its keys and arguments as the layout does. Those that occur for each name, or for each slot, end in
/// `..`.
#[test]
fn scripts_name_what_they_are_called_with() {
    for kind in KINDS.iter() {
        let layout = &kind.layout;
        let calls = [&layout.acquire, &layout.extend, &layout.release];
        for call in calls.into_iter().chain(&layout.confirm).chain(&layout.leave) {
            let dots = |name: &str, repeats: bool| {
                format!("{name}{}", if repeats && kind.most_names > 1 { ".." } else { "" })
            };
            let keys = call.keys.iter().map(|key| dots(key.name(), *key != Key::Mark));
            let arguments = call.arguments.iter().map(|argument| match argument {
                Argument::Slot => format!("{}..", argument.name()),
                argument => dots(argument.name(), *argument == Argument::Channel),
            });
            let source = call.script.source();
            assert_eq!(lua::named(source, "KEYS"), keys.collect::<Vec<_>>(), "{source}");
            assert_eq!(lua::named(source, "ARGV"), arguments.collect::<Vec<_>>(), "{source}");
        }
    }
}

/// A call that lacks nothing has all that its layout lists.
#[test]
fn a_call_has_what_its_layout_lists() {
    for kind in KINDS.iter() {
        let layout = &kind.layout;
        let listed = [&layout.acquire, &layout.extend, &layout.release];
        let listed = listed.into_iter().chain(&layout.confirm).chain(&layout.leave);
        for how_many in [1, kind.most_names] {
            let calls = calls(kind, &some_names(how_many));
            for call in listed.clone() {
                let keys = call.keys.iter().map(|key| if *key == Key::Mark { 1 } else { how_many });
                let arguments = call.arguments.iter().map(|argument| match argument {
                    Argument::Channel => how_many,
                    _ => 1,
                });
                let listed = (keys.sum::<usize>(), arguments.sum::<usize>());
                let of_script = calls.iter().map(Request::shape);
                let of_script = of_script.filter(|(source, ..)| *source == call.script.source());
                let most = of_script.map(|(_, keys, arguments)| (keys, arguments)).max();
                assert_eq!(most, Some(listed), "{}", call.script.source());
            }
        }
    }
}

/// Nodes keep no shared hold, and a kind without tokens has no fence: such a release is a plain one.
#[test]
fn a_release_asks_only_for_what_its_script_does() {
    for kind in KINDS.iter() {
        let of = some_names(1);
        let owner = Claimant { owner: "owner", permits: Permits::default() };
        let release = |keep, raise| kind.release(&of, owner, keep, raise).shape();
        let plain = release(None, None);
        let keep = release(Some(Keep { until_ms: 1, by_ms: 1 }), None);
        let raise = release(None, Some(Raise { to: 2, lasts: TTL }));
        assert_eq!(keep != plain, kind.hold_class == HoldClass::Exclusive, "{}", kind.label);
        assert_eq!(raise != plain, kind.has_numbers(), "{}", kind.label);
    }
}

/// Scripts tell by the number of keys which of them they are given, so a call may lack only the last ones.
#[test]
fn a_call_lacks_only_the_last_keys_of_its_script() {
    for kind in KINDS.iter() {
        let calls = calls(kind, &some_names(kind.most_names));
        for call in &calls {
            let of_script = calls.iter().filter(|it| it.shape().0 == call.shape().0);
            let most = of_script.map(Request::keys).max_by_key(Vec::len).expect("its own");
            assert!(most.starts_with(&call.keys()), "{}", call.shape().0);
        }
    }
}

/// The header of a withdrawal states each of its KEYS and ARGV, in order.
#[test]
fn a_withdrawal_is_as_its_header_states() {
    for how_many in [1, 16] {
        let call = withdraw_request(&some_names(how_many), PRIORITY);
        let (source, keys, arguments) = call.shape();
        let stated = |table| stated(source, table, &[], how_many);
        assert_eq!((stated("KEYS"), stated("ARGV")), (keys, arguments), "{source}");
    }
}

/// The same for the requests of operators, for any kind; there is one argument for each owner.
#[test]
fn operators_calls_are_as_the_scripts_headers_state() {
    let owners = |how_many| (0..how_many).map(|i: u8| vec![b'a' + i]).collect::<Vec<_>>();
    const ALL: &[&str] = &[];
    for (left_out, how_many, call) in [
        (ALL, 1, holder_request(b"name", b"mark", true)),
        (&["not given without fencing)"], 1, holder_request(b"name", b"mark", false)),
        (ALL, 1, names_request("0", b"*")),
        // Each owner has two arguments, since it may have given the lock back just now.
        (ALL, 2, force_request(b"name", &owners(1), TTL)),
        (ALL, 6, force_request(b"name", &owners(3), TTL)),
    ] {
        let (source, keys, arguments) = call.shape();
        let stated = |table| stated(source, table, left_out, how_many);
        assert_eq!((stated("KEYS"), stated("ARGV")), (keys, arguments), "{source}");
        for key in call.keys() {
            let is_lock = key == b"name" || key == b"mark";
            assert_eq!(Name::new(b"", &key).is_ok(), is_lock);
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

/// A kind states the commands that the user of a server needs permission for: see the manual.
#[test]
fn a_kind_states_the_commands_that_its_scripts_call_and_no_others() {
    for kind in KINDS.iter().copied() {
        let mut called = BTreeSet::new();
        // A holder that may downgrade a lock goes on as a holder of another kind.
        let kinds = [Some(kind), kind.downgraded("").map(|(kind, _)| kind)].into_iter().flatten();
        let calls: Vec<_> = kinds.flat_map(|kind| calls(kind, &some_names(1))).collect();
        for source in calls.iter().flat_map(Request::sources) {
            assert!(!source.contains("-- include "), "a text is missing in the list:\n{source}");
            let calls = source.split("call('").skip(1);
            called.extend(calls.filter_map(|call| Some(call.split_once('\'')?.0.to_lowercase())));
        }
        let stated: BTreeSet<_> = kind.layout.commands.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(stated, called, "{}", kind.label);
    }
}

#[test]
fn what_is_kept_beside_a_lock_is_no_name() {
    for kind in KINDS.iter().copied() {
        for call in calls(kind, &some_names(kind.most_names)) {
            for key in call.keys() {
                let is_lock = key.starts_with(b"name-") && !key.contains(&b'{') || key == b"mark";
                let name = Name::new(b"", &key);
                assert_eq!(name.is_ok(), is_lock, "{}", key.escape_ascii());
            }
        }
    }
}

/// Two traits have this method: one for each type, and one for types that are `Send`, or `Sync`. The call is
/// unambiguous only if a type is not.
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

/// The channel is the one that Redisson makes of the name of its lock.
#[test]
fn releases_of_reentrant_locks_are_told_on_the_channel_of_redisson_as_well() {
    let channels = |name: &[u8]| {
        let channels = <Reentrant as sealed::Kind>::kind().channels(&names(&[name]));
        channels.iter().map(|channel| channel.escape_ascii().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(channels(b"a"), ["{a}:released", "redisson_lock__channel:{a}"]);
    assert_eq!(channels(b"a{b}c"), ["{a{b}c}:released", "redisson_lock__channel:a{b}c"]);
}

#[test]
fn the_owner_of_a_reentrant_lock_ends_as_one_of_redisson() {
    let owner = |label| <Reentrant as sealed::Kind>::kind().owner_text(label, 42);
    assert_eq!(owner(""), "00000000-0000-0000-0000-00000000002a:1");
    assert_eq!(owner("web-3:4711"), "web-3:4711#00000000-0000-0000-0000-00000000002a:1");
}
