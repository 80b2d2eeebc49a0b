use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::ident::{Name, Names};
use crate::node::Request;
use crate::runtime::administration::{force_request, holder_request};
use crate::runtime::kind::{Fence, Raise, Repair};

const TTL: Duration = Duration::from_secs(1);

fn some_names(how_many: usize) -> Names {
    let text: Vec<_> = (0..how_many).map(|i| format!("name-{i}").into_bytes()).collect();
    names(&text.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A call of each script, with fencing and without it; whether it is with.
fn calls(kind: &dyn Kind, of: &Names) -> [(bool, Request); 7] {
    let fence = Some(Fence { number: 1, up_to: 2 });
    let repair = |fence| Repair { until_ms: 0, mark_key: b"mark", quarantine: true, fence };
    [
        (true, kind.acquire(of, b"mark", "owner", TTL, Some(1))),
        (false, kind.acquire(of, b"mark", "owner", TTL, None)),
        (true, kind.confirm(of, "owner", 1)),
        (true, kind.extend(of, "owner", TTL, repair(fence))),
        (false, kind.extend(of, "owner", TTL, repair(None))),
        (true, kind.release(of, "owner", Some(Raise { to: 2, lasts: TTL }))),
        (false, kind.release(of, "owner", None)),
    ]
}

/// The header of a script states each of its KEYS and ARGV, in order, and its replies; the call
/// has just as many.
#[test]
fn calls_are_as_the_scripts_headers_state() {
    for kind in KINDS {
        for how_many in [1, kind.most_names()] {
            for (fencing, call) in calls(*kind, &some_names(how_many)) {
                let (source, keys, arguments) = call.shape();
                let stated = |table| stated(source, table, fencing, how_many);
                assert_eq!(stated("KEYS"), keys, "KEYS of:\n{source}");
                assert_eq!(stated("ARGV"), arguments, "ARGV of:\n{source}");
            }
        }
    }
}

/// The same of what operators ask, whatever the kind; there is one argument for each owner.
#[test]
fn operators_calls_are_as_the_scripts_headers_state() {
    let owners = |how_many| vec![b"owner".to_vec(); how_many];
    for (fencing, how_many, call) in [
        (true, 1, holder_request(b"name", b"mark", true)),
        (false, 1, holder_request(b"name", b"mark", false)),
        (true, 1, force_request(b"name", &owners(1), TTL)),
        (true, 3, force_request(b"name", &owners(3), TTL)),
    ] {
        let (source, keys, arguments) = call.shape();
        let stated = |table| stated(source, table, fencing, how_many);
        assert_eq!((stated("KEYS"), stated("ARGV")), (keys, arguments), "{source}");
        for key in call.keys() {
            let is_lock = key == b"name" || key == b"mark";
            assert_eq!(Name::new(b"", &key, &auxiliary()).is_ok(), is_lock);
        }
    }
}

fn stated(source: &str, table: &str, fencing: bool, names: usize) -> usize {
    let header = source.lines().take_while(|line| line.starts_with("--"));
    let lines = header.filter(|line| line.starts_with(&format!("-- {table}[")));
    let stated = lines.enumerate().map(|(i, line)| {
        assert!(line.starts_with(&format!("-- {table}[{}]  ", i + 1)), "{line}");
        let fence = ["not given without fencing)", "given only to raise it)"];
        let is_given = fencing || !fence.iter().any(|fence| line.ends_with(fence));
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
