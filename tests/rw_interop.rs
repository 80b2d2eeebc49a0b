//! Read-write locks next to Redisson's `RReadWriteLock`, on one server that both use.
//!
//! Redisson's side consists of its known scripts, as a Java program runs them on the server. It uses no line of this
//! crate.

mod support;

use std::thread;
use std::time::Duration;

use quorlock::{
    ErrorKind, LossReason, OptionalGuard as _, Quorlock, ReadGuard, RwLock, WriteGuard,
};
use redis::Value;
use support::clients::{connected, fresh};
use support::{Server, wait_until};

/// Far longer than any test takes: a caller that gets a lock sooner was woken, or found it free.
const TTL: Duration = Duration::from_secs(600);

/// Longer than any step takes on a busy machine, and far shorter than the TTL.
const LONG: Duration = Duration::from_secs(35);

const LEASE_MS: &str = "600000";

/// A lock's name may have braces, which Redisson uses for the hash slot.
const NAMES: [&str; 2] = ["orders/42", "orders{42}"];

const READ_LOCK: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('set', KEYS[2] .. ':1', 1)
  redis.call('pexpire', KEYS[2] .. ':1', ARGV[1])
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if mode == 'read' or mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
  local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1)
  local key = KEYS[2] .. ':' .. ind
  redis.call('set', key, 1)
  redis.call('pexpire', key, ARGV[1])
  local left = redis.call('pttl', KEYS[1])
  redis.call('pexpire', KEYS[1], math.max(left, ARGV[1]))
  return nil
end
return redis.call('pttl', KEYS[1])";

const READ_UNLOCK: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then
  redis.call(ARGV[3], KEYS[2], ARGV[1])
  return 1
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1)
if counter == 0 then
  redis.call('hdel', KEYS[1], ARGV[2])
end
redis.call('del', KEYS[3] .. ':' .. (counter + 1))
if redis.call('hlen', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
    counter = tonumber(redis.call('hget', KEYS[1], field))
    if type(counter) == 'number' then
      for i = counter, 1, -1 do
        local left = redis.call('pttl', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. i)
        longest = math.max(left, longest)
      end
    end
  end
  if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    return 0
  end
  if mode == 'write' then
    return 0
  end
end
redis.call('del', KEYS[1])
redis.call(ARGV[3], KEYS[2], ARGV[1])
return 1";

const WRITE_LOCK: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then
  redis.call('hset', KEYS[1], 'mode', 'write')
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

const WRITE_UNLOCK: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then
  redis.call(ARGV[4], KEYS[2], ARGV[1])
  return 1
end
if mode ~= 'write' or redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
  return nil
end
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1)
if counter > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('hdel', KEYS[1], ARGV[3])
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
else
  redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1";

const RENEW_READ: &str = "
local counter = redis.call('hget', KEYS[1], ARGV[2])
if counter == false then
  return 0
end
for i = tonumber(counter), 1, -1 do
  redis.call('pexpire', KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:' .. i, ARGV[1])
end
redis.call('pexpire', KEYS[1], ARGV[1])
return 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Read,
    Write,
}

