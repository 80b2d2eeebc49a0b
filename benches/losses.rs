//! Delay of the report of a loss on `lost()`, measured from the end of validity: `cargo bench --bench
//! losses`.
//!
//! The end of validity is taken from [`Guard::remaining`]. One thread goes round all locks every few
//! milliseconds and notes `now + remaining`, which only a renewal moves. The last note before the
//! loss is the end. The clock is read before and after, so the end is known within two bounds.
//! Lateness is counted from the earlier bound, so that it is never flattered. A loss counts as early
//! only if it came before that bound, too.
//!
//! Each lock has a thread of its own that only blocks on `lost()`, so no loss queues behind another
//! one in the measurement. The cost of waking that thread is part of the figure. Threads that only
//! sleep measure the machine's own delay of wake-ups, for comparison.
//!
//! A benchmark is not a test. Next to a figure for which the crate states a bound, it prints PASS or
//! FAIL; the exit status does not depend on the figures.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Guard, LossReason, Quorlock, Renewal};
use server::{Server, Servers, wait_until};

#[path = "../tests/support/server.rs"]
mod server;

const NODES: usize = 5;
const MAJORITY: usize = 3;
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// Number of locks that are held at once, and lost at about the same time.
const LOCKS: usize = 100;
/// Number of locks that are lost at the very same instant.
const TOGETHER: usize = 1_000;
/// Time of that instant, counted from before the first of them is taken.
const TOGETHER_AFTER: Duration = Duration::from_secs(5);
/// TTL of those locks. Renewed locks need a renewal, and with it their threads; the others must last.
const TOGETHER_TTL: Duration = Duration::from_secs(3);
const TOGETHER_MANUAL_TTL: Duration = Duration::from_secs(10);
/// Time from the blow to that instant.
const BLOW_BEFORE: Duration = Duration::from_millis(400);
const BOUND: Duration = Duration::from_millis(50);
/// Pause between two passes over all locks.
const SAMPLING: Duration = Duration::from_millis(5);

/// The fault of a majority of the masters while the locks are held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blow {
    Killed,
    Hung,
    /// Emptied: the master answers, and reports that the keys are gone.
    Emptied,
    /// No fault.
    Spared,
}

/// The way in which the locks are held, and lost.
#[derive(Clone, Copy)]
struct Scene {
    what: &'static str,
    blow: Blow,
    rounds: usize,
    /// `None`: each lock ends with its own TTL. Otherwise all end together, by `max_hold`.
    together: Option<Renewal>,
}

const SCENES: [Scene; 7] = [
    Scene { what: "A majority killed", blow: Blow::Killed, rounds: 10, together: None },
    Scene { what: "A majority hung", blow: Blow::Hung, rounds: 2, together: None },
    Scene { what: "A majority emptied", blow: Blow::Emptied, rounds: 2, together: None },
    Scene {
        what: "At one instant, renewed before, all masters well",
        blow: Blow::Spared,
        rounds: 3,
        together: Some(Renewal::Auto),
    },
    Scene {
        what: "At one instant, renewed before, a majority killed",
        blow: Blow::Killed,
        rounds: 3,
        together: Some(Renewal::Auto),
    },
    Scene {
        what: "At one instant, never renewed, all masters well",
        blow: Blow::Spared,
        rounds: 3,
        together: Some(Renewal::Manual),
    },
    Scene {
        what: "At one instant, never renewed, a majority killed",
        blow: Blow::Killed,
        rounds: 3,
        together: Some(Renewal::Manual),
    },
];

fn main() {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{NODES} masters on this machine of {cores} cores, node timeout {NODE_TIMEOUT:?}; \
         {LOCKS} locks at a time, TTLs 600, 800 and 1000 ms; {TOGETHER} at one instant"
    );
    // `cargo bench` passes an argument of its own. Any other argument picks scenes by their name.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let mut servers = Servers::start(NODES);
    for scene in SCENES {
        if !wanted.iter().all(|word| scene.what.contains(&**word)) {
            continue;
        }
        let mut all = Findings::default();
        for round in 0..scene.rounds {
            all.add(lose(&mut servers, scene, round));
        }
        println!("\n{}: {} locks lost, {} not", scene.what, all.losses.len(), all.not_lost);
        report(scene, &all);
    }
}

/// The findings of one or more rounds.
#[derive(Default)]
struct Findings {
    losses: Vec<Loss>,
    not_lost: usize,
    /// Delays of wake-ups of threads that only slept meanwhile.
    oversleeps: Vec<Duration>,
}

