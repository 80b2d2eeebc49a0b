//! A listening holder learns that its lock is wanted, but does not lose it.

mod support;

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use quorlock::{Builder, ErrorKind, Guard, OptionalGuard as _, Quorlock, ReleaseRequest, Renewal};
use support::clients::{connected, fresh};
use support::kinds::KINDS;
use support::proxy::Proxy;
use support::{Server, Servers, access, wait_until};

const NAME: &str = "imports";
const KEY: &str = "quorlock:imports";
const LIMIT: Duration = Duration::from_secs(60);
/// A TTL so long that no renewal is due in a test.
const LONG: Duration = Duration::from_secs(600);
/// Long enough for a busy machine to renew in time.
const SHORT: Duration = Duration::from_secs(6);

fn builder(nodes: impl IntoIterator<Item: AsRef<str>>, ttl: Duration) -> Builder {
    fresh(nodes).ttl(ttl).max_ttl(LONG).node_timeout(Duration::from_secs(2))
}

fn client(servers: &Servers, ttl: Duration) -> Quorlock {
    connected(builder(servers.urls(), ttl))
}

#[track_caller]
fn ask(locks: &Quorlock, reason: &str) {
    let asked = locks.mutex(NAME).ask_to_release(reason);
    assert!(asked.expect("the nodes are healthy"), "somebody holds it");
}

#[track_caller]
fn reason(asked: &Receiver<ReleaseRequest>) -> String {
    asked.recv_timeout(LIMIT).expect("the holder is asked").reason
}

/// The keys of release requests on that server.
fn request_keys(server: &Server) -> Vec<String> {
    let mut keys = server.keys();
    keys.retain(|key| key.ends_with("}:asked"));
    keys
}

