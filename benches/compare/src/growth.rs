//! Growth of the cost with the number of nodes, of threads, and of held locks.

use std::thread;
use std::time::{Duration, Instant};

use quorlock::Guard;

use super::contestant::{Contestant, Ending, Ours, all_on};
use super::floor::Floor;
use super::server::{Server, Servers};
use super::spent::Spent;
use super::svg::Plot;
use super::threaded::Threaded;
use super::turns::{Turn, interleave, middle, on_own_names, pooled_us};
use super::wire::Form;
use super::{Pictures, Settings};

const MOST_NODES: usize = 9;
const USUAL: usize = 5;
const THREADS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const HELD: [usize; 4] = [1, 100, 1_000, 10_000];
/// The default. Held locks are renewed each time a third of it is gone.
const TTL: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings, pictures: &mut Pictures) {
    let servers = Servers::start(MOST_NODES);
    nodes(settings, &servers, pictures);
    drop(servers);
    let servers = Servers::start(USUAL);
    threads(settings, &servers, pictures);
    held(settings, &servers, pictures);
}

/// One thread, with the first of the servers in that number.
fn nodes(settings: &Settings, servers: &Servers, pictures: &mut Pictures) {
    let urls = servers.urls();
    let ports: Vec<_> = servers.iter().map(Server::port).collect();
    let counts: Vec<_> = (1..=MOST_NODES).collect();
    let contestants: Vec<[Box<dyn Contestant>; 2]> = counts
        .iter()
        .map(|&n| {
            let prefix = format!("nodes-{n}");
            let ours = Ours::new(urls[..n].to_vec(), &prefix, all_on, Ending::Unlock);
            [
                Box::new(ours) as Box<dyn Contestant>,
                Box::new(Floor::new(ports[..n].to_vec(), Form::Canonical)),
            ]
        })
        .collect();
    let turns = settings.turns(3 * 2 * counts.len());
    let all = interleave(2 * counts.len(), turns, |i| {
        on_own_names(servers, &*contestants[i / 2][i % 2], 1, settings.turn)
    });
    println!("\nGrowth with the nodes, one thread");
    heading("nodes", "floor");
    let mut lines = [Vec::new(), Vec::new()];
    for (n, two) in counts.iter().zip(all.chunks(2)) {
        row(*n, &two[0], &two[1]);
        for (line, turns) in lines.iter_mut().zip(two) {
            line.push(pooled_us(turns, 0.5));
        }
    }
    let [ours, floor] = lines;
    pictures.plots.push(Plot {
        title: "Lock and unlock, one thread, median in microseconds".into(),
        across: "nodes".into(),
        logarithmic: false,
        ticks: counts.iter().map(ToString::to_string).collect(),
        lines: vec![("quorlock".into(), ours), ("floor".into(), floor)],
    });
}

fn threads(settings: &Settings, servers: &Servers, pictures: &mut Pictures) {
    let ours = Ours::new(servers.urls(), "threads", all_on, Ending::Unlock);
    let packed = Threaded::packed(servers.iter().map(Server::port).collect());
    let contestants: [&dyn Contestant; 2] = [&ours, &packed];
    let turns = settings.turns(3 * 2 * THREADS.len());
    let all = interleave(2 * THREADS.len(), turns, |i| {
        on_own_names(servers, contestants[i % 2], THREADS[i / 2], settings.turn)
    });
    println!("\nGrowth with the threads, each on a name of its own, {USUAL} nodes");
    heading("threads", "packed floor");
    let mut lines = [Vec::new(), Vec::new()];
    for (threads, two) in THREADS.iter().zip(all.chunks(2)) {
        row(*threads, &two[0], &two[1]);
        for (line, turns) in lines.iter_mut().zip(two) {
            line.push(middle(turns, Turn::per_second));
        }
    }
    let [ours, packed] = lines;
    pictures.plots.push(Plot {
        title: format!("Locks and unlocks per second, {USUAL} nodes"),
        across: "threads, each on a name of its own".into(),
        logarithmic: false,
        ticks: THREADS.iter().map(ToString::to_string).collect(),
        lines: vec![("quorlock".into(), ours), ("packed floor".into(), packed)],
    });
}

