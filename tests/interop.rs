//! Reentrant locks next to Redisson's `RLock`, on one server that both use.
//!
//! Redisson's side consists of its known scripts, as a Java program runs them on the server. It uses no line of this
//! crate.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, LossReason, OptionalGuard as _, Quorlock, ReentrantMutex};
use redis::Value;
use support::clients::{connected, fresh};
use support::{Server, wait_until};

/// Far longer than any test takes: a caller that gets a lock sooner was woken, or found it free.
const TTL: Duration = Duration::from_secs(600);

/// Longer than anything takes on a busy machine, and far shorter than the TTL.
const LONG: Duration = Duration::from_secs(35);

const LEASE_MS: &str = "600000";

/// A lock's name may have braces, which Redisson uses for the hash slot.
const NAMES: [&str; 2] = ["orders/42", "orders{42}"];

const LOCK: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

const UNLOCK: &str = "
local latch = redis.call('get', KEYS[3])
if latch ~= false then
  return tonumber(latch)
end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
  return nil
end
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1)
if counter > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('set', KEYS[3], 0, 'px', ARGV[5])
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[5])
return 1";

const FORCE_UNLOCK: &str = "
if redis.call('del', KEYS[1]) == 1 then
  redis.call(ARGV[2], KEYS[2], ARGV[1])
  return 1
end
return 0";

const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 1
end
return 0";

/// A thread of a Redisson client, and its lock.
struct Redisson<'a> {
    server: &'a Server,
    name: &'a str,
    owner: &'static str,
}

impl<'a> Redisson<'a> {
    fn new(server: &'a Server, name: &'a str) -> Self {
        Self { server, name, owner: "2c4f0d2e-5d6b-4bd1-9c43-0b7d1d1fb0a5:37" }
    }

    fn channel(&self) -> String {
        match self.name.contains('{') {
            true => format!("redisson_lock__channel:{}", self.name),
            false => format!("redisson_lock__channel:{{{}}}", self.name),
        }
    }

    /// Returns `None` if it has the lock, or has it once more. Otherwise returns the holder's remaining milliseconds.
    fn lock(&self) -> Option<i64> {
        match self.server.command(&["EVAL", LOCK, "1", self.name, LEASE_MS, self.owner]) {
            Value::Nil => None,
            Value::Int(ms) => Some(ms),
            other => panic!("nothing, or milliseconds: {other:?}"),
        }
    }

    /// Returns true if it has given the lock up completely, and `None` if it did not have it.
    fn unlock(&self) -> Option<bool> {
        let (channel, name) = (self.channel(), self.name);
        let latch = format!("redisson_unlock_latch:{{{name}}}:{:032x}", 7);
        let keys = ["EVAL", UNLOCK, "3", name, &channel, &latch];
        let arguments = ["0", LEASE_MS, self.owner, "PUBLISH", "60000"];
        let answer = self.server.command(&[&keys[..], &arguments].concat());
        self.server.command(&["DEL", &latch]);
        match answer {
            Value::Nil => None,
            Value::Int(released) => Some(released == 1),
            other => panic!("nothing, or a number: {other:?}"),
        }
    }

    fn force_unlock(&self) -> Value {
        let channel = self.channel();
        self.server.command(&["EVAL", FORCE_UNLOCK, "2", self.name, &channel, "0", "PUBLISH"])
    }

    /// Returns true if its watchdog finds the lock.
    fn renew(&self) -> bool {
        let renew = ["EVAL", RENEW, "1", self.name, LEASE_MS, self.owner];
        self.server.command(&renew) == Value::Int(1)
    }

    /// The answer of its `getHoldCount` for an owner.
    fn hold_count(&self, owner: &str) -> Option<String> {
        match self.server.command(&["HGET", self.name, owner]) {
            Value::BulkString(count) => String::from_utf8(count).ok(),
            _ => None,
        }
    }

    /// The answers of its `isLocked` and `remainTimeToLive`.
    fn is_locked(&self) -> (bool, i64) {
        let exists = self.server.command(&["EXISTS", self.name]) == Value::Int(1);
        (exists, self.server.pttl(self.name))
    }

