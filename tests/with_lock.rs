//! Closures under a lock: their results, and a single `?` for all errors.

mod support;

use std::cell::Cell;
use std::error::Error as StdError;
use std::time::Duration;

use quorlock::{Error, ErrorKind, Guard, OptionalGuard as _, Quorlock, WithLockError};
use redis::Value;
use support::clients::patient;
use support::{Servers, wait_until};

/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

fn client(servers: &Servers) -> Quorlock {
    patient(servers, TTL)
}

/// A client without any server.
fn unconnected() -> Quorlock {
    let builder = Quorlock::builder().nodes(["redis://127.0.0.1:1"]);
    builder.no_quorum_timeout(Duration::from_millis(1)).build().expect("valid settings")
}

/// Makes the holder of [`NAME`] lose the lock. Its key is deleted on each server, even on the one that
/// grants it after the majority: a key that is set after the deletion would be left.
fn take_away(servers: &Servers) {
    for server in servers.iter() {
        wait_until("the key to be deleted", TTL, || server.command(&["DEL", KEY]) == Value::Int(1));
    }
}

/// A service's own error type.
#[derive(Debug)]
enum Failure {
    Locks(Error),
    Work(std::num::ParseIntError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Locks(error)
    }
}

impl From<std::num::ParseIntError> for Failure {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Work(error)
    }
}

/// A result that is neither `Debug` nor `Clone` nor `Send`.
struct Receipt<'a>(&'a Cell<u32>);

#[test]
fn a_closure_s_result_is_given_back_when_the_lock_was_lost() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let number = Cell::new(42);

    let receipt = locks.with_lock(NAME, |_| Receipt(&number)).expect("three nodes");
    assert_eq!(receipt.0.get(), 42);

    let lost = locks.with_lock(NAME, |_| {
        take_away(&servers);
        Receipt(&number)
    });
    let Err(lost) = lost else { panic!("the keys were gone") };
    assert_eq!(lost.kind(), ErrorKind::Lost);
    assert!(format!("{lost:?}").starts_with("Lost { error: Error {"), "{lost:?}");
    assert_eq!(lost.to_string(), lost.error().to_string(), "as the error itself reads");
    let WithLockError::Lost { error, result } = lost else { panic!("it has run: {lost}") };
    assert_eq!((error.kind(), result.0.get()), (ErrorKind::Lost, 42));

    let lost = locks.mutex(NAME).with_lock(|_| {
        take_away(&servers);
        7
    });
    assert_eq!(lost.expect_err("the keys were gone").into_result(), Some(7));

    let not_run = unconnected().with_lock(NAME, |_| number.set(0)).expect_err("no node is there");
    assert_eq!(not_run.kind(), ErrorKind::NoQuorum);
    assert!(not_run.source().is_none(), "the message has all of it");
    assert!(matches!(not_run, WithLockError::NotLocked(_)), "{not_run:?}");
    assert_eq!((not_run.into_result(), number.get()), (None, 42));
    servers.wait_no_keys();
}

/// One `?` is enough for any result of the closure, and any error of the function.
#[test]
fn a_closure_s_result_needs_one_question_mark() {
    fn quorlocks(locks: &Quorlock) -> Result<u32, Error> {
        let number = Cell::new(0);
        let receipt = locks.with_lock(NAME, |_| Receipt(&number))?;
        Ok(receipt.0.get() + locks.mutex(NAME).with_lock(|_guard| 1)?)
    }
    fn boxed(locks: &Quorlock) -> Result<u32, Box<dyn StdError>> {
        Ok(locks.with_lock(NAME, |_guard| 1)?)
    }
    fn sent(locks: &Quorlock) -> Result<u32, Box<dyn StdError + Send + Sync>> {
        Ok(locks.with_lock(NAME, |_guard| 1)?)
    }
    fn own(locks: &Quorlock) -> Result<u32, Failure> {
        Ok(locks.with_lock(NAME, |_guard| 1).map_err(Error::from)?)
    }
    let servers = Servers::start(1);
    let locks = client(&servers);
    assert_eq!(quorlocks(&locks).expect("one node"), 1);
    assert_eq!(boxed(&locks).expect("one node"), 1);
    assert_eq!(sent(&locks).expect("one node"), 1);
    assert_eq!(own(&locks).expect("one node"), 1);
}

#[test]
fn a_closure_that_fails_needs_one_question_mark() {
    fn parse(locks: &Quorlock, text: &str) -> Result<u32, Failure> {
        locks.with_lock_fallible(NAME, |guard| {
            let number = text.parse()?;
            guard.check()?;
            Ok(number)
        })
    }
    fn named(locks: &Quorlock, text: &str) -> Result<u32, Failure> {
        let number: u32 = locks.mutex(NAME).with_lock_fallible(|guard| {
            guard.check()?;
            Ok::<_, Failure>(text.parse()?)
        })?;
        Ok(number + 1)
    }
    fn quorlocks(locks: &Quorlock) -> Result<(), Error> {
        locks.with_lock_fallible(NAME, Guard::check)?;
        Ok(())
    }
    fn boxed(locks: &Quorlock, text: &str) -> Result<u32, Box<dyn StdError>> {
        locks.with_lock_fallible(NAME, |_| Ok(text.parse()?))
    }
    let servers = Servers::start(3);
    let locks = client(&servers);
    assert_eq!(parse(&locks, "42").expect("three nodes"), 42);
    assert_eq!(named(&locks, "42").expect("three nodes"), 43);
    assert_eq!(boxed(&locks, "42").expect("three nodes"), 42);
    quorlocks(&locks).expect("three nodes");

    // The closure's own error is returned, and the lock is free by then.
    let error = parse(&locks, "x").expect_err("no number");
    assert!(matches!(&error, Failure::Work(error) if error.to_string().contains("digit")));
    assert!(locks.try_lock(NAME).optional().expect("three nodes").is_some());
    assert!(boxed(&locks, "x").expect_err("no number").is::<std::num::ParseIntError>());

    let lost = |fails: bool| {
        locks.with_lock_fallible(NAME, |_| -> Result<u32, Failure> {
            take_away(&servers);
            Ok(if fails { "x" } else { "42" }.parse()?)
        })
    };
    let error = lost(false).expect_err("the keys were gone");
    assert!(
        matches!(&error, Failure::Locks(error) if error.kind() == ErrorKind::Lost),
        "{error:?}"
    );
    assert!(matches!(lost(true), Err(Failure::Work(_))), "its own error says more");

    let error = parse(&unconnected(), "42").expect_err("no node is there");
    assert!(matches!(&error, Failure::Locks(error) if error.kind() == ErrorKind::NoQuorum));
    servers.wait_no_keys();
}
