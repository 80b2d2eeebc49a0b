//! The witness: a process that knows nothing of locks, and records the contenders' reports with their times.
//!
//! Contenders report what they do, in lines of JSON over one connection each. The witness answers each line with a
//! stamp of its own monotonic clock, and appends both to the history. It also keeps the data that the locks protect
//! ([`stores`]). It judges nothing: the checks are pure functions over the history (`judge`).
//!
//! **Proof that a guard is valid.** A contender reports [`Event::Inside`], and gets the stamp `s`. *Then* it asks
//! its guard if the lock is valid, and for how much longer, `r`, and reports both as [`Event::Valid`]. So the
//! lock was granted before `s`, and valid after `s`. A lost lock never becomes valid again, so it was
//! valid at `s`. For the same reason it was valid between two such stamps. And the library has promised it until
//! `s + r`, since `r` was asked for after `s`. [`Event::Leaving`] is reported before the lock is given back.
//!
//! So the interval of a guard goes from its first proven stamp to the stamp of `Leaving` or to the last `s + r`,
//! whichever is earlier. If the contender was killed, or stopped and never resumed, it goes to the last `s + r`,
//! which is the promise. If the guard reported a loss before its time, it goes to the last proven stamp. All
//! stamps are from one clock. So two intervals that overlap are two valid guards at once: neither delayed messages nor
//! stopped processes can produce such a history by mistake. Guards with a name in common must not overlap, unless both have
//! the same shared kind, or both belong to one semaphore and have no more permits together than it has.

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