    /// Listens as its waiters do, and runs `then`. Returns the messages until the lock is free.
    fn waits(&self, then: impl FnOnce()) -> Vec<String> {
        let held_for = self.lock().expect("somebody has it");
        assert!(held_for > LONG.as_millis() as i64, "so long it would wait without a message");
        let client = redis::Client::open(self.server.url()).expect("a valid URL");
        let mut connection = client.get_connection().expect("the server is up");
        connection.set_read_timeout(Some(LONG)).expect("more than zero");
        let mut listener = connection.as_pubsub();
        listener.subscribe(self.channel()).expect("it may");
        // It tries again once it listens, since it gets no message of an earlier release.
        if self.lock().is_none() {
            return Vec::new();
        }
        then();
        let mut messages = Vec::new();
        loop {
            let message = listener.get_message().expect("a release is told");
            messages.push(message.get_payload().expect("text"));
            if self.lock().is_none() {
                return messages;
            }
        }
    }
}

fn builder(server: &Server) -> Builder {
    fresh([server.url()]).key_prefix("").ttl(TTL).max_ttl(TTL).node_timeout(Duration::from_secs(5))
}

/// A client that checks by itself only every 45 s or more, once it is listening.
fn client(server: &Server) -> Quorlock {
    connected(builder(server).backoff(Duration::from_millis(5), Duration::from_secs(60)))
}

#[test]
fn each_excludes_the_other() {
    let server = Server::start();
    for name in NAMES {
        let (redisson, locks) = (Redisson::new(&server, name), client(&server));
        let mutex = locks.reentrant_mutex(name);
        let guard = mutex.lock().expect("it is free");
        let owner = guard.owner().to_owned();
        assert!(redisson.lock().is_some_and(|ms| ms > 500_000), "it is refused with our TTL");
        assert_eq!((redisson.unlock(), redisson.renew()), (None, false), "it is not its own");
        assert_eq!(redisson.hold_count(&owner).as_deref(), Some("1"));
        guard.check().expect("it is ours");
        guard.unlock().expect("it was ours all the time");

        assert_eq!((redisson.lock(), redisson.lock()), (None, None), "it is reentrant as well");
        for (count, released) in [("2", false), ("1", true)] {
            assert!(mutex.try_lock().optional().expect("held is no error").is_none());
            assert!(locks.mutex(name).try_lock().optional().expect("held is no error").is_none());
            assert_eq!(redisson.hold_count(redisson.owner).as_deref(), Some(count));
            assert!(redisson.renew() && redisson.is_locked().1 > 500_000);
            assert_eq!(redisson.unlock(), Some(released));
        }
        let guard = mutex.try_lock().expect("it was given back");
        guard.unlock().expect("it was ours all the time");
        // A lock of the Redlock layout blocks both.
        let guard = locks.mutex(name).lock().expect("it is free");
        assert!(mutex.try_lock().optional().expect("held is no error").is_none());
        guard.unlock().expect("it was ours all the time");
    }
    server.wait_no_keys_in(0);
}

/// Redisson's view of a lock after each of our operations.
#[test]
fn our_lock_is_one_of_redisson_at_any_time() {
    let server = Server::start();
    let name = NAMES[0];
    let (redisson, locks) = (Redisson::new(&server, name), client(&server));
    let is_held_by = |mutex: &ReentrantMutex, owner: &str| {
        assert!(mutex.is_owned_by_current_thread());
        assert_eq!(redisson.hold_count(owner).as_deref(), Some("1"), "however often it was taken");
        assert_eq!(server.command(&["HLEN", name]), Value::Int(1));
        assert_eq!(server.command(&["TYPE", name]), Value::SimpleString("hash".to_owned()));
        let (_, end) = owner.rsplit_once('#').expect("there is a label");
        let (uuid, thread) = end.split_once(':').expect("a client and a thread");
        assert!(uuid.len() == 36 && thread.parse::<i64>().is_ok(), "{owner}");
        let (is_locked, left) = redisson.is_locked();
        assert!(is_locked && left <= TTL.as_millis() as i64);
        left
    };
    let mutex = locks.reentrant_mutex(name).ttl(TTL / 2);
    let outer = mutex.lock().expect("it is free");
    let owner = outer.owner().to_owned();
    assert!(is_held_by(&mutex, &owner) <= 300_000);
    let inner = mutex.lock().expect("it is ours");
    assert!(is_held_by(&mutex, &owner) <= 300_000, "the lease stays as it is");
    inner.extend(TTL).expect("one server");
    assert!(is_held_by(&mutex, &owner) > 500_000);
    outer.extend(TTL / 2).expect("one server");
    assert!(is_held_by(&mutex, &owner) > 500_000, "a key is never shortened");
    outer.unlock().expect("it is ours");
    assert!(is_held_by(&mutex, &owner) > 500_000);
    inner.unlock().expect("it was ours all the time");
    assert_eq!(redisson.is_locked(), (false, -2));
    let left = server.keys();
    assert!(left.iter().all(|key| key == "{orders/42}:fence" || support::stays(key)), "{left:?}");

    // Each lease has its own owner, since a late request of one must not touch the next one.
    let guard = mutex.lock().expect("it is free");
    assert_ne!(guard.owner(), owner);
    drop(guard);
    wait_until("the lock is free", LONG, || !redisson.is_locked().0);
}

