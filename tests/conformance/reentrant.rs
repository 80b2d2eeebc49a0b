//! The promises of the reentrant lock about taking it again, and about its layout on the nodes.

use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::{Sender, TryRecvError, bounded};
use quorlock::{ErrorKind, LossReason, OptionalGuard as _, Quorlock, ReentrantMutex, Renewal};

use crate::Promise;
use crate::support::wait_until;
use crate::world::{SHORT_TTL, TTL, World};

pub(crate) const PROMISES: &[Promise] = &[
    ("a_thread_takes_its_lock_again", a_thread_takes_its_lock_again),
    ("every_call_takes_it_again", every_call_takes_it_again),
    ("the_last_guard_gives_back_whichever_it_is", the_last_guard_gives_back_whichever_it_is),
    ("another_thread_waits_for_the_last_guard", another_thread_waits_for_the_last_guard),
    ("a_lost_lock_is_not_taken_again", a_lost_lock_is_not_taken_again),
    (
        "a_lease_that_is_given_back_is_not_taken_again",
        a_lease_that_is_given_back_is_not_taken_again,
    ),
    ("the_lease_stays_as_it_was_taken_first", the_lease_stays_as_it_was_taken_first),
    (
        "nobody_inherits_the_lock_of_a_thread_that_ended",
        nobody_inherits_the_lock_of_a_thread_that_ended,
    ),
    ("the_nodes_hold_one_owner_with_a_count_of_one", the_nodes_hold_one_owner_with_a_count_of_one),
];

fn lock(locks: &Quorlock) -> ReentrantMutex {
    locks.reentrant_mutex("orders/42")
}

fn client(world: &mut World) -> Quorlock {
    world.client().locks
}

/// Returns true if other threads and clients can take the lock.
fn is_free(mutex: &ReentrantMutex) -> bool {
    let try_lock = || mutex.try_lock().optional().expect("a majority is healthy").is_some();
    thread::scope(|scope| scope.spawn(try_lock).join().expect("no panic"))
}

fn a_thread_takes_its_lock_again(world: &mut World) {
    let (locks, other) = (client(world), client(world));
    let (mutex, other) = (lock(&locks), lock(&other));
    assert_eq!((mutex.hold_count(), mutex.is_owned_by_current_thread()), (0, false));
    let outer = mutex.lock().expect("a majority is healthy");
    let token = outer.token();
    assert!(token.is_some());
    for depth in 2..5 {
        // A clone is the same client, and another handle is the same lock.
        let inner = lock(&locks.clone()).lock().expect("a majority is healthy");
        assert_eq!((inner.token(), inner.owner()), (token, outer.owner()), "it is one lease");
        assert_eq!((mutex.hold_count(), mutex.is_owned_by_current_thread()), (2, true));
        let further: Vec<_> = (2..depth).map(|_| mutex.lock().expect("it is ours")).collect();
        assert_eq!(mutex.hold_count(), depth);
        assert_eq!((other.hold_count(), other.is_owned_by_current_thread()), (0, false));
        drop(further);
        inner.unlock().expect("it is ours");
        outer.check().expect("an inner guard gives nothing back");
        assert!(other.try_lock().optional().expect("held is no error").is_none());
        assert!(!is_free(&mutex), "another thread of the client");
    }
    assert_eq!(mutex.hold_count(), 1);
    outer.unlock().expect("a majority is healthy");
    assert_eq!((mutex.hold_count(), mutex.is_owned_by_current_thread()), (0, false));
    let next = other.try_lock().expect("it is free");
    assert!(next.token() > token);
}

