//! A batch gives the same answers and leaves the same data as its calls one by one.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::job::Asked;
use super::super::request::Part;
use super::*;
use crate::core::acquire::{Priority, Reservation, Waits};
use crate::core::base::{Mechanism, without};
use crate::core::link::{Purpose, WORTH_IT, calls, put_in_order};
use crate::embedded::{Engine, Reply};
use crate::ident::{fence_key, release_channel};
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::values::{Claimant, Fence, Keep, Raise, Repair};
use crate::kinds::{EXCLUSIVE, KINDS, names};

const NOW: Duration = Duration::from_secs(1_700_000_000);
const MARK_KEY: &[u8] = b"{quorlock}:mark";
const MARK: &str = "the mark";
const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
const OWNERS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
enum Call {
    Acquire { name: usize, owner: usize, proposal: Option<u64>, ttl: u64, waits: Waits },
    Extend { name: usize, owner: usize, number: Option<u64>, ttl: u64, late: bool },
    Release { name: usize, owner: usize, keep: Option<i64>, raise: Option<u64> },
    Confirm { name: usize, owner: usize },
}

/// The kinds with a batch.
fn batched_kinds() -> [&'static Kind; 2] {
    let reentrant = KINDS.iter().find(|kind| kind.label == "reentrant");
    [EXCLUSIVE, reentrant.expect("it is in the list")]
}

impl Call {
    fn request(&self) -> Request {
        self.request_of(EXCLUSIVE)
    }

    fn request_of(&self, kind: &Kind) -> Request {
        // A hash may be given no time at all. That deletes it, and is no error.
        let least_ttl = if kind.label == "reentrant" { 1 } else { 0 };
        let ms = |ms: u64| Duration::from_millis(ms.max(least_ttl));
        match *self {
            Self::Acquire { name, owner, proposal, ttl, waits } => kind.acquire(
                &names(&[NAMES[name]]),
                MARK_KEY,
                Claimant::of(OWNERS[owner]),
                ms(ttl),
                waits,
                proposal,
            ),
            Self::Extend { name, owner, number, ttl, late } => {
                let until_ms = NOW.as_millis() as i64 + if late { -1 } else { 1_000_000 };
                let fence = number.map(|number| Fence { number, up_to: number });
                let repair = Repair { until_ms, mark_key: MARK_KEY, quarantine: true, fence };
                let owner = Claimant::of(OWNERS[owner]);
                kind.extend(&names(&[NAMES[name]]), owner, ms(ttl), repair)
            }
            Self::Release { name, owner, keep, raise } => {
                let until_ms = |ms| NOW.as_millis() as i64 + ms;
                let keep = keep.map(|ms| Keep { until_ms: until_ms(ms), by_ms: until_ms(1) });
                let raise = raise.map(|to| Raise { to, lasts: ms(9_000) });
                kind.release(&names(&[NAMES[name]]), Claimant::of(OWNERS[owner]), keep, raise)
            }
            Self::Confirm { name, owner } => {
                kind.confirm(&names(&[NAMES[name]]), OWNERS[owner], 7).expect("it has numbers")
            }
        }
    }
}

fn a_call() -> impl Strategy<Value = Call> {
    let number = || prop_oneof![Just(None), (1_u64..40).prop_map(Some)];
    // A server refuses to set a key for no time, which is an error of the script.
    let ttl = || prop_oneof![6 => Just(1_000_u64), 6 => 1_000_u64..60_000, 1 => Just(0)];
    let (name, owner) = (|| 0..NAMES.len(), || 0..OWNERS.len());
    prop_oneof![
        5 => (name(), owner(), number(), ttl(), a_wait()).prop_map(
            |(name, owner, proposal, ttl, waits)| Call::Acquire { name, owner, proposal, ttl, waits }
        ),
        5 => (name(), owner())
            .prop_map(|(name, owner)| Call::Release { name, owner, keep: None, raise: None }),
        2 => (name(), owner(), prop_oneof![Just(None), (-1_i64..3).prop_map(Some)], number())
            .prop_map(|(name, owner, keep, raise)| Call::Release { name, owner, keep, raise }),
        3 => (name(), owner(), number(), ttl(), any::<bool>()).prop_map(
            |(name, owner, number, ttl, late)| Call::Extend { name, owner, number, ttl, late }
        ),
        1 => (name(), owner()).prop_map(|(name, owner)| Call::Confirm { name, owner }),
    ]
}