#[test]
fn our_release_wakes_a_waiter_of_redisson() {
    let server = Server::start();
    let locks = client(&server);
    for name in NAMES {
        let redisson = Redisson::new(&server, name);
        for drops in [false, true] {
            let mutex = locks.reentrant_mutex(name);
            let (outer, inner) = (mutex.lock().expect("it is free"), mutex.lock().expect("ours"));
            let messages = redisson.waits(|| {
                inner.unlock().expect("it is ours");
                match drops {
                    true => drop(outer),
                    false => outer.unlock().expect("it was ours all the time"),
                }
            });
            assert_eq!(messages, ["0"], "one message, behind the last unlock");
            assert_eq!(redisson.unlock(), Some(true));
        }
    }
    server.wait_no_keys_in(0);
}

#[test]
fn a_release_by_redisson_wakes_our_waiter() {
    let server = Server::start();
    for name in NAMES {
        let (redisson, locks) = (Redisson::new(&server, name), client(&server));
        for force in [false, true] {
            assert_eq!(redisson.lock(), None);
            let mutex = locks.reentrant_mutex(name);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let start = Instant::now();
                    let guard = mutex.try_lock_for(LONG).optional().expect("one server");
                    (guard.map(|guard| guard.unlock()), start.elapsed())
                });
                // Our channel and Redisson's.
                wait_until("it listens to both channels", LONG, || {
                    locks.node_stats()[0].listened_to == 2
                });
                assert!(!waiting.is_finished());
                match force {
                    true => assert_eq!(redisson.force_unlock(), Value::Int(1)),
                    false => assert_eq!(redisson.unlock(), Some(true)),
                }
                let (guard, took) = waiting.join().expect("no panic");
                guard.expect("it is told").expect("it was ours all the time");
                assert!(took < LONG, "{took:?}");
            });
        }
    }
    server.wait_no_keys_in(0);
}

/// A client of ours gives its lock back, and wants it again at once. Redisson's waiter comes first.
#[test]
fn our_client_leaves_the_lock_to_a_waiter_of_redisson() {
    let server = Server::start();
    let name = NAMES[0];
    let (redisson, locks) = (Redisson::new(&server, name), client(&server));
    let mutex = locks.reentrant_mutex(name);
    let guard = mutex.lock().expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| redisson.waits(|| {}));
        let listens = || match server.command(&["PUBSUB", "NUMSUB", &redisson.channel()]) {
            Value::Array(pair) => pair.last() == Some(&Value::Int(1)),
            other => panic!("a channel and a number: {other:?}"),
        };
        wait_until("it listens", LONG, listens);
        guard.unlock().expect("it was ours all the time");
        // The waiter may come too late on a busy machine. Then the next release wakes it.
        wait_until("it is served", LONG, || {
            drop(mutex.try_lock_for(Duration::from_millis(100)).optional().expect("one server"));
            waiting.is_finished()
        });
        waiting.join().expect("no panic");
        assert_eq!(redisson.unlock(), Some(true));
    });
    server.wait_no_keys_in(0);
}

/// Redisson deletes the key of any holder. Our holder learns of the loss, and takes nothing from the next one.
#[test]
fn a_forced_unlock_is_a_loss() {
    let server = Server::start();
    let name = NAMES[0];
    let ttl = Duration::from_secs(12);
    let locks = connected(builder(&server).ttl(ttl));
    let redisson = Redisson::new(&server, name);
    let mutex = locks.reentrant_mutex(name);
    let (outer, inner) = (mutex.lock().expect("it is free"), mutex.lock().expect("it is ours"));
    assert_eq!((redisson.force_unlock(), redisson.lock()), (Value::Int(1), None));
    for guard in [&outer, &inner] {
        assert_eq!(guard.lost().recv_timeout(LONG), Ok(LossReason::KeysGone));
    }
    assert_eq!((mutex.hold_count(), mutex.is_owned_by_current_thread()), (2, false));
    assert_eq!(mutex.try_lock().optional().map(drop).expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(inner.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(outer.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    assert!(mutex.try_lock().optional().expect("held is no error").is_none());
    assert_eq!(redisson.hold_count(redisson.owner).as_deref(), Some("1"));
    assert_eq!(redisson.unlock(), Some(true));
    server.wait_no_keys_in(0);
}
