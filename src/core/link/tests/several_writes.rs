//! Writes that follow each other to a node that is far away.

use super::super::super::base::without;
use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(10);

/// The time after which a write may follow another one to a node that is so far away.
const LATER: Duration = Duration::from_millis(3);

/// A machine for a node that is far away, with one request on its way.
fn far() -> Driven {
    let mut driven = Driven::up();
    driven.world.settled = Some(driven.now.after(Duration::from_secs(60)));
    driven.submit(1, Purpose::Anyway);
    driven.write();
    answer(&mut driven);
    assert_eq!(driven.take_heard().len(), 1);
    assert!(driven.link.is_far());
    driven.submit(1, Purpose::Anyway);
    assert_eq!(driven.write(), ["2", "time"]);
    driven
}

fn answer(driven: &mut Driven) {
    driven.now = driven.now.after(ROUND_TRIP);
    driven.answer(Reply::Value(1));
    driven.clock();
}

/// Returns the next write, if anything is written after a while.
fn later(driven: &mut Driven) -> Option<Vec<String>> {
    driven.now = driven.now.after(LATER);
    (driven.poll() == Step::Write).then(|| driven.written())
}

fn texts(written: &[&str]) -> Option<Vec<String>> {
    Some(written.iter().map(|it| (*it).to_owned()).collect())
}

#[test]
fn a_write_follows_another_one_to_a_far_node_after_a_while_and_each_has_its_answers() {
    let mut driven = far();
    driven.submit(1, Purpose::Anyway);
    assert!(matches!(driven.poll(), Step::Read(..)), "what comes in that time goes along");
    let Some(at) = driven.link.writes_at() else { panic!("it may follow") };
    driven.submit(1, Purpose::Anyway);
    driven.now = at;
    assert_eq!(driven.write(), ["3", "4", "time"]);
    assert_eq!(driven.link.writes_at(), None);
    answer(&mut driven);
    assert_eq!(driven.link.sent(), Some(at), "the clock of the next one is read by that");
    driven.answer(Reply::Value(5));
    driven.answer(Reply::Error("no"));
    driven.clock();
    assert_eq!(driven.take_heard(), [(2, Ok(1)), (3, Ok(5)), (4, Err(Failure::Error))]);
    assert!(matches!(driven.poll(), Step::Wait(_)));
}

#[test]
fn without_that_each_write_waits_for_the_answers_to_the_one_before() {
    let run = || {
        let mut driven = Driven::up();
        driven.world.settled = Some(driven.now.after(Duration::from_secs(60)));
        for _ in 0..2 {
            driven.submit(1, Purpose::Anyway);
            driven.write();
            answer(&mut driven);
        }
        driven.submit(1, Purpose::Anyway);
        driven.write();
        driven.submit(1, Purpose::Anyway);
        later(&mut driven)
    };
    assert_eq!(run(), texts(&["4", "time"]));
    assert_eq!(without(&[Mechanism::WritesFollow], run), None);
}

#[test]
fn a_node_nearby_gets_what_waits_in_one_write_behind_the_answers() {
    let mut driven = far();
    driven.now = driven.now.after(Duration::from_micros(100));
    driven.answer(Reply::Value(1));
    driven.clock();
    driven.submit(1, Purpose::Anyway);
    assert_eq!(driven.write(), ["3", "time"]);
    driven.submit(1, Purpose::Anyway);
    assert_eq!((driven.link.room(), later(&mut driven)), (0, None));
}

#[test]
fn a_request_that_goes_out_again_does_not_run_behind_its_release() {
    let mut driven = far();
    let unwanted: Rc<Cell<bool>> = Rc::default();
    driven.submit_fake(
        Fake { script: 1, unwanted: unwanted.clone(), ..Fake::default() },
        Purpose::Taking,
    );
    assert_eq!(later(&mut driven), texts(&["3", "time"]));
    // The caller gives the request up, and another client has made the script of the release known
    // to the server.
    unwanted.set(true);
    driven.submit(3, release());
    assert_eq!(later(&mut driven), texts(&["4+", "time"]), "it does not wait for the answers");
    answer(&mut driven);
    driven.answer(Reply::NoScript);
    driven.clock();
    answer(&mut driven);
    assert!(matches!(driven.poll(), Step::Wait(_)));
    assert_eq!(driven.events, ["unwanted"]);
}

#[test]
fn nothing_follows_while_requests_go_out_again_and_they_keep_their_order() {
    let mut driven = far();
    (0..3).for_each(|_| _ = driven.submit(1, Purpose::Anyway));
    assert_eq!(later(&mut driven), texts(&["3", "4", "5", "time"]));
    driven.answer(Reply::NoScript);
    driven.clock();
    driven.submit(1, Purpose::Anyway);
    assert_eq!((driven.link.room(), later(&mut driven)), (0, None));
    for reply in [Reply::Value(3), Reply::NoScript, Reply::Value(5)] {
        driven.answer(reply);
    }
    driven.clock();
    assert_eq!(driven.write(), ["2+", "4", "time"]);
    assert_eq!(later(&mut driven), None, "not beside those that go out again");
    (0..2).for_each(|_| driven.answer(Reply::Value(1)));
    driven.clock();
    assert_eq!(driven.write(), ["6", "time"]);
}

