//! The engine at times that the tests choose. `tests/embedded` compares it with real servers.

use std::time::Duration;

use super::*;

const NOW: Duration = Duration::from_secs(1_700_000_000);

fn engine() -> Engine {
    Engine::new(&"a".repeat(40))
}

fn at(engine: &mut Engine, now: Duration, words: &[&str]) -> Reply {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    engine.call(&words, now)
}

fn run(engine: &mut Engine, words: &[&str]) -> Reply {
    at(engine, NOW, words)
}

fn eval(engine: &mut Engine, script: &str) -> Reply {
    run(engine, &["EVAL", script, "0"])
}

fn error(reply: &Reply) -> &str {
    let Reply::Error(text) = reply else { panic!("no error: {reply:?}") };
    text
}

fn bulk(text: &str) -> Reply {
    Reply::bulk(text)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn it_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Engine>();
}

#[test]
fn pcall_answers_as_many_results_as_there_are() {
    let mut engine = engine();
    for (function, results) in [("", 1), ("return nil", 2), ("return 1, nil, nil", 4)] {
        let script = format!("return select('#', pcall(function() {function} end))");
        assert_eq!(eval(&mut engine, &script), Reply::Int(results), "{function}");
    }
}

/// Keys that are set or deleted between the steps of a scan make it neither miss nor repeat another key.
#[test]
fn a_scan_tells_each_key_once_that_is_there_all_the_time() {
    let mut engine = engine();
    let key = |i: usize| format!("key-{i}");
    (0..100).for_each(|i| drop(run(&mut engine, &["SET", &key(i), "v"])));
    let (mut cursor, mut told, mut steps) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = run(&mut engine, &["SCAN", &cursor, "MATCH", "key-*", "COUNT", "7"]);
        let Reply::List(parts) = reply else { panic!("no list: {reply:?}") };
        let [Reply::Bulk(next), Reply::List(keys)] = parts.as_slice() else { panic!("{parts:?}") };
        assert!(keys.len() <= 7, "{keys:?}");
        told.extend(keys.iter().cloned());
        cursor = String::from_utf8(next.clone()).expect("digits");
        steps += 1;
        run(&mut engine, &["DEL", &key(steps + 49)]);
        run(&mut engine, &["SET", &format!("other-{steps}"), "v"]);
        if cursor == "0" {
            break;
        }
    }
    assert!(steps > 10, "{steps}");
    for i in (0..50).chain(49 + steps + 1..100) {
        assert_eq!(told.iter().filter(|told| **told == bulk(&key(i))).count(), 1, "{i}");
    }
}

#[test]
fn keys_end_by_the_time_of_the_call() {
    let mut engine = engine();
    assert_eq!(run(&mut engine, &["SET", "k", "v", "PX", "100"]), Reply::ok());
    assert_eq!(at(&mut engine, NOW + ms(40), &["PTTL", "k"]), Reply::Int(60));
    assert_eq!(at(&mut engine, NOW + ms(100), &["GET", "k"]), bulk("v"));
    assert_eq!(engine.keys(NOW + ms(100)).len(), 1);
    assert_eq!(at(&mut engine, NOW + ms(101), &["GET", "k"]), Reply::Nil);
    assert_eq!(engine.keys(NOW + ms(101)), []);
    // An expired key does not come back when the clock goes back.
    assert_eq!(run(&mut engine, &["GET", "k"]), Reply::Nil);
}

#[test]
fn the_clock_may_go_back() {
    let mut engine = engine();
    at(&mut engine, NOW + ms(5_000), &["SET", "k", "v", "PX", "1000"]);
    assert_eq!(at(&mut engine, NOW, &["PTTL", "k"]), Reply::Int(6_000));
}

