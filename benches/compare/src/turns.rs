//! Turns: the machine is never the same for two seconds. So the contestants are measured one after the
//! other in short turns, many times over, and the result is the median of the ratios of neighbours.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::contestant::Contestant;
use super::server::Servers;
use super::spent::Spent;

/// The result of one contestant in one turn.
pub(crate) struct Turn {
    /// Times of each lock with its unlock, sorted.
    pub(crate) times: Vec<Duration>,
    pub(crate) took: Duration,
    pub(crate) spent: Spent,
}

/// Returns the turns of each of `contestants`, in the order of the contestants.
pub(crate) fn interleave<T>(
    contestants: usize,
    turns: usize,
    mut measure: impl FnMut(usize) -> T,
) -> Vec<Vec<T>> {
    let mut all: Vec<_> = (0..contestants).map(|_| Vec::new()).collect();
    for turn in 0..turns {
        // The order is reversed every second time, so that no contestant profits from being the first.
        let mut order: Vec<_> = (0..contestants).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for i in order {
            all[i].push(measure(i));
        }
    }
    all
}

/// Runs one turn: `threads` callers lock and unlock, each a name of its own, for the time `span`.
pub(crate) fn on_own_names(
    servers: &Servers,
    contestant: &dyn Contestant,
    threads: usize,
    span: Duration,
) -> Turn {
    /// The first calls on a fresh connection are not measured.
    const WARM_UP: usize = 3;
    /// Time for the nodes that no caller waits for, so that they do not work on in the next turn.
    const SETTLE: Duration = Duration::from_millis(10);

    let before = Spent::now(servers);
    let start = Instant::now();
    if let Some(mut times) = contestant.without_threads(threads, span) {
        let took = start.elapsed();
        times.sort_unstable();
        thread::sleep(SETTLE);
        return Turn { times, took, spent: Spent::now(servers) - before };
    }
    let over = AtomicBool::new(false);
    let ready = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..threads)
            .map(|thread| {
                let (over, ready) = (&over, &ready);
                scope.spawn(move || {
                    let mut caller = contestant.caller(&format!("own/{thread}"));
                    (0..WARM_UP).for_each(|_| caller(&mut || {}));
                    let mut times = Vec::new();
                    ready.wait();
                    ready.wait();
                    while !over.load(Ordering::Relaxed) {
                        let start = Instant::now();
                        caller(&mut || {});
                        times.push(start.elapsed());
                    }
                    times
                })
            })
            .collect();
        ready.wait();
        thread::sleep(SETTLE);
        let before = Spent::now(servers);
        ready.wait();
        let start = Instant::now();
        thread::sleep(span);
        over.store(true, Ordering::Relaxed);
        let mut times: Vec<_> =
            callers.into_iter().flat_map(|caller| caller.join().expect("a caller ends")).collect();
        let took = start.elapsed();
        times.sort_unstable();
        thread::sleep(SETTLE);
        Turn { times, took, spent: Spent::now(servers) - before }
    })
}

impl Turn {
    /// Pairs of lock and unlock a second, of all callers.
    pub(crate) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn median_us(&self) -> f64 {
        micros(quantile(&self.times, 0.5))
    }
}

/// The time at that quantile over all turns together, in microseconds.
pub(crate) fn pooled_us<'a>(turns: impl IntoIterator<Item = &'a Turn>, share: f64) -> f64 {
    let mut times: Vec<_> = turns.into_iter().flat_map(|turn| turn.times.iter().copied()).collect();
    times.sort_unstable();
    micros(quantile(&times, share))
}

/// The median over the turns.
pub(crate) fn middle(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> f64 {
    quartiles(turns.iter().map(of).collect())[1]
}

/// The ratio of `turns` to `others`, turn by turn: the median, and the quartiles.
pub(crate) fn ratio(turns: &[Turn], others: &[Turn], of: impl Fn(&Turn) -> f64) -> [f64; 3] {
    quartiles(turns.iter().zip(others).map(|(turn, other)| of(turn) / of(other)).collect())
}

pub(crate) fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|share| quantile(&values, share))
}

/// Returns a quantile of the values. There must be at least one.
pub(crate) fn quantile<T: Copy>(sorted: &[T], share: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