#[test]
fn a_source_that_the_server_refuses_is_not_known_to_the_writes_behind_it_either() {
    let mut driven = far();
    driven.submit(5, Purpose::Anyway);
    assert_eq!(later(&mut driven), texts(&["3+", "time"]));
    driven.submit(5, Purpose::Anyway);
    assert_eq!(later(&mut driven), texts(&["4", "time"]));
    answer(&mut driven);
    driven.answer(Reply::Error("no memory"));
    driven.clock();
    driven.answer(Reply::NoScript);
    driven.clock();
    assert_eq!(driven.world.doubts, 0, "it has forgotten nothing");
    assert_eq!(driven.write(), ["4+", "time"]);
}

#[test]
fn all_that_is_on_its_way_goes_out_again_over_the_next_connection_in_its_order() {
    let mut driven = far();
    driven.submit(1, Purpose::Anyway);
    assert_eq!(later(&mut driven), texts(&["3", "time"]));
    driven.submit(1, release());
    driven.broken(true);
    driven.opened(2);
    driven.write();
    driven.link.handle_ended(true, driven.now);
    assert_eq!(driven.write(), ["2+", "3", "time"], "one write");
    (0..2).for_each(|_| driven.answer(Reply::Value(1)));
    driven.clock();
    assert_eq!(driven.write(), ["4"]);
}

#[test]
fn questions_and_releases_that_are_kept_and_requests_that_go_last_wait_for_all_answers() {
    let kept = |number| Job::new(Fake { number, script: 1, ..Fake::default() }, release());
    let last = Fake { script: 1, goes_last: true, ..Fake::default() };
    for (what, expected) in [
        ("a doubt", &["ask 7+"][..]),
        ("a question that is due", &["ask 7+"]),
        ("a release that is kept", &["7", "3", "time"]),
        ("a request that goes last", &["3", "4", "time"]),
    ] {
        let mut driven = far();
        driven.submit(1, Purpose::Anyway);
        match what {
            "a doubt" => (driven.world.settled, driven.world.questions) = (None, 1),
            "a question that is due" => {
                (driven.world.settled, driven.world.questions) = (Some(driven.now), 1);
            }
            "a release that is kept" => driven.link.keep(kept(7), driven.now),
            _ => _ = driven.submit_fake(last.clone(), Purpose::Anyway),
        }
        assert_eq!(later(&mut driven), None, "{what}");
        assert_eq!(driven.link.room(), 0, "{what}: it ends although others come");
        answer(&mut driven);
        assert_eq!(driven.write(), expected, "{what}");
    }
}

#[test]
fn the_requests_on_their_way_are_no_more_than_go_into_one_write() {
    let mut driven = far();
    let mut most = 1;
    while driven.link.room() > 0 {
        for _ in 0..driven.link.room().min(100) {
            driven.submit(1, Purpose::Anyway);
            most += 1;
        }
        if later(&mut driven).is_none() {
            break;
        }
    }
    assert_eq!(most, MOST_WRITTEN);
    let mut driven = far();
    let mut writes = 1;
    while driven.link.room() > 0 {
        driven.submit(1, Purpose::Anyway);
        assert!(later(&mut driven).is_some());
        writes += 1;
    }
    assert_eq!(writes, 4);
}

#[test]
fn nothing_follows_a_clock_that_is_read_again_nor_what_was_not_done() {
    let mut driven = far();
    answer(&mut driven);
    driven.world.verdict = ClockVerdict::Doubtful;
    driven.submit_that_means(1, Purpose::Taking, Some(Meaning::Granted));
    driven.write();
    answer(&mut driven);
    assert_eq!(driven.write(), ["time"]);
    driven.submit(1, Purpose::Anyway);
    assert_eq!((driven.link.room(), later(&mut driven)), (0, None), "its answer comes first");
    let mut driven = far();
    driven.submit(1, Purpose::Anyway);
    assert_eq!(later(&mut driven), texts(&["3", "time"]));
    driven.answer(Reply::NoScript);
    driven.submit(1, Purpose::Anyway);
    assert_eq!((driven.link.room(), later(&mut driven)), (0, None), "before the clock as well");
}

#[test]
fn answers_that_are_left_say_nothing_of_the_distance() {
    for is_left in [true, false] {
        let mut driven = Driven::up();
        driven.submit(1, Purpose::Anyway);
        driven.write();
        if is_left {
            driven.link.leave_answers();
        }
        answer(&mut driven);
        assert_eq!(driven.link.is_far(), !is_left);
        driven.submit(1, Purpose::Anyway);
        driven.write();
        assert_eq!(driven.link.can_be_driven(driven.now), is_left, "nothing may follow yet");
        driven.now = driven.now.after(LATER);
        assert!(driven.link.can_be_driven(driven.now));
    }
}

