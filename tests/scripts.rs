//! The Lua scripts of mutexes and of operators, run one by one on a real server, as late, repeated and foreign copies would.

mod support;

use std::sync::LazyLock;

use redis::Value;
use support::Server;
use support::lua::{with_includes, with_listed_grant};

const ACQUIRE: &str = include_str!("../lua/mutex/acquire.lua");
static CONFIRM: LazyLock<String> =
    LazyLock::new(|| with_includes(include_str!("../lua/mutex/confirm.lua")));
static EXTEND: LazyLock<String> =
    LazyLock::new(|| with_includes(include_str!("../lua/mutex/extend.lua")));
static RELEASE: LazyLock<String> =
    LazyLock::new(|| with_includes(include_str!("../lua/mutex/release.lua")));
const QUEUE: &str = "{k}:queue";
const HOLDER: &str = include_str!("../lua/node/holder.lua");
const FORCE: &str = include_str!("../lua/node/force.lua");

/// A call without fencing, except for an acquire.
fn run(server: &Server, script: &str, arguments: &[&str]) -> Value {
    server.command(&[&["EVAL", script, "1", "k"], arguments].concat())
}

/// An extension without fencing, on a node without quarantine.
fn extend(server: &Server, arguments: &[&str]) -> Value {
    let tombstone = tombstone(arguments[0]);
    server.command(&[&["EVAL", &EXTEND, "3", "k", MARK, &tombstone], arguments, &["0"]].concat())
}

/// An extension with fencing, on a node whose mark is not checked.
fn fenced_extend(server: &Server, [owner, ttl, until, number, up_to]: [&str; 5]) -> Value {
    let fence_ttl = (OUTLIVES + ttl.parse::<i64>().expect("a number")).to_string();
    let arguments = [owner, ttl, until, "0", number, up_to, &fence_ttl];
    let keys = ["EVAL", &EXTEND, "4", "k", MARK, &tombstone(owner), FENCE];
    server.command(&[&keys[..], &arguments[..]].concat())
}

fn tombstone(owner: &str) -> String {
    format!("k{{{owner}}}:forced")
}

/// An acquire without fencing that is granted if the node has that mark. An empty mark stands for any.
fn take(server: &Server, mark: &str, owner: &str, ttl: &str) -> Value {
    let script = with_includes(ACQUIRE);
    with_listed_grant(
        server.command(&["EVAL", &script, "3", "k", MARK, RESERVED, owner, ttl, mark]),
    )
}

/// Tells the node the lock's number.
fn confirm(server: &Server, owner: &str, number: i64) -> Value {
    fenced(server, &CONFIRM, &[owner, &number.to_string(), &OUTLIVES.to_string()])
}

/// A release that raises the fence to that number, for that many milliseconds.
fn raise(server: &Server, number: &str, ttl: &str) -> Value {
    let keys = ["EVAL", &RELEASE, "3", "k", &tombstone("me"), FENCE];
    server.command(&[&keys[..], &["me", "free", "", "", "", number, ttl]].concat())
}

/// A call with the fence.
fn fenced(server: &Server, script: &str, arguments: &[&str]) -> Value {
    server.command(&[&["EVAL", script, "2", "k", FENCE], arguments].concat())
}

const FENCE: &str = "{k}:fence";
const RESERVED: &str = "{k}:reserved";
const MARK: &str = "{quorlock}:mark";
/// Time by which a fence outlives its lock, in milliseconds.
const OUTLIVES: i64 = 600_000;
/// Beyond the numbers that a Lua script may turn into text.
const BIG: i64 = 1_234_567_890_123_457;
const LARGEST: i64 = (1 << 51) - 1;
const ALWAYS: &str = "99999999999999";

fn pair(code: i64, value: Value) -> Value {
    Value::Array(vec![Value::Int(code), value])
}

#[test]
fn a_late_copy_of_an_acquire_grants_again_and_shortens_nothing() {
    let server = Server::start();
    assert_eq!(take(&server, "", "me", "60000"), pair(1, Value::Int(0)));
    assert_eq!(take(&server, "", "me", "1000"), pair(1, Value::Int(0)));
    assert!(server.pttl("k") > 50_000, "a late copy shortened the key");
    assert_eq!(take(&server, "", "me", "90000"), pair(1, Value::Int(0)));
    assert!(server.pttl("k") > 80_000, "granted for 90 s");
}