#[test]
fn keys_are_shown_with_their_values_and_ends() {
    let mut engine = engine();
    run(&mut engine, &["SET", "b", "v", "PX", "100"]);
    run(&mut engine, &["HSET", "a", "f", "1"]);
    let keys = engine.keys(NOW);
    let hash = [(b"f".to_vec(), b"1".to_vec())].into_iter().collect();
    assert_eq!(
        keys,
        [
            LiveKey { key: b"a".to_vec(), value: Value::Hash(hash), expires_at: None },
            LiveKey {
                key: b"b".to_vec(),
                value: Value::Text(b"v".to_vec()),
                expires_at: Some(NOW + ms(100)),
            },
        ]
    );
}

#[test]
fn a_restart_forgets_scripts_and_what_it_is_told_to() {
    let mut engine = engine();
    let Reply::Bulk(sha) = run(&mut engine, &["SCRIPT", "LOAD", "return 7"]) else {
        panic!("no hash")
    };
    let sha = String::from_utf8(sha).expect("hexadecimal digits");
    run(&mut engine, &["SET", "k", "v"]);
    assert_eq!(run(&mut engine, &["EVALSHA", &sha, "0"]), Reply::Int(7));

    engine.restart(&"b".repeat(40), true);
    assert!(error(&run(&mut engine, &["EVALSHA", &sha, "0"])).starts_with("NOSCRIPT "));
    assert_eq!(run(&mut engine, &["GET", "k"]), bulk("v"));
    let Reply::Bulk(info) = run(&mut engine, &["INFO", "server"]) else { panic!("no text") };
    let info = String::from_utf8(info).expect("text");
    assert!(info.contains(&format!("run_id:{}\r\n", "b".repeat(40))), "{info}");
    assert!(!info.contains("role:"), "{info}");

    engine.restart(&"c".repeat(40), false);
    assert_eq!(run(&mut engine, &["GET", "k"]), Reply::Nil);
}

#[test]
fn time_stands_still_in_a_script() {
    let mut engine = engine();
    let script = "redis.call('SET', 'k', 'v', 'PX', 1) \
                  local before = redis.call('TIME')[2] \
                  for i = 1, 100000 do end \
                  return {redis.call('TIME')[2] - before, redis.call('GET', 'k')}";
    assert_eq!(eval(&mut engine, script), Reply::List(vec![Reply::Int(0), bulk("v")]));
}

/// Lua writes numbers with 14 digits; `redis.call` must keep all digits.
#[test]
fn large_numbers_lose_their_digits_as_text_only() {
    let mut engine = engine();
    let script = "local n = 123456789012345 \
                  redis.call('SET', 'direct', n) redis.call('SET', 'text', n .. '') \
                  return {n, tostring(n), redis.call('GET', 'direct'), redis.call('GET', 'text')}";
    assert_eq!(
        eval(&mut engine, script),
        Reply::List(vec![
            Reply::Int(123_456_789_012_345),
            bulk("1.2345678901234e+14"),
            bulk("123456789012345"),
            bulk("1.2345678901234e+14"),
        ])
    );
    // Beyond 2^53, neighbouring integers become the same number.
    assert_eq!(eval(&mut engine, "return 9007199254740993"), Reply::Int(9_007_199_254_740_992));
    assert_eq!(
        eval(&mut engine, "return redis.call('INCRBY', 'n', 9007199254740993)"),
        Reply::Int(9_007_199_254_740_992)
    );
}

#[test]
fn a_script_that_fails_keeps_what_it_wrote() {
    let mut engine = engine();
    let reply = eval(&mut engine, "redis.call('SET', 'k', 'v') redis.call('HGET', 'k', 'f')");
    assert!(error(&reply).starts_with("WRONGTYPE "), "{reply:?}");
    assert_eq!(run(&mut engine, &["GET", "k"]), bulk("v"));
}

