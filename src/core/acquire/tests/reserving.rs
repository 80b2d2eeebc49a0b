//! Reservations of a call: made, granted, withdrawn.

use super::super::super::base::{Mechanism, without};
use super::*;

impl Driver {
    /// A call that takes turns with others, which hold the lock.
    fn in_turn(patience: Patience) -> Self {
        let mut driver = Self::new(patience);
        let mut policy = driver.policy;
        policy.waiting = WayOfWaiting::InTurns;
        driver.machine = Acquire::new(policy, TIMEOUT);
        driver.start();
        driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
        driver.done();
        driver
    }
}

/// A caller that was refused reserves the lock with its next attempt, which asks all nodes.
#[test]
fn a_reservation_is_made_known_to_all_nodes_and_ends_where_the_lock_is_granted() {
    let mut driver = Driver::in_turn(Patience::Forever);
    assert_eq!(driver.waits[0].reservation, None, "nobody was known to have the lock");
    driver.timeout();
    let reservation = driver.waits[1].reservation.expect("it was refused");
    assert_eq!(reservation.lasts, Duration::from_secs(2));
    assert_eq!(driver.asked(), Some(Whom::All));
    driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
    driver.client.subscription_confirmed();
    driver.client.released(&[0, 1, 2]);
    driver.machine.handle_releases(&mut driver.client);
    driver.carry();
    assert_eq!(driver.waits[2].reservation.map(|it| it.priority), Some(reservation.priority));
    let Some(Whom::Only(node)) = driver.asked() else { panic!("all nodes know of it") };
    driver.vote(&[(node, Vote::Granted(8))]);
    driver.done();
    let other = (node + 1) % 3;
    driver.vote(&[(other, Vote::Granted(8))]);
    assert_eq!(driver.done(), ["saw number", "withdraw", "granted"]);
    driver.granted_by.sort_unstable();
    let mut granted_by = [node, other];
    granted_by.sort_unstable();
    assert_eq!(driver.granted_by, granted_by);
}

#[test]
fn a_reservation_is_withdrawn_however_the_call_ends_and_not_if_there_is_none() {
    let mut driver = Driver::in_turn(Patience::Forever);
    driver.cancel();
    assert_eq!(driver.done(), ["refuse"], "it has reserved nothing yet");
    let mut driver = Driver::in_turn(Patience::Forever);
    driver.timeout();
    driver.done();
    driver.cancel();
    assert_eq!(driver.done(), ["give back", "withdraw", "refuse"]);
    let mut driver = Driver::in_turn(Patience::Until(at(1_300)));
    driver.timeout();
    let left = at(1_300).since(driver.client.now);
    assert_eq!(driver.waits[1].reservation.map(|it| it.lasts), Some(left));
    driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
    driver.done();
    driver.client.now = at(1_300);
    driver.machine.handle_timeout(&mut driver.client);
    driver.carry();
    assert_eq!(driver.done(), ["withdraw", "refuse"]);
    assert!(driver.granted_by.is_empty(), "all nodes are told");
    driver = Driver::in_turn(Patience::Forever);
    driver.timeout();
    driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
    driver.place = Place { turn: Turn::HandedOver, is_held: true, comes_first: true };
    driver.done();
    driver.timeout();
    assert_eq!(driver.done(), ["look", "withdraw", "handed over"]);
}

/// A caller that cannot take the lock keeps nobody else from it, until a majority refuses it again.
#[test]
fn a_call_that_reaches_no_majority_reserves_nothing_and_withdraws_its_reservation() {
    for (not_admitted, is_off) in [(false, false), (true, false), (false, true), (true, true)] {
        let off = [Mechanism::ReservationsNeedQuorum];
        without(if is_off { &off } else { &[] }, || {
            let mut driver = Driver::in_turn(Patience::Forever);
            driver.timeout();
            driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
            driver.timeout();
            driver.done();
            let lasts = |driver: &Driver| {
                driver.waits.last().and_then(|waits| waits.reservation).map(|it| it.lasts)
            };
            let withdrawn = [1, 2].map(|_| {
                if not_admitted {
                    driver.client.ready_in = Some(Duration::from_millis(300));
                    driver.vote(&[0, 1, 2].map(|node| (node, Vote::NotAdmitted)));
                } else {
                    driver.fail(&[0, 1, 2]);
                }
                let withdrawn = driver.done().contains(&"withdraw");
                driver.timeout();
                assert_eq!(lasts(&driver) == Some(Duration::ZERO), !is_off);
                withdrawn
            });
            assert_eq!(withdrawn, [false, !is_off], "a majority may be missed by a moment");
            driver.client.ready_in = None;
            driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
            assert!(!driver.done().contains(&"withdraw"));
            driver.timeout();
            assert_eq!(lasts(&driver), Some(Duration::from_secs(2)), "it is refused again");
        });
    }
}

/// The nodes have answered again, and callers of the same process come first from now on.
#[test]
fn a_call_behind_others_of_its_process_reserves_nothing() {
    let mut driver = Driver::in_turn(Patience::Forever);
    driver.place.comes_first = false;
    driver.timeout();
    driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
    driver.place.comes_first = true;
    driver.timeout();
    let lasts = |waits: &Waits| waits.reservation.map(|it| it.lasts);
    let waits: Vec<_> = driver.waits[1..].iter().map(lasts).collect();
    assert_eq!(waits, [Some(Duration::ZERO), Some(Duration::from_secs(2))]);
}