#[test]
fn an_acquire_names_who_is_in_the_way() {
    let server = Server::start();
    server.command(&["SET", "k", "other"]);
    assert_eq!(take(&server, "", "me", "1000"), pair(0, Value::Int(-1)));
    server.command(&["DEL", "k"]);
    server.command(&["HSET", "k", "uuid:1", "1"]);
    let data = Value::BulkString(b"hash".to_vec());
    assert_eq!(take(&server, "", "me", "1000"), pair(-2, data), "a hash that never ends");
    server.command(&["PEXPIRE", "k", "60000"]);
    let Value::Array(refused) = take(&server, "", "me", "1000") else { panic!("an array") };
    assert_eq!(refused[0], Value::Int(0), "a hash that ends is another kind of lock");
    server.command(&["DEL", "k"]);
    server.command(&["SADD", "k", "data"]);
    let data = Value::BulkString(b"set".to_vec());
    assert_eq!(take(&server, "", "me", "1000"), pair(-2, data));
}

#[test]
fn an_acquire_grants_under_the_very_mark_that_it_names() {
    let server = Server::start();
    let not_admitted = pair(-1, Value::Int(0));
    let granted = pair(1, Value::Int(0));
    assert_eq!(take(&server, "mark 1", "me", "60000"), not_admitted, "there is none");
    server.command(&["SET", MARK, "mark 2"]);
    for other in ["mark 1", "mark", "mark 2 "] {
        assert_eq!(take(&server, other, "me", "60000"), not_admitted);
    }
    assert_eq!(server.get("k"), None, "nothing was taken");
    assert_eq!(take(&server, "mark 2", "me", "60000"), granted);
    server.command(&["DEL", MARK]);
    assert_eq!(take(&server, "mark 2", "me", "60000"), not_admitted, "a late copy");
    server.command(&["RPUSH", MARK, "data"]);
    assert_eq!(take(&server, "mark 2", "me", "60000"), not_admitted, "no fault of the node");
    assert_eq!(take(&server, "", "me", "60000"), granted, "whatever the mark is");
}

#[test]
fn only_the_owner_extends_and_releases() {
    let server = Server::start();
    take(&server, "", "me", "10000");
    let never = "0";
    let always = "99999999999999";
    assert_eq!(extend(&server, &["other", "60000", always]), Value::Int(0));
    assert!(server.pttl("k") <= 10_000, "somebody else extended it");
    assert_eq!(run(&server, &RELEASE, &["other"]), Value::Int(0));
    assert_eq!(extend(&server, &["me", "60000", never]), Value::Int(1));
    assert!(server.pttl("k") > 50_000);
    assert_eq!(extend(&server, &["me", "1000", never]), Value::Int(1));
    assert!(server.pttl("k") > 50_000, "an extension shortened the key");
    assert_eq!(run(&server, &RELEASE, &["me"]), Value::Int(1));
    assert_eq!(run(&server, &RELEASE, &["me"]), Value::Int(0));
    assert_eq!(extend(&server, &["me", "60000", never]), Value::Int(-1));
    assert_eq!(server.get("k"), None, "an extension set the key again");
    assert_eq!(extend(&server, &["me", "60000", always]), Value::Int(2));
    assert_eq!(server.get("k").as_deref(), Some("me"));
    assert!(server.pttl("k") > 50_000);
}

#[test]
fn a_release_says_how_many_were_told_of_it() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).expect("a valid URL");
    let mut listeners: Vec<_> =
        (0..2).map(|_| client.get_connection().expect("the server is up")).collect();
    let mut listening: Vec<_> = listeners.iter_mut().map(|one| one.as_pubsub()).collect();
    for told in [2, 1, 0] {
        listening.truncate(told);
        listening.iter_mut().for_each(|one| one.subscribe("free").expect("it may"));
        server.command(&["SET", "k", "me"]);
        let told = i64::try_from(told).expect("it is small");
        let answer = match told {
            0 => Value::Int(1),
            told => Value::Array(vec![Value::Int(1), Value::Int(told)]),
        };
        assert_eq!(run(&server, &RELEASE, &["me", "free"]), answer);
        assert_eq!(run(&server, &RELEASE, &["me", "free"]), Value::Int(0), "nothing to be told");
    }
}

