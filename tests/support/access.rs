//! The permissions that a server's access list must grant, as in the manual's example.

/// The commands that every client needs, for all kinds of locks: to probe a node and its mark, to
/// call scripts, to listen for releases, to end its old connections, and to name them.
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
    "client|setname",
];

/// The further commands for operators: to ask for the holder of a lock of any layout, to force a lock open, and to list locks.
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

/// The words that create a user with the password `secret`. The user may use the keys and channels of the example,
/// with `prefix` in place of the key prefix, and just these commands.
pub fn user(name: &str, prefix: &str, commands: &[&str]) -> Vec<String> {
    // Redis 6.2 gives a new user all channels.
    let user = ["ACL", "SETUSER", name, "reset", "on", ">secret", "resetchannels"];
    let user = user.map(str::to_owned);
    // Longer patterns first: without a prefix the other pattern covers all keys, and servers accept no pattern after it.
    let patterns = ['~', '&'].into_iter().flat_map(|sign| example_patterns(sign).into_iter().rev());
    let patterns = patterns.map(|pattern| pattern.replace("quorlock:", prefix));
    let commands = commands.iter().map(|command| format!("+{command}"));
    user.into_iter().chain(patterns).chain(commands).collect()
}
