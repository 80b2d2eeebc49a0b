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
    driver.client.ready_in = Some(Duration::from_secs(3));
    driver.vote(&[(0, Vote::NotAdmitted), (1, Vote::NotAdmitted)]);
    assert_eq!(events(&mut driver), [(CallEvent::NotAdmitted, 1)]);

    let mut driver = Driver::asking(Patience::Once);
    driver.vote(&[(0, Vote::WrongKind), (1, Vote::WrongKind)]);
    assert_eq!(events(&mut driver), [(CallEvent::Rejected, 1)]);
}

/// Its end says nothing of the nodes.
#[test]
fn an_attempt_that_its_caller_cuts_short_is_not_counted() {
    let mut driver = Driver::asking(Patience::Until(at(1_005)));
    driver.timeout();
    assert_eq!(driver.outcome, Some(Outcome::NoQuorum));
    assert_eq!(events(&mut driver), []);
}

/// A call that has subscribed, and has been refused by all nodes with `vote` since.
fn waiting(vote: Vote) -> Driver {
    let mut driver = Driver::asking(Patience::Forever);
    driver.listening = vec![0, 1, 2];
    driver.vote(&[(0, HELD), (1, HELD)]);
    assert_eq!(events(&mut driver), [(CallEvent::Refused, 1)], "a confirmation is no message");
    driver.vote(&[(0, vote), (1, vote), (2, vote)]);
    assert_eq!(events(&mut driver), [(CallEvent::Refused, 1)]);
    driver
}

#[test]
fn each_wait_is_counted_by_what_ended_it() {
    let mut driver = waiting(HELD);
    driver.timeout();
    assert_eq!(events(&mut driver), [(CallEvent::WokenByPoll, 1)], "the keys live for longer");

    let mut driver = waiting(HELD);
    driver.client.released(&[0, 1]);
    driver.machine.handle_releases(&mut driver.client);
    driver.carry();
    assert_eq!(events(&mut driver), [(CallEvent::WokenByMessage, 1)]);
}

#[test]
fn the_end_of_the_keys_is_a_cause_only_if_the_lock_is_free_then() {
    let ends_soon = Vote::Refused(Some(Duration::from_millis(30)));
    for (is_free, is_split) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut driver = waiting(ends_soon);
        driver.timeout();
        assert_eq!(events(&mut driver), [], "it is not known yet");
        if is_split {
            // The keys have ended on one node, and end on the others in a moment.
            let ends_now = Vote::Refused(Some(Duration::from_micros(100)));
            driver.vote(&[(0, Vote::Granted(9)), (1, ends_now), (2, ends_now)]);
            assert_eq!(events(&mut driver), [(CallEvent::Split, 1)]);
            driver.timeout();
            assert_eq!(events(&mut driver), [], "the pause after a split vote is no wait");
            let Some(Whom::Only(node)) = driver.asked() else { panic!("one node goes first") };
            let vote = if is_free { Vote::Granted(9) } else { HELD };
            driver.vote(&[(node, vote)]);
            if is_free {
                let others: Vec<_> = (0..3).filter(|other| *other != node).collect();
                driver.vote(&[(others[0], vote), (others[1], vote)]);
            }
            assert_eq!(events(&mut driver), expected(is_free));
            continue;
        }
        let vote = if is_free { Vote::Granted(9) } else { HELD };
        driver.vote(&[(0, vote), (1, vote), (2, vote)]);
        assert_eq!(events(&mut driver), expected(is_free));
    }
}

/// The events of the attempt after the keys have ended, as far as the caller knew.
fn expected(is_free: bool) -> Vec<(CallEvent, u32)> {
    match is_free {
        true => vec![(CallEvent::Granted, 1), (CallEvent::WokenByExpiry, 1)],
        false => vec![(CallEvent::Refused, 1)],
    }
}