#[test]
fn a_release_keeps_the_lock_where_it_is_ours_or_free_until_a_time_of_the_nodes_clock() {
    let server = Server::start();
    let now_ms = || {
        let time = server.command(&["TIME"]);
        let (s, us): (i64, i64) = redis::from_redis_value(time).expect("two numbers");
        s * 1_000 + us / 1_000
    };
    let release_by = |until_ms: i64, by_ms: i64| {
        let keys = ["EVAL", &RELEASE, "2", "k", &tombstone("me")];
        let times = [until_ms, by_ms].map(|ms| ms.to_string());
        server.command(&[&keys[..], &["me", "free", &times[0], &times[1], "me#kept"]].concat())
    };
    let release = |until_ms| release_by(until_ms, until_ms);
    let until_ms = now_ms() + 50_000;
    take(&server, "", "me", "90000");
    assert_eq!(release(until_ms), Value::Int(1));
    // A late copy of the release changes nothing.
    for _ in 0..2 {
        assert_eq!(server.get("k").as_deref(), Some("me#kept"));
        assert!((40_000..=50_000).contains(&server.pttl("k")), "{}", server.pttl("k"));
        assert_eq!(extend(&server, &["me", "90000", ALWAYS]), Value::Int(0), "it is over");
        assert_eq!(release(until_ms), Value::Int(0));
    }
    assert!(matches!(take(&server, "", "other", "90000"), Value::Array(_)));
    assert_eq!(server.get("k").as_deref(), Some("me#kept"), "somebody else has taken it");

    server.command(&["DEL", "k"]);
    assert_eq!(release(until_ms), Value::Int(0), "it was not ours");
    assert_eq!(server.get("k").as_deref(), Some("me#kept"), "but it is free no more");
    server.command(&["SET", "k", "other"]);
    assert_eq!(release(until_ms), Value::Int(0));
    assert_eq!(server.get("k").as_deref(), Some("other"));
    server.command(&["SET", "k", "me"]);
    assert_eq!(release(now_ms() - 1), Value::Int(1));
    assert_eq!(server.get("k"), None, "its time was over");
    assert_eq!(release(now_ms() - 1), Value::Int(0));
    assert_eq!(server.get("k"), None);
    // A late release gives the lock back without keeping it: it may have been taken by force meanwhile.
    assert_eq!(release_by(until_ms, now_ms() - 1), Value::Int(0));
    server.command(&["SET", "k", "me"]);
    assert_eq!(release_by(until_ms, now_ms() - 1), Value::Int(1));
    assert_eq!(server.get("k"), None);
    // A lock that was taken from its holder by force is not kept either.
    server.command(&["SET", &tombstone("me"), "1", "PX", "60000"]);
    assert_eq!(release(until_ms), Value::Int(0));
    server.command(&["SET", "k", "me"]);
    assert_eq!(release(until_ms), Value::Int(1));
    assert_eq!(server.get("k"), None);
}

/// After such a release a late repair finds a larger number.
#[test]
fn a_release_that_raises_the_fence_keeps_late_repairs_out() {
    let server = Server::start();
    let repair = || fenced_extend(&server, ["me", "60000", ALWAYS, "7", "7"]);
    assert_eq!(repair(), Value::Int(2));
    assert_eq!(run(&server, &RELEASE, &["me", "free"]), Value::Int(1));
    assert_eq!(repair(), Value::Int(2), "nothing was raised");
    assert_eq!(raise(&server, "8", "90000"), Value::Int(1));
    assert_eq!((fence(&server), server.get("k")), (8, None));
    assert_eq!(repair(), pair(-2, Value::Int(8)));
    assert_eq!(server.get("k"), None);
    // The fence rises even without our key, and it never falls.
    assert_eq!(raise(&server, "9", "90000"), Value::Int(0));
    assert_eq!(raise(&server, "5", "90000"), Value::Int(0));
    assert_eq!(fence(&server), 9);
    let largest = LARGEST.to_string();
    assert_eq!(raise(&server, &largest, "90000"), Value::Int(0));
    assert_eq!(fence(&server), LARGEST);
    // No extension gets past a foreign value under the fence's key either.
    server.command(&["DEL", FENCE]);
    server.command(&["RPUSH", FENCE, "data"]);
    assert_eq!(raise(&server, "9", "90000"), Value::Int(0));
    assert_eq!(server.command(&["LLEN", FENCE]), Value::Int(1));
}

#[test]
fn data_that_is_no_lock_is_no_fault_of_the_node() {
    let server = Server::start();
    server.command(&["RPUSH", "k", "data"]);
    assert_eq!(extend(&server, &["me", "60000", "99999999999999"]), Value::Int(0));
    assert_eq!(run(&server, &RELEASE, &["me"]), Value::Int(0));
    assert_eq!(server.command(&["LLEN", "k"]), Value::Int(1));
}

fn fence(server: &Server) -> i64 {
    server.get(FENCE).expect("there is a fence").parse().expect("a number")
}