const BOTH: [To; 2] = [To::Read, To::Write];

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

    fn key_prefix(&self) -> String {
        let name = self.name;
        if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
    }

    fn channel(&self) -> String {
        format!("redisson_rwlock:{}", self.key_prefix())
    }

    fn timeouts(&self) -> String {
        format!("{}:{}:rwlock_timeout", self.key_prefix(), self.owner)
    }

    /// Returns `None` if it has the lock, or has it once more. Otherwise returns the holder's remaining milliseconds.
    fn lock(&self, to: To) -> Option<i64> {
        let (timeouts, writer) = (self.timeouts(), format!("{}:write", self.owner));
        let answer = match to {
            To::Read => self.server.command(&[
                "EVAL", READ_LOCK, "2", self.name, &timeouts, LEASE_MS, self.owner, &writer,
            ]),
            To::Write => {
                self.server.command(&["EVAL", WRITE_LOCK, "1", self.name, LEASE_MS, &writer])
            }
        };
        match answer {
            Value::Nil => None,
            Value::Int(ms) => Some(ms),
            other => panic!("nothing, or milliseconds: {other:?}"),
        }
    }

    /// Returns true if the lock is free now, or not written any more, and `None` if it did not have the lock.
    fn unlock(&self, to: To) -> Option<bool> {
        let (channel, timeouts, prefix) = (self.channel(), self.timeouts(), self.key_prefix());
        let writer = format!("{}:write", self.owner);
        let answer = match to {
            To::Read => {
                let keys = ["EVAL", READ_UNLOCK, "4", self.name, &channel, &timeouts, &prefix];
                self.server.command(&[&keys[..], &["0", self.owner, "PUBLISH"]].concat())
            }
            To::Write => {
                let keys = ["EVAL", WRITE_UNLOCK, "2", self.name, &channel];
                self.server.command(&[&keys[..], &["1", LEASE_MS, &writer, "PUBLISH"]].concat())
            }
        };
        match answer {
            Value::Nil => None,
            Value::Int(released) => Some(released == 1),
            other => panic!("nothing, or a number: {other:?}"),
        }
    }

    /// Returns true if its watchdog finds the read.
    fn renew_read(&self) -> bool {
        let prefix = self.key_prefix();
        let renew = ["EVAL", RENEW_READ, "2", self.name, &prefix, LEASE_MS, self.owner];
        self.server.command(&renew) == Value::Int(1)
    }

    /// Listens as its waiters do, and runs `then`. Returns the messages until the lock is free.
    fn waits(&self, to: To, then: impl FnOnce()) -> Vec<String> {
        let held_for = self.lock(to).expect("somebody has it");
        assert!(held_for > LONG.as_millis() as i64, "so long it would wait without a message");
        let client = redis::Client::open(self.server.url()).expect("a valid URL");
        let mut connection = client.get_connection().expect("the server is up");
        connection.set_read_timeout(Some(LONG)).expect("more than zero");
        let mut listener = connection.as_pubsub();
        listener.subscribe(self.channel()).expect("it may");
        assert!(self.lock(to).is_some(), "it tries again once it listens");
        then();
        let mut messages = Vec::new();
        loop {
            let message = listener.get_message().expect("a release is told");
            messages.push(message.get_payload().expect("text"));
            if self.lock(to).is_none() {
                return messages;
            }
        }
    }
}

/// A client that checks by itself only every 45 s or more, once it is listening.
fn client(server: &Server) -> Quorlock {
    let builder = fresh([server.url()]).key_prefix("").ttl(TTL).max_ttl(TTL);
    let builder = builder.node_timeout(Duration::from_secs(5));
    connected(builder.backoff(Duration::from_millis(5), Duration::from_secs(60)))
}

/// Returns true if our client can take the lock. It is given back before this returns.
fn is_free(lock: &RwLock, to: To) -> bool {
    let unlocked = match to {
        To::Read => lock.try_read().optional().expect("held is no error").map(ReadGuard::unlock),
        To::Write => lock.try_write().optional().expect("held is no error").map(WriteGuard::unlock),
    };
    unlocked.is_some_and(|unlocked| unlocked.is_ok())
}

#[test]
fn each_excludes_the_other_but_for_those_who_read() {
    let server = Server::start();
    for name in NAMES {
        let (redisson, locks) = (Redisson::new(&server, name), client(&server));
        let lock = locks.rw_lock(name);
        let guard = lock.write().expect("it is free");
        for to in BOTH {
            assert!(redisson.lock(to).is_some_and(|ms| ms > 500_000), "it is refused with our TTL");
            assert_eq!(redisson.unlock(to), None, "it is not its own");
        }
        let guard = guard.downgrade();
        wait_until("the node knows that it only reads", LONG, || redisson.lock(To::Read).is_none());
        assert!(redisson.lock(To::Write).is_some());
        guard.unlock().expect("it was ours all the time");
        assert!(!is_free(&lock, To::Write) && is_free(&lock, To::Read), "the other one reads");
        assert!(redisson.renew_read());
        assert_eq!(redisson.unlock(To::Read), Some(true));

        // Redisson's counts may be larger than 1.
        assert_eq!((redisson.lock(To::Read), redisson.lock(To::Read)), (None, None));
        let guard = lock.read().expect("it is only read");
        assert_eq!(redisson.unlock(To::Read), Some(false), "it still reads");
        assert!(redisson.renew_read());
        guard.unlock().expect("it was ours all the time");
        assert!(!is_free(&lock, To::Write));
        assert_eq!(redisson.unlock(To::Read), Some(true));

        assert_eq!((redisson.lock(To::Write), redisson.lock(To::Read)), (None, None));
        assert!(!is_free(&lock, To::Write) && !is_free(&lock, To::Read));
        assert!(
            locks.reentrant_mutex(name).try_lock().optional().expect("held is no error").is_none()
        );
        assert_eq!(redisson.unlock(To::Write), Some(true));
        wait_until("it reads what it wrote", LONG, || is_free(&lock, To::Read));
        assert_eq!(redisson.unlock(To::Read), Some(true));
        assert!(is_free(&lock, To::Write));
    }
}

