//! The server changes between a probe's script and the `INFO` behind it: it is restarted, flushed, or another one takes over. A proxy
//! keeps the connection, so nothing but the answers shows the change.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quorlock::{Builder, Guard, OptionalGuard as _, Quorlock, Renewal};
use support::clients::admitted;
use support::relay::{Conversation, INFO, Relay, Words};
use support::{Server, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
/// The TTL of the locks, and the longest TTL: a quarantine lasts as long.
const TTL: Duration = Duration::from_secs(10);
const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";
const MARK: &str = "quorlock:{quorlock}:mark";
/// The number of nodes that change, of three.
const MAJORITY: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The server comes back with its data, without the lock, which was not on the disk yet.
    RestartWithData,
    RestartEmpty,
    Flush,
    /// A replica that lacks the lock takes over.
    Promotion,
}

/// A kind of server, and what a proxy does to the clients' readings.
#[derive(Clone, Copy, Debug)]
struct World {
    change: Change,
    /// True for servers that refuse `INFO` in scripts.
    refuses_info: bool,
    /// True if clients get the `INFO` from before the script again and again. Then it is as if they did not read it a second time.
    is_stale: bool,
}

impl World {
    /// The TTL of a lock that another client wants. The call of that client takes most of it, unless it gets the lock.
    fn ttl(self) -> Duration {
        // Restarts take seconds on a busy machine, and the lock must outlast them.
        if self.is_stale { TTL * 3 } else { TTL }
    }
}

/// A server whose next change waits for a probe.
struct Victim {
    server: Mutex<Server>,
    world: World,
    replica: Option<Server>,
    /// Returns true if the script of the probe is the one that the change follows.
    is_wanted: fn(&Words) -> bool,
    is_due: AtomicBool,
    changed_at: Mutex<Option<Instant>>,
    /// The first answers to the sections of `INFO`.
    first: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Victim {
    fn start(world: World, is_wanted: fn(&Words) -> bool) -> Arc<Self> {
        let server = Server::start_with(&options(world));
        Arc::new(Self {
            server: Mutex::new(server),
            world,
            replica: None,
            is_wanted,
            is_due: AtomicBool::new(false),
            changed_at: Mutex::default(),
            first: Mutex::default(),
        })
    }

    fn relay(self: &Arc<Self>) -> Relay {
        let victim = self.clone();
        let meets = move || Meets { victim: victim.clone(), is_now: false };
        Relay::start_with(&self.server.lock(), self.world.refuses_info, meets)
    }

    /// Suffers its change. Returns the port of a server that takes over.
    fn change(&self) -> Option<u16> {
        let mut takes_over = None;
        match self.world.change {
            Change::RestartWithData => {
                let mut server = self.server.lock();
                server.command(&["DEL", KEY]);
                server.restart_with_data();
            }
            Change::RestartEmpty => self.server.lock().restart_empty(),
            Change::Flush => _ = self.server.lock().command(&["FLUSHALL"]),
            Change::Promotion => {
                let replica = self.replica.as_ref().expect("it has one");
                replica.command(&["REPLICAOF", "NO", "ONE"]);
                takes_over = Some(replica.port());
            }
        }
        *self.changed_at.lock() = Some(Instant::now());
        takes_over
    }
}

fn options(world: World) -> Vec<&'static str> {
    let renames: &[&str] =
        if world.refuses_info { &["--rename-command", "INFO", INFO] } else { &[] };
    let persists: &[&str] = match world.change {
        Change::RestartWithData => &["--appendonly", "yes", "--appendfsync", "always"],
        _ => &[],
    };
    [renames, persists].concat()
}

/// A connection to a victim. The change comes when the script of the wanted probe is answered, and before the `INFO` behind it.
struct Meets {
    victim: Arc<Victim>,
    is_now: bool,
}

fn is_probe(words: &Words) -> bool {
    words[0].starts_with(b"EVAL") && words[2] == b"1" && words[3] == MARK.as_bytes()
}

/// Any probe of a node that is in use.
fn any(_probe: &Words) -> bool {
    true
}

/// The probe that ends a quarantine.
fn admits(probe: &Words) -> bool {
    String::from_utf8_lossy(&probe[5]).contains("admitted")
}

impl Conversation for Meets {
    fn command(&mut self, words: &Words) -> Option<u16> {
        let (now, victim) = (self.is_now, &self.victim);
        self.is_now = is_probe(words) && (victim.is_wanted)(words);
        let is_hit = now && victim.is_due.swap(false, Ordering::SeqCst);
        if is_hit { victim.change() } else { None }
    }

    fn answer(&mut self, words: &Words, answer: &mut Vec<u8>) {
        if self.victim.world.is_stale && words[0] == b"INFO" {
            let mut first = self.victim.first.lock();
            answer.clone_from(first.entry(words[1].clone()).or_insert_with(|| answer.clone()));
        }
    }
}

fn builder(relays: &[Relay], ttl: Duration) -> Builder {
    Quorlock::builder()
        .nodes(relays.iter().map(Relay::url))
        .ttl(ttl)
        .max_ttl(ttl)
        .node_timeout(TTL / 3)
        .no_quorum_timeout(LIMIT)
}