/// A server with `maxmemory` and without eviction does the same.
#[test]
fn out_of_memory_nothing_may_grow_unless_the_script_has_written_before() {
    let mut engine = engine();
    run(&mut engine, &["HSET", "h", "f", "v"]);
    engine.set_full(true);
    for refused in ["'SET', 'k', 'v'", "'HSET', 'h', 'g', 'v'", "'ZADD', 'z', 1, 'm'"] {
        let reply = eval(&mut engine, &format!("return redis.call({refused})"));
        assert!(error(&reply).starts_with("OOM "), "{refused}: {reply:?}");
    }
    for first in ["'DEL', 'none'", "'HDEL', 'h', 'none'", "'PEXPIREAT', 'none', 1"] {
        let script = format!("redis.call({first}) return redis.call('HSET', 'h', 'f', 'v')");
        assert_eq!(eval(&mut engine, &script), Reply::Int(0), "{first}");
    }
    assert_eq!(eval(&mut engine, "return redis.call('HGET', 'h', 'f')"), bulk("v"));
}

/// A server from 7.0 on with `min-replicas-to-write` does the same.
#[test]
fn without_its_replicas_it_writes_nothing_and_answers_reads() {
    let mut engine = engine();
    run(&mut engine, &["SET", "k", "v"]);
    engine.lose_replicas();
    for refused in ["'SET', 'k', 'w'", "'DEL', 'k'", "'PEXPIRE', 'k', 1000"] {
        let reply = eval(&mut engine, &format!("return redis.call({refused})"));
        assert!(error(&reply).starts_with("NOREPLICAS "), "{refused}: {reply:?}");
    }
    assert_eq!(eval(&mut engine, "return redis.call('GET', 'k')"), bulk("v"));
    assert_eq!(eval(&mut engine, "return redis.call('PUBLISH', 'c', 'm')"), Reply::Int(0));
}

#[test]
fn a_script_that_does_not_end_is_ended() {
    let mut engine = engine();
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function forever() return pcall(function() while true do end end), forever() end \
         return forever()",
        "return string.rep('x', 1e9)",
        "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1e6) .. i end",
        "local t = {} t[1] = t return t",
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
        "local function deep(n) return 1 + deep(n) end return deep(1)",
        "local s = string.rep('(', 1e5) return string.find(s, s)",
        "local function nest(n) return (string.gsub('x', 'x', function() return nest(n) end)) end \
         return nest(1)",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
    ] {
        let reply = eval(&mut engine, script);
        assert!(error(&reply).starts_with("ERR "), "{script}: {reply:?}");
        assert_eq!(eval(&mut engine, "return 'well'"), bulk("well"), "after {script}");
    }
}

#[test]
fn scripts_leave_nothing_behind() {
    let mut engine = engine();
    for script in [
        "x = 1",
        "string.find = nil",
        "redis.call = nil",
        "KEYS.x = 1 ARGV = nil",
        "setmetatable(string, {})",
        "getmetatable('').__index = nil",
        "return x",
        "return os.time()",
        "return loadstring('return 1')()",
        "return math.random()",
    ] {
        error(&eval(&mut engine, script));
    }
    let script = "return {string.find('abc', 'b'), #KEYS, #ARGV, type(redis.call)}";
    let expected = vec![Reply::Int(2), Reply::Int(0), Reply::Int(0), bulk("function")];
    assert_eq!(eval(&mut engine, script), Reply::List(expected));
}

#[test]
fn bad_calls_are_errors_and_no_more() {
    let mut engine = engine();
    for words in [
        &[][..],
        &["NOSUCH"],
        &["GET"],
        &["EVAL"],
        &["EVAL", "return 1"],
        &["EVAL", "return 1", "x"],
        &["EVAL", "return 1", "-1"],
        &["EVAL", "return 1", "2", "k"],
        &["EVAL", "return (", "0"],
        &["EVAL", "\x1bLua", "0"],
        &["SCRIPT"],
        &["SCRIPT", "LOAD"],
        &["SELECT", "1"],
        &["SET", "k", "v", "PX", "9223372036854775807"],
        &["PEXPIRE", "k", "9223372036854775807"],
    ] {
        let reply = run(&mut engine, words);
        assert!(error(&reply).starts_with("ERR "), "{words:?}: {reply:?}");
    }
}

#[test]
fn remembered_scripts_are_bounded() {
    let mut engine = engine();
    for i in 0..2_500 {
        assert_eq!(eval(&mut engine, &format!("return {i}")), Reply::Int(i));
    }
}
