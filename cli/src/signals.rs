//! Signals as messages on a channel.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{getpgrp, getsid};
use quorlock::crossbeam_channel::{Receiver, bounded};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit::{End, Failure};
use crate::{clock, end_by, password_command};

/// Signals that are not meant for the command, or cannot be caught.
const KEPT: [Signal; 16] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    // These two are about this process's own children and its own writes.
    Signal::SIGCHLD,
    Signal::SIGPIPE,
    // Job control: this process is suspended and resumed along with the command.
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCONT,
    // They report a fault of this process itself, or a file of its own that is too large.
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
    Signal::SIGXFSZ,
];

/// Signals that a user or a supervisor sends to end a program. They are meant for all of a command.
pub(crate) const ENDING: [Signal; 4] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Signals that do not end the wait for the lock: they are meant for the command, or end no program.
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

/// True once signals are listened to.
static IS_HEARD: AtomicBool = AtomicBool::new(false);

/// The number of the last signal that came to end a program; 0: none.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

const STOPPED_WITHIN: Duration = Duration::from_millis(10);

/// Capacity of the channel. It never fills up, since each signal is handled at once.
const WAITING: usize = 64;

/// Receives from now on the signals that a command and its keeper need. Signals that were ignored when the program was started, as
/// by `nohup`, are ignored by the command and by the wait for the lock as well.
pub(crate) fn listen() -> Result<Receiver<Signal>, Failure> {
    // Caught, not blocked: the command would inherit a blocked signal.
    let own = [Signal::SIGTSTP, Signal::SIGXFSZ];
    let heard = passed_on().chain(own).map(|signal| signal as i32).chain(real_time());
    hear(not_ignored(heard).chain([Signal::SIGCHLD as i32]))
}

/// Receives from now on the signals that end a program, except those that were ignored when it was started.
pub(crate) fn listen_to_ending() -> Result<Receiver<Signal>, Failure> {
    hear(not_ignored(ENDING.into_iter().map(|signal| signal as i32)))
}

/// The same, and those about the terminal: another size, and Ctrl-Z.
pub(crate) fn listen_of_screen() -> Result<Receiver<Signal>, Failure> {
    let heard = ENDING.into_iter().chain([Signal::SIGWINCH, Signal::SIGTSTP]);
    hear(not_ignored(heard.map(|signal| signal as i32)))
}

/// Has the signals that end a program end this one from now on, even if it is the first process of a container. The kernel
/// withholds from that process each signal without a handler.
pub(crate) fn end_by_signals() -> Result<(), Failure> {
    let signals = listen_to_ending()?;
    let ends = move || {
        if let Ok(signal) = signals.recv() {
            password_command::end_all();
            end_by(signal);
            std::process::exit(End::Signal(signal).code().into());
        }
    };
    clock::spawn("ending", ends).map_err(Failure::own)?;
    Ok(())
}

/// Has the signals that end a program end the commands of this one as well, unless signals are listened to already.
pub(crate) fn end_unless_heard() -> Result<(), Failure> {
    if IS_HEARD.load(Ordering::SeqCst) { Ok(()) } else { end_by_signals() }
}

/// Suspends the job of this process, until the user resumes it. Does nothing in the group of the session's leader, where no shell
/// could resume it.
pub(crate) fn suspend() {
    if getsid(None) != Ok(getpgrp()) {
        // All of the job, as by Ctrl-Z: the shell waits for its last process.
        let _ = killpg(getpgrp(), Signal::SIGSTOP);
        // The system may have stopped another thread first.
        clock::pause(STOPPED_WITHIN);
    }
}

fn not_ignored(signals: impl Iterator<Item = i32>) -> impl Iterator<Item = i32> {
    let ignored = ignored();
    signals.filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

fn hear(heard: impl Iterator<Item = i32>) -> Result<Receiver<Signal>, Failure> {
    IS_HEARD.store(true, Ordering::SeqCst);
    let heard: Vec<_> = heard.collect();
    for signal in ENDING.map(|signal| signal as i32).into_iter().filter(|it| heard.contains(it)) {
        let number = usize::try_from(signal).unwrap_or_default();
        flag::register_usize(signal, CAME.clone(), number).map_err(Failure::own)?;
    }
    let mut signals = Signals::new(heard).map_err(Failure::own)?;
    let (sender, received) = bounded(WAITING);
    let waits = move || {
        for signal in signals.forever() {
            // A signal can be sent only by its name, and a real-time signal has none. Without a handler it ends a program, as
            // SIGTERM does.
            let signal = Signal::try_from(signal).unwrap_or(Signal::SIGTERM);
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    clock::spawn("signals", waits).map_err(Failure::own)?;
    Ok(received)
}

/// Returns the last signal that came to end a program. It is known by this function at once, and as a message a moment later.
pub(crate) fn that_came_to_end() -> Option<Signal> {
    i32::try_from(CAME.load(Ordering::SeqCst)).ok().and_then(|number| Signal::try_from(number).ok())
}

/// Forgets the last such signal: it was meant for a command that survived it, and that has ended since.
pub(crate) fn forget_ending() {
    CAME.store(0, Ordering::SeqCst);
}

/// The signals that this process ignores, a bit for each: it inherited them from the process that started it.
fn ignored() -> u64 {
    // Without such a file, no signal counts as ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let set = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// Blocks all signals, so that only SIGKILL or a fault of its own ends this process. The processes that it starts have them blocked
/// as well: only the command that prints a password.
pub(crate) fn block_signals() {
    // The system skips the signals that cannot be blocked.
    let _ = SigSet::all().thread_block();
}
