//! Whole clients against servers that lie, next to honest ones. A lying server loses only its own
//! vote: locks go on, exclusion holds, and no call takes long.
//!
//! One lie is not tested: "granted" to two clients. A majority of votes proves nothing any more
//! if one of them is given twice.

mod support;

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::admitted;
use support::fake::{self, is_probe};
use support::{Server, Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

/// Lies: values that are no answer of a script, and answers without a vote.
const LIES: [&str; 29] = [
    "*2\r\n:0\r\n:60000\r\n",
    "*2\r\n:0\r\n:-1\r\n",
    "*2\r\n:0\r\n:9223372036854775807\r\n",
    "*2\r\n:-1\r\n:0\r\n",
    "*2\r\n:-2\r\n$4\r\nlist\r\n",
    "*2\r\n:-3\r\n:0\r\n",
    "*2\r\n:-3\r\n:1\r\n",
    "*2\r\n:-2\r\n:2251799813685247\r\n",
    ":0\r\n",
    ":-1\r\n",
    "+OK\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*-1\r\n",
    "$5\r\nalone\r\n",
    "*3\r\n$5\r\nalone\r\n:0\r\n:0\r\n",
    "$16\r\n2251799813685248\r\n",
    "$20\r\n99999999999999999999\r\n",
    "*3\r\n$16\r\n2251799813685248\r\n:0\r\n:0\r\n",
    ":0\r\n:0\r\n",
    ">2\r\n+invalidate\r\n*0\r\n",
    "-NOSCRIPT No matching script\r\n",
    "-LOADING wait\r\n",
    "-ERR \u{1b}[2J\r\n",
    "-NOPERM no\r\n",
    "-\r\n",
    "%1\r\n+a\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "$9223372036854775807\r\nx",
    "\0\0\0\0",
];

/// A random generator for each liar, so that its seed reproduces a failure, as far as threads
/// allow it.
struct Chance(Mutex<u64>);

impl Chance {
    fn below(&self, limit: usize) -> usize {
        let mut state = self.0.lock();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as usize % limit
    }
}

/// A server with random answers: mostly as a server's while a client connects, and seldom valid
/// after that. It never grants anything.
fn liar(seed: u64) -> String {
    let chance = Arc::new(Chance(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)));
    let (mark, told) = (Mutex::new(String::new()), AtomicUsize::new(0));
    let known = Arc::new((mark, told));
    let spammed = Spammed::default();
    fake::serve(move |words, writer| {
        let any = |chance: &Chance| LIES[chance.below(LIES.len())].as_bytes().to_vec();
        if words[0] == "SUBSCRIBE" {
            return spam(words, writer, &spammed);
        }
        let honest = match fake::handshake("7.0.15", words) {
            Some(answer) => Some(answer),
            None if is_probe(words) => {
                let keeps = !words[5].is_empty() && chance.below(4) > 0;
                Some(fake::admit(&kept(&known.0, keeps.then_some(&words[5]))))
            }
            None => None,
        };
        let answer = match (honest, chance.below(20)) {
            (Some(_), 0) => any(&chance),
            (Some(honest), 1) if is_probe(words) => {
                let seconds = (1_700_000_000 + chance.below(1_000_000)).to_string();
                String::from_utf8_lossy(&honest).replace("1700000000", &seconds).into_bytes()
            }
            (Some(_), 1) if words[0] == "TIME" => {
                let seconds = [0, 1_700_000_000 + chance.below(1_000_000), usize::MAX / 4];
                let seconds = seconds[chance.below(3)].to_string();
                format!("*2\r\n${}\r\n{seconds}\r\n$1\r\n0\r\n", seconds.len()).into_bytes()
            }
            // Each liar has an identity of its own.
            (Some(honest), _) => {
                let (fakes, own) = ("a".repeat(40), (seed % 10).to_string().repeat(40));
                String::from_utf8_lossy(&honest).replace(&fakes, &own).into_bytes()
            }
            (None, 0) => return None,
            (None, 1) => {
                thread::sleep(Duration::from_millis(300));
                any(&chance)
            }
            (None, 2) => {
                for byte in any(&chance) {
                    writer.write_all(&[byte]).ok()?;
                    thread::sleep(Duration::from_millis(5));
                }
                Vec::new()
            }
            (None, 3) => b"*1\r\n".repeat(chance.below(200)),
            // The number of clients that were told of a release.
            (None, 4) => format!("*2\r\n:1\r\n:{}\r\n", i64::MAX).into_bytes(),
            (None, _) => any(&chance),
        };
        // An answer that could be a grant is replaced.
        let answer = match words[0].starts_with("EVAL") && answer.starts_with(b"*2\r\n:1\r\n") {
            true if words.last().is_some_and(|it| it.parse::<u64>().is_ok()) => any(&chance),
            _ => answer,
        };
        writer.write_all(&answer).ok()
    })
}

