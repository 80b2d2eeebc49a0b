//! The signals that come, as messages.

use nix::sys::signal::{SigSet, Signal};
use quorlock::crossbeam_channel::{Receiver, bounded};
use signal_hook::iterator::Signals;

use crate::clock;
use crate::exit::Failure;

/// What a user or the system sends to end a program, or to tell it something.
pub(crate) const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Of these the ones that end a program.
pub(crate) const ENDING: [Signal; 4] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// More are never waiting, since each is looked at at once.
const WAITING: usize = 64;

/// The signals from now on that a command and its keeper need. Those that were ignored when the program was started, as by
/// `nohup`, are ignored by the command as well, and by the wait for the lock.
pub(crate) fn listen() -> Result<Receiver<Signal>, Failure> {
    // Caught and not blocked: what is blocked would be blocked in the command, too.
    let heard = not_ignored(PASSED_ON.into_iter().chain([Signal::SIGTSTP]));
    hear(heard.chain([Signal::SIGCHLD]))
}

/// The signals from now on that end a program, without those that were ignored when it was started.
pub(crate) fn listen_to_ending() -> Result<Receiver<Signal>, Failure> {
    hear(not_ignored(ENDING.into_iter()))
}

fn not_ignored(signals: impl Iterator<Item = Signal>) -> impl Iterator<Item = Signal> {
    let ignored = ignored();
    signals.filter(move |signal| ignored >> (*signal as u32 - 1) & 1 == 0)
}

fn hear(heard: impl Iterator<Item = Signal>) -> Result<Receiver<Signal>, Failure> {
    let heard: Vec<_> = heard.map(|signal| signal as i32).collect();
    let mut signals = Signals::new(heard).map_err(Failure::own)?;
    let (sender, received) = bounded(WAITING);
    let waits = move || {
        for signal in signals.forever().filter_map(|signal| Signal::try_from(signal).ok()) {
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    clock::spawn("signals", waits).map_err(Failure::own)?;
    Ok(received)
}

/// The signals that this process ignores, a bit for each: it inherited them from the process that started it.
fn ignored() -> u64 {
    // Where the system has no such file, nobody knows.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let set = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// From now on nothing but SIGKILL ends this process, which starts no other one.
pub(crate) fn block_signals() {
    // None of the signals is one that cannot be blocked.
    let _ = PASSED_ON.into_iter().collect::<SigSet>().thread_block();
}
