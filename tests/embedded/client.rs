//! A connection that shows answers as they came, errors included.

use std::time::Duration;

use redis::{Client, Cmd, Connection, IntoConnectionInfo, RedisConnectionInfo, RedisResult, Value};

const LIMIT: Duration = Duration::from_secs(10);

/// Without the usual greeting by name, so that a node that hangs can be connected to.
pub(crate) fn connect(url: &str) -> Connection {
    let quietly = RedisConnectionInfo::default().set_skip_set_lib_name();
    let info = url.into_connection_info().expect("a URL").set_redis_settings(quietly);
    let client = Client::open(info).expect("a URL");
    let connection = client.get_connection_with_timeout(LIMIT).expect("its port is open");
    connection.set_read_timeout(Some(LIMIT)).expect("more than zero");
    connection
}

/// Runs a command; panics only if there is no answer.
pub(crate) fn run<T: AsRef<[u8]>>(connection: &mut Connection, words: &[T]) -> Value {
    try_run(connection, words).expect("it answers")
}

/// Runs a command. An error that a node answers is a value.
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

/// Reads nothing for a while: `None`. For nodes that are not to answer.
pub(crate) fn answer_within(connection: &mut Connection, limit: Duration) -> Option<Value> {
    connection.set_read_timeout(Some(limit)).expect("more than zero");
    let answer = connection.recv_response().ok();
    connection.set_read_timeout(Some(LIMIT)).expect("more than zero");
    answer
}
