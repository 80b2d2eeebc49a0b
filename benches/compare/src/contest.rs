//! Several contenders for the same name.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::contestant::Contestant;
use super::spent::Spent;
use super::turns::{Turn, quantile};

/// One hold of the lock. All processes of a machine share the clock.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) caller: usize,
    pub(crate) asked_ns: u64,
    pub(crate) granted_ns: u64,
}

/// The monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `callers` threads lock `name` over and over for as long as `span`, and hold it for `hold`.
pub(crate) fn contend(
    contestant: &dyn Contestant,
    name: &str,
    callers: usize,
    hold: Duration,
    span: Duration,
) -> Vec<Grant> {
    let ready = Barrier::new(callers);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..callers)
            .map(|caller| {
                let ready = &ready;
                scope.spawn(move || {
                    let mut lock = contestant.caller(name);
                    let mut grants = Vec::new();
                    ready.wait();
                    let end_ns = now_ns() + span.as_nanos() as u64;
                    loop {
                        let asked_ns = now_ns();
                        if asked_ns >= end_ns {
                            return grants;
                        }
                        lock(&mut || {
                            grants.push(Grant { caller, asked_ns, granted_ns: now_ns() });
                            thread::sleep(hold);
                        });
                    }
                })
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("a caller ends")).collect()
    })
}

/// The result of a contest.
pub(crate) struct Contest {
    grants: Vec<Grant>,
    pub(crate) turn: Turn,
    /// Number of grants of each caller, sorted.
    pub(crate) served: Vec<usize>,
}

impl Contest {
    /// `callers` is the number of all callers, including those without a grant.
    pub(crate) fn new(mut grants: Vec<Grant>, callers: usize, spent: Spent) -> Self {
        grants.sort_unstable_by_key(|grant| grant.granted_ns);
        let ns = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        let mut times: Vec<_> =
            grants.iter().map(|grant| ns(grant.asked_ns, grant.granted_ns)).collect();
        times.sort_unstable();
        let first_ns = grants.iter().map(|grant| grant.asked_ns).min().expect("somebody gets it");
        let last_ns = grants.last().map_or(first_ns, |grant| grant.granted_ns);
        let mut served = vec![0; callers];
        grants.iter().for_each(|grant| served[grant.caller] += 1);
        served.sort_unstable();
        Self { grants, turn: Turn { times, took: ns(first_ns, last_ns), spent }, served }
    }

    /// Number of grants a second that went to another caller than the grant before.
    pub(crate) fn changes_per_second(&self) -> f64 {
        let changes = self.grants.windows(2).filter(|two| two[0].caller != two[1].caller).count();
        changes as f64 / self.turn.took.as_secs_f64()
    }

    pub(crate) fn scripts_per_grant(&self) -> f64 {
        self.turn.spent.scripts / self.grants.len() as f64
    }

    /// Number of grants of the least served caller, divided by that of the most served one.
    pub(crate) fn evenness(&self) -> f64 {
        self.served[0] as f64 / self.served[self.served.len() - 1] as f64
    }

    /// The longest wait, as a multiple of the median wait.
    pub(crate) fn longest_wait(&self) -> f64 {
        let times = &self.turn.times;
        times[times.len() - 1].as_secs_f64() / quantile(times, 0.5).as_secs_f64()
    }
}