impl Findings {
    fn add(&mut self, other: Self) {
        self.losses.extend(other.losses);
        self.not_lost += other.not_lost;
        self.oversleeps.extend(other.oversleeps);
    }
}

/// The end of one lock.
#[derive(Clone, Copy)]
struct Loss {
    told: Instant,
    reason: LossReason,
    end: End,
    /// True if the lock had been renewed, and was not just taken.
    renewed: bool,
}

impl Loss {
    /// Time from the end of validity to the report, in milliseconds; negative before the end.
    fn late_ms(&self) -> f64 {
        let after = self.told.saturating_duration_since(self.end.earliest);
        let before = self.end.earliest.saturating_duration_since(self.told);
        (after.as_secs_f64() - before.as_secs_f64()) * 1e3
    }
}

/// The bounds of the end of validity.
#[derive(Clone, Copy)]
struct End {
    earliest: Instant,
    latest: Instant,
}

impl End {
    /// The present end of validity; `None` if it is past.
    fn of(guard: &Guard) -> Option<Self> {
        let before = Instant::now();
        let remaining = guard.remaining();
        let after = Instant::now();
        let end = Self { earliest: before + remaining, latest: after + remaining };
        (!remaining.is_zero()).then_some(end)
    }

    fn uncertainty(&self) -> Duration {
        self.latest - self.earliest
    }
}

/// Takes all locks, lets them be renewed, deals the blow, and waits until all are lost.
fn lose(servers: &mut Servers, scene: Scene, round: usize) -> Findings {
    let Scene { blow, together, .. } = scene;
    let ttl = match together {
        None => Duration::from_millis([600, 800, 1_000][round % 3]),
        Some(Renewal::Auto) => TOGETHER_TTL,
        Some(_) => TOGETHER_MANUAL_TTL,
    };
    // Fresh servers have forgotten nothing, and need no quarantine.
    let builder = Quorlock::builder()
        .restart_quarantine(false)
        .nodes(servers.urls())
        .ttl(ttl)
        .node_timeout(NODE_TIMEOUT);
    let locks = builder.build().expect("valid settings");
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    let start = Instant::now();
    let guards: Vec<_> = match together {
        None => (0..LOCKS)
            .map(|lock| locks.lock(format!("bench/{round}/{lock}")).expect("healthy nodes"))
            .collect(),
        Some(renewal) => (0..TOGETHER)
            .map(|lock| {
                let mutex = locks.mutex(format!("bench/{round}/{lock}")).renewal(renewal);
                let left = TOGETHER_AFTER.saturating_sub(start.elapsed());
                mutex.max_hold(left).lock().expect("healthy nodes")
            })
            .collect(),
    };
    let taken = Instant::now();
    if together.is_none() {
        // Beyond the first TTL, so that each lock is renewed, and at different points of the TTL.
        thread::sleep(ttl + ttl * (round as u32 % 5) / 10);
    }

    let over = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        let receivers: Vec<_> = guards
            .iter()
            .map(|guard| {
                let lost = guard.lost().clone();
                scope.spawn(move || {
                    // Masters that are emptied one after the other may be repaired in between, and
                    // then the lock is not lost. Otherwise the loss comes long before this time.
                    let reason = lost.recv_timeout(4 * ttl).ok()?;
                    Some((Instant::now(), reason))
                })
            })
            .collect();
        let sleeper = scope.spawn(|| oversleeps(&over));
        let sampler = scope.spawn(|| {
            let mut ends = vec![None; guards.len()];
            while !over.load(Ordering::Relaxed) {
                for (end, guard) in ends.iter_mut().zip(&guards) {
                    *end = End::of(guard).or(*end);
                }
                thread::sleep(SAMPLING);
            }
            ends
        });
        // The sampling thread has seen every lock before the blow.
        thread::sleep(2 * SAMPLING);
        if together.is_some() {
            let blow_after = TOGETHER_AFTER - BLOW_BEFORE;
            thread::sleep(blow_after.saturating_sub(start.elapsed()));
        }
        for server in servers.iter_mut().take(MAJORITY) {
            match blow {
                Blow::Killed => server.kill(),
                Blow::Hung => server.pause(),
                Blow::Emptied => drop(server.command(&["FLUSHALL"])),
                Blow::Spared => {}
            }
        }
        let told: Vec<_> =
            receivers.into_iter().map(|thread| thread.join().expect("a receiver ends")).collect();
        over.store(true, Ordering::Relaxed);
        let ends = sampler.join().expect("the sampler ends");
        let oversleeps = sleeper.join().expect("the sleeper ends");
        let losses: Vec<_> = told
            .into_iter()
            .zip(ends)
            .filter_map(|(told, end)| {
                let ((told, reason), end) = (told?, end.expect("it was sampled while it was held"));
                Some(Loss { told, reason, end, renewed: end.latest > taken + ttl })
            })
            .collect();
        Findings { not_lost: guards.len() - losses.len(), losses, oversleeps }
    });
    drop(guards);
    drop(locks);
    for server in servers.iter_mut() {
        restore(server, blow);
    }
    found
}

