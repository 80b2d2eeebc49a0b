//! A connection that returns answers unchanged, including errors.

use std::time::Duration;

use redis::{Client, Cmd, Connection, IntoConnectionInfo, RedisConnectionInfo, RedisResult, Value};

const LIMIT: Duration = Duration::from_secs(10);

/// Connects without the usual greeting by name, which a hung node would not answer.
pub(crate) fn connect(url: &str) -> Connection {
    let quietly = RedisConnectionInfo::default().set_skip_set_lib_name();
    let info = url.into_connection_info().expect("a URL").set_redis_settings(quietly);
    let client = Client::open(info).expect("a URL");
    let connection = client.get_connection_with_timeout(LIMIT).expect("its port is open");
    connection.set_read_timeout(Some(LIMIT)).expect("more than zero");
    connection
}

/// Runs a command. Panics only if no answer comes.
pub(crate) fn run<T: AsRef<[u8]>>(connection: &mut Connection, words: &[T]) -> Value {
    try_run(connection, words).expect("it answers")
}

/// Runs a command. An error reply of the node is a value.
pub(crate) fn try_run<T: AsRef<[u8]>>(
    connection: &mut Connection,
    words: &[T],
) -> RedisResult<Value> {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word.as_ref());
    }
    connection.send_packed_command(&command.get_packed_command())?;
    connection.recv_response()
}

/// Reads an answer, or returns `None` after `limit`. For nodes that must not answer.
pub(crate) fn answer_within(connection: &mut Connection, limit: Duration) -> Option<Value> {
    connection.set_read_timeout(Some(limit)).expect("more than zero");
    let answer = connection.recv_response().ok();
    connection.set_read_timeout(Some(LIMIT)).expect("more than zero");
    answer
}
