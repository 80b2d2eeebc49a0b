//! Servers behind a proxy that keeps connections open when another server takes over, and that refuse `INFO` in scripts, as those of
//! Redis Enterprise do.

mod support;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::{admitted, wait_renewed};
use support::{Server, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(4);
const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";
const MARK: &str = "quorlock:{quorlock}:mark";

/// The name of `INFO` on the servers. Scripts do not know it, and the relay translates the commands of clients.
const INFO: &str = "INFO-OUTSIDE-OF-SCRIPTS";

fn server() -> Server {
    Server::start_with(&["--rename-command", "INFO", INFO])
}

/// A proxy in front of a server. Its clients' connections go on when another server takes over.
struct Relay {
    port: u16,
    server: Arc<AtomicU16>,
    /// The number of connections that clients have made.
    accepted: Arc<AtomicUsize>,
}

impl Relay {
    fn start(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let server = Arc::new(AtomicU16::new(server.port()));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (target, count) = (server.clone(), accepted.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let target = target.clone();
                thread::spawn(move || relay(client, &target));
            }
        });
        Self { port, server, accepted }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Lets another server take over, which has nothing but the mark of the first one.
    fn fail_over(&self, from: &Server, to: &Server) {
        let mark = from.get(MARK).expect("it is in use");
        to.command(&["SET", MARK, &mark]);
        self.server.store(to.port(), Ordering::SeqCst);
    }
}

/// Carries commands and answers, one after the other, until the client leaves.
fn relay(client: TcpStream, target: &AtomicU16) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let mut answers = client.try_clone().ok()?;
    let mut commands = BufReader::new(client);
    let mut behind: Option<(u16, BufReader<TcpStream>)> = None;
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&line(&mut commands)?)? {
            let length = number(&line(&mut commands)?)?;
            let mut word = vec![0; length + 2];
            commands.read_exact(&mut word).ok()?;
            word.truncate(length);
            words.push(word);
        }
        if words[0].eq_ignore_ascii_case(b"INFO") {
            words[0] = INFO.into();
        }
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend(word);
            command.extend(b"\r\n");
        }
        let port = target.load(Ordering::SeqCst);
        if behind.as_ref().is_none_or(|(known, _)| *known != port) {
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
            server.set_nodelay(true).ok()?;
            behind = Some((port, BufReader::new(server)));
        }
        let (_, server) = behind.as_mut()?;
        server.get_mut().write_all(&command).ok()?;
        let mut answer = Vec::new();
        carry(server, &mut answer)?;
        answers.write_all(&answer).ok()?;
    }
}

fn line(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).ok()?;
    (!line.is_empty()).then_some(line)
}

/// The number behind the sign; `None` for that of nothing.
fn number(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(&line[1..]).ok()?.trim().parse().ok()
}

/// Reads one answer, with all that it contains.
fn carry(from: &mut impl BufRead, into: &mut Vec<u8>) -> Option<()> {
    let head = line(from)?;
    into.extend(&head);
    match (head[0], number(&head)) {
        (b'$', Some(length)) => {
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text).ok()?;
            into.extend(text);
        }
        (b'*', Some(items)) => {
            for _ in 0..items {
                carry(from, into)?;
            }
        }
        _ => {}
    }
    Some(())
}

fn builder(relays: &[Relay]) -> Builder {
    Quorlock::builder()
        .nodes(relays.iter().map(Relay::url))
        .ttl(TTL)
        .max_ttl(TTL)
        .node_timeout(Duration::from_secs(2))
        .no_quorum_timeout(LIMIT)
}

#[test]
fn servers_that_refuse_info_in_scripts_grant_locks() {
    let servers = [server(), server(), server()];
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let refusal = servers[0].try_command(&[b"EVAL", b"return redis.call('INFO')", b"0"]);
    refusal.expect_err("that is how these servers are");
    let locks = admitted(builder(&relays));
    let mut before = None;
    for _ in 0..3 {
        let guard = locks.lock(NAME).expect("it is free");
        assert!(guard.token() > before, "{:?} after {before:?}", guard.token());
        before = guard.token();
        let error = locks.try_lock(NAME).expect_err("it is held");
        assert!(matches!(error.kind(), ErrorKind::Held { .. }), "{error}");
        wait_renewed([&guard], 1);
        guard.unlock().expect("all nodes are up");
    }
    for server in &servers {
        wait_until("no key is left", LIMIT, || server.get(KEY).is_none());
    }
}

