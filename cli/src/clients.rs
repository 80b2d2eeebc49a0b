//! Several clients, each of which does to the masters what a process of its own does.

use std::time::Duration;

use quorlock::{Builder, Error, Quorlock};

use crate::clock::Time;

/// How long their end may take: for what they have given back to be free.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

pub(crate) fn build(builder: &Builder, count: u16) -> Result<Vec<Quorlock>, Error> {
    (0..count).map(|_| builder.clone().build()).collect()
}

/// Ends the calls that wait, and waits until what was given back is free. Once nobody has a guard any more, another call of this
/// waits for what those guards have given back.
pub(crate) fn close(clients: &[Quorlock]) -> Result<(), Error> {
    let until = Time::now().after(CLOSED_WITHIN);
    let close = |client: &Quorlock| client.clone().close(until.since(Time::now()));
    // All of them, also if it takes too long for one.
    clients.iter().map(close).fold(Ok(()), Result::and)
}
