//! Fixed sequences, run on a real server and on an embedded node.

use quorlock::embedded::Nodes;

use crate::commands::{Call, Comparison};
use crate::differential::{Both, call};
use crate::support::Server;
use crate::support::lua::with_includes;

/// Edge cases that random sequences rarely reach, and those that they have found: a line for each sequence, with `;`
/// between the commands and `~` for blanks within words.
const BORDERS: &[&str] = &[
    "SET k v PXAT 4102444800000; PEXPIREAT k 4102444800000 GT; PEXPIREAT k 4102444800000 LT",
    "SET k v; PEXPIREAT k 4102444800000 GT; PTTL k; PEXPIREAT k 4102444800000 LT; PEXPIRETIME k",
    "SET k v PXAT 4102444800000; SET k w KEEPTTL; PEXPIRETIME k; INCR k; SET k 1; PTTL k; INCR k",
    "SET k v PXAT 1000; EXISTS k; SET k v; EXPIRE k 0; EXISTS k; SET k v; PEXPIREAT k -1; GET k",
    "SET k v EX 9223372036854775807; SET k v PX 9223372036854775807; SET k v EX 0; SET k v PX -1",
    "SET k v; SET k w NX GET; GET k; SET n w XX GET; SET n w NX GET; HSET h f v; SET h v GET",
    "ZADD z 1 a; ZADD z GT 1 a; ZADD z GT CH 2 a; ZADD z LT CH 2 a; ZADD z XX CH 3 b; ZCARD z",
    "ZADD z 1 b 1 a inf c -inf d; ZRANGE z 0 -1 WITHSCORES; ZRANGEBYSCORE z (1 inf; ZRANK z b",
    "ZRANGE z 0 -1; ZADD z 1 a 2 b 3 c; ZRANGE z -inf inf BYSCORE LIMIT 1 -1; ZRANGE z 5 9; ZRANGE z -9 0",
    "RPUSH l a b a b a; LREM l -2 a; LRANGE l 0 -1; LREM l 1 b; LRANGE l 0 -1; LREM l 0 b; LRANGE l -9 9",
    "RPUSH l a b; LINDEX l -3; LINDEX l -2; LINDEX l 2; LPOP l; LPOP l; EXISTS l; LPOP l; RPOP l",
    "HSET h f v; HDEL h f; EXISTS h; HINCRBY h n 9223372036854775807; HINCRBY h n 1; HGET h n",
    "SADD s a a b; SREM s a b c; TYPE s; INCRBY n 9223372036854775807; INCR n; DECR n; STRLEN n",
    "PEXPIREAT k 1000 a\r\nb; PING; NOSUCH a\r\nb; PING; EVAL return~redis.error_reply('a\\nb') 0; PING",
    "EVAL return~{1,~2.9,~-2.9,~'3',~true,~false,~4} 0; EVAL return~{1,~nil,~2} 0; EVAL return 0",
    "EVAL return~123456789012345 0; EVAL return~tostring(123456789012345) 0",
    "EVAL return~redis.call('ECHO',123456789012345678) 0; EVAL return~redis.call('ECHO',1e14+0.5) 0",
    "EVAL return~{2^53,~2^53+1,~2^63,~-2^63} 0; EVAL return~redis.call('INCRBY','n',2^53+2) 0; GET n",
    "EVAL redis.call('SET','k','v')~error('x') 0; GET k; EVAL return~redis.call('HGET','k','f') 0",
    "EVAL return~redis.call('INCRBY','n',2^60) 0; EVAL return~redis.call('GET','n')+0 0; GET n",
    "EVAL return~{ok='fine',~err='BAD~x'} 0; EVAL return~redis.error_reply('BAD~x') 0; \
     EVAL return~redis.error_reply('0x10,\\0~x') 0; EVAL return~redis.error_reply('-BAD~x\\0y') 0",
    "EVAL return~pcall(redis.call,'GET') 0; EVAL return~{pcall(error,{err='BAD~x'})} 0",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0; SCRIPT LOAD return~7",
    "EVALSHA f1ad1c48cd6b5d8fd8e1b2a9e1de5b6ee3cf6cb5 0; SCRIPT EXISTS x; SCRIPT NOSUCH; EVAL return~1 2 k",
];

#[test]
fn borders_are_where_a_server_has_them() {
    let (server, nodes) = (Server::start(), Nodes::start(1).expect("a port is free"));
    let mut both = Both::connect(&server, &nodes);
    for sequence in BORDERS {
        both.history.clear();
        both.compare(&call("FLUSHALL", Comparison::Exact));
        for command in sequence.split(';') {
            let mut call = call(command.trim(), Comparison::Exact);
            for byte in call.words.iter_mut().flatten().filter(|byte| **byte == b'~') {
                *byte = b' ';
            }
            both.compare(&call);
        }
    }
}

const ACQUIRE: &str = include_str!("../../lua/mutex/acquire.lua");
const CONFIRM: &str = include_str!("../../lua/mutex/confirm.lua");
const EXTEND: &str = include_str!("../../lua/mutex/extend.lua");

/// Numbers of grants up to the last one, and values that are no numbers: Lua counts in floating point, and random
/// sequences never reach the end.
#[test]
fn the_numbers_of_grants_are_where_a_server_has_them() {
    const NUMBERS: [&str; 4] = ["1", "123456789012346", "2251799813685247", "2251799813685248"];
    let (server, nodes) = (Server::start(), Nodes::start(1).expect("a port is free"));
    let mut both = Both::connect(&server, &nodes);
    let script = with_includes(ACQUIRE);
    let (extends, confirms) = (with_includes(EXTEND), with_includes(CONFIRM));
    let known = ["0", "1.5", "no number", "2251799813685246", "9007199254740993"];
    for known in NUMBERS.into_iter().chain(known) {
        for number in NUMBERS {
            both.history.clear();
            let acquire = |owner| {
                let keys = ["EVAL", &script, "4", "k", "mark", "reserved", "fence"];
                [&keys[..], &[owner, "60000000", "", number]].concat()
            };
            let extend = |until, up_to| {
                let keys = ["EVAL", &extends, "4", "k", "mark", "forced", "fence"];
                [&keys[..], &["me", "70000000", until, "1", number, up_to]].concat()
            };
            for words in [
                vec!["FLUSHALL"],
                vec!["SET", "fence", known],
                acquire("me"),
                acquire("me"),
                vec!["GET", "fence"],
                vec!["EVAL", &confirms, "2", "k", "fence", "me", number],
                extend("0", number),
                vec!["GET", "fence"],
                vec!["DEL", "k"],
                extend("0", number),
                extend("99999999999999", "0"),
                extend("99999999999999", known),
                vec!["GET", "fence"],
                vec!["GET", "k"],
            ] {
                let words = words.into_iter().map(|word| word.as_bytes().to_vec()).collect();
                both.compare(&Call { words, comparison: Comparison::Exact });
            }
        }
    }
}
