//! The promises of the read-write lock about readers and writers of one name, and about its layout on the nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quorlock::crossbeam_channel::bounded;
use quorlock::{
    ErrorKind, LossReason, OptionalGuard as _, Quorlock, ReadGuard, Renewal, RwLock, WriteGuard,
};
use redis::Value;

use crate::Promise;
use crate::support::wait_until;
use crate::world::{SHORT_TTL, TTL, World};

pub(crate) const PROMISES: &[Promise] = &[
    ("readers_read_together_and_a_writer_is_alone", readers_read_together_and_a_writer_is_alone),
    ("tokens_are_ordered_against_those_of_writers", tokens_are_ordered_against_those_of_writers),
    ("a_waiting_writer_gets_in_before_new_readers", a_waiting_writer_gets_in_before_new_readers),
    ("a_waiting_reader_gets_in_between_writers", a_waiting_reader_gets_in_between_writers),
    ("who_reads_cannot_write", who_reads_cannot_write),
    ("who_writes_may_read_and_goes_on_reading", who_writes_may_read_and_goes_on_reading),
    ("a_read_ends_by_itself", a_read_ends_by_itself),
    ("all_readers_are_forced_out", all_readers_are_forced_out),
    ("the_nodes_have_the_layout_of_redisson", the_nodes_have_the_layout_of_redisson),
];

fn lock(locks: &Quorlock) -> RwLock {
    locks.rw_lock("orders/42")
}

fn clients<const N: usize>(world: &mut World) -> [Quorlock; N] {
    [(); N].map(|()| world.client().locks)
}

/// Takes a lock that is free, or becomes free.
fn read(lock: &RwLock) -> ReadGuard {
    lock.read().expect("a majority is healthy")
}

fn write(lock: &RwLock) -> WriteGuard {
    lock.write().expect("a majority is healthy")
}

fn unlock(readers: impl IntoIterator<Item = ReadGuard>) {
    readers.into_iter().for_each(|guard| guard.unlock().expect("a majority is healthy"));
}

fn try_read(lock: &RwLock) -> Option<ReadGuard> {
    lock.try_read().optional().expect("held is no error")
}

fn try_write(lock: &RwLock) -> Option<WriteGuard> {
    lock.try_write().optional().expect("held is no error")
}

/// Waits until a caller of the client was refused, and listens for the release.
fn waits(locks: &Quorlock) {
    wait_until("a caller waits", TTL / 2, || {
        locks.node_stats().iter().any(|node| node.listened_to > 0)
    });
}

fn readers_read_together_and_a_writer_is_alone(world: &mut World) {
    let clients: [_; 3] = clients(world);
    let [one, two, three] = clients.each_ref().map(lock);
    for _ in 0..2 {
        let guards = [read(&one), read(&two)];
        assert!(try_write(&three).is_none());
        let third = try_read(&three).expect("nobody writes, or waits for it");
        unlock(guards);
        assert!(try_write(&one).is_none(), "one is left");
        third.check().expect("it is ours");
        third.unlock().expect("a majority is healthy");

        let guard = try_write(&one).expect("nobody reads");
        for other in [&two, &three] {
            assert!(try_read(other).is_none() && try_write(other).is_none());
        }
        guard.check().expect("it is ours");
        guard.unlock().expect("a majority is healthy");
    }
}

fn tokens_are_ordered_against_those_of_writers(world: &mut World) {
    let clients: [_; 3] = clients(world);
    let locks = clients.each_ref().map(lock);
    let mut largest = None;
    for round in 0..4 {
        let readers = locks.each_ref().map(read);
        for reader in &readers {
            assert!(reader.token() > largest, "{:?} after {largest:?}", reader.token());
        }
        let of_readers = readers.iter().map(|reader| reader.token()).max().expect("three");
        unlock(readers);
        let writer = write(&locks[round % locks.len()]);
        assert!(writer.token() > of_readers, "{:?} after {of_readers:?}", writer.token());
        largest = writer.token();
        writer.unlock().expect("a majority is healthy");
    }
}

