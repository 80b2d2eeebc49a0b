//! The machine's reaction to each event.

use super::super::super::base::without;
use super::super::late::Late;
use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn what_waits_goes_out_in_one_write_and_each_caller_gets_its_answer() {
    let mut driven = Driven::up();
    let one = driven.submit(1, Purpose::Anyway);
    let three = driven.submit(3, Purpose::Anyway);
    assert_eq!(driven.write(), ["1+", "2+", "time"]);
    driven.answer(Reply::Value(10));
    driven.answer(Reply::Error("no"));
    driven.clock();
    assert_eq!(driven.take_heard(), [(one, Ok(10)), (three, Err(Failure::Error))]);
    assert!(matches!(driven.poll(), Step::Wait(_)));
    driven.submit(1, Purpose::Anyway);
    driven.submit(3, Purpose::Anyway);
    assert_eq!(driven.write(), ["3", "4+", "time"], "the server may not know what it refused");
}

#[test]
fn batchable_requests_come_last_and_are_made_by_one_call() {
    let mut driven = Driven::up();
    for script in [2, 4, 2, 1] {
        driven.submit(script, Purpose::Anyway);
    }
    assert_eq!(driven.write(), ["4+", "[1 2 3]+", "time"]);
    driven.answer(Reply::Value(0));
    driven.answer(Reply::Batch(Answers::Each(vec![Some(1), None, Some(3)])));
    driven.clock();
    assert_eq!(driven.take_heard(), [(4, Ok(0)), (1, Ok(1)), (3, Ok(3))]);
    driven.submit(1, Purpose::Anyway);
    assert_eq!(driven.link.room(), 0, "nothing new is taken before that");
    assert_eq!(driven.write(), ["2+", "time"], "by itself, and nothing new is written before that");
}

#[test]
fn a_batch_that_the_server_does_not_know_goes_out_again_by_its_calls() {
    let mut driven = Driven::up();
    (0..3).for_each(|_| _ = driven.submit(2, Purpose::Anyway));
    assert_eq!(driven.write(), ["[1 2 3]+", "time"]);
    driven.answer(Reply::NoScript);
    driven.clock();
    assert_eq!(driven.world.doubts, 1, "it may have forgotten more than that");
    assert_eq!(driven.write(), ["1+", "2", "3", "time"]);
    let log = driven.log.borrow().join(", ");
    assert!(log.contains("1 did not run, 2 did not run, 3 did not run"), "{log}");
}

#[test]
fn a_server_that_forgets_scripts_at_once_gets_the_source_with_each_call() {
    let mut driven = Driven::up();
    driven.submit(1, Purpose::Anyway);
    driven.write();
    driven.answer(Reply::Value(1));
    driven.clock();
    for expected in ["2", "2+", "2+"] {
        if expected == "2" {
            driven.submit(1, Purpose::Anyway);
        }
        assert_eq!(driven.write(), [expected, "time"]);
        match expected {
            "2" => driven.answer(Reply::NoScript),
            _ if driven.world.doubts == 1 => {
                driven.answer(Reply::NoScript);
                driven.clock();
                break;
            }
            _ => driven.answer(Reply::NoScript),
        }
        driven.clock();
    }
    let last = driven.take_heard().pop();
    assert_eq!(
        last,
        Some((2, Err(Failure::Unknown))),
        "it does not know a source that it was sent"
    );
}

#[test]
fn a_connection_that_is_closed_is_opened_once_more_and_the_old_one_is_ended() {
    let mut driven = Driven::up();
    driven.submit(1, Purpose::Anyway);
    driven.write();
    driven.broken(true);
    driven.opened(2);
    assert_eq!(driven.write(), ["end 1"]);
    assert!(matches!(driven.poll(), Step::Read(Awaited::Ended, _)));
    driven.link.handle_ended(true, driven.now);
    assert_eq!(driven.write(), ["1+", "time"]);
    assert_eq!(*driven.log.borrow(), ["1 over 1", "1 over 2"]);
    driven.broken(true);
    assert_eq!(driven.take_heard(), [(1, Err(Failure::Unknown))], "not a second time");
    assert_eq!(driven.poll(), Step::Close);
    assert!(driven.world.is_down);
}

