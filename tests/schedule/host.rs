//! A host that has the job in its timetable: a process of its own that gets an order at the start of each round.

use std::thread;
use std::time::Duration;

use quorlock::{Builder, ErrorKind, Quorlock};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::helper::{Helper, PROMPT, orders, say};
use crate::roles::Role;
use crate::settings::{KEPT, Settings};

/// Duration of the job: much less than the interval between two hosts' starts.
const JOB: Duration = Duration::from_millis(20);

/// The last order.
const END: &str = "end";

/// The order to start a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) round: usize,
    /// The host is killed before it gives the lock back, if it does the job.
    pub(crate) is_killed: bool,
}

/// A host's report on a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The times of the request for the lock and of its answer, by the clock that all processes of the machine share.
    pub(crate) asked: Duration,
    pub(crate) answered: Duration,
    pub(crate) answer: Answer,
    /// The time when no key of a failed attempt was left. `None` if the host has not reported it: it was killed before.
    pub(crate) settled: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The host holds the lock, and is about to do the job.
    Inside,
    /// Another host holds the lock.
    Held,
    /// No majority was admitted, or none could be reached.
    NoMajority,
}

/// A line of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    Told(Told),
    /// By that time the masters had answered all releases of an attempt that failed. No key of it was left.
    Settled(Duration),
}

impl Told {
    /// The time until which a key of the attempt may have been left on a master.
    pub(crate) fn settled(&self) -> Duration {
        self.settled.unwrap_or(self.answered + KEPT)
    }
}

impl Answer {
    const ALL: [Self; 3] = [Self::Inside, Self::Held, Self::NoMajority];

    fn word(self) -> String {
        format!("{self:?}")
    }
}

/// The test's handle of a host process.
#[derive(Debug)]
pub(crate) struct Host(Helper);

impl Host {
    pub(crate) fn start(settings: Settings, urls: &[String]) -> Self {
        Self(Helper::start_on(&HOST, urls, &[(Settings::VARIABLE, &settings.to_text())]))
    }

    /// Waits until the host has met the masters.
    pub(crate) fn wait_ready(&self) {
        self.0.expect(READY);
    }

    /// Gives the host an order. Returns true if the host is there to take it.
    pub(crate) fn order(&mut self, order: Order) -> bool {
        let Order { round, is_killed } = order;
        self.0.order(&format!("{round} {is_killed}"))
    }

    /// The lines since the last call, each with its round.
    pub(crate) fn told(&self) -> Vec<(usize, Line)> {
        self.0.said().filter_map(|line| read(&line)).collect()
    }

    /// Waits until the host has carried out its orders, or was killed. Returns its remaining lines.
    pub(crate) fn hear_out(&mut self) -> Vec<(usize, Line)> {
        // A host that was killed does not take the order.
        let _ = self.0.order(END);
        self.0.hear_out().iter().filter_map(|line| read(line)).collect()
    }

    /// Waits for the host's end. Fails if it was not a success.
    pub(crate) fn finish(self) {
        self.0.finish_within(PROMPT);
    }
}

const READY: &str = "ready";

/// The word of a report that no key of a failed attempt is left.
const SETTLED: &str = "settled";

/// The round and the report in a line. Returns `None` for a line that is not a report.
fn read(line: &str) -> Option<(usize, Line)> {
    let time = |word: &str| Duration::from_nanos(word.parse().expect("nanoseconds"));
    let words: Vec<_> = line.split(' ').collect();
    let (round, line) = match words[..] {
        [READY] => return None,
        [round, SETTLED, at] => (round, Line::Settled(time(at))),
        [round, answer, asked, answered] => {
            let answer = Answer::ALL.into_iter().find(|it| it.word() == answer).expect("an answer");
            let (asked, answered) = (time(asked), time(answered));
            (round, Line::Told(Told { asked, answered, answer, settled: None }))
        }
        _ => panic!("from a host: {line}"),
    };
    Some((round.parse().expect("a number"), line))
}

/// Does the job of each ordered round, if it gets the lock.
pub(crate) static HOST: Role = Role {
    name: "host",
    run: || {
        let settings = Settings::from_env();
        let builder = Builder::from_env().expect("the test names the masters");
        let locks = settings.apply(builder).build().expect("the settings are valid");
        // The client has met the masters then, even if the call fails.
        let _ = locks.try_lock("greeting");
        say(READY);
        // A host may be due for the next round before its attempt has settled.
        thread::scope(|settling| {
            for order in orders().take_while(|order| order != END) {
                let (round, is_killed) = order.split_once(' ').expect("two words");
                let has_failed = !attend(&locks, settings.patience(), round, is_killed == "true");
                if has_failed {
                    let (locks, round) = (&locks, round.to_owned());
                    settling.spawn(move || settle(locks, &round));
                }
            }
        });
    },
};

/// Returns true if the host has done the job.
fn attend(locks: &Quorlock, patience: Duration, round: &str, is_killed: bool) -> bool {
    let asked = now();
    let locked = locks.try_lock_for(format!("job-{round}"), patience);
    let answer = match &locked {
        Ok(_) => Answer::Inside,
        Err(error) => match error.kind() {
            ErrorKind::Held { .. } => Answer::Held,
            ErrorKind::Quarantined { .. } | ErrorKind::NoQuorum => Answer::NoMajority,
            kind => panic!("{kind}: {error}"),
        },
    };
    // Reported before the job, so that a host that is killed has reported it as well.
    say(&format!("{round} {} {} {}", answer.word(), asked.as_nanos(), now().as_nanos()));
    if answer != Answer::Inside {
        return false;
    }
    if is_killed {
        kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
    }
    thread::sleep(JOB);
    true
}

/// Reports when the masters have answered the releases of an attempt that failed. After [`KEPT`] nothing is reported: its
/// keys have ended by then.
fn settle(locks: &Quorlock, round: &str) {
    let until = now() + KEPT;
    while now() < until {
        if locks.node_stats().iter().all(|node| node.unanswered_releases == 0) {
            return say(&format!("{round} {SETTLED} {}", now().as_nanos()));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The time of a clock that all processes of the machine share.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).expect("it is not negative")
}
