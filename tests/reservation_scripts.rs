//! Reservations in the acquire scripts of all kinds, on a real server.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;
use support::lua::with_includes;
use support::{Server, kinds, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const MARK: &str = "{quorlock}:mark";
const RESERVED: &str = "{k}:reserved";
const WITHDRAW: &str = include_str!("../lua/shared/withdraw.lua");

/// The lifetime of a reservation in milliseconds. Nodes ignore longer ones than 10 s.
const LASTS_MS: i64 = 9_000;

/// The stored length of one reservation, in bytes.
const ENTRY: usize = 51;

/// An acquire script without fencing, and its arguments apart from the owner and the priority.
struct Kind {
    name: &'static str,
    acquire: &'static str,
    keys: &'static [&'static str],
    owner: &'static str,
    /// The arguments before and after the reservation. None of these calls has a number.
    before: &'static [&'static str],
    behind: &'static [&'static str],
}

const MUTEX: Kind = Kind {
    name: "mutex",
    acquire: include_str!("../lua/mutex/acquire.lua"),
    keys: &["k", MARK, RESERVED],
    owner: "a#1",
    before: &["", ""],
    behind: &[],
};

const SEMAPHORE: Kind = Kind {
    name: "semaphore",
    acquire: include_str!("../lua/semaphore/acquire.lua"),
    keys: &["k", MARK, RESERVED],
    owner: "a#1",
    before: &[],
    behind: &["1", "0"],
};

const READ: Kind = Kind {
    name: "read",
    acquire: include_str!("../lua/rwlock/read_acquire.lua"),
    keys: &["k", MARK, RESERVED, "{k}:a:1:rwlock_timeout:1"],
    owner: "a:1",
    before: &["", ""],
    behind: &[],
};

/// Every kind. A test compares them with the library's list.
const KINDS: &[Kind] = &[
    MUTEX,
    Kind {
        name: "reentrant",
        acquire: include_str!("../lua/reentrant/acquire.lua"),
        keys: &["k", MARK, RESERVED],
        owner: "a:1",
        before: &["", ""],
        behind: &[],
    },
    Kind {
        name: "fair_mutex",
        acquire: include_str!("../lua/fair/acquire.lua"),
        keys: &["k", MARK, RESERVED, "{k}:queue", "{k}:queue_ends"],
        owner: "a#1",
        before: &["a#queued", "0", "0", "", ""],
        behind: &[],
    },
    Kind {
        name: "write",
        acquire: include_str!("../lua/rwlock/write_acquire.lua"),
        keys: &["k", MARK, RESERVED],
        owner: "a:1:write",
        before: &["waiting", "", ""],
        behind: &[],
    },
    SEMAPHORE,
    Kind {
        name: "multi_mutex",
        acquire: include_str!("../lua/multi/acquire.lua"),
        keys: &[MARK, RESERVED, "k"],
        owner: "a#1",
        before: &["", ""],
        behind: &[],
    },
    READ,
];

fn run(server: &Server, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
    let (script, count) = (with_includes(script), keys.len().to_string());
    server.command(&[&["EVAL", &script, &count], keys, arguments].concat())
}

impl Kind {
    /// Asks for the lock. `reserves`: the caller's priority, and the time for which it reserves the lock.
    fn ask(&self, server: &Server, reserves: &str) -> Value {
        let arguments =
            [&[self.owner, "60000", ""], self.before, &[reserves], self.behind].concat();
        run(server, self.acquire, self.keys, &arguments)
    }
}

fn priority(of: u32) -> String {
    format!("{of:034}")
}

fn reserving(of: u32) -> String {
    format!("{of:034} {LASTS_MS}")
}

fn granted(answer: &Value) -> bool {
    match answer {
        Value::Array(values) => values[0] == Value::Int(1),
        answer => matches!(answer, Value::BulkString(_)), // the number alone
    }
}

/// The time of a refusal in milliseconds.
fn refused(answer: &Value) -> Option<i64> {
    match answer {
        Value::Array(values) => match values[..] {
            [Value::Int(0), Value::Int(ms), ..] => Some(ms),
            _ => None,
        },
        _ => None,
    }
}