fn set_fence(server: &Server, number: i64) {
    server.command(&["SET", FENCE, &number.to_string(), "PX", "60000"]);
}

fn acquire(server: &Server, owner: &str, proposal: i64) -> Value {
    let (proposal, fence_ttl) = (proposal.to_string(), (OUTLIVES + 60_000).to_string());
    let script = with_includes(ACQUIRE);
    let keys = ["EVAL", &script, "4", "k", MARK, RESERVED, FENCE];
    with_listed_grant(
        server.command(&[&keys[..], &[owner, "60000", "", &proposal, &fence_ttl]].concat()),
    )
}

fn granted(number: i64) -> Value {
    pair(1, Value::Int(number))
}

#[test]
fn a_grant_takes_the_proposal_or_what_is_above_the_fence_and_is_exact() {
    let server = Server::start();
    for (proposal, number) in
        [(BIG, BIG), (BIG, BIG + 1), (7, BIG + 2), (BIG + 4, BIG + 4), (LARGEST, LARGEST)]
    {
        assert_eq!(acquire(&server, "me", proposal), granted(number));
        assert_eq!(fence(&server), number, "kept as it was answered");
        let lives = server.pttl(FENCE);
        assert!(
            lives > OUTLIVES + 50_000 && lives <= OUTLIVES + 60_000,
            "ten minutes longer than the lock: {lives}"
        );
        assert_eq!(run(&server, &RELEASE, &["me"]), Value::Int(1));
        assert_eq!(fence(&server), number, "it outlives the lock");
    }
}

#[test]
fn a_copy_of_an_acquire_is_answered_the_same_number() {
    let server = Server::start();
    assert_eq!(acquire(&server, "me", BIG), granted(BIG));
    assert_eq!(acquire(&server, "me", BIG), granted(BIG), "nothing is counted twice");
    // The owner's write-back has come in between.
    let raised = (BIG + 9).to_string();
    assert_eq!(confirm(&server, "me", BIG + 9), Value::Int(1));
    assert_eq!(acquire(&server, "me", BIG), granted(BIG + 9));
    // A late copy of an acquire whose lock was extended meanwhile: the fence outlives the extension.
    let extension = ["me", "90000", ALWAYS, &raised, &raised];
    assert_eq!(fenced_extend(&server, extension), Value::Int(1));
    assert_eq!(acquire(&server, "me", BIG), granted(BIG + 9));
    let lives = server.pttl(FENCE);
    assert!(
        lives > OUTLIVES + 80_000 && lives <= OUTLIVES + 90_000,
        "ten minutes longer than the lock: {lives}"
    );
    // The fence is gone, which should not happen.
    server.command(&["DEL", FENCE]);
    assert_eq!(acquire(&server, "me", BIG), granted(BIG));
    let Value::Array(refused) = acquire(&server, "other", BIG + 9) else { panic!("an array") };
    assert_eq!(refused[0], Value::Int(0));
    assert_eq!(fence(&server), BIG, "a refusal leaves it alone");
}

#[test]
fn no_number_is_granted_twice_at_the_end_of_the_range() {
    let server = Server::start();
    let (spent, no_number) = (pair(-3, Value::Int(0)), pair(-3, Value::Int(1)));
    set_fence(&server, LARGEST);
    assert_eq!(acquire(&server, "me", 1), spent);
    assert_eq!((server.get("k"), fence(&server)), (None, LARGEST), "nothing was granted");
    server.command(&["DEL", FENCE]);
    assert_eq!(acquire(&server, "me", LARGEST + 1), spent);
    assert_eq!(server.get(FENCE), None, "it was not granted");
    for strange in ["nonsense", "", "inf", "nan"] {
        server.command(&["SET", FENCE, strange]);
        assert_eq!(acquire(&server, "me", BIG), no_number, "{strange}");
        assert_eq!(server.get("k"), None);
        assert_eq!(server.get(FENCE).as_deref(), Some(strange), "it is as it was");
    }
    server.command(&["DEL", FENCE]);
    server.command(&["RPUSH", FENCE, "data"]);
    assert_eq!(acquire(&server, "me", BIG), no_number);
    assert_eq!(server.get("k"), None);
    assert_eq!(server.command(&["LLEN", FENCE]), Value::Int(1));
}