fn heading(what: &str, other: &str) {
    println!("          median, p99 in us   per second   CPU ms per 1,000   cores    {other}:");
    println!(
        "{what:>7}                                   client  servers   busy    median   per second"
    );
}

fn row(n: usize, ours: &[Turn], other: &[Turn]) {
    let per_lock = |of: fn(&Turn) -> f64| middle(ours, |turn| of(turn) / turn.times.len() as f64);
    println!(
        "{n:>7} {:>8.0} {:>8.0} {:>12.0} {:>9.1} {:>8.1} {:>7.2} {:>8.0} {:>10.0}",
        pooled_us(ours, 0.5),
        pooled_us(ours, 0.99),
        middle(ours, Turn::per_second),
        per_lock(|turn| turn.spent.client_s * 1e6),
        per_lock(|turn| turn.spent.servers_s * 1e6),
        middle(ours, |turn| {
            (turn.spent.client_s + turn.spent.servers_s) / turn.took.as_secs_f64()
        }),
        pooled_us(other, 0.5),
        middle(other, Turn::per_second),
    );
}

/// Time of one more lock while others are held and renewed, and the cost of their renewal.
fn held(settings: &Settings, servers: &Servers, pictures: &mut Pictures) {
    let ttl = if settings.quick { TTL / 20 } else { TTL };
    let counts: Vec<_> = HELD.into_iter().filter(|held| !settings.quick || *held <= 100).collect();
    let ours =
        Ours::new(servers.urls(), "held", |builder| builder.ttl(ttl).max_ttl(ttl), Ending::Unlock);
    println!("\nGrowth with the locks that are held, TTL {ttl:?}, {USUAL} nodes");
    println!("          one more, us  script calls   percent of a core   threads   locks");
    println!("   held   median     p99   a second    client   servers              lost");
    let (mut times, mut guards) = (Vec::new(), Vec::new());
    for held in &counts {
        guards.extend(take(&ours, guards.len()..*held));
        // The first renewals are due by then.
        thread::sleep(ttl / 3);
        let (before, start) = (Spent::now(servers), Instant::now());
        thread::sleep(ttl / 3);
        let (spent, took) = (Spent::now(servers) - before, start.elapsed().as_secs_f64());
        let turn = on_own_names(servers, &ours, 1, settings.turn * 4);
        let one_more = [0.5, 0.99].map(|share| pooled_us([&turn], share));
        println!(
            "{held:>7} {:>8.0} {:>7.0} {:>10.0} {:>9.1} {:>9.1} {:>9} {:>7}",
            one_more[0],
            one_more[1],
            spent.scripts / USUAL as f64 / took,
            100.0 * spent.client_s / took,
            100.0 * spent.servers_s / took,
            own_threads(),
            guards.iter().filter(|guard: &&Guard| guard.check().is_err()).count(),
        );
        times.push(one_more[0]);
    }
    pictures.plots.push(Plot {
        title: format!("One more lock and its unlock, median in microseconds, {USUAL} nodes"),
        across: format!("locks held and renewed meanwhile, TTL {ttl:?} (logarithmic)"),
        logarithmic: true,
        ticks: counts.iter().map(ToString::to_string).collect(),
        lines: vec![("quorlock".into(), times)],
    });
}

/// Takes locks, several at a time.
fn take(ours: &Ours, numbers: std::ops::Range<usize>) -> Vec<Guard> {
    let numbers: Vec<_> = numbers.collect();
    let share = numbers.len().div_ceil(32).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> = numbers
            .chunks(share)
            .map(|numbers| {
                let take = |i| ours.locks.lock(format!("held/{i}")).expect("healthy nodes");
                scope.spawn(move || numbers.iter().map(take).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}

fn own_threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