#[test]
fn grants_that_were_on_their_way_when_a_clock_had_moved_do_not_count() {
    let run = || {
        let mut driven = far();
        driven.submit_that_means(1, Purpose::Taking, Some(Meaning::Granted));
        assert!(later(&mut driven).is_some());
        driven.world.verdict = ClockVerdict::Moved;
        answer(&mut driven);
        driven.world.verdict = ClockVerdict::Fits;
        answer(&mut driven);
        let answers = driven.take_heard();
        // A grant that is asked for from now on counts.
        driven.submit_that_means(1, Purpose::Taking, Some(Meaning::Granted));
        driven.write();
        answer(&mut driven);
        assert_eq!(driven.take_heard(), [(4, Ok(1))]);
        answers[1].1
    };
    assert_eq!(run(), Err(Failure::NotAdmitted));
    assert_eq!(without(&[Mechanism::DoubtsReachBack], run), Ok(1));
}

#[test]
fn a_doubt_about_a_clock_is_settled_by_the_next_reading_on_its_way_and_no_more_than_twice() {
    for fits in [true, false] {
        let mut driven = far();
        answer(&mut driven);
        driven.take_heard();
        let first = driven.submit_that_means(1, Purpose::Taking, Some(Meaning::Granted));
        driven.write();
        let second = driven.submit_that_means(1, Purpose::Taking, Some(Meaning::Granted));
        assert!(later(&mut driven).is_some());
        driven.world.verdict = ClockVerdict::Doubtful;
        answer(&mut driven);
        assert_eq!(driven.take_heard(), []);
        if fits {
            driven.world.verdict = ClockVerdict::Fits;
            answer(&mut driven);
            assert_eq!(driven.take_heard(), [(first, Ok(1)), (second, Ok(1))]);
            continue;
        }
        answer(&mut driven);
        assert_eq!(driven.write(), ["time"], "nothing else is on its way");
        driven.clock();
        let error = Err(Failure::Error);
        assert_eq!(driven.take_heard(), [(first, error), (second, error)]);
    }
}

#[test]
fn the_request_of_a_caller_that_drives_the_connection_follows_to_a_node_nearby_as_well() {
    let run = |is_driven| {
        let mut driven = Driven::up();
        driven.world.settled = Some(driven.now.after(Duration::from_secs(60)));
        driven.submit(1, Purpose::Anyway);
        driven.write();
        driven.link.set_driven(is_driven);
        driven.submit(1, release());
        let follows = driven.poll() == Step::Write;
        let written = follows.then(|| driven.written());
        assert!(!driven.link.is_far());
        driven.link.set_driven(false);
        driven.submit(1, Purpose::Anyway);
        assert!(matches!(driven.poll(), Step::Read(..)), "the worker waits for the answers");
        written
    };
    assert_eq!(run(false), None);
    assert_eq!(run(true), texts(&["2", "time"]));
    assert_eq!(without(&[Mechanism::WritesFollow], || run(true)), None);
}

#[test]
fn releases_behind_a_grant_have_a_clock_that_judges_it() {
    let mut driven = far();
    driven.submit_that_means(1, Purpose::Taking, Some(Meaning::Granted));
    assert_eq!(later(&mut driven), texts(&["3", "time"]));
    driven.submit(1, release());
    assert_eq!(later(&mut driven), texts(&["4", "time"]));
    answer(&mut driven);
    driven.take_heard();
    driven.answer(Reply::Value(1));
    driven.world.verdict = ClockVerdict::Doubtful;
    driven.clock();
    assert!(matches!(driven.poll(), Step::Read(Awaited::Call { .. }, _)), "nothing is written");
    driven.answer(Reply::Value(1));
    assert_eq!(driven.take_heard(), [(4, Ok(1))], "the release does not wait for a clock");
    driven.world.verdict = ClockVerdict::Fits;
    driven.clock();
    assert_eq!(driven.take_heard(), [(3, Ok(1))]);
    assert!(matches!(driven.poll(), Step::Wait(_)));
}

#[test]
fn a_write_of_releases_ends_with_its_last_answer() {
    let mut driven = Driven::up();
    driven.submit(1, release());
    driven.submit(2, release());
    assert_eq!(driven.write(), ["1+", "2+"]);
    driven.answer(Reply::Value(1));
    driven.answer(Reply::NoScript);
    assert!(matches!(driven.poll(), Step::Wait(_)));
    let mut driven = Driven::up();
    driven.link.handle_relayed(true);
    driven.submit(1, release());
    assert_eq!(driven.write(), ["1+", "time"], "the server's run is compared with it");
}