#[test]
fn a_number_is_confirmed_only_where_the_lock_is_ours() {
    let server = Server::start();
    let confirm = |owner, number| confirm(&server, owner, number);
    assert_eq!(confirm("me", BIG), Value::Int(0));
    assert_eq!(server.get(FENCE), None);
    acquire(&server, "me", BIG);
    assert_eq!(confirm("other", BIG + 5), Value::Int(0));
    assert_eq!(fence(&server), BIG);
    assert_eq!(confirm("me", BIG + 5), Value::Int(1));
    assert_eq!(fence(&server), BIG + 5);
    assert_eq!(confirm("me", BIG + 3), Value::Int(1), "it knows more already");
    assert_eq!(fence(&server), BIG + 5);
    assert!(server.pttl(FENCE) > OUTLIVES + 50_000);
    server.command(&["DEL", "k"]);
    server.command(&["RPUSH", "k", "data"]);
    assert_eq!(confirm("me", BIG + 9), Value::Int(0), "data is no fault of the node");
}

#[test]
fn an_extension_is_refused_for_no_fence_and_has_it_outlive_the_lock() {
    let server = Server::start();
    let extend =
        |ttl: &str| fenced_extend(&server, ["me", ttl, ALWAYS, &BIG.to_string(), &BIG.to_string()]);
    acquire(&server, "me", BIG);
    set_fence(&server, BIG + 1_000);
    assert_eq!(extend("90000"), Value::Int(1), "a larger number is not in the way");
    assert_eq!(fence(&server), BIG + 1_000);
    assert!(server.pttl(FENCE) > OUTLIVES + 80_000);
    assert_eq!(extend("1000"), Value::Int(1));
    assert!(server.pttl(FENCE) > OUTLIVES + 80_000, "the key lives on, too");
    server.command(&["DEL", FENCE]);
    assert_eq!(extend("90000"), Value::Int(1));
    assert_eq!(fence(&server), BIG, "one that is gone is there again");
    assert!(server.pttl(FENCE) > OUTLIVES + 80_000);
}

#[test]
fn a_repair_writes_the_fence_and_stops_at_a_larger_one() {
    let server = Server::start();
    let extend = |up_to: i64, until: &str| {
        fenced_extend(&server, ["me", "60000", until, &BIG.to_string(), &up_to.to_string()])
    };
    assert_eq!(extend(BIG, "0"), Value::Int(-1), "too late");
    assert_eq!(server.get(FENCE), None);
    assert_eq!(extend(BIG, ALWAYS), Value::Int(2));
    assert_eq!(fence(&server), BIG);
    assert!(server.pttl(FENCE) > OUTLIVES + 50_000);

    server.command(&["DEL", "k"]);
    set_fence(&server, BIG + 2);
    assert_eq!(extend(BIG, ALWAYS), pair(-2, Value::Int(BIG + 2)));
    assert_eq!(extend(BIG + 1, ALWAYS), pair(-2, Value::Int(BIG + 2)));
    assert_eq!(server.get("k"), None);
    assert_eq!(extend(BIG + 2, ALWAYS), Value::Int(2));
    assert_eq!(server.get("k").as_deref(), Some("me"));
    assert_eq!(fence(&server), BIG + 2, "it never falls");
}

/// All calls that may write the fence of a lock for which `me` asks first: an acquire and a late copy of it, a
/// confirmation, an extension, a repair, and a release that raises it. `seen` checks the fence after each.
fn all_that_write_the_fence(server: &Server, seen: impl Fn(&str)) {
    let extend = |number: i64| {
        let number = number.to_string();
        fenced_extend(server, ["me", "60000", ALWAYS, &number, &number])
    };
    assert_eq!(acquire(server, "me", BIG), granted(BIG));
    seen("acquire");
    assert_eq!(acquire(server, "me", BIG), granted(BIG));
    seen("late copy");
    assert_eq!(confirm(server, "me", BIG + 1), Value::Int(1));
    seen("confirm");
    assert_eq!(extend(BIG + 1), Value::Int(1));
    seen("extend");
    server.command(&["DEL", "k"]);
    assert_eq!(extend(BIG + 2), Value::Int(2));
    seen("repair");
    let (raised, lasts) = ((BIG + 3).to_string(), (OUTLIVES + 60_000).to_string());
    assert_eq!(raise(server, &raised, &lasts), Value::Int(1));
    seen("release");
    assert_eq!(fence(server), BIG + 3);
}

#[test]
fn whatever_writes_a_fence_has_it_outlive_the_lock_by_ten_minutes() {
    let server = Server::start();
    all_that_write_the_fence(&server, |what| {
        let lives = server.pttl(FENCE);
        assert!((OUTLIVES + 50_000..=OUTLIVES + 60_000).contains(&lives), "{what}: {lives}");
        // As with an old lock, or one with a short TTL.
        server.command(&["PEXPIRE", FENCE, "50000"]);
    });
}