/// The mark that a server has from now on.
fn kept(mark: &Mutex<String>, new: Option<&String>) -> String {
    let mut mark = mark.lock();
    if let Some(new) = new {
        mark.clone_from(new);
    }
    mark.clone()
}

/// The number of false release messages of a server, by channel.
type Spammed = Arc<Mutex<HashMap<String, usize>>>;

/// Publishes false releases, and messages on channels without a subscription.
fn spam(words: &[String], writer: &mut TcpStream, spammed: &Spammed) -> Option<()> {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    for (i, channel) in words[1..].iter().enumerate() {
        write!(writer, "*3\r\n{}{}:{}\r\n", bulk("subscribe"), bulk(channel), i + 1).ok()?;
    }
    let (mut writer, words) = (writer.try_clone().ok()?, words.to_vec());
    let spammed = spammed.clone();
    thread::spawn(move || {
        let message =
            |channel: &str| format!("*3\r\n{}{}{}", bulk("message"), bulk(channel), bulk("x"));
        loop {
            let told = words[1..].iter().map(|channel| message(channel)).collect::<String>();
            let told = told + &message("nobody's") + "*1\r\n:1\r\n+OK\r\n";
            if writer.write_all(told.as_bytes()).is_err() {
                return;
            }
            for channel in &words[1..] {
                *spammed.lock().entry(channel.clone()).or_default() += 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    Some(())
}

/// Settings with time for honest servers to answer, and for their clocks to be read, on a busy machine.
fn builder(urls: Vec<String>) -> Builder {
    let builder = Quorlock::builder().nodes(urls).node_timeout(Duration::from_millis(2_500));
    let builder = builder.clock_tolerance(Duration::from_millis(1_250));
    builder.ttl(Duration::from_secs(5)).max_ttl(Duration::from_secs(5))
}

/// Clients and threads take one contended lock all the time, and one lock that no other client wants.
fn locks_go_on(clients: &[Quorlock]) {
    const ROUNDS: usize = 20;
    let inside = AtomicBool::new(false);
    let longest = Mutex::new(Duration::ZERO);
    thread::scope(|scope| {
        for (i, locks) in clients.iter().enumerate() {
            for thread in 0..2 {
                let (inside, longest) = (&inside, &longest);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let start = Instant::now();
                        let guard = locks
                            .try_lock_for("shared", LIMIT / 2)
                            .optional()
                            .expect("three of five");
                        let guard = guard.expect("it is given back all the time");
                        let waited = start.elapsed();
                        assert!(!inside.swap(true, Ordering::SeqCst), "two have it");
                        thread::sleep(Duration::from_millis(1));
                        assert!(guard.check().is_ok(), "it is held for a moment only");
                        inside.store(false, Ordering::SeqCst);
                        guard.unlock().expect("three of five");
                        let own = locks.lock(format!("own {i} {thread}")).expect("three of five");
                        drop(own);
                        let mut longest = longest.lock();
                        *longest = longest.max(waited);
                    }
                });
            }
        }
    });
    let longest = *longest.lock();
    assert!(longest < LIMIT / 3, "somebody waited for {longest:?}");
}

#[test]
fn one_or_two_of_five_that_lie_hinder_nobody() {
    for seed in 1..=4 {
        let servers = Servers::start(if seed > 2 { 3 } else { 4 });
        let liars = (0..5 - servers.len()).map(|i| liar(seed * 10 + i as u64));
        let urls: Vec<_> = liars.chain(servers.urls()).collect();
        let quarantine = seed % 2 == 0;
        let clients = [(); 2].map(|()| {
            let builder = builder(urls.clone()).restart_quarantine(quarantine);
            builder.build().expect("valid settings")
        });
        let start = Instant::now();
        // Includes the quarantine: the set is new, and must get its marks first.
        drop(clients[0].try_lock_for("warm", LIMIT).expect("it is free"));
        let ready = start.elapsed();
        assert!(ready < Duration::from_secs(20), "seed {seed}: {ready:?}");
        locks_go_on(&clients);
        let start = Instant::now();
        for locks in clients {
            // A majority has got all releases.
            locks.close(Duration::from_secs(5)).expect("three of five");
        }
        assert!(start.elapsed() < LIMIT / 2, "seed {seed}: {:?}", start.elapsed());
    }
}

/// A server that takes part in the handshake and keeps its mark. It answers scripts with the result of `reply` for
/// the number of words in the call.
fn scripted(
    spammed: &Spammed,
    reply: impl Fn(usize) -> &'static str + Clone + Send + 'static,
) -> String {
    let spammed = spammed.clone();
    let mark = Arc::new(Mutex::new(String::new()));
    fake::serve(move |words, writer| {
        if words[0] == "SUBSCRIBE" {
            return spam(words, writer, &spammed);
        }
        let answer = match fake::handshake("7.0.15", words) {
            Some(answer) => answer,
            None if is_probe(words) => {
                let new = Some(&words[5]).filter(|new| !new.is_empty());
                fake::admit(&kept(&mark, new))
            }
            None => reply(words.len()).as_bytes().to_vec(),
        };
        writer.write_all(&answer).ok()
    })
}

/// The number of words in an acquire with fencing. Other calls have fewer, or more.
const ACQUIRE: usize = 11;

/// Numbers have 51 bits, and this server claims to have given the last one to each lock. If clients
/// proposed that number from then on, or sent it to other nodes, no number would be left.
#[test]
fn one_server_does_not_use_up_the_numbers_of_all() {
    const ROUNDS: usize = 20;
    let servers = Servers::start(2);
    let last = scripted(&Spammed::default(), |words| match words {
        ACQUIRE => "*2\r\n:1\r\n:2251799813685247\r\n",
        6 | 8 | 13 => ":1\r\n",
        // A batch does nothing, and its calls are made one by one.
        _ => ":0\r\n",
    });
    let urls = [last].into_iter().chain(servers.urls()).collect();
    let locks = builder(urls).restart_quarantine(false).build().expect("valid settings");
    let mut before = None;
    for i in 0..ROUNDS {
        let guard = locks.lock("orders/42").unwrap_or_else(|error| panic!("{i}: {error}"));
        let token = guard.token().expect("fencing is on");
        assert!(
            Some(token) > before && u64::from(token) < 1 << 62,
            "{i}: {token} after {before:?}"
        );
        before = Some(token);
        if i + 1 == ROUNDS {
            // One of these servers is enough for the lock, besides the liar. The other one may grant it later.
            let has_key = |server: &Server| server.get("quorlock:orders/42").is_some();
            wait_until("both servers have it", LIMIT, || servers.iter().all(has_key));
        }
        guard.unlock().expect("two of three");
    }
    for server in servers.iter() {
        let fence = server.get("{quorlock:orders/42}:fence").expect("it granted the lock");
        assert!(fence.parse::<u64>().is_ok_and(|fence| fence < 1 << 50), "{fence}");
    }
}

/// The server refuses every call, and reports releases all the time. If it could decide first about a lock, it would keep
/// that lock from all clients, although the other nodes grant it.
#[test]
fn one_server_does_not_keep_waiters_from_locks_that_are_free() {
    const NAMES: usize = 24;
    let servers = Servers::start(4);
    let spammed = Spammed::default();
    let refuses = scripted(&spammed, |words| match words {
        ACQUIRE => "*2\r\n:0\r\n:60000\r\n",
        _ => ":0\r\n",
    });
    let urls: Vec<_> = [refuses].into_iter().chain(servers.urls()).collect();
    let [holder, waiter] = [(); 2].map(|()| admitted(builder(urls.clone())));
    let names: Vec<_> = (0..NAMES).map(|i| format!("orders/{i}")).collect();
    let guards: Vec<_> =
        names.iter().map(|name| holder.lock(name).expect("four of five")).collect();
    let given_back = Mutex::new(None);
    thread::scope(|scope| {
        let waits: Vec<_> = names
            .iter()
            .map(|name| {
                let (waiter, given_back) = (&waiter, &given_back);
                scope.spawn(move || {
                    let guard =
                        waiter.try_lock_for(name, LIMIT / 2).optional().expect("four of five");
                    assert!(guard.is_some(), "{name} was free for a long time");
                    let since: Option<Instant> = *given_back.lock();
                    since.expect("it was held until then").elapsed()
                })
            })
            .collect();
        wait_until("all of them listen", LIMIT, || {
            waiter.node_stats().iter().all(|node| node.listened_to == NAMES)
        });
        wait_until("that server has said much to each of them", LIMIT, || {
            let spammed = spammed.lock();
            spammed.len() >= NAMES && spammed.values().all(|times| *times >= 300)
        });
        *given_back.lock() = Some(Instant::now());
        drop(guards);
        let longest = waits.into_iter().map(|waits| waits.join().expect("no panic")).max();
        assert!(longest < Some(Duration::from_secs(5)), "one waited for {longest:?}");
    });
}

/// A server that always needs a probe gets no more probes than a real server needs, and not as many
/// as the network allows.
#[test]
fn no_server_is_probed_without_end() {
    /// Maximum of probes of a server within `WITHIN`.
    const MOST: f64 = 16.0;
    const WITHIN: Duration = Duration::from_millis(100);
    /// More than the maximum of two such times, since the first and the last may be partial.
    const MANY: u64 = 48;
    // The server says each time that its clock was set forward; or that its mark is gone, after any write.
    for jumps in [true, false] {
        let servers = Servers::start(2);
        let (probes, mark) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
        let counted = probes.clone();
        let restless = fake::serve(move |words, writer| {
            let seconds = 1_700_000_000 + 10 * counted.load(Ordering::SeqCst);
            let answer = match fake::handshake("7.0.15", words) {
                Some(_) if words[0] == "TIME" && jumps => {
                    format!("*2\r\n$10\r\n{seconds}\r\n$1\r\n0\r\n").into_bytes()
                }
                Some(answer) => answer,
                None if is_probe(words) => {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let new = Some(&words[5]).filter(|new| !new.is_empty() && jumps);
                    let probe = String::from_utf8(fake::admit(&kept(&mark, new))).expect("text");
                    let seconds = if jumps { seconds } else { 1_700_000_000 };
                    probe.replace("1700000000", &seconds.to_string()).into_bytes()
                }
                None => b":0\r\n".to_vec(),
            };
            writer.write_all(&answer).ok()
        });
        let urls = [restless].into_iter().chain(servers.urls()).collect();
        let locks = admitted_but_one(builder(urls));
        let counts = || {
            let others = servers.iter().map(|server| server.script_calls());
            [probes.load(Ordering::SeqCst) as u64].into_iter().chain(others).collect::<Vec<_>>()
        };
        let (start, before) = (Instant::now(), counts());
        wait_until("many probes", LIMIT, || counts()[0] - before[0] >= MANY);
        let after = counts();
        // The first and the last span may be partial.
        let spans = start.elapsed().as_secs_f64() / WITHIN.as_secs_f64() + 2.0;
        for (before, after) in before.iter().zip(&after) {
            let probes = (after - before) as f64;
            assert!(probes <= MOST * spans, "jumps: {jumps}: {before} to {after} in {spans} spans");
        }
        drop(locks.lock("orders/42").expect("two of three"));
    }
}

/// A client that gets locks from two of three servers.
fn admitted_but_one(builder: Builder) -> Quorlock {
    let locks = builder.build().expect("valid settings");
    drop(locks.try_lock_for("any", LIMIT).expect("it is free"));
    locks
}

/// Such a server stops every client, since two configurations side by side could make two holders: the lie looks
/// like a server that really has other clients. The error names the server.
#[test]
fn a_server_that_names_another_configuration_is_named() {
    let servers = Servers::start(4);
    let foreign = fake::serve(|words, writer| {
        let foreign = "quorlock-mark 2 set=other nodes=1 max_ttl_ms=1 clock_tolerance_ms=1 quarantine=on \
                       index=- run=a repl=b ahead_ms=0 noted_at_ms=0 admitted";
        let answer = fake::handshake("7.0.15", words).unwrap_or_else(|| fake::admit(foreign));
        writer.write_all(&answer).ok()
    });
    let urls: Vec<_> = [foreign.clone()].into_iter().chain(servers.urls()).collect();
    let locks = builder(urls).build().expect("valid settings");
    wait_until("it is probed", LIMIT, || {
        locks.try_lock("orders/42").is_err_and(|error| {
            let faults = error.node_faults();
            error.kind() == ErrorKind::Config && faults.len() == 1 && faults[0].node() == foreign
        })
    });
}