#[test]
fn without_the_second_connection_a_request_is_lost_with_the_first() {
    without(&[Mechanism::ReconnectsOnce], || {
        let mut driven = Driven::up();
        driven.submit(1, Purpose::Anyway);
        driven.write();
        driven.broken(true);
        assert_eq!(driven.take_heard(), [(1, Err(Failure::Unknown))]);
    });
}

/// Returns the requests that are shown as final releases.
fn final_releases(driven: &mut Driven) -> Vec<u32> {
    let mut shown = Vec::new();
    driven.link.final_releases(|request, _| shown.push(request.number));
    shown
}

#[test]
fn a_silent_node_gets_the_releases_behind_its_requests_and_again_over_the_next_connection() {
    let run = || {
        let mut driven = Driven::up();
        driven.submit(1, Purpose::Taking);
        driven.write();
        driven.submit(3, release());
        driven.broken(false);
        assert_eq!(driven.take_heard(), [(1, Err(Failure::Unknown))]);
        driven.submit(3, release());
        assert_eq!(driven.poll(), Step::Close);
        let shown = final_releases(&mut driven);
        driven.link.handle_closed(driven.now, &mut driven.world);
        let Step::Wait(until) = driven.poll() else { panic!("it is down") };
        let told = driven.take_heard();
        assert_eq!(told, [(2, Err(Failure::NotSent)), (3, Err(Failure::NotSent))]);
        assert_eq!(driven.link.kept_releases(), 2);
        driven.now = until;
        driven.opened(2);
        driven.write();
        driven.link.handle_ended(true, driven.now);
        assert_eq!(driven.write(), ["2+", "3"]);
        shown
    };
    assert_eq!(run(), [2, 3]);
    assert_eq!(without(&[Mechanism::FinalReleases], run), [0; 0]);
}

#[test]
fn requests_fail_at_once_while_the_node_is_down_and_one_that_waits_has_another_try_made() {
    for waits in [false, true] {
        let mut driven = Driven::new();
        driven.link = Link::new(ms(200), waits);
        assert_eq!(driven.poll(), Step::Connect);
        driven.link.handle_not_opened("refused", driven.now, &mut driven.world);
        let Step::Wait(until) = driven.poll() else { panic!("it is down") };
        assert!(driven.now.after(ms(20)) <= until);
        driven.submit(1, Purpose::Anyway);
        driven.submit(1, Purpose::Taking);
        let step = driven.poll();
        let heard = driven.take_heard();
        if waits {
            assert_eq!(heard, [(1, Err(Failure::NotSent))]);
            assert_eq!(step, Step::Connect);
            driven.link.handle_not_opened("refused", driven.now, &mut driven.world);
            driven.hand_out();
            assert_eq!(driven.take_heard(), [(2, Err(Failure::NotSent))]);
        } else {
            assert_eq!(heard, [(1, Err(Failure::NotSent)), (2, Err(Failure::NotSent))]);
            assert_eq!(step, Step::Wait(until));
        }
    }
}

#[test]
fn grants_count_by_the_clock_and_a_doubt_has_it_read_twice_more() {
    let granted = Some(Meaning::Granted);
    let mut driven = Driven::up();
    driven.world.verdict = ClockVerdict::Doubtful;
    driven.submit_that_means(1, Purpose::Taking, granted);
    driven.write();
    driven.answer(Reply::Value(5));
    for _ in 0..2 {
        driven.clock();
        assert_eq!(driven.take_heard(), []);
        assert_eq!(driven.write(), ["time"]);
    }
    driven.clock();
    assert_eq!(driven.take_heard(), [(1, Err(Failure::Error))]);
    driven.world.verdict = ClockVerdict::Moved;
    driven.submit_that_means(1, Purpose::Taking, granted);
    driven.submit(1, Purpose::Holding);
    driven.write();
    (0..2).for_each(|_| driven.answer(Reply::Value(5)));
    driven.clock();
    assert_eq!(driven.take_heard(), [(2, Err(Failure::NotAdmitted)), (3, Ok(5))]);
}