#[test]
fn our_releases_wake_a_waiter_of_redisson() {
    let server = Server::start();
    let locks = client(&server);
    for name in NAMES {
        let redisson = Redisson::new(&server, name);
        let lock = locks.rw_lock(name);
        for (ours, theirs, message) in
            [(To::Read, To::Write, "0"), (To::Write, To::Write, "1"), (To::Write, To::Read, "1")]
        {
            let messages = match ours {
                To::Read => {
                    let guards =
                        [lock.read().expect("it is free"), lock.read().expect("it is ours")];
                    redisson.waits(theirs, || guards.into_iter().for_each(drop))
                }
                To::Write => {
                    let guard = lock.write().expect("it is free");
                    redisson.waits(theirs, || guard.unlock().expect("it was ours all the time"))
                }
            };
            assert_eq!(messages, [message], "{ours:?} {theirs:?}");
            assert_eq!(redisson.unlock(theirs), Some(true));
        }
        let guard = lock.write().expect("it is free");
        let mut reads = None;
        let messages = redisson.waits(To::Read, || reads = Some(guard.downgrade()));
        assert_eq!(messages, ["1"], "a downgrade");
        reads.expect("it was downgraded").unlock().expect("it was ours all the time");
        assert_eq!(redisson.unlock(To::Read), Some(true));
    }
}

#[test]
fn a_release_by_redisson_wakes_our_waiters() {
    let server = Server::start();
    for name in NAMES {
        for (theirs, ours) in [(To::Read, To::Write), (To::Write, To::Write), (To::Write, To::Read)]
        {
            let (redisson, locks) = (Redisson::new(&server, name), client(&server));
            assert_eq!(redisson.lock(theirs), None);
            let lock = locks.rw_lock(name);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| match ours {
                    To::Read => lock.try_read_for(LONG).optional().map(|guard| guard.is_some()),
                    To::Write => lock.try_write_for(LONG).optional().map(|guard| guard.is_some()),
                });
                wait_until("it listens to both channels", LONG, || {
                    locks.node_stats()[0].listened_to == 2
                });
                assert!(!waiting.is_finished());
                assert_eq!(redisson.unlock(theirs), Some(true));
                let has_it = waiting.join().expect("no panic").expect("one server");
                assert!(has_it, "{theirs:?} {ours:?}: it is told");
            });
        }
    }
}

#[test]
fn operators_see_and_end_what_redisson_holds_and_the_other_way_round() {
    let server = Server::start();
    let name = NAMES[0];
    let (redisson, locks) = (Redisson::new(&server, name), client(&server));
    let lock = locks.rw_lock(name);
    assert_eq!((redisson.lock(To::Read), redisson.lock(To::Read)), (None, None));
    let guard = lock.read().expect("it is only read");
    let report = lock.holder().expect("one server");
    let holders: Vec<_> = report.holders().map(|holder| holder.owner.to_string()).collect();
    assert_eq!(holders.len(), 2, "{holders:?}");
    assert!(holders.iter().any(|owner| owner == redisson.owner));
    assert!(lock.force_unlock().expect("one server"));
    assert_eq!(redisson.unlock(To::Read), Some(true), "as of a lock that is gone");
    guard.extend(TTL).expect_err("it is taken from us");
    let lost = guard.check().expect_err("it is taken from us");
    assert_eq!((lost.kind(), guard.lost().try_recv()), (ErrorKind::Lost, Ok(LossReason::KeysGone)));
    drop(guard);
    assert!(is_free(&lock, To::Write));
}
