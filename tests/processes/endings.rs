//! Locks of processes that end in different ways.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{ErrorKind, OptionalGuard as _, Quorlock};

use crate::helper::{Helper, PROMPT};
use crate::long;
use crate::roles::{self, HELD_TTL, NAME, PERMITS, SHORT, SHORT_TTL, WINDOW};
use crate::support::{Server, Servers, wait_until};

/// Each process gets the lock long before the previous process's TTL ends, or fails. No process waits for
/// the hung master, which would take as long.
pub(crate) fn short_processes_leave_no_key() {
    let processes = if long() { 1_000 } else { 100 };
    let mut servers = Servers::start(5);
    servers[4].pause();
    let roles = [
        &roles::IN_A_STATIC,
        &roles::IN_A_LOCAL,
        &roles::IN_A_THREAD,
        &roles::GUARD_OUTLIVES_CLIENT,
    ];
    for role in roles.iter().cycle().take(processes) {
        Helper::start(role, &servers).finish_within(SHORT);
        // The wait fails long before the keys would expire.
        servers.wait_no_keys();
    }
    servers[4].resume();
    wait_for_backlog(&servers[4]);
    servers.wait_no_keys();
}

/// A server that does not know the script yet cannot run the release. It is sent a second
/// time, and the process must live until then.
pub(crate) fn short_processes_leave_no_key_on_servers_that_know_no_scripts() {
    let servers = Servers::start(5);
    for role in [&roles::IN_A_STATIC, &roles::IN_A_LOCAL].iter().cycle().take(100) {
        for server in servers.iter() {
            server.command(&["SCRIPT", "FLUSH"]);
        }
        Helper::start(role, &servers).finish_within(SHORT);
        servers.wait_no_keys();
    }
}