#[test]
fn what_the_node_may_not_be_sent_now_is_told_at_once() {
    let mut driven = Driven::up();
    (driven.world.mark, driven.world.serves) = (Err(Failure::NotAdmitted), false);
    driven.submit(1, Purpose::Taking);
    driven.submit(1, Purpose::Holding);
    driven.submit(1, Purpose::Anyway);
    assert_eq!(driven.write(), ["3+", "time"]);
    let told = [(1, Err(Failure::NotAdmitted)), (2, Err(Failure::NotSent))];
    assert_eq!(driven.take_heard(), told);
}

#[test]
fn a_release_is_repeated_while_something_may_run_behind_it() {
    let mut driven = Driven::up();
    let late = Late { acquires: Some(0), ..Late::default() };
    let repetition = Some(Box::new(Repetition::new(late, driven.now.after(ms(1_000)))));
    // The repetition ends with an answer over a connection behind which nothing runs.
    driven.link.connection.as_mut().expect("it is up").via.fenced = false;
    driven.submit(1, Purpose::Release(Release { until: None, repetition, refusals: Some(0) }));
    driven.write();
    driven.answer(Reply::Value(1));
    assert_eq!(driven.take_heard(), [(1, Ok(1))]);
    let Step::Wait(due) = driven.poll() else { panic!("it is told again later") };
    assert!(due < driven.now.after(ms(1_000)) && driven.link.keeps_any());
    driven.now = due;
    driven.link.connection.as_mut().expect("it is up").via.fenced = true;
    assert_eq!(driven.write(), ["1"]);
    driven.answer(Reply::Value(1));
    driven.poll();
    assert!(!driven.link.keeps_any());
}

#[test]
fn a_release_that_is_refused_is_kept_and_told_again() {
    let run = || {
        let mut driven = Driven::up();
        driven.submit(1, release());
        driven.write();
        driven.answer(Reply::Error("out of memory"));
        driven.poll();
        assert_eq!(driven.take_heard(), [(1, Err(Failure::Error))]);
        assert_eq!(driven.events, ["release refused"]);
        driven.now = driven.now.after(Duration::from_secs(30));
        (driven.poll() == Step::Write).then(|| driven.written())
    };
    assert_eq!(run(), Some(vec!["1+".to_owned()]));
    assert_eq!(without(&[Mechanism::RefusedReleasesAreKept], run), None);
}

#[test]
fn a_node_is_asked_about_itself_a_few_times_in_a_row_and_not_much_more_often() {
    let asked = || {
        let mut driven = Driven::new();
        driven.opened(1);
        driven.world.questions = 1_000;
        let mut asked = 0;
        // All questions are asked at the same time.
        for _ in 0..1_000 {
            match driven.poll() {
                Step::Write => {
                    driven.written();
                    asked += 1;
                }
                Step::Read(Awaited::Question, _) => {
                    driven.link.handle_question(Told::Answered, driven.now, &mut driven.world);
                }
                Step::Wait(until) if until <= driven.now => {}
                Step::Wait(until) => {
                    assert_eq!(until, driven.now.after(WITHIN));
                    break;
                }
                step => panic!("{step:?}"),
            }
        }
        asked
    };
    assert_eq!(asked(), MOST_QUESTIONS);
    assert!(without(&[Mechanism::ProbesAreBounded], asked) > 2 * MOST_QUESTIONS);
}