/// Another version keeps fences for longer, or another client has asked for a longer TTL.
#[test]
fn the_end_of_a_fence_is_never_brought_forward() {
    let server = Server::start();
    server.command(&["SET", FENCE, "7", "PX", "86400000"]);
    all_that_write_the_fence(&server, |what| {
        let lives = server.pttl(FENCE);
        assert!(lives > 86_300_000, "{what}: {lives}");
    });
}

#[test]
fn a_fence_that_was_set_without_an_end_stays_for_ever() {
    let server = Server::start();
    server.command(&["SET", FENCE, "7"]);
    all_that_write_the_fence(&server, |what| assert_eq!(server.pttl(FENCE), -1, "{what}"));
}

/// Another client may have taken a lock under the fence's key, in the layout of the Redlock algorithm.
#[test]
fn what_is_no_fence_keeps_its_value_and_its_end() {
    let server = Server::start();
    let no_number = pair(-3, Value::Int(1));
    let extend = || {
        let number = BIG.to_string();
        fenced_extend(&server, ["me", "60000", ALWAYS, &number, &number])
    };
    for (value, end) in [
        (&["SET", FENCE, "owner"], false),
        (&["SET", FENCE, "owner"], true),
        (&["RPUSH", FENCE, "data"], false),
        (&["RPUSH", FENCE, "data"], true),
    ] {
        server.command(&["DEL", FENCE]);
        server.command(value);
        if end {
            server.command(&["PEXPIRE", FENCE, "50000"]);
        }
        let left = || (server.command(&["DUMP", FENCE]), server.pttl(FENCE));
        let (before, lives) = left();
        let untouched = |what: &str| {
            let (now, lives_now) = left();
            assert!(now == before && lives_now <= lives, "{what}, {value:?}, {end}: {lives_now}");
            assert_eq!(lives_now > 0, end, "{what}, {value:?}");
        };
        assert_eq!(acquire(&server, "me", BIG), no_number);
        untouched("acquire");
        assert_eq!(take(&server, "", "me", "10000"), granted(0));
        assert_eq!(extend(), Value::Int(1));
        untouched("extend");
        run(&server, &RELEASE, &["me", "free"]);
    }
}

#[test]
fn without_fencing_no_fence_is_touched() {
    let server = Server::start();
    take(&server, "", "me", "60000");
    extend(&server, &["me", "60000", ALWAYS]);
    server.command(&["DEL", "k"]);
    assert_eq!(extend(&server, &["me", "60000", ALWAYS]), Value::Int(2));
    assert_eq!(run(&server, &RELEASE, &["me"]), Value::Int(1));
    assert_eq!(server.command(&["DBSIZE"]), Value::Int(0));
}

#[test]
fn a_repair_tells_whether_the_node_grants_to_newcomers() {
    const ADMITTED: &str = "quorlock-mark 1 set=a nodes=3 max_ttl_ms=1000 quarantine=on index=- \
                            run=1 repl=2 admitted";
    let quarantined = ADMITTED.replace("admitted", "quarantined until_ms=- id=00");
    let server = Server::start();
    let repair = |quarantine: &str| {
        server.command(&["DEL", "k"]);
        let until = ["me", "60000", ALWAYS, quarantine];
        let keys = ["EVAL", &EXTEND, "3", "k", MARK, &tombstone("me")];
        let reply = server.command(&[&keys[..], &until[..]].concat());
        assert_eq!(server.get("k").as_deref(), Some("me"));
        reply
    };
    assert_eq!(repair("1"), Value::Int(3), "nobody has looked since it forgot");
    assert_eq!(repair("0"), Value::Int(2), "a mark keeps nobody out");
    server.command(&["SET", MARK, &quarantined]);
    assert_eq!(repair("1"), Value::Int(3));
    for other in [ADMITTED, "", "something else"] {
        server.command(&["SET", MARK, other]);
        assert_eq!(repair("1"), Value::Int(2), "{other}");
    }
    server.command(&["DEL", MARK]);
    server.command(&["RPUSH", MARK, "data"]);
    assert_eq!(repair("1"), Value::Int(2), "no fault of the node");
}

fn read_of(owner: &str) -> String {
    format!("{{k}}:{owner}:rwlock_timeout:1")
}