/// The server closes connections, as it does with clients that are idle for too long. A write to such a connection
/// succeeds, without any sign of the closure.
pub(crate) fn a_process_whose_connections_were_closed_leaves_no_key() {
    let servers = Servers::start(5);
    let mut helper = Helper::start(&roles::HOLD_SHORTLY, &servers);
    helper.expect("held");
    for server in servers.iter() {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    helper.go();
    helper.finish_within(SHORT);
    servers.wait_no_keys();
}

/// The masters hang when the helper asks them. When they wake up, they find the request in their receive
/// buffers, and after it, on the same connection, its release.
pub(crate) fn a_process_that_gives_up_on_hung_masters_leaves_no_key() {
    let mut servers = Servers::start(5);
    for _ in 0..5 {
        let mut helper = Helper::start(&roles::GIVE_UP, &servers);
        helper.expect("connected");
        servers.iter_mut().take(3).for_each(Server::pause);
        helper.go();
        helper.finish_within(SHORT);
        servers.iter_mut().take(3).for_each(Server::resume);
        servers.iter().for_each(wait_for_backlog);
        servers.wait_no_keys();
    }
}

/// Repeated, since some of the releases win the race against the end of the process even without
/// the wait at its end.
pub(crate) fn process_exit_also_flushes() {
    let servers = Servers::start(5);
    for _ in 0..20 {
        Helper::start(&roles::EXIT, &servers).finish_within(SHORT);
        servers.wait_no_keys();
    }
}

/// No destructor runs, so the lock is not given back. It is not renewed any more either.
pub(crate) fn process_exit_with_a_guard_leaves_the_lock_to_its_ttl() {
    const KEY: &str = "quorlock:orders/42";
    let servers = Servers::start(3);
    Helper::start(&roles::EXIT_HOLDING, &servers).finish_within(SHORT);
    assert!(servers.iter().any(|server| server.get(KEY).is_some()), "it was given back");
    // A renewal would come before a third of the TTL is over.
    let half = i64::try_from(SHORT_TTL.as_millis() / 2).expect("seconds");
    wait_until("the lock to run out", SHORT_TTL, || {
        servers.iter().all(|server| server.pttl(KEY) < half)
    });
}

/// Neither the drop of another clone nor the end of the process waits. The client's node timeout is a minute.
pub(crate) fn a_client_that_was_closed_is_waited_for_no_longer() {
    let mut servers = Servers::start(3);
    let mut helper = Helper::start(&roles::CLOSE, &servers);
    helper.expect("held");
    servers.iter_mut().for_each(Server::pause);
    let began = Instant::now();
    helper.go();
    helper.expect("dropped");
    let took = began.elapsed();
    assert!(took < SHORT, "to close it and to drop a clone took {took:?}");
    helper.finish_within(SHORT);
}

pub(crate) fn a_killed_holder_frees_the_lock_after_its_ttl() {
    /// Redlock's allowance for the drift between the clocks of the test and of the servers.
    const DRIFT: Duration = Duration::from_millis(HELD_TTL.as_millis() as u64 / 100 + 2);
    /// Allowance for the waiter's pauses between its tries, and for busy machines.
    const LATE: Duration = Duration::from_secs(5);

    let servers = Servers::start(5);
    let mut holder = Helper::start(&roles::HOLD, &servers);
    holder.expect("ready");
    // Taken before the holder asks for the lock, so before its first key is set. Each key lives
    // for the TTL.
    let before = Instant::now();
    holder.go();
    holder.expect("held");

    // Fresh servers have forgotten nothing, so their quarantine is switched off.
    let locks = Quorlock::builder()
        .restart_quarantine(false)
        .max_ttl(Duration::from_secs(600))
        .nodes(servers.urls())
        .node_timeout(LATE);
    let locks = locks.build().expect("valid settings");
    let (tell, granted) = mpsc::channel();
    // On a thread, since `lock` has no time limit.
    thread::spawn(move || {
        let guard = locks.lock(NAME);
        let _ = tell.send((Instant::now(), guard));
    });
    holder.kill();
    let (at, guard) =
        granted.recv_timeout(HELD_TTL + LATE).expect("the lock is free when its TTL is over");
    let guard = guard.expect("healthy nodes");

    let waited = at.duration_since(before);
    assert!(waited >= HELD_TTL - DRIFT, "the killed holder's lock was free after {waited:?}");
    guard.unlock().expect("healthy nodes");
    servers.wait_no_keys();
}

/// A client with a TTL and a node timeout different from the helpers'.
fn another_client(servers: &Servers) -> Quorlock {
    // Fresh servers have forgotten nothing, so their quarantine is switched off.
    let settings = Quorlock::builder().restart_quarantine(false).max_ttl(Duration::from_secs(600));
    let settings = settings.ttl(PROMPT).nodes(servers.urls()).node_timeout(PROMPT / 12);
    settings.build().expect("valid settings")
}

/// The permits are not given back, so they end with their TTL, and not before.
pub(crate) fn a_killed_holder_frees_its_permits_after_their_ttl() {
    let servers = Servers::start(3);
    let mut holder = Helper::start(&roles::HOLD_PERMITS, &servers);
    holder.expect("ready");
    let before = Instant::now();
    holder.go();
    holder.expect("held");
    let locks = another_client(&servers);
    let semaphore = locks.semaphore(NAME, PERMITS);
    holder.kill();
    let all = semaphore.many(PERMITS).try_acquire_for(PROMPT).optional().expect("healthy nodes");
    let all = all.expect("their TTL is over");
    // Redlock's allowance for the drift between clocks.
    let least = HELD_TTL - HELD_TTL / 100 - Duration::from_millis(2);
    assert!(before.elapsed() >= least, "they were free after {:?}", before.elapsed());
    all.check().expect("the one that was killed has no part in them");
    all.unlock().expect("it is ours");
    servers.wait_no_keys();
}

/// The process is killed as soon as a majority keeps the call. The third master may not know it.
pub(crate) fn a_call_of_a_killed_process_counts_for_its_window() {
    let servers = Servers::start(3);
    let mut caller = Helper::start(&roles::CALL_ONCE, &servers);
    caller.expect("called");
    let called = Instant::now();
    caller.kill();
    let locks = another_client(&servers);
    let error = locks.rate_limit(NAME, 1, WINDOW).try_acquire().expect_err("one is allowed");
    let ErrorKind::Held { remaining_ttl: Some(left) } = error.kind() else { panic!("{error}") };
    assert!(left <= WINDOW, "kept for {left:?}");
    let windows: Vec<_> =
        servers.iter().map(|server| kept_for(server) + called.elapsed()).collect();
    let kept = windows.iter().filter(|window| **window > SHORT_TTL).count();
    assert!(kept >= 2, "kept for {windows:?}");
}

/// The longest remaining lifetime of a lock's keys on the server.
fn kept_for(server: &Server) -> Duration {
    let left = server.keys().iter().map(|key| server.pttl(key)).max();
    Duration::from_millis(left.and_then(|left| u64::try_from(left).ok()).unwrap_or_default())
}

/// A lock cannot prevent a process from being stopped, but it can report the loss when the process wakes up.
pub(crate) fn a_holder_that_was_stopped_past_its_lease_knows_when_it_wakes() {
    const KEY: &str = "quorlock:orders/42";

    let servers = Servers::start(5);
    let locks = Quorlock::builder()
        .restart_quarantine(false)
        .max_ttl(Duration::from_secs(600))
        .nodes(servers.urls())
        .ttl(PROMPT * 2)
        .node_timeout(PROMPT / 6);
    let locks = locks.build().expect("valid settings");
    for _ in 0..3 {
        let mut holder = Helper::start(&roles::HOLD_AND_CHECK, &servers);
        holder.expect("ready");
        holder.go();
        holder.expect("held");
        let old = servers.iter().find_map(|server| server.get(KEY));
        holder.stop();
        let guard = locks.try_lock_for(NAME, PROMPT).optional().expect("healthy nodes");
        let guard = guard.expect("the lease ends while the holder sleeps");
        let owners = || servers.iter().map(|server| server.get(KEY)).collect::<Vec<_>>();
        // A node on which the old lock ended last has no key, or the new one. A slow node may still have the key of a failed attempt
        // of ours, until that is released or repaired.
        let one_owner = || {
            let mut owners: Vec<_> = owners().into_iter().flatten().collect();
            owners.dedup();
            owners.len() == 1 && Some(&owners[0]) != old.as_ref()
        };
        wait_until("all keys to be the new holder's", PROMPT, one_owner);
        let before = owners();

        // The order is already there when the holder wakes up, so that nothing else comes first.
        holder.go();
        holder.wake();
        holder.expect("Lost");
        holder.expect("dropped");
        holder.go();
        // The holder's releases are answered before it ends.
        holder.finish_within(SHORT);
        for (before, after) in before.iter().zip(owners()) {
            assert!(before.is_none() || *before == after, "{before:?} became {after:?}");
        }
        guard.check().expect("the old holder took nothing away");
        guard.unlock().expect("healthy nodes");
        servers.wait_no_keys();
    }
}

/// The thread that reports the end wakes up together with the holder, which checks and drops the guard first.
pub(crate) fn a_stopped_holder_that_looks_first_is_told_of_its_loss() {
    const KEY: &str = "quorlock:orders/42";
    let rounds = std::env::var("QUORLOCK_ROUNDS");
    let rounds: u32 = rounds.map_or(3, |rounds| rounds.parse().expect("a number"));

    let servers = Servers::start(3);
    let mut told = Vec::new();
    for _ in 0..rounds {
        let mut holder = Helper::start(&roles::HOLD_AND_HEAR, &servers);
        holder.expect("held");
        holder.stop();
        wait_until("the end of the lease", PROMPT, || {
            servers.iter().all(|server| server.get(KEY).is_none())
        });
        // The order is already there when the holder wakes up, so that nothing else comes first.
        holder.go();
        holder.wake();
        told.push(holder.hear());
        holder.finish_within(SHORT);
    }
    let untold = told.iter().filter(|told| *told != "1 message, 1 call").count();
    assert_eq!(untold, 0, "{untold} of {rounds} losses were not told once: {told:?}");
}

/// A hung master finds a renewal in its receive buffer when it wakes up, long after the lease has ended.
/// By then no process is left that could give that lock back.
pub(crate) fn a_renewal_that_runs_late_takes_no_lock_for_a_killed_holder() {
    const KEY: &str = "quorlock:orders/42";

    let mut servers = Servers::start(3);
    let mut holder = Helper::start(&roles::HOLD, &servers);
    holder.expect("ready");
    holder.go();
    holder.expect("held");
    wait_until("all nodes have the key", PROMPT, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    servers[0].pause();
    let mut left = servers[1].pttl(KEY);
    wait_until("a renewal, which is sent to all nodes", PROMPT, || {
        let before = std::mem::replace(&mut left, servers[1].pttl(KEY));
        before < left
    });
    holder.kill();
    wait_until("the end of the lease", PROMPT, || {
        servers.iter().skip(1).all(|server| server.get(KEY).is_none())
    });
    servers[0].resume();
    wait_for_backlog(&servers[0]);
    assert_eq!(servers[0].get(KEY), None, "it would live for {HELD_TTL:?}");
}

pub(crate) fn a_panicking_thread_and_a_normal_exit_release() {
    let servers = Servers::start(5);
    let mut helper = Helper::start(&roles::PANIC, &servers);
    helper.expect("panicked");
    servers.wait_no_keys();
    helper.go();
    helper.finish_within(PROMPT);
    servers.wait_no_keys();
}

/// Waits until a server that was paused has read all requests of processes that have ended
/// meanwhile: until no connection is left but that of the test.
fn wait_for_backlog(server: &Server) {
    wait_until("the resumed server to catch up", PROMPT, || {
        let clients = server.command(&["CLIENT", "LIST"]);
        let clients = redis::from_redis_value::<String>(clients).expect("a text");
        clients.lines().count() == 1
    });
}