/// A new caller, or one with a priority, with or without a reservation.
fn a_wait() -> impl Strategy<Value = Waits> {
    let reservation = (0_u64..4, prop_oneof![Just(0), 1_000_u64..2_000]).prop_map(|(id, ms)| {
        let priority = Priority { began_ms: 5, id };
        Reservation { priority, lasts: Duration::from_millis(ms), beside_sharers: ms % 2 == 1 }
    });
    prop_oneof![Just(None), reservation.prop_map(Some)]
        .prop_map(|reservation| Waits { reservation, ..Waits::default() })
}

/// A command that puts data on a node before the test.
fn a_command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop_oneof![
        (0..NAMES.len()).prop_map(|name| NAMES[name].to_vec()),
        (0..NAMES.len()).prop_map(|name| fence_key(NAMES[name])),
    ];
    let value = prop_oneof![Just("one"), Just("two"), Just("12"), Just("no number")];
    (key, value, any::<bool>()).prop_map(|(key, value, text)| {
        if text {
            vec![b"SET".to_vec(), key, value.into(), b"PX".to_vec(), b"30000".to_vec()]
        } else {
            // Sometimes the mode of a read lock.
            let field = if value == "one" { ["mode", "read"] } else { ["field", value] };
            [b"HSET".to_vec(), key].into_iter().chain(field.map(Into::into)).collect()
        }
    })
}

/// A node on which the commands have run, with a listener for the releases of the first name.
fn node(commands: &[Vec<Vec<u8>>]) -> Engine {
    let mut engine = Engine::new(&"a".repeat(40));
    let mark = [b"SET", MARK_KEY, MARK.as_bytes()].map(<[u8]>::to_vec);
    for command in commands.iter().map(Vec::as_slice).chain([mark.as_slice()]) {
        engine.call(command, NOW);
    }
    engine.subscribe(&release_channel(NAMES[0]));
    engine
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Int(number) => Value::Int(number),
        Reply::Bulk(text) => Value::Text(String::from_utf8(text).expect("text")),
        Reply::List(replies) => Value::List(replies.into_iter().map(value).collect()),
        other => panic!("no script answers {other:?}"),
    }
}

/// The job of a request that takes a lock, as a connection has it.
fn job(request: &Arc<Request>) -> Job {
    job_for(request, Purpose::Taking)
}

fn job_for(request: &Arc<Request>, purpose: Purpose) -> Job {
    let (request, sink) = (request.clone(), None);
    let asked = Asked { node: 0, request, sink, unanswered: None, untold: None };
    Job::new(asked, purpose)
}

/// The number of requests of each call that is written for these jobs, and the batch script that makes them.
fn calls_of(jobs: &[Job], together: bool) -> Vec<(usize, Option<&'static Script>)> {
    let calls = calls(jobs, together, |_| Form::Sha).into_iter();
    calls.map(|call| (call.requests, call.is_batch().then_some(call.script))).collect()
}