/// Takes the lock from these owners, and remembers them for a minute.
fn force(server: &Server, owners: &[&str]) -> Value {
    let keys = (owners.len() * 2 + 1).to_string();
    let tombstones: Vec<_> = owners.iter().map(|owner| tombstone(owner)).collect();
    let tombstones: Vec<_> = tombstones.iter().map(String::as_str).collect();
    let reads: Vec<_> = owners.iter().map(|owner| read_of(owner)).collect();
    let reads: Vec<_> = reads.iter().map(String::as_str).collect();
    let words = [
        &["EVAL", FORCE, &keys, "k"],
        &tombstones[..],
        &reads[..],
        &["60000", "free", "theirs", "of rwlocks"],
        owners,
    ]
    .concat();
    server.command(&words)
}

#[test]
fn who_was_forced_out_gets_a_lock_back_by_no_extension() {
    let server = Server::start();
    take(&server, "", "me", "60000");
    assert_eq!(force(&server, &["other", "me"]), Value::Int(1));
    assert_eq!(server.get("k"), None);
    for owner in ["me", "other"] {
        let left = server.pttl(&tombstone(owner));
        assert!(left > 50_000 && left <= 60_000, "also of an owner without a key: {left}");
        // Neither a repair nor the bounded repair sets the key.
        assert_eq!(extend(&server, &[owner, "60000", ALWAYS]), Value::Int(0));
        let bounded = [owner, "60000", ALWAYS, "7", &LARGEST.to_string()];
        assert_eq!(fenced_extend(&server, bounded), Value::Int(0));
        assert_eq!((server.get("k"), server.get(FENCE)), (None, None), "nothing was set");
    }
    // A late copy of the acquire takes the lock again, for its own TTL, and no extension prolongs it.
    take(&server, "", "me", "10000");
    assert_eq!(extend(&server, &["me", "60000", ALWAYS]), Value::Int(0));
    assert!(server.pttl("k") <= 10_000);
    assert_eq!(run(&server, &RELEASE, &["me", "free"]), Value::Int(1), "it can be given back");
    // Other owners are not affected, and a copy of the force does nothing to them.
    take(&server, "", "next", "60000");
    assert_eq!(force(&server, &["other", "me"]), Value::Int(0));
    assert_eq!(extend(&server, &["next", "60000", ALWAYS]), Value::Int(1));
    assert_eq!(server.get("k").as_deref(), Some("next"));
}

#[test]
fn of_a_hash_the_owners_that_are_named_are_taken_and_no_others() {
    let server = Server::start();
    let fields = || server.command(&["HKEYS", "k"]);
    server.command(&["HSET", "k", "mode", "read", "a:1", "1", "b:2", "1"]);
    assert_eq!(force(&server, &["a:1"]), Value::Int(0), "no lock is without an end");
    server.command(&["PEXPIRE", "k", "60000"]);
    server.command(&["SET", &read_of("a:1"), "1", "PX", "60000"]);
    assert_eq!(force(&server, &["a:1", "c:3"]), Value::Int(1));
    assert_eq!(server.get(&read_of("a:1")), None);
    let left = |field: &str| Value::BulkString(field.into());
    assert_eq!(fields(), Value::Array(vec![left("mode"), left("b:2")]));
    assert_eq!(force(&server, &["b:2"]), Value::Int(1));
    assert_eq!(fields(), Value::Array(vec![]), "its mode is nobody's");
}

#[test]
fn what_is_no_lock_is_not_forced_open() {
    let server = Server::start();
    server.command(&["SET", "k", "data"]);
    assert_eq!(force(&server, &["data"]), Value::Int(0));
    assert_eq!(server.get("k").as_deref(), Some("data"));
    server.command(&["DEL", "k"]);
    server.command(&["RPUSH", "k", "data"]);
    assert_eq!(force(&server, &["data"]), Value::Int(0));
    assert_eq!(server.command(&["LLEN", "k"]), Value::Int(1));
}