/// A replica that has the present data of `master`, and gets no more.
fn behind(master: &Server, world: World) -> Server {
    let replica = Server::start_with(&options(world));
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let info = if world.refuses_info { INFO } else { "INFO" };
    wait_until("the replica is in step", LIMIT, || {
        let text = redis::from_redis_value::<String>(replica.command(&[info, "replication"]));
        let text = text.expect("text");
        text.contains("master_link_status:up") && text.contains("master_sync_in_progress:0")
    });
    // With an unreachable master, the replica keeps its data.
    replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
    replica
}

/// Two of three servers forget a lock that is held, between the script and the `INFO` of the first probe of another client. Returns
/// the end of that client's first call, which waits for most of the lock's time.
fn another_client_connects(world: World) -> Result<Option<Guard>, quorlock::Error> {
    let mut victims: Vec<_> = (0..3).map(|_| Victim::start(world, any)).collect();
    let unharmed = |it: &Arc<Victim>| Relay::start_with_info(&it.server.lock(), world.refuses_info);
    let direct: Vec<_> = victims.iter().map(unharmed).collect();
    let ttl = world.ttl();
    let first = admitted(builder(&direct, ttl));
    if world.change == Change::Promotion {
        for victim in &mut victims {
            let replica = behind(&victim.server.lock(), world);
            Arc::get_mut(victim).expect("nobody else has it").replica = Some(replica);
        }
    }
    let guard = first.mutex(NAME).renewal(Renewal::Manual).lock().expect("it is free");
    let began = Instant::now();
    let has_it = |it: &Arc<Victim>| it.server.lock().get(KEY).is_some();
    wait_until("all nodes have it", LIMIT, || victims.iter().all(has_it));
    victims[..MAJORITY].iter().for_each(|it| it.is_due.store(true, Ordering::SeqCst));
    let relays: Vec<_> = victims.iter().map(Victim::relay).collect();
    let second = builder(&relays, ttl).build().expect("valid settings");
    let most_of_it = (ttl * 2 / 3).saturating_sub(began.elapsed());
    let granted = second.try_lock_for(NAME, most_of_it).optional();
    assert!(victims.iter().all(|it| !it.is_due.load(Ordering::SeqCst)), "the changes have come");
    guard.check().expect("it is held until its TTL is over");
    if !matches!(granted, Ok(Some(_))) {
        drop(guard);
        drop(second.try_lock_for(NAME, LIMIT).expect("the quarantines are over"));
        let changed_at = |it: &Arc<Victim>| it.changed_at.lock().expect("it has changed");
        // One of them and the third node are a majority.
        let first = victims[..MAJORITY].iter().map(changed_at).min().expect("some");
        assert!(first.elapsed() >= ttl, "{world:?}: granted {:?} after it", first.elapsed());
    }
    granted
}

const CHANGES: [Change; 4] =
    [Change::RestartWithData, Change::RestartEmpty, Change::Flush, Change::Promotion];

fn nobody_gets_it(refuses_info: bool) {
    thread::scope(|scope| {
        for change in CHANGES {
            let world = World { change, refuses_info, is_stale: false };
            scope.spawn(move || {
                let granted = another_client_connects(world);
                assert!(!matches!(granted, Ok(Some(_))), "two holders: {world:?}");
            });
        }
    });
}

#[test]
fn a_change_behind_the_script_of_a_probe_is_noticed() {
    nobody_gets_it(false);
}

#[test]
fn a_change_behind_the_script_of_a_probe_is_noticed_where_scripts_have_no_info() {
    nobody_gets_it(true);
}

/// Without the second reading, the data that has come back makes two holders. (Without data there is no mark, and so no grant.)
#[test]
fn without_the_second_reading_there_are_two_holders() {
    thread::scope(|scope| {
        for change in [Change::RestartWithData, Change::Promotion] {
            for refuses_info in [false, true] {
                let world = World { change, refuses_info, is_stale: true };
                scope.spawn(move || {
                    let granted = another_client_connects(world);
                    assert!(matches!(granted, Ok(Some(_))), "{world:?}: {granted:?}");
                });
            }
        }
    });
}

/// One node is restarted behind the script that ends its quarantine. Returns the time until a lock is granted.
fn restarted_at_the_end_of_a_quarantine(change: Change, is_stale: bool) -> Duration {
    let victim = Victim::start(World { change, refuses_info: true, is_stale }, admits);
    let relay = [victim.relay()];
    victim.is_due.store(true, Ordering::SeqCst);
    let locks = builder(&relay, TTL).build().expect("valid settings");
    drop(locks.try_lock_for(NAME, LIMIT).expect("all quarantines are over"));
    victim.changed_at.lock().expect("it has changed").elapsed()
}

#[test]
fn a_restart_behind_the_end_of_a_quarantine_begins_another_one() {
    thread::scope(|scope| {
        for change in [Change::RestartWithData, Change::RestartEmpty, Change::Flush] {
            scope.spawn(move || {
                let took = restarted_at_the_end_of_a_quarantine(change, false);
                assert!(took >= TTL, "{change:?}: granted {took:?} after it");
            });
        }
        scope.spawn(|| {
            let took = restarted_at_the_end_of_a_quarantine(Change::RestartWithData, true);
            assert!(
                took < TTL,
                "without the second reading it is granted at once, not after {took:?}"
            );
        });
    });
}
