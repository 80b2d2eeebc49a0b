//! The signals that come, as messages.

use nix::sys::signal::{SigSet, Signal};
use quorlock::crossbeam_channel::{Receiver, bounded};
use signal_hook::iterator::Signals;

use crate::clock;
use crate::exit::Failure;

/// What a user or the system sends to end a program, or to tell it something.
pub(super) const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Of these the ones that end a program.
pub(super) const ENDING: [Signal; 4] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// More are never waiting, since each is looked at at once.
const WAITING: usize = 64;

/// The signals from now on. Those that were ignored when the program was started, as by `nohup`, are ignored by the command
/// as well, and by the wait for the lock.
pub(super) fn listen() -> Result<Receiver<Signal>, Failure> {
    let ignored = ignored();
    let is_ignored = |signal: Signal| ignored >> (signal as u32 - 1) & 1 == 1;
    let heard = PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal));
    // Caught and not blocked: what is blocked would be blocked in the command, too.
    let suspends = [Signal::SIGTSTP].into_iter().filter(|signal| !is_ignored(*signal));
    let heard = heard.chain(suspends).chain([Signal::SIGCHLD]);
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
pub(super) fn hold_off() {
    // None of the signals is one that cannot be blocked.
    let _ = PASSED_ON.into_iter().collect::<SigSet>().thread_block();
}