/// The priorities of the reservations, in order.
fn reserved(server: &Server) -> Vec<u32> {
    let text = server.get(RESERVED).unwrap_or_default();
    assert_eq!(text.len() % ENTRY, 0, "{text}");
    let number = |entry: &[u8]| String::from_utf8_lossy(&entry[..34]).parse().expect("a number");
    text.as_bytes().chunks(ENTRY).map(number).collect()
}

fn withdraw(server: &Server, of: u32) -> Value {
    run(server, WITHDRAW, &[RESERVED], &[&priority(of), "told"])
}

/// Holds the lock for another client, as a foreign key.
fn hold(server: &Server) {
    server.command(&["SET", "k", "somebody else", "PX", "60000"]);
}

#[test]
fn every_kind_is_tested_here() {
    let of_library: BTreeSet<_> = kinds::KINDS.iter().map(|kind| kind.label()).collect();
    let tested: BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(tested, of_library);
}

#[test]
fn a_refused_caller_reserves_the_lock_and_goes_before_younger_ones() {
    for kind in KINDS {
        let (server, name) = (Server::start(), kind.name);
        hold(&server);
        for reserves in ["", &priority(5), &reserving(5), &reserving(5)] {
            assert!(refused(&kind.ask(&server, reserves)).is_some(), "{name}");
            let expected = if reserves.len() > 34 { vec![5] } else { Vec::new() };
            assert_eq!(reserved(&server), expected, "{name}");
        }
        assert!((1..=LASTS_MS).contains(&server.pttl(RESERVED)), "{name}: it ends by itself");
        server.command(&["DEL", "k"]);
        if name != "read" {
            // A read yields to reservations of all other kinds, but not to those of reads.
            let ms = refused(&READ.ask(&server, "")).expect("somebody else goes first");
            assert!((1..=LASTS_MS).contains(&ms), "{name}: {ms}");
        }
        for other in KINDS.iter().filter(|other| other.name != "read") {
            for younger in ["", &priority(6)] {
                let ms = refused(&other.ask(&server, younger)).expect("somebody else goes first");
                assert!((1..=LASTS_MS).contains(&ms), "{name}: {ms}");
            }
        }
        assert!(granted(&kind.ask(&server, &reserving(5))), "{name}");
        assert!(reserved(&server).is_empty(), "{name}: it needs it no longer");
        assert!(granted(&kind.ask(&server, &reserving(5))), "{name}: a copy");
        assert!(reserved(&server).is_empty(), "{name}");
    }
}

#[test]
fn an_older_caller_goes_before_a_reservation_and_replaces_it() {
    for kind in KINDS {
        let (server, name) = (Server::start(), kind.name);
        hold(&server);
        for of in [5, 3, 8] {
            assert!(refused(&MUTEX.ask(&server, &reserving(of))).is_some());
        }
        assert_eq!(reserved(&server), [3, 5, 8]);
        server.command(&["DEL", "k"]);
        assert!(refused(&kind.ask(&server, &priority(4))).is_some(), "{name}");
        assert!(granted(&kind.ask(&server, &priority(2))), "{name}");
        assert_eq!(reserved(&server), [3, 5, 8], "{name}");
    }
}

#[test]
fn a_reservation_ends_by_itself_and_what_is_none_reserves_nothing() {
    for kind in KINDS {
        let (server, name) = (Server::start(), kind.name);
        hold(&server);
        let short = format!("{} 100", priority(1));
        assert!(refused(&MUTEX.ask(&server, &short)).is_some());
        // Another caller keeps the key alive, but not the reservation that is over.
        assert!(refused(&MUTEX.ask(&server, &reserving(9))).is_some());
        wait_until("its end", LIMIT, || {
            let _ = MUTEX.ask(&server, &reserving(9));
            reserved(&server) == [9]
        });
        server.command(&["DEL", "k", RESERVED]);
        // A reservation from a clock that was set back by hours since then.
        let late = format!("{} {:015}x", priority(1), 99_999_999_999_999_u64);
        for strange in ["nonsense", "", &late] {
            server.command(&["SET", RESERVED, strange, "PX", "60000"]);
            assert!(granted(&kind.ask(&server, "")), "{name}: {strange}");
            server.command(&["DEL", "k"]);
        }
        server.command(&["DEL", RESERVED]);
        server.command(&["RPUSH", RESERVED, "a"]);
        assert!(granted(&kind.ask(&server, "")), "{name}");
        server.command(&["DEL", "k"]);
        hold(&server);
        assert!(refused(&kind.ask(&server, &reserving(1))).is_some(), "{name}");
        let kind_there = server.command(&["TYPE", RESERVED]);
        assert_eq!(kind_there, Value::SimpleString("list".to_owned()), "{name}: it stays");
    }
}

