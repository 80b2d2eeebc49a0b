//! The roles of the helper processes.

use std::env;
use std::panic;
use std::path::PathBuf;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use quorlock::{Builder, ErrorKind, Guard, OptionalGuard as _, Quorlock};

use crate::counting;
use crate::forking;
use crate::helper::{say, wait_for_go};
use crate::leftovers;
use crate::queueing;
use crate::tokens;

/// A task of a helper process.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

const ALL: [&Role; 22] = [
    &IN_A_STATIC,
    &IN_A_LOCAL,
    &IN_A_THREAD,
    &GUARD_OUTLIVES_CLIENT,
    &EXIT,
    &EXIT_HOLDING,
    &CLOSE,
    &HOLD_SHORTLY,
    &GIVE_UP,
    &HOLD,
    &HOLD_PERMITS,
    &CALL_ONCE,
    &HOLD_AND_CHECK,
    &HOLD_AND_HEAR,
    &PANIC,
    &COUNT,
    &COUNT_UNLOCKED,
    &forking::FORK,
    &forking::FORK_FIRST,
    &tokens::RISE,
    &queueing::WAIT_IN_QUEUE,
    &leftovers::START,
];

/// Plays the role with that name, and returns.
pub(crate) fn play(name: &str) {
    let role = ALL.iter().find(|role| role.name == name);
    let role = role.unwrap_or_else(|| panic!("there is no role \"{name}\""));
    (role.run)();
}

/// The name of the lock that all roles take.
pub(crate) const NAME: &str = "orders/42";

/// The client, which is never dropped, so that only the end of the process can wait for its releases.
static LOCKS: OnceLock<Quorlock> = OnceLock::new();

/// With the longest possible node timeout, so that a busy machine does not count as a silent node.
fn locks(ttl: Duration) -> Quorlock {
    // Fresh servers have forgotten nothing, so their quarantine is switched off.
    let builder = Builder::from_env()
        .expect("the test names the nodes")
        .restart_quarantine(false)
        .max_ttl(Duration::from_secs(600));
    builder.ttl(ttl).node_timeout(ttl / 2).build().expect("valid settings")
}

pub(crate) fn in_static() -> &'static Quorlock {
    LOCKS.get_or_init(|| locks(SHORT_TTL))
}

/// Time limit of a short process, which waits for no TTL and for no hung node.
pub(crate) const SHORT: Duration = Duration::from_secs(5);
pub(crate) const SHORT_TTL: Duration = SHORT.saturating_mul(2);

/// Takes the lock. Fails if it would have to wait for keys that the previous process left behind.
fn short_lock(locks: &Quorlock) -> Guard {
    let guard = locks.try_lock_for(NAME, SHORT).optional().expect("a quorum");
    guard.expect("the process before has given the lock back")
}

pub(crate) static IN_A_STATIC: Role =
    Role { name: "in a static", run: || drop(short_lock(LOCKS.get_or_init(|| locks(SHORT_TTL)))) };

pub(crate) static IN_A_LOCAL: Role = Role {
    name: "in a local",
    run: || {
        let locks = locks(SHORT_TTL);
        drop(short_lock(&locks));
    },
};

pub(crate) static IN_A_THREAD: Role = Role {
    name: "in a thread",
    run: || {
        let thread = thread::spawn(|| drop(short_lock(LOCKS.get_or_init(|| locks(SHORT_TTL)))));
        thread.join().expect("no panic");
    },
};

pub(crate) static GUARD_OUTLIVES_CLIENT: Role = Role {
    name: "guard outlives client",
    run: || {
        let locks = locks(SHORT_TTL);
        let guard = short_lock(&locks);
        drop(locks);
        drop(guard);
    },
};

/// Drops its guard, and then ends in the middle of its work, without running destructors.
pub(crate) static EXIT: Role = Role {
    name: "exit",
    run: || {
        let locks = locks(SHORT_TTL);
        drop(short_lock(&locks));
        std::process::exit(0);
    },
};

/// Ends while it holds the lock, without running destructors.
pub(crate) static EXIT_HOLDING: Role = Role {
    name: "exit holding",
    run: || {
        let locks = locks(SHORT_TTL);
        let guard = short_lock(&locks);
        std::process::exit(i32::from(guard.check().is_err()));
    },
};

/// Takes the lock, says `held`, and on "go" gives it back to masters that hang, closes the client, drops
/// another clone of it, says `dropped`, and ends at once.
pub(crate) static CLOSE: Role = Role {
    name: "close",
    run: || {
        let locks = locks(PANIC_TTL * 4);
        let clone = locks.clone();
        let guard = short_lock(&locks);
        say("held");
        wait_for_go();
        drop(guard);
        let error = locks.close(Duration::from_millis(100)).expect_err("all masters hang");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        drop(clone);
        say("dropped");
    },
};

/// Takes the lock, says `held`, and on "go" gives it back and ends at once.
pub(crate) static HOLD_SHORTLY: Role = Role {
    name: "hold shortly",
    run: || {
        let guard = short_lock(LOCKS.get_or_init(|| locks(SHORT_TTL)));
        say("held");
        wait_for_go();
        drop(guard);
    },
};

/// Says `connected`, and on "go" tries to take the lock, which fails, and ends at once.
pub(crate) static GIVE_UP: Role = Role {
    name: "give up",
    run: || {
        let builder = Builder::from_env().expect("the test names the nodes");
        let builder = builder.restart_quarantine(false).max_ttl(Duration::from_secs(600));
        let locks = LOCKS.get_or_init(|| builder.ttl(GIVE_UP_TTL).build().expect("valid settings"));
        while !locks.node_stats().iter().all(|node| node.connected) {
            thread::yield_now();
        }
        say("connected");
        wait_for_go();
        assert!(locks.try_lock(NAME).is_err(), "a majority hangs");
    },
};