fn every_call_takes_it_again(world: &mut World) {
    let locks = client(world);
    let mutex = lock(&locks);
    let outer = mutex.lock().expect("a majority is healthy");
    let (cancel, cancelled) = bounded(0);
    let far = std::time::Instant::now() + TTL;
    let guards = [
        mutex.lock(),
        mutex.try_lock(),
        mutex.try_lock_for(Duration::ZERO),
        mutex.try_lock_for(TTL),
        mutex.try_lock_until(far),
        mutex.lock_within(&cancelled),
    ];
    let guards = guards.map(|guard| guard.expect("it is ours"));
    assert_eq!(mutex.hold_count(), 7);
    assert!(guards.iter().all(|guard| guard.token() == outer.token()));
    let inside = mutex.with_lock(|guard| (mutex.hold_count(), guard.token()));
    assert_eq!(inside.expect("it is ours"), (8, outer.token()));
    drop(guards);
    assert_eq!(mutex.hold_count(), 1);
    // A cancelled channel refuses a held lock, as it refuses a free one.
    drop(cancel);
    let error = mutex.lock_within(&cancelled).map(drop).expect_err("cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    locks.clone().close(TTL).expect("nothing is queued");
    assert_eq!(mutex.lock().map(drop).expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(mutex.hold_count(), 1);
    outer.unlock().expect("it can be given back");
}

fn the_last_guard_gives_back_whichever_it_is(world: &mut World) {
    let (locks, other) = (client(world), client(world));
    let (mutex, other) = (lock(&locks), lock(&other));
    for last in 0..3 {
        let take = || mutex.lock().expect("a majority is healthy");
        let mut guards = vec![take(), take(), take()];
        let last = guards.remove(last);
        let lost: Vec<_> = guards.iter().map(|guard| guard.lost().clone()).collect();
        let [one, two] = <[_; 2]>::try_from(guards).expect("two of three");
        one.unlock().expect("it is ours");
        drop(two);
        for lost in lost {
            assert_eq!(lost.try_recv(), Err(TryRecvError::Disconnected), "it was given back");
        }
        assert_eq!(last.lost().try_recv(), Err(TryRecvError::Empty));
        last.check().expect("it is ours");
        last.extend(TTL).expect("a majority is healthy");
        assert!(other.try_lock().optional().expect("held is no error").is_none());
        last.unlock().expect("it was ours all the time");
        let next = other.try_lock().expect("it is free");
        next.unlock().expect("a majority is healthy");
    }
}

fn another_thread_waits_for_the_last_guard(world: &mut World) {
    let locks = client(world);
    let mutex = lock(&locks);
    let outer = mutex.lock().expect("a majority is healthy");
    let inner = mutex.lock().expect("it is ours");
    let token = outer.token();
    let waits = |locks: &Quorlock| locks.node_stats().iter().any(|node| node.listened_to > 0);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = mutex.lock().expect("a majority is healthy");
            // A lease that was handed over can be taken again, too.
            let again = mutex.lock().expect("it is ours");
            assert_eq!((guard.token(), mutex.hold_count()), (again.token(), 2));
            guard.unlock().expect("it is ours");
            again.check().expect("it is ours");
            let token = again.token();
            again.unlock().expect("a majority is healthy");
            token
        });
        if !world.has_local_queues() {
            wait_until("the other thread waits", TTL / 2, || waits(&locks));
        }
        inner.unlock().expect("it is ours");
        assert!(!waiting.is_finished());
        outer.check().expect("it is ours");
        outer.unlock().expect("it was ours all the time");
        assert!(waiting.join().expect("no panic") > token);
    });
}

