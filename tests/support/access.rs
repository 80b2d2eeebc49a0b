//! What the access list of a server has to allow, as the manual's example has it.

/// The commands that every client needs, whatever kinds of locks it takes: to look at a node and its mark, to
/// call scripts, to hear of releases, and to end its old connections.
pub const EVERY_CLIENT: &[&str] = &[
    "ping",
    "time",
    "info",
    "eval",
    "evalsha",
    "get",
    "set",
    "del",
    "type",
    "publish",
    "subscribe",
    "unsubscribe",
    "client|id",
    "client|kill",
];

/// The commands that operators need besides, to ask who holds a lock of any layout, to force it open, and to list what is held.
pub const OPERATORS: &[&str] = &["pttl", "pexpire", "hgetall", "hdel", "zcard", "scan"];

/// The words of the manual's example, from `ACL SETUSER locker on >password` on.
pub fn example() -> Vec<&'static str> {
    let manual = include_str!("../../OPERATIONS.md");
    let line = manual.lines().find(|line| line.starts_with("ACL SETUSER locker on >password "));
    line.expect("the example").split(' ').collect()
}

/// The commands that the example allows.
pub fn example_commands() -> Vec<&'static str> {
    example().iter().filter_map(|word| word.strip_prefix('+')).collect()
}

/// The patterns of keys, or of channels, that the example allows, with `sign` before each.
pub fn example_patterns(sign: char) -> Vec<&'static str> {
    example().into_iter().filter(|word| word.starts_with(sign)).collect()
}

/// The words that make a user with the password `secret`, who may use the keys and channels of the example,
/// with `prefix` for the key prefix there, and just these commands.
pub fn user(name: &str, prefix: &str, commands: &[&str]) -> Vec<String> {
    let user = ["ACL", "SETUSER", name, "reset", "on", ">secret"].map(str::to_owned);
    // The longer ones first: without a prefix the other one is all keys, and servers take no pattern behind it.
    let patterns = ['~', '&'].into_iter().flat_map(|sign| example_patterns(sign).into_iter().rev());
    let patterns = patterns.map(|pattern| pattern.replace("quorlock:", prefix));
    let commands = commands.iter().map(|command| format!("+{command}"));
    user.into_iter().chain(patterns).chain(commands).collect()
}
