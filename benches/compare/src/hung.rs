//! Masters that hang: their connections stay open, and they do not answer.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::contestant::{Caller, Contestant, Ending, Ours, all_on, wait_connected};
use super::floor::Floor;
use super::others::{Redlock, Rslock};
use super::report::Goal;
use super::server::{Server, Servers};
use super::svg::{Bar, Chart, short};
use super::turns::{quantile, quartiles};
use super::wire::Form;
use super::{Pictures, Settings};

const NODES: usize = 5;
/// Numbers of masters that hang.
const STATES: [usize; 3] = [0, 1, 2];
/// The goals, as multiples of the healthy median and of the healthy p99.
const GOALS: [f64; 2] = [1.2, 3.0];
/// Time limit for a call that does not return.
const BOUND: Duration = Duration::from_secs(3);

/// Times of each lock with its unlock in one turn, sorted.
type Times = Vec<Duration>;

pub(crate) fn run(settings: &Settings, pictures: &mut Pictures) {
    let mut servers = Servers::start(NODES);
    let ports = servers.iter().map(Server::port).collect();
    let ours = Ours::new(servers.urls(), "a", all_on, Ending::Unlock);
    let floor = Floor::new(ports, Form::Canonical);
    let rslock = Rslock::new(servers.urls());
    let contestants: [(&str, &dyn Contestant); 3] =
        [("quorlock", &ours), ("floor", &floor), ("rslock", &rslock)];

    let span = settings.turn * 4;
    let turns = settings.seconds / (span.as_secs_f64() * 2.0) / STATES.len() as f64;
    let mut all: [[Vec<Times>; 3]; 3] = Default::default();
    for turn in 0..(turns as usize).max(1) {
        let mut callers = contestants.map(|(_, contestant)| contestant.caller("hung"));
        callers.iter_mut().for_each(|caller| (0..20).for_each(|_| caller(&mut || {})));
        for hung in STATES {
            // The turn of the first contestant begins at the moment of the hang.
            servers.iter_mut().take(hung).for_each(Server::pause);
            // The last contestant takes one second for each call, and has one turn only.
            let measured = if turn == 0 { callers.len() } else { callers.len() - 1 };
            for (caller, times) in callers.iter_mut().zip(&mut all).take(measured) {
                times[hung].push(measure(caller, span));
            }
            servers.iter_mut().take(hung).for_each(Server::resume);
            wait_connected(&ours.locks);
        }
    }

    println!("\nMasters that hang, one thread, {NODES} nodes; lock + unlock, milliseconds");
    println!("                                                       to the healthy ones");
    println!("                  hung    locks   median       p99     median      p99");
    let mut bars = Vec::new();
    for ((name, _), states) in contestants.iter().zip(&all) {
        for (hung, turns) in states.iter().enumerate() {
            let median = show(name, hung, turns, &states[0]);
            if hung == 1 && *name != "floor" {
                bars.push(Bar {
                    name: (*name).to_owned(),
                    value: Some(median),
                    label: format!("{} x its healthy median", short(median)),
                });
            }
        }
    }
    let redlock = Redlock::new(servers.urls());
    for hung in STATES {
        let took = time_one(&mut servers, &redlock, hung);
        let label = match took {
            Some(took) => format!("one lock in {:.2} ms", took.as_secs_f64() * 1e3),
            None => format!("never returns (stopped after {BOUND:?})"),
        };
        println!("{:<18} {hung:>3}   {label}", "redlock");
        if hung == 1 {
            bars.push(Bar { name: "redlock".to_owned(), value: None, label });
        }
    }
    pictures.charts.push(Chart {
        title: format!("One of {NODES} masters hangs: lock + unlock, less is better"),
        longest: 4.0,
        bars,
    });
}

fn measure(caller: &mut Caller<'_>, span: Duration) -> Times {
    let (begun, mut times) = (Instant::now(), Times::new());
    while begun.elapsed() < span {
        let start = Instant::now();
        caller(&mut || {});
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times
}

/// Prints the figures, and returns the ratio of the median to the healthy one.
fn show(name: &str, hung: usize, turns: &[Times], healthy: &[Times]) -> f64 {
    let mut times = turns.concat();
    times.sort_unstable();
    let ms = |share| quantile(&times, share).as_secs_f64() * 1e3;
    let ratio = |share| {
        let ratios = turns.iter().zip(healthy).map(|(hung, healthy)| {
            quantile(hung, share).as_secs_f64() / quantile(healthy, share).as_secs_f64()
        });
        quartiles(ratios.collect())[1]
    };
    let (median, p99) = (ratio(0.5), ratio(0.99));
    let judged = match (name, hung) {
        ("quorlock", 1..) => {
            format!(
                "{}, {}",
                Goal::AtMost(GOALS[0]).judge(median),
                Goal::AtMost(GOALS[1]).judge(p99)
            )
        }
        _ => String::new(),
    };
    println!(
        "{name:<18} {hung:>3} {:>8} {:>8.2} {:>9.2} {median:>10.2} {p99:>8.2}   {judged}",
        times.len(),
        ms(0.5),
        ms(0.99),
    );
    median
}

/// Makes one call on a thread of its own, since it may not return before the masters go on.
fn time_one(servers: &mut Servers, redlock: &Redlock, hung: usize) -> Option<Duration> {
    servers.iter_mut().take(hung).for_each(Server::pause);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let start = Instant::now();
            redlock.caller("hung")(&mut || {});
            // The receiver may have given up.
            let _ = tell.send(start.elapsed());
        });
        let took = told.recv_timeout(BOUND);
        servers.iter_mut().take(hung).for_each(Server::resume);
        took.ok()
    })
}
