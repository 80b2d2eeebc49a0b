//! Many contenders for one free name at the same instant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::contestant::{Contestant, Ending, Ours, all_on};
use super::distance::Reach;
use super::others::Rslock;
use super::report::Goal;
use super::server::Servers;
use super::turns::quantile;
use super::{Pictures, Settings};

const NODES: [usize; 2] = [5, 1];
const CONTENDERS: usize = 32;
const HOLD: Duration = Duration::from_millis(1);
/// Time for which new rounds begin within a turn.
const TURN: Duration = Duration::from_millis(500);
/// The goals, in milliseconds: for the first grant, in the median and at p99; for the end of the last
/// holder.
const FIRST: [f64; 2] = [4.0, 10.0];
const LAST: f64 = CONTENDERS as f64 * 2.0;

/// Time of the first grant, and the time at which the last holder was finished, in milliseconds.
#[derive(Clone, Copy)]
struct Round {
    first_ms: f64,
    last_ms: f64,
}

pub(crate) fn run(settings: &Settings, _: &mut Pictures) {
    for nodes in NODES {
        measure(settings, nodes);
    }
}

fn measure(settings: &Settings, nodes: usize) {
    let servers = &Servers::start(nodes);
    let reach = Reach::new(servers, &settings.round_trips);
    let one = Ours::new(reach.urls(), "burst", all_on, Ending::Unlock);
    let each: Vec<_> =
        (0..CONTENDERS).map(|_| Ours::new(reach.urls(), "burst", all_on, Ending::Unlock)).collect();
    let rslock = Rslock::new(reach.urls()).impatient(Duration::from_millis(10));
    let contestants: [(&str, Vec<&dyn Contestant>); 3] = [
        ("quorlock, one client", vec![&one; CONTENDERS]),
        ("quorlock, 32 clients", each.iter().map(|each| each as &dyn Contestant).collect()),
        ("rslock, 10 ms", vec![&rslock; CONTENDERS]),
    ];
    let parts = (contestants.len() * NODES.len()) as f64;
    let turns = (settings.seconds / TURN.as_secs_f64() / parts) as usize;
    let mut all = [(); 3].map(|()| Vec::new());
    for _ in 0..turns.max(1) {
        for ((_, clients), rounds) in contestants.iter().zip(&mut all) {
            rounds.extend(turn(clients, rounds.len()));
        }
    }

    println!(
        "\n{CONTENDERS} contenders at one instant on a free name, held {HOLD:?}, {nodes} nodes"
    );
    println!("                                first has it, ms     all are through, ms");
    println!("                       rounds   median      p99     median     p99     max");
    for ((name, _), rounds) in contestants.iter().zip(all) {
        let sorted = |of: fn(&Round) -> f64| {
            let mut values: Vec<_> = rounds.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let (first, last) = (sorted(|round| round.first_ms), sorted(|round| round.last_ms));
        let [first_median, first_p99] = [0.5, 0.99].map(|share| quantile(&first, share));
        let [last_median, last_p99, last_max] =
            [0.5, 0.99, 1.0].map(|share| quantile(&last, share));
        let judged = match name.starts_with("quorlock") {
            true => format!(
                "{}, {}, {}",
                Goal::AtMost(FIRST[0]).judge(first_median),
                Goal::AtMost(FIRST[1]).judge(first_p99),
                Goal::AtMost(LAST).judge(last_p99),
            ),
            false => String::new(),
        };
        println!(
            "{name:<22} {:>6} {first_median:>8.1} {first_p99:>8.1} {last_median:>10.1} {last_p99:>7.1} {last_max:>7.1}   {judged}",
            rounds.len(),
        );
    }
}

/// Runs rounds with threads that stay, since the start of a thread takes long. Each round has a name
/// of its own.
fn turn(clients: &[&dyn Contestant], first_round: usize) -> Vec<Round> {
    let start = Barrier::new(clients.len() + 1);
    let end = Barrier::new(clients.len() + 1);
    let over = AtomicBool::new(false);
    let name = Mutex::new(String::new());
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in clients {
            let (start, end, over, name, times) = (&start, &end, &over, &name, &times);
            scope.spawn(move || {
                loop {
                    start.wait();
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    let mut lock = client.caller(&name.lock().expect("nobody panics"));
                    start.wait();
                    let asked = Instant::now();
                    let mut granted = asked;
                    lock(&mut || {
                        granted = Instant::now();
                        thread::sleep(HOLD);
                    });
                    let mine = (asked, granted, Instant::now());
                    times.lock().expect("nobody panics").push(mine);
                    end.wait();
                }
            });
        }
        let (begun, mut rounds) = (Instant::now(), Vec::new());
        while begun.elapsed() < TURN {
            *name.lock().expect("nobody panics") = format!("burst/{}", first_round + rounds.len());
            start.wait();
            start.wait();
            end.wait();
            let times = std::mem::take(&mut *times.lock().expect("nobody panics"));
            let asked = times.iter().map(|(asked, ..)| *asked).min().expect("there are some");
            let granted = times.iter().map(|(_, granted, _)| *granted).min();
            let through = times.iter().map(|(.., through)| *through).max();
            let ms = |at: Option<Instant>| {
                at.expect("there are some").duration_since(asked).as_secs_f64() * 1e3
            };
            rounds.push(Round { first_ms: ms(granted), last_ms: ms(through) });
        }
        over.store(true, Ordering::SeqCst);
        start.wait();
        rounds
    })
}
