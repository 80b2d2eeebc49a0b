//! The events of calls, as figures count them.

use super::*;

/// The events since they were taken last, each with its number.
fn events(driver: &mut Driver) -> Vec<(CallEvent, u32)> {
    let events = driver.machine.take_events().unwrap_or_default();
    events.iter().filter(|(_, number)| *number > 0).collect()
}

#[test]
fn each_attempt_is_counted_by_its_result() {
    let mut driver = Driver::asking(Patience::Once);
    assert_eq!(driver.machine.take_events(), None);
    driver.vote(&[(0, Vote::Granted(7)), (1, Vote::Granted(7))]);
    assert_eq!(events(&mut driver), [(CallEvent::Granted, 1)]);
    assert_eq!(driver.machine.take_events(), None, "they were taken");

    let mut driver = Driver::asking(Patience::Once);
    driver.vote(&[(0, HELD), (1, HELD)]);
    assert_eq!(events(&mut driver), [(CallEvent::Refused, 1)]);

    let mut driver = Driver::asking(Patience::Forever);
    driver.vote(&[(0, Vote::Granted(8)), (1, HELD), (2, HELD)]);
    assert_eq!(events(&mut driver), [(CallEvent::Split, 1)]);

    let mut driver = Driver::asking(Patience::Once);
    driver.fail(&[0, 1, 2]);
    assert_eq!(events(&mut driver), [(CallEvent::Unanswered, 1)]);

    let mut driver = Driver::asking(Patience::Once);
    driver.vote(&[(0, Vote::WrongKind), (1, Vote::WrongKind)]);
    assert_eq!(events(&mut driver), [(CallEvent::Rejected, 1)]);
}

#[test]
fn each_wait_is_counted_by_what_ended_it() {
    let mut driver = Driver::asking(Patience::Forever);
    driver.listening = vec![0, 1, 2];
    driver.vote(&[(0, HELD), (1, HELD)]);
    events(&mut driver);
    // The nodes confirm the subscription only after that attempt.
    driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
    events(&mut driver);
    driver.timeout();
    assert_eq!(events(&mut driver), [(CallEvent::WokenByPoll, 1)], "the keys live for longer");

    let ends_soon = Vote::Refused(Some(Duration::from_millis(30)));
    driver.vote(&[(0, ends_soon), (1, ends_soon), (2, ends_soon)]);
    events(&mut driver);
    driver.timeout();
    assert_eq!(events(&mut driver), [(CallEvent::WokenByExpiry, 1)]);

    driver.vote(&[(0, HELD), (1, HELD), (2, HELD)]);
    events(&mut driver);
    driver.client.released(&[0, 1]);
    driver.machine.handle_releases(&mut driver.client);
    driver.carry();
    assert_eq!(events(&mut driver), [(CallEvent::WokenByMessage, 1)]);
}