/// Two clients read hand over hand, so that the lock is never free. Without reservations a writer would wait for ever.
fn a_waiting_writer_gets_in_before_new_readers(world: &mut World) {
    let [one, two, writer] = clients(world);
    let [mut here, mut there] = [lock(&one), lock(&two)];
    let mut guard = read(&here);
    for _ in 0..4 {
        let next = try_read(&there).expect("nobody waits to write");
        guard.unlock().expect("a majority is healthy");
        guard = next;
        std::mem::swap(&mut here, &mut there);
    }
    let token = guard.token();
    thread::scope(|scope| {
        let writes = scope.spawn(|| {
            let guard = write(&lock(&writer));
            let token = guard.token();
            guard.unlock().expect("a majority is healthy");
            token
        });
        waits(&writer);
        // The writer reserves the lock with its second attempt.
        wait_until("others to be kept out", TTL / 2, || try_read(&there).is_none());
        // A thread that already reads does not wait for the writer, which waits for that thread.
        let again = try_read(&here).expect("it reads");
        assert!(!writes.is_finished());
        again.unlock().expect("it is ours");
        guard.unlock().expect("a majority is healthy");
        let written = writes.join().expect("no panic");
        assert!(written > token, "{written:?} after {token:?}");
    });
    // The writer has had its turn, so it blocks no reader any more.
    wait_until("a read", TTL / 2, || try_read(&there).is_some());
}

/// Two clients with two threads each write all the time, until the reader has read.
fn a_waiting_reader_gets_in_between_writers(world: &mut World) {
    let [one, two, reader] = clients(world);
    let (has_read, waits_for_reader) = (AtomicBool::new(false), lock(&reader));
    let first = write(&lock(&one));
    let before = first.token();
    thread::scope(|scope| {
        for client in [&one, &one, &two, &two] {
            let has_read = &has_read;
            scope.spawn(move || {
                while !has_read.load(Ordering::Relaxed) {
                    let guard = write(&lock(client));
                    guard.check().expect("it is ours");
                    guard.unlock().expect("a majority is healthy");
                }
            });
        }
        waits(&two);
        let reads = scope.spawn(|| {
            let guard =
                waits_for_reader.try_read_for(TTL * 2).optional().expect("a majority is healthy");
            has_read.store(true, Ordering::Relaxed);
            let token = guard.as_ref().map(|guard| guard.token());
            if let Some(guard) = guard {
                guard.unlock().expect("a majority is healthy");
            }
            token
        });
        waits(&reader);
        first.unlock().expect("a majority is healthy");
        let token = reads.join().expect("no panic").expect("it has its turn");
        assert!(token > before, "{token:?} after {before:?}");
    });
}

fn who_reads_cannot_write(world: &mut World) {
    let [locks, other] = clients(world);
    let (lock, other) = (lock(&locks), lock(&other));
    let guard = read(&lock);
    let (_cancel, cancelled) = bounded(0);
    assert!(try_write(&lock).is_none(), "it waits for nothing");
    for refused in [lock.write(), lock.try_write_for(TTL), lock.write_within(&cancelled)] {
        assert_eq!(refused.map(drop).expect_err("it reads").kind(), ErrorKind::WouldDeadlock);
    }
    // The refusals concern this thread alone.
    let others = read(&other);
    let again = read(&lock);
    assert_eq!((lock.read_hold_count(), lock.write_hold_count()), (2, 0));
    assert_eq!(again.token(), guard.token());
    assert!(!lock.is_write_locked_by_current_thread());
    again.unlock().expect("it is ours");
    guard.unlock().expect("a majority is healthy");
    others.unlock().expect("a majority is healthy");
    write(&lock).unlock().expect("nobody reads");
}

fn who_writes_may_read_and_goes_on_reading(world: &mut World) {
    let [locks, other] = clients(world);
    let (lock, other) = (lock(&locks), lock(&other));
    let writer = write(&lock);
    let reader = read(&lock);
    let again = write(&lock);
    assert_eq!((lock.read_hold_count(), lock.write_hold_count()), (1, 2));
    assert_eq!((reader.token(), again.token()), (writer.token(), writer.token()));
    again.unlock().expect("it is ours");
    assert!(try_read(&other).is_none(), "somebody writes");
    let token = writer.token();
    let downgraded = writer.downgrade();
    assert_eq!((lock.read_hold_count(), lock.write_hold_count()), (2, 0));
    assert!(!lock.is_write_locked_by_current_thread());
    // The nodes learn of the downgrade by then, or a moment later.
    let mut beside = None;
    wait_until("somebody reads beside it", TTL / 2, || {
        beside = try_read(&other);
        beside.is_some()
    });
    let beside = beside.expect("it has just been taken");
    assert_eq!(downgraded.token(), token);
    assert!(beside.token() > token);
    reader.unlock().expect("it is ours");
    downgraded.check().expect("it is ours");
    downgraded.extend(TTL).expect("a majority is healthy");
    downgraded.unlock().expect("a majority is healthy");
    assert!(try_write(&lock).is_none(), "one reads");
    beside.unlock().expect("a majority is healthy");
    write(&lock).unlock().expect("nobody reads");
}