fn a_lost_lock_is_not_taken_again(world: &mut World) {
    let (locks, other) = (client(world), client(world));
    let mutex = lock(&locks).ttl(SHORT_TTL).renewal(Renewal::Manual);
    let outer = mutex.lock().expect("a majority is healthy");
    let inner = mutex.lock().expect("it is ours");
    for guard in [&outer, &inner] {
        assert_eq!(guard.lost().recv_timeout(TTL), Ok(LossReason::Expired), "each is told once");
    }
    let next = lock(&other).lock().expect("a majority is healthy");
    assert_eq!((mutex.hold_count(), mutex.is_owned_by_current_thread()), (2, false));
    for refused in [mutex.lock(), mutex.try_lock(), mutex.try_lock_for(TTL)] {
        let error = refused.map(drop).expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert!(error.to_string().contains("drop its guards"), "{error}");
    }
    let error = mutex.with_lock(|_| panic!("it is lost")).expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    // The lock stays lost until the last guard is gone.
    assert_eq!(outer.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(mutex.try_lock().map(drop).expect_err("lost").kind(), ErrorKind::Lost);
    drop(inner);
    assert_eq!(mutex.hold_count(), 0);
    assert!(
        mutex.try_lock().optional().expect("held is no error").is_none(),
        "one of many that want it"
    );
    next.unlock().expect("it was its own all the time");
    mutex.lock().expect("a majority is healthy").unlock().expect("a majority is healthy");
}

/// Takes the lock when it is dropped, and reports the owner of that lock.
struct TakesIt(ReentrantMutex, Sender<Option<String>>);

impl Drop for TakesIt {
    fn drop(&mut self) {
        let taken = self.0.try_lock().optional().expect("a majority is healthy");
        let owner = taken.map(|guard| guard.owner().to_owned());
        self.1.send(owner).expect("it is waited for");
    }
}

/// The captures of an `on_lost` callback are dropped while its guard is given back, on the guard's thread. That thread must
/// not take the lease again that ends at that moment.
fn a_lease_that_is_given_back_is_not_taken_again(world: &mut World) {
    let locks = client(world);
    let mutex = lock(&locks);
    for unlocks in [true, false] {
        let guard = mutex.lock().expect("a majority is healthy");
        let owner = guard.owner().to_owned();
        let (tell, told) = bounded(1);
        let takes_it = TakesIt(mutex.clone(), tell);
        guard.on_lost(move |_| drop(takes_it));
        match unlocks {
            true => guard.unlock().expect("a majority is healthy"),
            false => drop(guard),
        }
        let taken = told.recv_timeout(TTL).expect("the callback was dropped");
        assert_ne!(taken, Some(owner));
        assert_eq!(mutex.hold_count(), 0);
    }
}

fn the_lease_stays_as_it_was_taken_first(world: &mut World) {
    let locks = client(world);
    let outer = lock(&locks).lock().expect("a majority is healthy");
    let before = outer.remaining();
    assert!(before > TTL / 2);
    let short = lock(&locks).ttl(SHORT_TTL).max_hold(SHORT_TTL).renewal(Renewal::Manual);
    let inner = short.lock().expect("it is ours");
    assert!(inner.remaining() > TTL / 2, "{:?}", inner.remaining());
    // A guard's request for a shorter TTL does not shorten the validity of other guards.
    inner.extend(SHORT_TTL).expect("a majority is healthy");
    assert!(outer.remaining() > TTL / 2, "{:?}", outer.remaining());
    inner.unlock().expect("it is ours");
    assert!(outer.remaining() > TTL / 2, "{:?}", outer.remaining());
    outer.unlock().expect("a majority is healthy");
}

fn nobody_inherits_the_lock_of_a_thread_that_ended(world: &mut World) {
    let locks = client(world);
    let mutex = lock(&locks).ttl(SHORT_TTL).renewal(Renewal::Manual);
    thread::scope(|scope| {
        let leak = || std::mem::forget(mutex.lock().expect("a majority is healthy"));
        scope.spawn(leak).join().expect("no panic");
    });
    for _ in 0..20 {
        let looks = || (mutex.hold_count(), mutex.is_owned_by_current_thread());
        let found = thread::scope(|scope| scope.spawn(looks).join().expect("no panic"));
        assert_eq!(found, (0, false));
    }
    let guard = mutex.lock().expect("the lease of that thread ends");
    assert_eq!(mutex.hold_count(), 1);
    guard.unlock().expect("a majority is healthy");
}

fn the_nodes_hold_one_owner_with_a_count_of_one(world: &mut World) {
    let locks = client(world);
    let mutex = lock(&locks);
    let key = world.key("orders/42");
    let guards: Vec<_> = (0..3).map(|_| mutex.lock().expect("a majority is healthy")).collect();
    let owner = redis::Value::BulkString(guards[0].owner().as_bytes().to_vec());
    let count = redis::Value::BulkString(b"1".to_vec());
    let (_, random) = guards[0].owner().rsplit_once('#').expect("there is a label");
    let (uuid, number) = random.rsplit_once(':').expect("as Redisson's owners");
    assert_eq!((uuid.len(), number.parse::<u64>().is_ok()), (36, true));
    let ours = |fields: &redis::Value| match fields {
        redis::Value::Array(pair) => *pair == [owner.clone(), count.clone()],
        redis::Value::Map(map) => *map == [(owner.clone(), count.clone())],
        _ => false,
    };
    // The nodes that no majority needed get the lock a moment later.
    wait_until("each node has it", TTL / 2, || {
        world.command_everywhere(&["HGETALL", &key]).iter().all(ours)
    });
    for ttl in world.command_everywhere(&["PTTL", &key]) {
        let redis::Value::Int(ttl) = ttl else { panic!("{ttl:?}") };
        assert!(ttl > 0 && ttl <= i64::try_from(TTL.as_millis()).expect("small"), "{ttl}");
    }
    drop(guards);
}