/// A shared lock may always have some holder.
#[test]
fn a_caller_that_says_so_reserves_only_beside_a_kind_that_may_have_several_holders() {
    let only = format!("{} s", reserving(5));
    let holds: [(&str, &[&str]); 3] = [
        ("read", &["mode", "read", "b:1", "1"]),
        ("semaphore", &["permits", "1", "b#1", "99999999999999 0"]),
        ("reentrant", &["b:1", "1"]),
    ];
    for kind in KINDS.iter().filter(|kind| !["multi_mutex", "read", "write"].contains(&kind.name)) {
        let (server, name) = (Server::start(), kind.name);
        for (holder, fields) in holds {
            server.command(&["DEL", "k", RESERVED]);
            server.command(&[&["HSET", "k"], fields].concat());
            server.command(&["PEXPIRE", "k", "60000"]);
            assert!(refused(&kind.ask(&server, &only)).is_some(), "{name}");
            let expected = if holder == name { vec![] } else { vec![5] };
            assert_eq!(reserved(&server), expected, "{name} beside {holder}");
        }
        server.command(&["DEL", "k", RESERVED]);
        hold(&server);
        assert!(refused(&kind.ask(&server, &only)).is_some(), "{name}");
        assert!(reserved(&server).is_empty(), "{name}");
    }
}

/// In a rolling deployment, a caller with another number of permits waits until the last hold with the old number has
/// ended. Its reservation prevents new holds with the old number.
#[test]
fn a_caller_with_another_number_of_permits_reserves_beside_the_holders() {
    let server = Server::start();
    let semaphore = |owner, permits, slot, reserves: &str| {
        let arguments = [owner, "60000", "", reserves, permits, slot];
        run(&server, SEMAPHORE.acquire, SEMAPHORE.keys, &arguments)
    };
    assert!(granted(&semaphore("a#1", "2", "0", "")));
    let waits = format!("{} s", reserving(1));
    let Value::Array(answer) = semaphore("b#1", "3", "0", &waits) else { panic!("a list") };
    assert_eq!(answer[..2], [Value::Int(-4), Value::Int(2)]);
    assert_eq!(reserved(&server), [1]);
    assert!(refused(&semaphore("a#2", "2", "1", "")).is_some(), "its other permit is free");
    server.command(&["DEL", "k"]);
    assert!(granted(&semaphore("b#2", "3", "0", &waits)));
    assert_eq!(reserved(&server), [0_u32; 0]);
}

#[test]
fn a_node_keeps_the_oldest_reservations() {
    let server = Server::start();
    hold(&server);
    for of in (10..30).rev() {
        assert!(refused(&MUTEX.ask(&server, &reserving(of))).is_some());
    }
    assert_eq!(reserved(&server), (10..18).collect::<Vec<_>>());
    assert!(refused(&MUTEX.ask(&server, &reserving(40))).is_some());
    assert_eq!(reserved(&server), (10..18).collect::<Vec<_>>(), "it comes again");
}