/// A crashed reader blocks writers no longer than its own TTL, although another reader reads for longer.
fn a_read_ends_by_itself(world: &mut World) {
    let [crashed, lives, writer] = clients(world);
    let leaked = lock(&crashed).ttl(SHORT_TTL).renewal(Renewal::Manual);
    let leaked = leaked.read().expect("a majority is healthy");
    let guard = read(&lock(&lives));
    assert_eq!(leaked.lost().recv_timeout(TTL), Ok(LossReason::Expired));
    // The nodes' keys of the crashed reader end a moment later.
    let key = world.key("orders/42");
    let its_end = format!("{{{key}}}:{}:rwlock_timeout:1", leaked.owner());
    wait_until("its keys have ended", TTL, || {
        world.command_everywhere(&["EXISTS", &its_end]).iter().all(|it| *it == Value::Int(0))
    });
    assert!(try_write(&lock(&writer)).is_none(), "one reads");
    guard.check().expect("it is ours");
    guard.unlock().expect("a majority is healthy");
    let writes = try_write(&lock(&writer)).expect("nobody reads");
    assert_eq!(leaked.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    writes.check().expect("the late end has taken nothing of it");
    writes.unlock().expect("a majority is healthy");
}

fn all_readers_are_forced_out(world: &mut World) {
    let [one, two, writer] = clients(world);
    let operator = lock(&world.operator().locks);
    let guards =
        [one, two].map(|locks| (lock(&locks).read().expect("a majority is healthy"), locks));
    // The nodes that no majority needed get the reads a moment later.
    wait_until("both are known", TTL / 2, || {
        operator.holder().expect("a majority is healthy").holders().count() == 2
    });
    assert!(operator.force_unlock().expect("a majority is healthy"));
    for (guard, locks) in &guards {
        assert_eq!(guard.extend(TTL).expect_err("forced").kind(), ErrorKind::Lost);
        let error =
            lock(locks).read().map(drop).expect_err("its thread has a guard of a lost lock");
        assert_eq!(error.kind(), ErrorKind::Lost);
    }
    let writes = write(&lock(&writer));
    for (guard, _) in guards {
        assert!(writes.token() > guard.token());
        assert_eq!(guard.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    }
    writes.check().expect("those before gave back nothing of it");
    writes.unlock().expect("a majority is healthy");
}

/// The fields of a hash, in order.
fn fields(reply: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    };
    let mut fields: Vec<_> = match reply {
        Value::Array(words) => {
            words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
        }
        Value::Map(map) => map.iter().map(|(field, value)| (text(field), text(value))).collect(),
        other => panic!("{other:?}"),
    };
    fields.sort_unstable();
    fields
}

fn the_nodes_have_the_layout_of_redisson(world: &mut World) {
    let [one, two] = clients(world);
    let key = world.key("orders/42");
    let has = |world: &World, mode: &str, owners: &[&str]| {
        let owners = owners.iter().map(|owner| ((*owner).to_owned(), "1".to_owned()));
        let mode = ("mode".to_owned(), mode.to_owned());
        let mut expected: Vec<_> = owners.chain([mode]).collect();
        expected.sort_unstable();
        // The nodes that no majority needed get the key a moment later.
        wait_until("each node has it", TTL / 2, || {
            let found = world.command_everywhere(&["HGETALL", &key]);
            found.iter().all(|found| fields(found) == expected)
        });
    };
    let lives = |world: &World, key: &str| {
        for ttl in world.command_everywhere(&["PTTL", key]) {
            let Value::Int(ttl) = ttl else { panic!("{ttl:?}") };
            assert!(ttl > 0 && ttl <= i64::try_from(TTL.as_millis()).expect("small"), "{ttl}");
        }
    };
    let readers = [read(&lock(&one)), read(&lock(&two))];
    has(world, "read", &[readers[0].owner(), readers[1].owner()]);
    lives(world, &key);
    for reader in &readers {
        let (_, random) = reader.owner().rsplit_once('#').expect("there is a label");
        let (uuid, number) = random.rsplit_once(':').expect("as Redisson's owners");
        assert_eq!((uuid.len(), number), (36, "1"));
        lives(world, &format!("{{{key}}}:{}:rwlock_timeout:1", reader.owner()));
    }
    unlock(readers);
    let writer = write(&lock(&one));
    let owner = writer.owner().to_owned();
    has(world, "write", &[&owner]);
    lives(world, &key);
    let reader = owner.strip_suffix(":write").expect("as Redisson's owners");
    let guard = writer.downgrade();
    has(world, "read", &[reader]);
    lives(world, &format!("{{{key}}}:{reader}:rwlock_timeout:1"));
    guard.unlock().expect("a majority is healthy");
}