/// The request needs only the name, and not the kind of the lock.
#[test]
fn holders_of_every_kind_are_asked_and_keep_the_lock_until_they_give_it_back() {
    let servers = Servers::start(3);
    let (holder, other) = (client(&servers, LONG), client(&servers, LONG));
    for kind in KINDS {
        let lock = kind.of(&holder, &[NAME.as_bytes()]);
        let guard = lock.lock().expect("it is free");
        let asked = guard.asked().clone();
        let called = bounded(1);
        guard.on_asked(Box::new(move |request| called.0.send(request).expect("there is room")));
        for turn in ["one", "another"] {
            ask(&other, turn);
            assert_eq!(reason(&asked), turn, "{}", kind.label());
            assert_eq!(reason(&called.1), turn, "{}", kind.label());
        }
        assert!(guard.check().is_ok() && guard.lost().is_empty(), "nothing is taken");
        guard.unlock().expect("three of three");
        assert_eq!(asked.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
        let free = kind.of(&other, &[NAME.as_bytes()]).try_lock().expect("the nodes are healthy");
        free.expect("it is free").unlock().expect("three of three");
    }
}

/// The handles of these have the call as well. Every owner is asked.
#[test]
fn all_readers_and_all_holders_of_permits_are_asked() {
    let servers = Servers::start(3);
    let [one, two, other] = [(); 3].map(|()| client(&servers, LONG));
    let (lock, permits) = (other.rw_lock(NAME), other.semaphore("permits", 2));
    let asks = || {
        [lock.ask_to_release("deploy"), permits.ask_to_release("deploy")]
            .map(|asked| asked.expect("the nodes are healthy"))
    };
    assert_eq!(asks(), [false; 2], "nobody has them");
    let reads = [&one, &two].map(|locks| locks.rw_lock(NAME).read().expect("readers share it"));
    let taken =
        [&one, &two].map(|locks| locks.semaphore("permits", 2).acquire().expect("two permits"));
    let asked: Vec<_> =
        reads.iter().map(|it| it.asked()).chain(taken.iter().map(Guard::asked)).collect();
    assert_eq!(asks(), [true; 2]);
    asked.into_iter().for_each(|asked| assert_eq!(reason(asked), "deploy"));
    drop(reads);
    let writes = one.rw_lock(NAME).write().expect("the readers have left");
    assert!(lock.ask_to_release("again").expect("the nodes are healthy"));
    assert_eq!(reason(writes.asked()), "again");
}

/// The two need not agree on fencing, TTLs or renewal.
#[test]
fn a_request_reaches_a_holder_with_other_settings() {
    let servers = Servers::start(3);
    for fencing in [true, false] {
        let holder = connected(builder(servers.urls(), LONG).fencing(fencing));
        let other = connected(builder(servers.urls(), SHORT).fencing(!fencing));
        for kind in KINDS {
            let guard = kind.of(&holder, &[NAME.as_bytes()]).lock().expect("it is free");
            let asked = guard.asked().clone();
            ask(&other, "deploy");
            assert_eq!(reason(&asked), "deploy", "{}, {fencing}", kind.label());
            guard.unlock().expect("three of three");
            let next = kind.of(&other, &[NAME.as_bytes()]).lock().expect("it is free");
            let report = holder.mutex(NAME).holder().expect("the nodes are healthy");
            assert_eq!(report.names[0].holders.len(), 1, "{}, {fencing}", kind.label());
            next.unlock().expect("three of three");
        }
    }
}

#[test]
fn a_request_of_before_is_told_to_a_holder_that_begins_to_listen_and_to_no_later_one() {
    let servers = Servers::start(3);
    let (holder, other) = (client(&servers, LONG), client(&servers, LONG));
    let guard = holder.lock(NAME).expect("it is free");
    // A node stores a request only if it has the lock.
    wait_until("the node has it", LIMIT, || servers[0].get(KEY).is_some());
    ask(&other, "first");
    // The call ends with the answers of a majority, and this node may be the last one to keep the request.
    wait_until("the node keeps the request", LIMIT, || request_keys(&servers[0]).len() == 1);
    // Both lifetimes are rounded to a millisecond.
    let (lock, request) = (servers[0].pttl(KEY), servers[0].pttl(&request_keys(&servers[0])[0]));
    assert!(request > 0 && request <= lock + 1, "{request} ms, and the lock's key {lock} ms");
    assert_eq!(reason(guard.asked()), "first");
    guard.unlock().expect("three of three");
    let guard = other.lock(NAME).expect("it is free");
    let asked = guard.asked();
    ask(&holder, "second");
    assert_eq!(reason(asked), "second", "the first one was for another holder");
    drop(guard);
    // The request reaches a writer that has become a reader meanwhile.
    let guard = holder.rw_lock(NAME).write().expect("it is free");
    ask(&other, "third");
    let guard = guard.downgrade();
    assert_eq!(reason(guard.asked()), "third");
}

/// All messages of the nodes are lost.
#[test]
fn a_renewal_finds_a_request_whose_message_was_lost_and_so_does_an_extension() {
    let servers = Servers::start(3);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let other = client(&servers, LONG);
    for renewal in [Renewal::Auto, Renewal::Manual] {
        let holder = connected(builder(proxies.iter().map(Proxy::url), SHORT));
        let guard = holder.mutex(NAME).renewal(renewal).lock().expect("it is free");
        let asked = guard.asked();
        wait_until("the nodes are listened to", LIMIT, || {
            holder.node_stats().iter().all(|node| node.listened_to == 1)
        });
        proxies.iter().for_each(Proxy::swallow_messages);
        ask(&other, "deploy");
        if renewal == Renewal::Manual {
            guard.extend(SHORT).expect("three of three");
        }
        assert_eq!(reason(asked), "deploy", "{renewal:?}");
        guard.unlock().expect("three of three");
    }
    wait_until("each node has sent a message", LIMIT, || {
        proxies.iter().all(|proxy| proxy.swallowed() > 0)
    });
}

/// The holder gets a request once, although each node and each renewal reports it.
#[test]
fn a_request_is_told_once() {
    let servers = Servers::start(3);
    let (holder, other) = (client(&servers, SHORT), client(&servers, LONG));
    let guard = holder.lock(NAME).expect("it is free");
    let asked = guard.asked();
    ask(&other, "once");
    assert_eq!(reason(asked), "once");
    support::clients::wait_renewed([&guard], 2);
    assert!(asked.is_empty(), "it was told");
}

#[test]
fn a_lock_that_is_free_or_only_kept_has_nobody_to_ask() {
    let servers = Servers::start(3);
    let locks = client(&servers, LONG);
    let asks = |name: &str| locks.mutex(name).ask_to_release("").expect("the nodes are healthy");
    assert!(!asks(NAME));
    let kept = locks.mutex(NAME).min_hold(LONG).lock().expect("it is free");
    kept.unlock().expect("three of three");
    assert!(!asks(NAME), "nobody holds it");
    assert!(servers.iter().all(|server| request_keys(server).is_empty()), "nothing is left");
    servers[0].command(&["SET", "quorlock:text", "a text"]);
    let error = locks.mutex("text").ask_to_release("").expect_err("it is no lock");
    assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    assert!(error.to_string().contains("has no holder to ask"), "{error}");
}

#[test]
fn reasons_are_checked_and_shown_as_they_were_given() {
    let servers = Servers::start(1);
    let locks = client(&servers, LONG);
    let guard = locks.lock(NAME).expect("it is free");
    for wrong in ["a\nb", &"x".repeat(257)] {
        let error = locks.mutex(NAME).ask_to_release(wrong).expect_err("it is wrong");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    for right in ["", "two  words ", "\u{fc}ber", &"x".repeat(256)] {
        ask(&locks, right);
        assert_eq!(reason(guard.asked()), right);
    }
}

#[test]
fn too_few_nodes_that_take_the_request_are_an_error_that_names_the_others() {
    let mut servers = Servers::start(3);
    let (holder, other) = (client(&servers, LONG), client(&servers, LONG));
    let _guard = holder.lock(NAME).expect("it is free");
    // A node that does not have the lock needs to store nothing, and so counts as one that took the request.
    wait_until("all nodes have it", LIMIT, || servers.iter().all(|it| it.get(KEY).is_some()));
    servers[0].kill();
    ask(&other, "a minority is away");
    // This node answers, but stores nothing.
    servers[1].command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = other.mutex(NAME).ask_to_release("too few").expect_err("one of three");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    let says = error.to_string();
    for word in ["may not hear", &servers[0].url(), &servers[1].url(), "maxmemory"] {
        assert!(says.contains(word), "{word}: {says}");
    }
}

/// The subscriptions end with the last guard that listens.
#[test]
fn nobody_listens_for_locks_that_were_given_back() {
    let servers = Servers::start(3);
    let locks = client(&servers, LONG);
    let listened = || locks.node_stats().iter().map(|node| node.listened_to).sum::<usize>();
    let guards: Vec<_> = (0..4).map(|i| locks.lock(format!("job/{i}")).expect("free")).collect();
    assert_eq!(listened(), 0, "nobody listens before a guard is asked to");
    assert!(guards.iter().all(|guard| guard.asked().is_empty()));
    wait_until("each node is listened to for each lock", LIMIT, || listened() == 12);
    drop(guards);
    wait_until("nobody listens", LIMIT, || listened() == 0);
}

/// A hung node does not delay the message from another one.
#[test]
fn a_node_that_hangs_delays_no_request() {
    let mut servers = Servers::start(3);
    let (holder, other) = (client(&servers, LONG), client(&servers, LONG));
    let guard = holder.lock(NAME).expect("it is free");
    let asked = guard.asked();
    servers[2].pause();
    let began = Instant::now();
    ask(&other, "hurry");
    assert_eq!(reason(asked), "hurry");
    assert!(began.elapsed() < LIMIT / 2, "within the node timeout or so");
    servers[2].resume();
    assert!(other.try_lock(NAME).optional().expect("the nodes are healthy").is_none());
}

/// Only the repeated read finds the request: the lock is not renewed, and the server allows no subscription.
#[test]
fn a_node_that_did_not_answer_is_read_again() {
    let mut servers = Servers::start(1);
    servers[0].command(&["ACL", "SETUSER", "default", "resetchannels"]);
    let holder = client(&servers, LONG);
    let guard = holder.mutex(NAME).renewal(Renewal::Manual).lock().expect("it is free");
    let request = format!("{KEY}{{{}}}:asked", guard.owner());
    servers[0].command(&["SET", &request, "7 deploy", "PX", "600000"]);
    servers[0].pause();
    let asked = guard.asked();
    wait_until("the node is known to be away", LIMIT, || holder.node_stats()[0].fault.is_some());
    assert!(asked.is_empty());
    servers[0].resume();
    assert_eq!(reason(asked), "deploy");
}

/// The nodes keep each request, and the holder gets the later ones as well.
#[test]
fn requests_for_single_names_of_a_lock_are_all_told_and_no_text_that_is_too_long() {
    let servers = Servers::start(3);
    let (holder, other) = (client(&servers, LONG), client(&servers, LONG));
    let names = ["one", "two", "three"];
    let guard = holder.multi_mutex(names).lock().expect("they are free");
    let asked = guard.asked();
    for name in names {
        assert!(other.mutex(name).ask_to_release(name).expect("the nodes are healthy"));
        assert_eq!(reason(asked), name);
    }
    let (key, text) = (format!("quorlock:one{{{}}}:asked", guard.owner()), "x ".repeat(1_000));
    servers.iter().for_each(|server| _ = server.command(&["SET", &key, &text, "PX", "60000"]));
    assert!(other.mutex("two").ask_to_release("again").expect("the nodes are healthy"));
    assert_eq!(reason(asked), "again");
}

/// The request comes as a message, since the lock is not renewed.
#[test]
fn the_documented_access_list_is_enough_to_ask_and_to_be_told() {
    let servers = Servers::start(3);
    let user = access::user("locker", "quorlock:", &access::example_commands());
    let words: Vec<_> = user.iter().map(String::as_str).collect();
    servers.iter().for_each(|server| _ = server.command(&words));
    let urls = || servers.iter().map(|it| it.url().replace("redis://", "redis://locker:secret@"));
    let (holder, other) = (connected(builder(urls(), LONG)), connected(builder(urls(), LONG)));
    let guard = holder.mutex(NAME).renewal(Renewal::Manual).lock().expect("it is free");
    let asked = guard.asked();
    wait_until("the nodes are listened to", LIMIT, || {
        holder.node_stats().iter().all(|node| node.listened_to == 1)
    });
    ask(&other, "deploy");
    assert_eq!(reason(asked), "deploy");
}