/// Returns the time in milliseconds for which a question is waited for, if the machine is polled at each deadline. A request
/// comes after `comes` milliseconds. It waits in the machine if it `is_submitted`, and otherwise outside.
fn waits_for_question(driven: &mut Driven, comes: Option<u64>, is_submitted: bool) -> u64 {
    driven.world.questions = 1;
    driven.world.settled = None;
    let sent = driven.now;
    assert_eq!(driven.write(), ["ask 7+"]);
    loop {
        let Step::Read(Awaited::Question, deadline) = driven.poll() else { panic!("it asks") };
        match comes.map(|ms| sent.after(Duration::from_millis(ms))) {
            Some(comes) if driven.now < comes && comes < deadline => {
                driven.now = comes;
                match is_submitted {
                    true => drop(driven.submit(1, Purpose::Anyway)),
                    false => driven.world.has_waiting = true,
                }
            }
            _ if deadline <= driven.now => return driven.now.since(sent).as_millis() as u64,
            _ => driven.now = deadline,
        }
    }
}

#[test]
fn a_question_has_more_time_while_no_request_waits_for_its_answer() {
    let up = || {
        let mut driven = Driven::up();
        driven.now = driven.now.after(Duration::from_secs(2));
        driven
    };
    assert_eq!(waits_for_question(&mut up(), None, false), 1_000);
    for is_submitted in [true, false] {
        for (comes, until) in
            [(1, 250), (249, 250), (251, 500), (499, 500), (501, 750), (990, 1_000)]
        {
            let waited = waits_for_question(&mut up(), Some(comes), is_submitted);
            assert_eq!(waited, until, "{comes}, {is_submitted}");
        }
    }
}

#[test]
fn the_first_question_of_a_connection_has_more_time() {
    let mut driven = Driven::new();
    driven.opened(1);
    assert_eq!(waits_for_question(&mut driven, Some(1), false), 1_000);
}

/// Behind a proxy, another server than before may have answered.
#[test]
fn a_holder_is_told_of_an_extension_once_it_is_known_which_server_has_answered() {
    for is_relayed in [false, true] {
        let mut driven = Driven::up();
        driven.link.handle_relayed(is_relayed);
        driven.submit_that_means(1, Purpose::Holding, Some(Meaning::Kept));
        driven.write();
        driven.answer(Reply::Value(1));
        let heard_at_once = driven.take_heard().len();
        assert_eq!(heard_at_once, usize::from(!is_relayed));
        driven.clock();
        assert_eq!(heard_at_once + driven.take_heard().len(), 1);
    }
    let mut driven = Driven::up();
    driven.link.handle_relayed(true);
    driven.submit_that_means(1, Purpose::Holding, Some(Meaning::Kept));
    driven.write();
    driven.answer(Reply::Value(1));
    driven.world.serves = false;
    driven.broken(true);
    driven.opened(2);
    driven.poll();
    if driven.heard.borrow().is_empty() {
        driven.link.handle_ended(true, driven.now);
        driven.poll();
    }
    assert!(
        matches!(driven.take_heard()[..], [(1, Err(_))]),
        "the other server does not serve holders"
    );
}

#[test]
fn a_connection_without_a_client_ends_when_nothing_needs_to_be_told() {
    let mut driven = Driven::up();
    driven.link.handle_client_gone(driven.now);
    assert_eq!(driven.poll(), Step::End);

    let mut driven = Driven::up();
    driven.submit(1, release());
    driven.broken(false);
    driven.poll();
    driven.link.handle_closed(driven.now, &mut driven.world);
    driven.link.handle_client_gone(driven.now);
    assert!(matches!(driven.poll(), Step::Wait(_)), "the release is kept");
    driven.now = driven.now.after(LINGER);
    assert_eq!(driven.poll(), Step::Connect, "once more");
    driven.link.handle_not_opened("gone", driven.now, &mut driven.world);
    assert_eq!(driven.poll(), Step::End);
}
