//! The signals that come, as messages.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use nix::sys::signal::{SigSet, Signal};
use quorlock::crossbeam_channel::{Receiver, bounded};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::clock;
use crate::exit::{End, Failure};

/// Signals that are not for the command, or cannot be heard.
const KEPT: [Signal; 16] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    // These two are of this process's own children, and its own writes.
    Signal::SIGCHLD,
    Signal::SIGPIPE,
    // The job's: this process is suspended and resumed along with the command.
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCONT,
    // They tell of a fault of this process itself, or of a file of its own that is too large.
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
    Signal::SIGXFSZ,
];

/// Signals that a user or a supervisor sends to end a program. They are for the whole of a command.
pub(crate) const ENDING: [Signal; 4] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Signals that do not end the wait for the lock: they are for the command, or end no program.
const HARMLESS: [Signal; 5] =
    [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH, Signal::SIGURG, Signal::SIGIO];

/// The signals that are passed on to the command.
fn passed_on() -> impl Iterator<Item = Signal> {
    Signal::iterator().filter(|signal| !KEPT.contains(signal))
}

/// Returns true if that signal ends the wait for the lock.
pub(crate) fn ends_the_wait(signal: Signal) -> bool {
    !KEPT.contains(&signal) && !HARMLESS.contains(&signal)
}

/// The real-time signals, which have numbers and no names.
#[cfg(target_os = "linux")]
fn real_time() -> Range<i32> {
    nix::libc::SIGRTMIN()..nix::libc::SIGRTMAX() + 1
}

#[cfg(not(target_os = "linux"))]
fn real_time() -> Range<i32> {
    0..0
}

/// The number of the last signal that came to end a program; 0: none.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// More are never waiting, since each is looked at at once.
const WAITING: usize = 64;

/// The signals from now on that a command and its keeper need. Those that were ignored when the program was started, as by
/// `nohup`, are ignored by the command as well, and by the wait for the lock.
pub(crate) fn listen() -> Result<Receiver<Signal>, Failure> {
    // Caught and not blocked: what is blocked would be blocked in the command, too.
    let own = [Signal::SIGTSTP, Signal::SIGXFSZ];
    let heard = passed_on().chain(own).map(|signal| signal as i32).chain(real_time());
    hear(not_ignored(heard).chain([Signal::SIGCHLD as i32]))
}

/// The signals from now on that end a program, without those that were ignored when it was started.
pub(crate) fn listen_to_ending() -> Result<Receiver<Signal>, Failure> {
    hear(not_ignored(ENDING.into_iter().map(|signal| signal as i32)))
}

/// From now on a signal that ends a program ends this one, also the first process of a container: the kernel keeps from that each
/// signal for which it has no handler.
pub(crate) fn end_by_signals() -> Result<(), Failure> {
    let signals = listen_to_ending()?;
    let ends = move || {
        if let Ok(signal) = signals.recv() {
            std::process::exit(End::Signal(signal).code().into());
        }
    };
    clock::spawn("ending", ends).map_err(Failure::own)?;
    Ok(())
}

fn not_ignored(signals: impl Iterator<Item = i32>) -> impl Iterator<Item = i32> {
    let ignored = ignored();
    signals.filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

fn hear(heard: impl Iterator<Item = i32>) -> Result<Receiver<Signal>, Failure> {
    let heard: Vec<_> = heard.collect();
    for signal in ENDING.map(|signal| signal as i32).into_iter().filter(|it| heard.contains(it)) {
        let number = usize::try_from(signal).unwrap_or_default();
        flag::register_usize(signal, CAME.clone(), number).map_err(Failure::own)?;
    }
    let mut signals = Signals::new(heard).map_err(Failure::own)?;
    let (sender, received) = bounded(WAITING);
    let waits = move || {
        for signal in signals.forever() {
            // A real-time signal can be sent by its name only, and has none. It would end a program that does not know it.
            let signal = Signal::try_from(signal).unwrap_or(Signal::SIGTERM);
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    clock::spawn("signals", waits).map_err(Failure::own)?;
    Ok(received)
}

/// The last signal that came to end a program. It is known here at once, and as a message a moment later.
pub(crate) fn that_came_to_end() -> Option<Signal> {
    i32::try_from(CAME.load(Ordering::SeqCst)).ok().and_then(|number| Signal::try_from(number).ok())
}

/// Forgets the signal that came to end a program: it was for a command that has ended, and did not end it.
pub(crate) fn forget_ending() {
    CAME.store(0, Ordering::SeqCst);
}

/// The signals that this process ignores, a bit for each: it inherited them from the process that started it.
fn ignored() -> u64 {
    // Where the system has no such file, nobody knows.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let set = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// From now on nothing but SIGKILL ends this process, which starts no other one, or a fault of its own.
pub(crate) fn block_signals() {
    // The system leaves out those that cannot be blocked.
    let _ = SigSet::all().thread_block();
}
