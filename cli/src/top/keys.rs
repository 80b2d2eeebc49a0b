//! The keys that are typed, as messages on a channel.

use std::io::{self, Read, stdin};

use quorlock::crossbeam_channel::{Receiver, bounded};

use crate::clock;

/// Capacity of the channel. Further keys wait in the terminal.
const WAITING: usize = 16;

pub(super) enum Key {
    Quit,
    /// Asks the masters at once.
    Refresh,
}

/// Receives the keys from now on.
pub(super) fn listen() -> io::Result<Receiver<Key>> {
    let (sender, keys) = bounded(WAITING);
    let reads = move || {
        for byte in stdin().lock().bytes() {
            let key = match byte {
                Ok(b'q' | b'Q') => Key::Quit,
                Ok(b' ') => Key::Refresh,
                Ok(_) => continue,
                Err(_) => return,
            };
            if sender.send(key).is_err() {
                return;
            }
        }
    };
    clock::spawn("keys", reads)?;
    Ok(keys)
}