#[test]
fn a_reservation_is_withdrawn_by_its_caller_alone_and_that_is_told_if_others_waited_for_it() {
    let server = Server::start();
    hold(&server);
    for of in [1, 2, 3] {
        assert!(refused(&MUTEX.ask(&server, &reserving(of))).is_some());
    }
    let client = redis::Client::open(server.url()).expect("a valid URL");
    let mut connection = client.get_connection().expect("it runs");
    let mut told = connection.as_pubsub();
    told.subscribe("told").expect("it may");
    assert_eq!(withdraw(&server, 9), Value::Int(0));
    assert_eq!(withdraw(&server, 2), Value::Int(1), "nobody waited because of it");
    assert_eq!(reserved(&server), [1, 3]);
    assert_eq!(withdraw(&server, 1), Value::Int(1));
    assert_eq!(reserved(&server), [3]);
    let message = told.get_message().expect("it is told");
    assert_eq!(message.get_payload::<String>().expect("text"), priority(1));
    assert_eq!(withdraw(&server, 1), Value::Int(0), "a copy");
    assert_eq!(withdraw(&server, 3), Value::Int(1));
    assert!(server.get(RESERVED).is_none());
    let message = told.get_message().expect("it is told");
    assert_eq!(message.get_payload::<String>().expect("text"), priority(3));
    // A reservation that is over, and still stored, delays no caller.
    assert!(refused(&MUTEX.ask(&server, &format!("{} 20", priority(4)))).is_some());
    assert!(refused(&MUTEX.ask(&server, &reserving(5))).is_some());
    let text = server.get(RESERVED).expect("two entries");
    wait_until("the end of the first", LIMIT, || {
        server.command(&["SET", "k", "somebody else", "PX", "60000"]);
        matches!(server.command(&["TIME"]), Value::Array(time) if ends_before(&text, &time))
    });
    assert_eq!(withdraw(&server, 5), Value::Int(1));
    let message = told.get_message().expect("it is told");
    assert_eq!(message.get_payload::<String>().expect("text"), priority(5));
}

/// Returns true if the first entry has ended by the server's `time`.
fn ends_before(entries: &str, time: &[Value]) -> bool {
    let number = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).parse::<u64>().expect("a number"),
        other => panic!("{other:?}"),
    };
    let ends: u64 = entries[35..50].parse().expect("its end");
    ends < number(&time[0]) * 1_000 + number(&time[1]) / 1_000
}

/// A caller of several names waits for all of them, so its reservation is stored under all of them.
#[test]
fn several_names_are_reserved_together() {
    let server = Server::start();
    let multi = include_str!("../lua/multi/acquire.lua");
    let keys = [MARK, RESERVED, "{l}:reserved", "k", "l"];
    let ask = |reserves: &str| run(&server, multi, &keys, &["m#1", "60000", "", "", "", reserves]);
    let mutex = |name: &str, reserves: &str| {
        let reserved = format!("{{{name}}}:reserved");
        run(
            &server,
            MUTEX.acquire,
            &[name, MARK, &reserved],
            &["a#1", "60000", "", "", "", reserves],
        )
    };
    assert!(granted(&mutex("k", "")));
    assert!(refused(&ask(&reserving(5))).is_some());
    assert_eq!(reserved(&server), [5]);
    assert!(refused(&mutex("l", "")).is_some(), "also the name that is free");
    assert!(granted(&mutex("l", &priority(4))));
    server.command(&["DEL", "k", "l"]);
    assert!(refused(&mutex("k", &reserving(7))).is_some());
    server.command(&["SET", "{l}:reserved", ""]);
    assert!(refused(&mutex("l", "")).is_none(), "the other name is free");
    server.command(&["DEL", "l"]);
    assert!(refused(&ask(&priority(8))).is_some(), "one name is reserved by an older one");
    assert!(granted(&ask(&reserving(5))));
    assert_eq!(reserved(&server), [7]);
    assert!(server.get("{l}:reserved").is_none_or(|text| text.is_empty()));
}

/// The mutex script begins with setting the key, which such a server refuses.
#[test]
fn a_server_that_is_out_of_memory_keeps_no_reservation() {
    for kind in KINDS.iter().filter(|kind| kind.name != "mutex") {
        let server = Server::start();
        hold(&server);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        assert!(refused(&kind.ask(&server, &reserving(1))).is_some(), "{}", kind.name);
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        assert!(reserved(&server).is_empty());
    }
}