/// The answers to the requests, written as `together` says; `None` for a request that must be made alone.
fn run(
    engine: &mut Engine,
    requests: &[Arc<Request>],
    mark: &str,
    together: bool,
) -> Vec<Option<Value>> {
    let jobs: Vec<_> = requests.iter().map(job).collect();
    let (mut left, mut said) = (requests, Vec::new());
    for (requests, batch) in calls_of(&jobs, together) {
        let (of_call, others) = left.split_at(requests);
        left = others;
        let of_call: Vec<_> = of_call.iter().map(|request| &**request).collect();
        let command = eval(&of_call, batch, (MARK_KEY, mark));
        match engine.call(&command, NOW) {
            reply if batch.is_some() => match answers(value(reply), requests).expect("ours") {
                Answers::NothingDone => said.extend(vec![None; requests]),
                Answers::Each(each) => said.extend(each),
            },
            Reply::Error(_) => said.push(None),
            reply => said.push(Some(value(reply))),
        }
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_does_what_its_calls_do(
        kind in 0..2_usize,
        there in prop::collection::vec(a_command(), 0..4),
        calls in prop::collection::vec(a_call(), 1..24),
    ) {
        let kind = batched_kinds()[kind];
        let requests: Vec<_> = calls.iter().map(|call| Arc::new(call.request_of(kind))).collect();
        let (mut one_by_one, mut together) = (node(&there), node(&there));
        let expected = run(&mut one_by_one, &requests, MARK, false);
        prop_assert_eq!(run(&mut together, &requests, MARK, true), expected);
        prop_assert_eq!(together.keys(NOW), one_by_one.keys(NOW));
        prop_assert_eq!(together.take_published(), one_by_one.take_published());
    }

    /// The requests of one write are put in an order in which a batch is cheap.
    #[test]
    fn a_batch_in_another_order_does_what_its_calls_do(
        kind in 0..2_usize,
        there in prop::collection::vec(a_command(), 0..4),
        calls in prop::collection::vec(a_call(), WORTH_IT..24),
    ) {
        let batched = |call: &&Call| !matches!(call, Call::Confirm { .. });
        let calls: Vec<_> = calls.iter().filter(batched).collect();
        let kind = batched_kinds()[kind];
        let requests: Vec<_> = calls.iter().map(|call| Arc::new(call.request_of(kind))).collect();
        let purpose = |call: &Call| match call {
            Call::Acquire { .. } => Purpose::Taking,
            _ => Purpose::Holding,
        };
        let jobs = calls.iter().zip(&requests);
        let mut jobs: Vec<_> = jobs.map(|(call, request)| job_for(request, purpose(call))).collect();
        put_in_order(&mut jobs);
        let in_order: Vec<_> = jobs.iter().map(|job| job.request.request.clone()).collect();
        let (mut one_by_one, mut together) = (node(&there), node(&there));
        let expected = run(&mut one_by_one, &requests, MARK, false);
        let answers = run(&mut together, &in_order, MARK, true);
        for (request, expected) in requests.iter().zip(&expected) {
            let place = in_order.iter().position(|it| Arc::ptr_eq(it, request));
            prop_assert_eq!(place.map(|place| &answers[place]), Some(expected));
        }
        prop_assert_eq!(together.keys(NOW), one_by_one.keys(NOW));
        prop_assert_eq!(together.take_published(), one_by_one.take_published());
    }

    #[test]
    fn a_batch_under_another_mark_does_nothing(
        there in prop::collection::vec(a_command(), 0..4),
        calls in prop::collection::vec(a_call(), WORTH_IT..24),
    ) {
        let batched = |call: &Call| !matches!(call, Call::Confirm { .. });
        let requests: Vec<_> = calls.iter().filter(|c| batched(c)).map(|call| Arc::new(call.request())).collect();
        prop_assume!(requests.len() >= WORTH_IT);
        let mut engine = node(&there);
        let before = engine.keys(NOW);
        let answers = run(&mut engine, &requests, "another mark", true);
        prop_assert_eq!(answers, vec![None; requests.len()]);
        prop_assert_eq!(engine.keys(NOW), before);
    }
}

fn taking(name: usize, owner: usize, proposal: u64, ttl: u64) -> Call {
    Call::Acquire { name, owner, proposal: Some(proposal), ttl, waits: Waits::default() }
}

/// An end of a fence is set anew if it is too early by more than a second.
#[test]
fn the_end_of_a_fence_may_be_a_second_early() {
    let of_one_name = |kind: &&&Kind| kind.has_numbers() && kind.most_names == 1;
    let mut kinds = 0;
    for kind in KINDS.iter().filter(of_one_name) {
        kinds += 1;
        for (ms, moved) in [(1_000, 0), (1_001, 1_001)] {
            let (mut engine, later) = (node(&[]), NOW + Duration::from_millis(ms));
            let end = |engine: &mut Engine| {
                let fence = engine.keys(NOW).into_iter().find(|it| it.key == fence_key(NAMES[0]));
                fence.and_then(|fence| fence.expires_at).expect("it ends")
            };
            engine.call(&taking(0, 0, 7, 9_000).request_of(kind).eval(MARK), NOW);
            let before = end(&mut engine);
            let again = taking(0, 0, 8, 9_000).request_of(kind);
            let answer = value(engine.call(&again.eval(MARK), later));
            let listed = Value::List(vec![Value::Int(1), Value::Int(8)]);
            assert!([Value::Text("8".to_owned()), listed].contains(&answer), "{answer}");
            let moved = Duration::from_millis(moved);
            assert_eq!(end(&mut engine), before + moved, "{kind:?} after {ms} ms");
        }
    }
    assert_eq!(kinds, 5);
}

/// The calls before and behind the failed one are made.
#[test]
fn an_error_ends_one_call_of_a_run() {
    let refused = || Some(Value::List(vec![Value::Int(0), Value::Int(1_000)]));
    let granted = |number: &str| Some(Value::Text(number.to_owned()));
    let calls = [(0, 0, 7, 1_000), (1, 0, 8, 0), (0, 1, 9, 1_000), (2, 1, 10, 2_000)];
    let calls = calls.map(|(name, owner, number, ttl)| taking(name, owner, number, ttl));
    let requests = calls.map(|call| Arc::new(call.request()));
    let answers = run(&mut node(&[]), &requests, MARK, true);
    assert_eq!(answers, [granted("7"), None, refused(), granted("10")]);
}

/// Calls with different lifetimes, and callers that have waited among others that have not.
#[test]
fn calls_that_take_locks_are_one_run_whatever_their_terms() {
    let priority = Priority { began_ms: 5, id: 1 };
    let reservation = Reservation { priority, lasts: Duration::ZERO, beside_sharers: false };
    let waits = Waits { reservation: Some(reservation), ..Waits::default() };
    let waiting = Call::Acquire { name: 1, owner: 1, proposal: Some(8), ttl: 1_000, waits };
    let calls = [taking(0, 0, 7, 1_000), waiting, taking(2, 2, 9, 2_000)];
    for kind in batched_kinds() {
        let requests = calls.each_ref().map(|call| call.request_of(kind));
        let requests = requests.each_ref();
        assert_eq!(requests.chunk_by(|a, b| are_alike(a, b)).count(), 1);
        let release = Call::Release { name: 0, owner: 0, keep: None, raise: None };
        assert!(!are_alike(requests[0], &release.request_of(kind)));
        // Without fencing, a call has fewer keys.
        let waits = Waits::default();
        let plain = Call::Acquire { name: 0, owner: 0, proposal: None, ttl: 1_000, waits };
        assert!(!are_alike(requests[0], &plain.request_of(kind)));
    }
}

/// Found by the test above: the first call changes the fence that the batch has read before for the second call.
#[test]
fn what_an_earlier_call_of_the_batch_made_a_number_is_one() {
    let extend = |ttl| Call::Extend { name: 1, owner: 2, number: Some(1), ttl, late: false };
    let waits = Waits::default();
    let last = Call::Acquire { name: 2, owner: 0, proposal: None, ttl: 1_000, waits };
    let requests: Vec<_> =
        [extend(1_000), extend(1_001), last].iter().map(|call| Arc::new(call.request())).collect();
    let fence = fence_key(NAMES[1]);
    let there = [[b"SET", &fence[..], b"no number", b"PX", b"30000"].map(<[u8]>::to_vec).to_vec()];
    let (mut one_by_one, mut together) = (node(&there), node(&there));
    let expected = run(&mut one_by_one, &requests, MARK, false);
    assert_eq!(run(&mut together, &requests, MARK, true), expected);
    assert_eq!(together.keys(NOW), one_by_one.keys(NOW));
}

#[test]
fn few_calls_are_made_one_by_one_and_many_at_once() {
    let release =
        |owner: &str| EXCLUSIVE.release(&names(&[NAMES[0]]), Claimant::of(owner), None, None);
    let confirm = || EXCLUSIVE.confirm(&names(&[NAMES[0]]), OWNERS[0], 7).expect("it has numbers");
    let sizes = |requests: &[Arc<Request>], together| -> Vec<_> {
        let jobs: Vec<_> = requests.iter().map(job).collect();
        calls_of(&jobs, together).iter().map(|call| call.0).collect()
    };
    let few: Vec<_> = (0..WORTH_IT - 1).map(|_| Arc::new(release("one"))).collect();
    assert_eq!(sizes(&few, true), vec![1; WORTH_IT - 1]);
    let many: Vec<_> = (0..WORTH_IT).map(|_| Arc::new(release("one"))).collect();
    assert_eq!(sizes(&many, true), [WORTH_IT]);
    assert_eq!(sizes(&many, false), vec![1; WORTH_IT]);
    // A call that fits into no batch keeps its place.
    let mixed: Vec<_> = many.into_iter().chain([Arc::new(confirm())]).chain(few).collect();
    assert_eq!(sizes(&mixed, true).first(), Some(&WORTH_IT));
    assert_eq!(sizes(&mixed, true).len(), 1 + 1 + (WORTH_IT - 1));
}

/// One write has one batch for each kind, one after the other.
#[test]
fn calls_of_several_kinds_are_made_by_a_batch_of_each() {
    // Each kind has names of its own.
    let name = |kind: &Kind, i| names(&[format!("{}/{i}", kind.label).as_bytes()]);
    let locks: Vec<_> =
        KINDS.iter().flat_map(|kind| (0..WORTH_IT).map(|i| (*kind, name(kind, i)))).collect();
    let ttl = Duration::from_secs(1);
    let acquires = locks.iter().map(|(kind, name)| {
        kind.acquire(name, MARK_KEY, Claimant::of(OWNERS[0]), ttl, Waits::default(), Some(7))
    });
    let releases =
        locks.iter().map(|(kind, name)| kind.release(name, Claimant::of(OWNERS[0]), None, None));
    let (acquires, releases) = (acquires.map(Arc::new), releases.map(Arc::new));
    let (mut one_by_one, mut together) = (node(&[]), node(&[]));
    for requests in [acquires.collect::<Vec<_>>(), releases.collect()] {
        let expected = run(&mut one_by_one, &requests, MARK, false);
        assert!(expected.iter().all(Option::is_some), "{expected:?}");
        assert_eq!(run(&mut together, &requests, MARK, true), expected);
        assert_eq!(together.keys(NOW), one_by_one.keys(NOW));
    }
    let is_lock = |key: &[u8]| locks.iter().any(|(_, name)| name.first().key() == key);
    assert!(!together.keys(NOW).iter().any(|key| is_lock(&key.key)));
}

/// The batch goes last, so that no call that came after its releases overtakes them, however often it is made again.
#[test]
fn the_batch_is_the_last_of_a_write() {
    let confirm = EXCLUSIVE.confirm(&names(&[NAMES[0]]), OWNERS[0], 7).expect("it has numbers");
    let releases = [0, 1, 2, 0, 1, 2]
        .map(|name| EXCLUSIVE.release(&names(&[NAMES[name]]), Claimant::of(OWNERS[0]), None, None));
    let mut requests: Vec<_> = releases.into_iter().map(Arc::new).collect();
    requests.insert(3, Arc::new(confirm));
    let mut written: Vec<_> = requests.iter().map(job).collect();
    put_in_order(&mut written);
    let calls = calls_of(&written, true);
    assert_eq!(calls.iter().map(|call| call.0).collect::<Vec<_>>(), [1, 6]);
    // The batch keeps the order in which its requests came.
    requests.remove(3);
    let in_batch = written.iter().skip(1).map(|job| Arc::as_ptr(&job.request.request));
    assert!(in_batch.eq(requests.iter().map(Arc::as_ptr)));
}

/// The requests by their places in `came`, in the order in which one write has them.
fn order(came: &[Arc<Request>]) -> Vec<usize> {
    let mut written: Vec<_> = came.iter().map(job).collect();
    put_in_order(&mut written);
    let place = |job: &Job| came.iter().position(|it| Arc::ptr_eq(it, &job.request.request));
    written.iter().filter_map(place).collect()
}

#[test]
fn a_script_that_goes_last_is_behind_the_batch() {
    static LAST: Script = Script::new("return 1").last();
    let last = Arc::new(Request::new(&LAST, 1, &[Part::Bytes(NAMES[0])]));
    let release = EXCLUSIVE.release(&names(&[NAMES[0]]), Claimant::of(OWNERS[0]), None, None);
    let confirm = EXCLUSIVE.confirm(&names(&[NAMES[0]]), OWNERS[0], 7).expect("it has numbers");
    let came = [last, Arc::new(release), Arc::new(confirm)];
    assert_eq!(order(&came), [2, 1, 0]);
    assert_eq!(without(&[Mechanism::WithdrawalsGoLast], || order(&came)), [0, 2, 1]);
    assert_eq!(without(&[Mechanism::BatchesGoLast], || order(&came)), [1, 2, 0]);
}

/// Calls of another kind go into another batch, as their answers have other shapes.
#[test]
fn each_kind_has_a_batch_of_its_own() {
    static OTHERS_BATCH: Script = Script::new("return 2");
    static OTHERS: Script = Script::batched("return 1", "take", &OTHERS_BATCH);
    let release = |name: usize| {
        EXCLUSIVE.release(&names(&[NAMES[name]]), Claimant::of(OWNERS[0]), None, None)
    };
    let other = |name: usize| Request::new(&OTHERS, 1, &[Part::Bytes(NAMES[name])]);
    let confirm = EXCLUSIVE.confirm(&names(&[NAMES[0]]), OWNERS[0], 7).expect("it has numbers");
    let came = [other(0), release(0), other(1), confirm, release(1), other(2), release(2)];
    let came = came.map(Arc::new);
    assert_eq!(order(&came), [3, 0, 2, 5, 1, 4, 6]);
    let written: Vec<_> = order(&came).iter().map(|i| job(&came[*i])).collect();
    let calls = calls_of(&written, true);
    assert_eq!(calls.iter().map(|call| call.0).collect::<Vec<_>>(), [1, 3, 3]);
    assert_eq!(calls[1].1, Some(&OTHERS_BATCH));
}

#[test]
fn what_no_batch_answers_is_no_answer() {
    let list = |values: &[i64]| Value::List(values.iter().copied().map(Value::Int).collect());
    let each = |answers: [Option<i64>; 2]| {
        Ok(Answers::Each(answers.map(|answer| answer.map(Value::Int)).into()))
    };
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(answers(list(&[1, 0]), 2), each([Some(1), Some(0)]));
    let grant = || text("7");
    let one = Value::List(vec![grant(), Value::Int(0)]);
    assert_eq!(answers(one, 2), Ok(Answers::Each(vec![Some(grant()), Some(Value::Int(0))])));
    for no_number in ["", "+7", "-7", " 7", "7.0", "0x7"] {
        let strange = Value::List(vec![text(no_number), Value::Int(0)]);
        assert_eq!(answers(strange.clone(), 2), Err(strange));
    }
    assert_eq!(answers(Value::List(vec![text("alone"), Value::Int(2)]), 2), each([None, Some(2)]));
    assert_eq!(answers(Value::Int(0), 2), Ok(Answers::NothingDone));
    let other = Value::List(vec![Value::Int(1), text("OK")]);
    for strange in [list(&[1]), list(&[1, 0, 1]), Value::Int(1), text("alone"), other] {
        assert_eq!(answers(strange.clone(), 2), Err(strange));
    }
}
