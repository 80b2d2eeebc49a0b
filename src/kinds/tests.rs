use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::ident::{Name, Names};
use crate::node::Request;
use crate::runtime::administration::{force_request, holder_request};
use crate::runtime::kind::{Fence, Keep, Raise, Repair};

const TTL: Duration = Duration::from_secs(1);

fn some_names(how_many: usize) -> Names {
    let text: Vec<_> = (0..how_many).map(|i| format!("name-{i}").into_bytes()).collect();
    names(&text.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A call of each script, with all keys and arguments that there are and with those alone that are always given; and the
/// words of its header that say when those are given that are not there.
fn calls(kind: &dyn Kind, of: &Names) -> [(&'static [&'static str], Request); 9] {
    const ALL: &[&str] = &[];
    const UNFENCED: &[&str] = &["not given without fencing)"];
    const PLAIN: &[&str] = &["given only to keep or raise)", "given only to raise it)"];
    const KEPT: &[&str] = &["given only to raise it)"];
    let keep = || Some(Keep { until_ms: 1 });
    let raise = || Some(Raise { to: 2, lasts: TTL });
    let fence = Some(Fence { number: 1, up_to: 2 });
    let repair = |fence| Repair { until_ms: 0, mark_key: b"mark", quarantine: true, fence };
    [
        (ALL, kind.acquire(of, b"mark", "owner", TTL, Some(1))),
        (UNFENCED, kind.acquire(of, b"mark", "owner", TTL, None)),
        (ALL, kind.confirm(of, "owner", 1)),
        (ALL, kind.extend(of, "owner", TTL, repair(fence))),
        (UNFENCED, kind.extend(of, "owner", TTL, repair(None))),
        (ALL, kind.release(of, "owner", None, raise())),
        (ALL, kind.release(of, "owner", keep(), raise())),
        (KEPT, kind.release(of, "owner", keep(), None)),
        (PLAIN, kind.release(of, "owner", None, None)),
    ]
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
        for source in calls(*kind, &some_names(1)).iter().flat_map(|(_, call)| call.sources()) {
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

/// A kind whose guards stay on the thread that took them. What is behind it is the mutex.
#[cfg(feature = "embedded")]
mod bound_to_the_thread {
    use std::marker::PhantomData;

    use crate::guard::{Guard, LockGuard, sealed as of_guards};
    use crate::handle::{LockKind, sealed};
    use crate::kinds::EXCLUSIVE;
    use crate::runtime::hold::Hold;
    use crate::runtime::kind::Kind;
    use crate::{Error, Quorlock};

    struct Bound;

    #[derive(Debug)]
    struct BoundGuard {
        guard: Guard,
        /// A pointer is not `Send`.
        stays: PhantomData<*const ()>,
    }

    impl LockKind for Bound {
        type Guard = BoundGuard;
    }

    impl sealed::Kind for Bound {
        const KIND: &'static dyn Kind = EXCLUSIVE;
        const HANDLE: &'static str = "Bound";
    }

    impl LockGuard for BoundGuard {}

    impl of_guards::Guard for BoundGuard {
        fn new(hold: Hold) -> Self {
            Self { guard: of_guards::Guard::new(hold), stays: PhantomData }
        }

        fn guard(&self) -> &Guard {
            &self.guard
        }

        fn into_guard(self) -> Guard {
            self.guard
        }
    }

    /// Of two traits with this method, one is for each type and the other one for what is `Send`: which is meant is
    /// clear only where a type is not `Send`.
    trait IsNotSend<Which> {
        fn holds() {}
    }
    impl<T: ?Sized> IsNotSend<()> for T {}
    struct Send;
    impl<T: ?Sized + std::marker::Send> IsNotSend<Send> for T {}

    #[test]
    fn a_guard_can_be_bound_to_its_thread() -> Result<(), Error> {
        <BoundGuard as IsNotSend<_>>::holds();
        let (locks, _nodes) = Quorlock::embedded(3)?;
        let bound = locks.handle::<Bound>(["orders/42"]);
        let guard = bound.lock()?;
        guard.check()?;
        assert_eq!(guard.names().collect::<Vec<_>>(), [b"orders/42"]);
        assert!(guard.token().is_some() && locks.try_lock("orders/42")?.is_none());
        guard.unlock()?;
        bound.with_lock(|guard| assert!(guard.check().is_ok()))?;
        assert!(locks.try_lock("orders/42")?.is_some());
        Ok(())
    }
}