/// Restores a server: up, and without any key.
fn restore(server: &mut Server, blow: Blow) {
    if blow == Blow::Hung && !server.is_up() {
        server.resume();
    }
    server.restart_empty();
}

/// Time of messages from one thread to that number of threads that have nothing to do with locks,
/// until each of them has its message.
fn mere_messages(threads: usize) -> Vec<Duration> {
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..threads).map(|_| crossbeam_channel::bounded::<()>(1)).unzip();
    let waiting = std::sync::Barrier::new(threads + 1);
    let receive = |receiver: crossbeam_channel::Receiver<()>| {
        waiting.wait();
        receiver.recv().expect("each is told");
        Instant::now()
    };
    let receive = &receive;
    thread::scope(|scope| {
        let receivers: Vec<_> =
            receivers.into_iter().map(|receiver| scope.spawn(move || receive(receiver))).collect();
        waiting.wait();
        // Most of the threads are asleep by then, and waking them takes time.
        thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        senders.iter().for_each(|sender| sender.send(()).expect("it listens"));
        receivers.into_iter().map(|thread| thread.join().expect("it ends") - start).collect()
    })
}

/// Delays of wake-ups of a thread that has nothing to do with locks.
fn oversleeps(over: &AtomicBool) -> Vec<Duration> {
    const NAP: Duration = Duration::from_millis(2);
    let mut late = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(NAP);
        late.push(start.elapsed().saturating_sub(NAP));
    }
    late
}

fn report(scene: Scene, found: &Findings) {
    let Scene { blow, together, .. } = scene;
    let losses = &found.losses;
    let (early, late): (Vec<_>, Vec<_>) = losses.iter().partition(|loss| loss.late_ms() < 0.0);
    if together.is_none() {
        let renewed = losses.iter().filter(|loss| loss.renewed).count();
        println!("  renewed before: {renewed}");
    }
    show("after the end, ms", late.iter().map(|loss: &&Loss| loss.late_ms()));
    show("before the end, ms", early.iter().map(|loss: &&Loss| -loss.late_ms()));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    show("the end is known within, ms", losses.iter().map(|loss| ms(loss.end.uncertainty())));
    show("mere sleepers woke up late by, ms", found.oversleeps.iter().map(|late| ms(*late)));
    if together.is_some() {
        show("mere messages to as many, ms", mere_messages(TOGETHER).into_iter().map(ms));
    }
    let mut reasons: Vec<_> = losses.iter().map(|loss| format!("{:?}", loss.reason)).collect();
    reasons.sort_unstable();
    for same in reasons.chunk_by(|a, b| a == b) {
        println!("  reason {}: {}", same[0], same.len());
    }

    let in_time = losses.iter().filter(|loss| loss.late_ms() <= BOUND.as_secs_f64() * 1e3).count();
    let missed = if blow == Blow::Emptied { 0 } else { found.not_lost };
    let share = 100.0 * in_time as f64 / (losses.len() + missed) as f64;
    check(
        share >= 99.0,
        &format!("{share:.1} % told within {BOUND:?} after the end of validity, 99 %"),
    );
    // A loss by the clock cannot precede the end of validity. The only other reason is that the keys
    // are gone, and this is known only if the masters were there to report it.
    let groundless = early
        .iter()
        .filter(|loss| blow != Blow::Emptied || loss.reason != LossReason::KeysGone)
        .count();
    check(
        groundless == 0,
        &format!(
            "told while still valid: {}, of which without a reason: {groundless}, none",
            early.len()
        ),
    );
}

fn show(what: &str, values: impl Iterator<Item = f64>) {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    if values.is_empty() {
        println!("  {what:<34} none");
        return;
    }
    let [min, median, p90, p99, max] = [0.0, 0.5, 0.9, 0.99, 1.0]
        .map(|share| values[((values.len() - 1) as f64 * share).round() as usize]);
    println!(
        "  {what:<34} {:>5}: min {min:.3}, median {median:.3}, p90 {p90:.3}, p99 {p99:.3}, max {max:.3}",
        values.len()
    );
}

fn check(holds: bool, what: &str) {
    println!("  {}  {what}", if holds { "PASS" } else { "FAIL" });
}