#[test]
fn a_node_says_as_what_a_lock_is_held_and_how_many_wait() {
    let server = Server::start();
    let said = || {
        let Value::Array(mut said) =
            server.command(&["EVAL", HOLDER, "3", "k", MARK, QUEUE, "{k}"])
        else {
            panic!("no list")
        };
        (said.pop(), said.pop())
    };
    let says = |waiting, as_what: &str| {
        (Some(Value::Int(waiting)), Some(Value::BulkString(as_what.into())))
    };
    assert_eq!(said(), says(0, ""));
    server.command(&["ZADD", QUEUE, "1", "a", "2", "b"]);
    for (fields, as_what) in [
        (&["me", "1"][..], "reentrant"),
        (&["mode", "write", "me:write", "1"], "write"),
        (&["permits", "5", "me", "99999999999999 0 1"], "semaphore 5"),
        (&["permits", "5 5", "me", "99999999999999 0 1"], ""),
        (&["permits", "5", "me", "1 0"], ""),
    ] {
        server.command(&["DEL", "k"]);
        server.command(&[&["HSET", "k"], fields].concat());
        server.command(&["PEXPIRE", "k", "60000"]);
        assert_eq!(said(), says(2, as_what));
    }
    server.command(&["DEL", "k"]);
    server.command(&["HSET", "k", "mode", "read", "a:1", "1"]);
    server.command(&["PEXPIRE", "k", "60000"]);
    server.command(&["SET", "{k}:a:1:rwlock_timeout:1", "1", "PX", "60000"]);
    assert_eq!(said(), says(2, "read"));
    server.command(&["SET", "k", "me", "PX", "60000"]);
    assert_eq!(said(), says(2, "exclusive"));
    // A foreign value under the queue's key is no queue.
    server.command(&["SET", QUEUE, "data"]);
    assert_eq!(said(), says(0, "exclusive"));
}

#[test]
fn a_node_says_who_has_a_lock_of_any_layout() {
    let server = Server::start();
    let text = |text: &str| Value::BulkString(text.into());
    let holder = || {
        let Value::Array(mut said) =
            server.command(&["EVAL", HOLDER, "4", "k", MARK, QUEUE, FENCE, "{k}"])
        else {
            panic!("no list")
        };
        let ms = std::mem::replace(&mut said[1], Value::Nil);
        let Value::Int(ms) = ms else { panic!("no time: {ms:?}") };
        assert_eq!(said.pop(), Some(Value::Int(0)), "nobody waits");
        let Some(Value::BulkString(_)) = said.pop() else { panic!("no kind") };
        (ms, said)
    };
    let said = |kind: &str, number, forgetful, owners: &[&str]| {
        let owners = Value::Array(owners.iter().map(|owner| text(owner)).collect());
        vec![text(kind), Value::Nil, Value::Int(number), Value::Int(forgetful), owners]
    };
    assert_eq!(holder(), (0, said("none", 0, 1, &[])), "there is no mark");
    server.command(&["SET", MARK, "quorlock-mark 2 admitted"]);
    assert_eq!(holder(), (0, said("none", 0, 0, &[])));
    server.command(&["SET", MARK, "quorlock-mark 2 quarantined until_ms=- id=00"]);
    assert_eq!(acquire(&server, "me", BIG), granted(BIG));
    let (ms, string) = holder();
    assert_eq!(string, said("string", BIG, 1, &["6d65"]));
    assert!(ms > 50_000 && ms <= 60_000, "{ms}");
    server.command_bytes(&[b"SET", b"k", b"\xff\0\n"]);
    assert_eq!(holder(), (-1, said("string", BIG, 1, &["ff000a"])));
    server.command(&["SET", "k", &"o".repeat(513)]);
    assert_eq!(holder(), (-1, said("long", BIG, 1, &[])));
    server.command(&["DEL", "k"]);
    server.command(&["HSET", "k", "mode", "read", "a:1", "1"]);
    assert_eq!(holder(), (-1, said("hash", BIG, 1, &[])), "it is no lock");
    server.command(&["PEXPIRE", "k", "60000"]);
    assert_eq!(holder(), (0, said("none", BIG, 1, &[])), "a read whose string is gone is over");
    server.command(&["SET", "{k}:a:1:rwlock_timeout:1", "1", "PX", "60000"]);
    server.command(&["HSET", "k", "b:1", "1"]);
    let (ms, hash) = holder();
    assert_eq!(hash, said("hash", BIG, 1, &["613a31"]));
    assert!(ms > 50_000 && ms <= 60_000, "{ms}");
    server.command(&["HDEL", "k", "mode"]);
    for i in 0..200 {
        server.command(&["HSET", "k", &i.to_string(), "1"]);
    }
    let Some(Value::Array(owners)) = holder().1.pop() else { panic!("no list") };
    assert_eq!(owners.len(), 100);
    // A foreign value under the fence or the mark is no fault of the node.
    for key in ["k", MARK, FENCE] {
        server.command(&["DEL", key]);
        server.command(&["RPUSH", key, "data"]);
    }
    assert_eq!(holder(), (-1, said("list", 0, 1, &[])));
}