/// The list needs no `INFO`. Without it no server can show that it has kept all its keys, so nobody may end a quarantine by that.
#[test]
fn servers_that_refuse_info_in_scripts_list_locks_and_prove_nothing_by_their_uptime() {
    let servers = [server(), server(), server()];
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let locks = admitted(builder(&relays));
    let guard = locks.lock(NAME).expect("it is free");
    wait_until("all nodes have it", LIMIT, || servers.iter().all(|it| it.get(KEY).is_some()));
    let held = locks.held_locks("", 10, LIMIT).expect("all nodes are up");
    let names: Vec<_> = held.names.iter().map(|name| &*name.name).collect();
    assert_eq!((names, held.is_complete()), (vec![NAME.as_bytes()], true));
    guard.unlock().expect("all nodes are up");
    let usual = Server::start();
    let kept_keys_for = |server: &Server| {
        let scan: &[&[u8]] = &[b"EVAL", include_bytes!("../lua/node/names.lua"), b"0", b"0", b"*"];
        let reply = server.try_command(scan).expect("it may scan");
        let reply: (String, Vec<String>, u64) = redis::from_redis_value(reply).expect("a scan");
        reply.2
    };
    wait_until("the server counts its seconds", LIMIT, || kept_keys_for(&usual) > 0);
    let uptime = |server: &Server| {
        let info: String =
            redis::from_redis_value(server.command(&[INFO, "server"])).expect("text");
        let seconds = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        seconds.expect("INFO has it").trim().parse::<u64>().expect("a number")
    };
    wait_until("this one counts them, too", LIMIT, || uptime(&servers[0]) > 0);
    assert_eq!(kept_keys_for(&servers[0]), 0);
}

/// One server of three is a minority, so nobody loses a lock.
#[test]
fn one_server_that_takes_over_costs_nobody_a_lock() {
    let servers = [server(), server(), server()];
    let other = server();
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let locks = admitted(builder(&relays));
    let second = admitted(builder(&relays));
    let guard = locks.lock(NAME).expect("it is free");
    relays[0].fail_over(&servers[0], &other);
    let over = Instant::now();
    while over.elapsed() < TTL * 2 {
        let granted = second.try_lock(NAME).optional();
        assert!(!matches!(granted, Ok(Some(_))), "{:?} after it", over.elapsed());
        guard.check().expect("the holder keeps its lock");
    }
    wait_until("the other server has the lock", LIMIT, || other.get(KEY).is_some());
    guard.unlock().expect("all nodes are up");
}

/// The servers that take over have the mark, and lack the lock. They know the scripts, so clients that are connected notice nothing
/// by themselves.
#[test]
fn a_server_that_takes_over_behind_a_proxy_grants_no_lock_that_it_may_lack() {
    let servers = [server(), server(), server()];
    let others = [server(), server()];
    let in_front_of_others: Vec<_> = others.iter().map(Relay::start).collect();
    let elsewhere = admitted(builder(&in_front_of_others).key_prefix("elsewhere:"));
    for _ in 0..2 {
        elsewhere.lock(NAME).expect("it is free").unlock().expect("both are up");
    }
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let locks = admitted(builder(&relays));
    let second = admitted(builder(&relays));
    let guard = locks.lock(NAME).expect("it is free");
    wait_until("all nodes have it", LIMIT, || servers.iter().all(|it| it.get(KEY).is_some()));
    let accepted = relays[0].accepted.load(Ordering::SeqCst);
    for i in 0..2 {
        relays[i].fail_over(&servers[i], &others[i]);
    }
    let over = Instant::now();
    let mut tries = 0;
    // The first try reaches the other servers before anybody knows of them. What it leaves there may cost the holder its lock, since
    // they are a majority. But nobody else gets it.
    while over.elapsed() < TTL {
        let is_granted = second.try_lock(NAME).is_ok();
        // The last try may end when the quarantines are over.
        assert!(!is_granted || over.elapsed() >= TTL, "try {tries}, {:?} after it", over.elapsed());
        tries += 1;
    }
    assert!(relays[0].accepted.load(Ordering::SeqCst) > accepted, "the connections have ended");
    drop(guard);
    drop(second.try_lock_for(NAME, LIMIT).expect("the quarantines are over"));
}
