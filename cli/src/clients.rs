//! Several clients, each of which looks to the masters like a process of its own.

use std::time::Duration;

use quorlock::{Builder, Error, Quorlock};

use crate::clock::Time;

/// Time limit of `close`, for releases to reach the masters.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

pub(crate) fn build(builder: &Builder, count: u16) -> Result<Vec<Quorlock>, Error> {
    (0..count).map(|_| builder.clone().build()).collect()
}

/// Ends the calls that wait, and waits until the locks that were given back are free. Guards that live on are not covered: call
/// this again after they are dropped.
pub(crate) fn close(clients: &[Quorlock]) -> Result<(), Error> {
    let until = Time::now().after(CLOSED_WITHIN);
    let close = |client: &Quorlock| client.clone().close(until.since(Time::now()));
    // All clients are closed, even if the time runs out for one.
    clients.iter().map(close).fold(Ok(()), Result::and)
}