/// Far longer than the test needs to see that a key is gone.
const GIVE_UP_TTL: Duration = Duration::from_secs(60);

/// The lifetime of the keys of the holder that is killed.
pub(crate) const HELD_TTL: Duration = Duration::from_secs(2);

/// Says `ready`, and on "go" takes the lock, says `held`, and holds it until it is killed.
pub(crate) static HOLD: Role = Role {
    name: "hold",
    run: || {
        let locks = locks(HELD_TTL);
        say("ready");
        wait_for_go();
        let _guard = locks.lock(NAME).expect("healthy nodes");
        say("held");
        wait_for_go();
    },
};

/// The number of permits of the semaphore that the next role takes whole.
pub(crate) const PERMITS: u32 = 3;

/// Says `ready`, and on "go" takes all permits, says `held`, and holds them until it is killed: two under one guard, and
/// the third one under another.
pub(crate) static HOLD_PERMITS: Role = Role {
    name: "hold permits",
    run: || {
        let locks = locks(HELD_TTL);
        let semaphore = locks.semaphore(NAME, PERMITS);
        say("ready");
        wait_for_go();
        let _two = semaphore.many(PERMITS - 1).acquire().expect("healthy nodes");
        let _one = semaphore.acquire().expect("healthy nodes");
        say("held");
        wait_for_go();
    },
};

/// The window of the rate limit that allows one call.
pub(crate) const WINDOW: Duration = SHORT_TTL.saturating_mul(6);

/// Makes the one call that the limit allows, says `called`, and waits until it is killed.
pub(crate) static CALL_ONCE: Role = Role {
    name: "call once",
    run: || {
        let limit = in_static().rate_limit(NAME, 1, WINDOW);
        limit.try_acquire().expect("nobody has called");
        say("called");
        wait_for_go();
    },
};

/// Says `ready`, and on "go" takes the lock and says `held`. On the next "go" it reports the state
/// of the lock first. Then it gives the lock back, and says `dropped`. On another "go" it ends.
pub(crate) static HOLD_AND_CHECK: Role = Role {
    name: "hold and check",
    run: || {
        let locks = locks(HELD_TTL);
        say("ready");
        wait_for_go();
        let guard = locks.lock(NAME).expect("healthy nodes");
        say("held");
        wait_for_go();
        match guard.check() {
            Ok(()) => say("it is mine"),
            Err(error) => say(&format!("{:?}", error.kind())),
        }
        drop(guard);
        say("dropped");
        wait_for_go();
    },
};

/// Takes the lock and says `held`. On "go" it checks the lock, drops it as soon as it is lost, and
/// reports the notices of that loss: `1 message, 1 call`.
pub(crate) static HOLD_AND_HEAR: Role = Role {
    name: "hold and hear",
    run: || {
        let locks = locks(HELD_TTL);
        let guard = locks.lock(NAME).expect("healthy nodes");
        let lost = guard.lost().clone();
        let (call, called) = mpsc::channel();
        guard.on_lost(move |reason| call.send(reason).expect("somebody listens"));
        say("held");
        wait_for_go();
        while guard.check().is_ok() {
            std::hint::spin_loop();
        }
        drop(guard);
        // Both iterators end when all their senders are gone.
        let messages = lost.iter().count();
        let calls = called.iter().count();
        say(&format!("{messages} message, {calls} call"));
    },
};

/// Far longer than the test needs to see that a lock was given back.
const PANIC_TTL: Duration = Duration::from_secs(30);
const ON_PURPOSE: &str = "on purpose, holding the lock";

/// Starts a thread that panics while it holds the lock, and says `panicked`. On "go" it takes the lock
/// itself, and returns from `main` with it.
pub(crate) static PANIC: Role = Role {
    name: "panic",
    run: || {
        let locks = locks(PANIC_TTL);
        let thread = thread::spawn({
            let locks = locks.clone();
            move || {
                let guard = locks.lock(NAME).expect("healthy nodes");
                guard.check().expect("just taken");
                // Without the panic message, which would only look like a failure.
                panic::resume_unwind(Box::new(ON_PURPOSE));
            }
        });
        let panic = thread.join().expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&ON_PURPOSE));
        say("panicked");
        wait_for_go();
        let guard = locks.try_lock(NAME).optional().expect("a quorum");
        let _until_the_end = guard.expect("the panic gave the lock back");
    },
};

/// The environment variable with the file of the number that the counting roles count up.
pub(crate) const FILE: &str = "QUORLOCK_TEST_FILE";
/// The environment variable with the number of steps of each counting thread.
pub(crate) const TIMES: &str = "QUORLOCK_TEST_TIMES";

/// Says `ready`, and on "go" counts, with the lock.
pub(crate) static COUNT: Role = Role {
    name: "count",
    run: || {
        let locks = locks(Duration::from_secs(30));
        count(|| locks.lock(NAME).expect("healthy nodes"), |guard| guard.token().map(u64::from));
    },
};

/// Says `ready`, and on "go" counts, without any lock.
pub(crate) static COUNT_UNLOCKED: Role =
    Role { name: "count unlocked", run: || count(|| (), |()| None) };

fn count<G>(lock: impl Fn() -> G + Sync, token: fn(&G) -> Option<u64>) {
    let file = PathBuf::from(env::var_os(FILE).expect("the test names a file"));
    let times = times();
    say("ready");
    wait_for_go();
    counting::count(&file, times, lock, token);
}

pub(crate) fn times() -> usize {
    env::var(TIMES).expect("the test says how often").parse().expect("a number")
}
