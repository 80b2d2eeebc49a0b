//! Callers of one fair lock in several processes: they get it in the order in which their calls began.

use std::thread;
use std::time::Duration;

use quorlock::{Builder, OptionalGuard as _, Quorlock};
use redis::Value;
use rustix::time::{ClockId, clock_gettime};

use crate::helper::{Helper, orders, say};
use crate::roles::{NAME, Role};
use crate::support::{Server, Servers, wait_until};

const PROCESSES: usize = 4;
const CALLERS: usize = 16;
/// Enough masters for a majority without the one that restarts.
const MASTERS: usize = 3;
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(20);

/// The word that a caller prints before its number and the time, when it has the lock.
const GOT: &str = "got";

fn builder(nodes: Builder) -> Builder {
    // Generous, so that a slow node on a busy machine does not count as silent.
    nodes.ttl(TTL).max_ttl(TTL).node_timeout(TTL / 10)
}

/// Starts a thread for each order. The order is the number of a caller.
pub(crate) static WAIT_IN_QUEUE: Role = Role {
    name: "wait in queue",
    run: || {
        let nodes = Builder::from_env().expect("the test names the nodes");
        let locks = builder(nodes).build().expect("valid settings");
        // Connects first, so that no caller waits for that.
        drop(locks.try_lock_for("another", LIMIT).expect("it is free"));
        say("ready");
        let threads: Vec<_> = orders()
            .map(|number| {
                let locks = locks.clone();
                thread::spawn(move || {
                    let guard = locks.fair_mutex(NAME).lock().expect("a quorum");
                    let now = clock_gettime(ClockId::Monotonic);
                    guard.check().expect("it is ours");
                    say(&format!("{GOT} {number} {} {}", now.tv_sec, now.tv_nsec));
                    guard.unlock().expect("a quorum");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    },
};

/// The number of callers in a node's queue of the lock.
fn queued(server: &Server) -> usize {
    match server.command(&["ZCARD", &format!("{{quorlock:{NAME}}}:queue")]) {
        Value::Int(callers) => usize::try_from(callers).expect("a number of callers"),
        other => panic!("{other:?}"),
    }
}

struct Crowd {
    servers: Servers,
    locks: Quorlock,
    helpers: Vec<Helper>,
}

impl Crowd {
    fn start() -> Self {
        let servers = Servers::start(MASTERS);
        let locks = builder(Quorlock::builder().nodes(servers.urls())).build().expect("valid");
        wait_until("the masters are admitted", LIMIT, || {
            locks.admit().is_ok() && locks.try_lock("any").is_ok()
        });
        let helpers: Vec<_> =
            (0..PROCESSES).map(|_| Helper::start(&WAIT_IN_QUEUE, &servers)).collect();
        helpers.iter().for_each(|helper| helper.expect("ready"));
        Self { servers, locks, helpers }
    }

    /// Starts one caller after the other, each in the next process. A call takes two round trips until a majority has it
    /// in its queues. The next call begins after that.
    fn come(&mut self, callers: usize) {
        for number in 0..callers {
            assert!(self.helpers[number % PROCESSES].order(&number.to_string()), "it is there");
            wait_until("a majority has the caller in its queue", LIMIT, || {
                let have = self.servers.iter().filter(|server| queued(server) > number).count();
                have > MASTERS / 2
            });
        }
    }

    /// The callers that got the lock, in the order of the grants.
    fn served(&mut self, callers: usize) -> Vec<usize> {
        let mut served = Vec::new();
        wait_until("all are served", LIMIT, || {
            served.extend(self.helpers.iter().flat_map(Helper::said).map(|line| read(&line)));
            served.len() >= callers
        });
        served.sort_unstable_by_key(|(_, at)| *at);
        served.into_iter().map(|(number, _)| number).collect()
    }

    /// Waits until the live helpers have given the lock back, and have ended with success.
    fn end(self) {
        self.helpers.into_iter().for_each(|helper| helper.finish_within(LIMIT));
        self.servers.wait_no_keys();
    }
}

fn read(line: &str) -> (usize, Duration) {
    let mut words = line.strip_prefix(GOT).unwrap_or_else(|| panic!("{line}")).split_whitespace();
    let mut next = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    let (number, seconds, nanos) = (next(), next(), next());
    let number = usize::try_from(number).expect("the number of a caller");
    (number, Duration::from_secs(seconds) + Duration::from_nanos(nanos))
}

pub(crate) fn callers_of_four_processes_get_a_fair_lock_in_the_order_of_their_calls() {
    let mut crowd = Crowd::start();
    let guard = crowd.locks.fair_mutex(NAME).lock().expect("a quorum");
    crowd.come(CALLERS);
    assert!(crowd.locks.fair_mutex(NAME).try_lock().optional().expect("a quorum").is_none());
    guard.unlock().expect("a quorum");
    assert_eq!(crowd.served(CALLERS), (0..CALLERS).collect::<Vec<_>>());
    crowd.end();
}

/// Two of the processes die with all their callers, and a master forgets its queue with everything else.
pub(crate) fn they_do_so_while_others_are_killed_and_a_master_restarts_empty() {
    let mut crowd = Crowd::start();
    let guard = crowd.locks.fair_mutex(NAME).lock().expect("a quorum");
    crowd.come(CALLERS);
    let dead = [1, 2];
    dead.into_iter().rev().for_each(|process| crowd.helpers.remove(process).kill());
    crowd.servers[0].restart_empty();
    guard.unlock().expect("a quorum");
    let is_alive = |number: &usize| !dead.contains(&(number % PROCESSES));
    let alive: Vec<_> = (0..CALLERS).filter(is_alive).collect();
    assert_eq!(crowd.served(alive.len()), alive);
    crowd.end();
}
