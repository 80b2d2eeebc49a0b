//! The witness: a process that knows nothing of locks, and writes down who says what, and when.
//!
//! Contenders, one connection each, tell it what they do in lines of JSON. It answers each line with its own
//! monotonic time, a stamp, and appends both to the history. It also keeps what the locks protect ([`stores`]).
//! It judges nothing: the checks are pure functions over the history (`judge`).
//!
//! **Who was inside when.** A contender tells [`Event::Inside`], and is answered the stamp `s`. *Then* it asks
//! its guard whether the lock is valid, and for how much longer, `r`, and tells both as [`Event::Valid`]. So the
//! lock was granted before `s`, and valid after `s`. A lock that was lost never becomes valid again, so it was
//! valid at `s`. For the same reason it was valid between two such stamps. And the library has promised it until
//! `s + r`, since `r` was asked for after `s`. [`Event::Leaving`] is told before the lock is given back.
//!
//! So the interval of a guard goes from its first proven stamp to the stamp of `Leaving` or to the last `s + r`,
//! whichever is earlier. If the contender was killed, or stopped and never came back, it goes to the last `s + r`,
//! for that is the promise. If the guard told of a loss before its time, it goes to the last proven stamp. All
//! stamps are of one clock. So two intervals that overlap are two valid guards at once: neither delays of messages nor stopped
//! processes can make the history say so by mistake. Guards with a name in common must not, unless both are of
//! the same kind, and that kind is shared; or both are of one semaphore, and have no more permits together than it has.

#![allow(
    dead_code,
    unused_imports,
    reason = "compiled into several programs, and each uses only a part of it"
)]

pub(crate) mod client;
pub(crate) mod event;
pub(crate) mod history;
pub(crate) mod server;
pub(crate) mod stores;

pub(crate) use client::Client;
pub(crate) use event::{Answer, Class, Event, Kind, Outcome, Phase, Record, Stamp, Store};
pub(crate) use history::History;
pub(crate) use server::Server;
