//! Times of the parts that need no network: `cargo bench -p compare`.
//!
//! The machines of the protocol are not public. But they are pure, and import nothing of the crate but
//! themselves, so their own sources are built into this program. The other measured parts are public.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use machines::admission::{Admission, Configuration, Offset};
use machines::base::{Allowance, Basis, HoldClass, Time};
use machines::hold::{Lease, LossReason, Schedule, Terms};
use machines::link::Via;
use machines::queue::{Askers, LocalLease, LocalQueues, Turn};
use machines::vote::{Attempt, Ballot, Conclusion, Vote};
use quorlock::{OptionalGuard as _, Quorlock};
use server::{Servers, wait_until};

#[allow(dead_code, unreachable_pub, unused_imports, reason = "built for what is measured of it")]
#[path = "../../../src/core/mod.rs"]
mod machines;
#[path = "../../../tests/support/server.rs"]
mod server;

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(30);
const ALLOWANCE: Allowance = Allowance { clock_tolerance: Duration::from_millis(100) };

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn terms() -> Terms {
    Terms {
        ttl: TTL,
        renewed: true,
        max_hold: None,
        min_hold: None,
        allowance: ALLOWANCE,
        risk_margin: None,
        one_holder: false,
    }
}

/// One attempt over all nodes, from its start to its end.
fn attempts(criterion: &mut Criterion) {
    let via = Via { connection: 1, fenced: true };
    let attempt = |vote: Vote| {
        let mut attempt = Attempt::new(NODES, at(0), at(200), TTL, ALLOWANCE);
        for node in 0..NODES {
            assert!(attempt.sending(node, via, at(0)));
        }
        for node in 0..NODES {
            attempt.vote(node, vote);
            black_box(attempt.decided());
        }
        let conclusion = attempt.conclude(at(1));
        (conclusion, attempt.close(1))
    };
    criterion.bench_function("attempt over 5 nodes, won", |bencher| {
        bencher.iter(|| {
            let (conclusion, cleanups) = attempt(black_box(Vote::Granted(1)));
            assert!(matches!(conclusion, Conclusion::Won { .. }) && cleanups.len() == NODES);
        });
    });
    criterion.bench_function("attempt over 5 nodes, refused", |bencher| {
        bencher.iter(|| {
            let (conclusion, cleanups) = attempt(black_box(Vote::Refused(Some(TTL))));
            assert!(matches!(conclusion, Conclusion::Held { .. }) && cleanups.is_empty());
        });
    });
}

fn clocks(criterion: &mut Criterion) {
    let configuration = Configuration {
        set_name: "default".to_owned(),
        nodes: NODES,
        max_ttl: TTL,
        clock_tolerance: ALLOWANCE.clock_tolerance,
        quarantine: true,
        index: None,
    };
    let mut admission = Admission::new(&configuration, false);
    for (node, us) in [5, 3, 9, 1, 7].into_iter().enumerate() {
        admission.read(node, Offset::new(us, at(0), at(1)));
    }
    criterion.bench_function("time of the set, 5 nodes", |bencher| {
        bencher.iter(|| black_box(&admission).set_time(at(2)).expect("all are known"));
    });
}

/// A lease that is always valid, and has one holder.
struct Valid;

impl LocalLease for Valid {
    type Hold = ();
    type Thread = ();

    fn held_until(&self, _: Time) -> Option<Time> {
        Some(at(30_000))
    }

    fn join(&self, _: Terms, _: u64, _: Time) -> Option<()> {
        None
    }

    fn reenter(&self, _: u64, _: HoldClass, _: Time) -> Result<(), LossReason> {
        Err(LossReason::Expired)
    }
}

/// The lease of one holder goes to the first of eight in the queue, and that holder queues again.
fn hand_over(criterion: &mut Criterion) {
    let key = "orders/42";
    let enter = |queues: &mut LocalQueues<_, (), Valid>| {
        queues.enter(&key, HoldClass::Exclusive, Askers::First, terms(), false, ())
    };
    let turn = |queues: &mut LocalQueues<_, (), Valid>, ticket, now| {
        queues.look(&key, ticket, None, now).0.turn
    };
    let held_with_a_queue = || {
        let mut queues = LocalQueues::new(false);
        let holder = enter(&mut queues);
        queues.won(&key, holder, false, Valid, at(0));
        for _ in 1..=8 {
            let ticket = enter(&mut queues);
            assert!(matches!(turn(&mut queues, ticket, at(0)), Turn::Wait(_)));
        }
        let lease = Lease::new(terms(), Basis::Majority, at(0), at(30_000), Schedule::default());
        (queues, holder, lease)
    };
    criterion.bench_function("hand-over to the first of 8 in the queue", |bencher| {
        bencher.iter_batched_ref(
            held_with_a_queue,
            |(queues, holder, lease)| {
                let handed = queues.hand_over(&key, *holder, lease, at(1));
                let (next, _) = handed.expect("it is held, and others wait");
                queues.handed(&key, next, ());
                assert_eq!(turn(queues, next, at(1)), Turn::HandedOver);
                let again = enter(queues);
                turn(queues, again, at(1))
            },
            BatchSize::SmallInput,
        );
    });
}

/// Calls on the guard of a lock that is held on real servers, which are not asked.
fn guards(criterion: &mut Criterion) {
    let servers = Servers::start(NODES);
    let locks = Quorlock::builder().restart_quarantine(false).nodes(servers.urls());
    let locks = locks.build().expect("valid settings");
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    let guard = locks.lock("bench").expect("healthy nodes");
    criterion.bench_function("guard.check", |bencher| bencher.iter(|| guard.check()));
    criterion.bench_function("guard.remaining", |bencher| bencher.iter(|| guard.remaining()));
    criterion.bench_function("guard.token", |bencher| bencher.iter(|| guard.token()));
    criterion.bench_function("try_lock, held in this process", |bencher| {
        bencher
            .iter(|| assert!(locks.try_lock("bench").optional().expect("healthy nodes").is_none()));
    });
    criterion.bench_function("a name that is refused", |bencher| {
        bencher.iter(|| locks.try_lock("").expect_err("names are not empty"));
    });
}

criterion_group!(parts, attempts, clocks, hand_over, guards);
criterion_main!(parts);
