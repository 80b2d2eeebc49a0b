//! The exit codes, and the ways in which the program ends.

use std::fmt;

use nix::sys::signal::Signal;
use quorlock::{Error, ErrorKind};

/// `doctor` has found warnings, or problems. The codes are those that monitoring systems expect.
pub(crate) const WARNING: u8 = 1;
pub(crate) const PROBLEM: u8 = 2;
/// `leader` has found no leader.
pub(crate) const NOBODY: u8 = 1;
/// The demonstration has not shown its claim.
pub(crate) const NOT_SHOWN: u8 = 1;
/// Somebody else has the lock. `-E` chooses another one.
pub(crate) const HELD: u8 = 120;
/// Too few masters can be reached.
pub(crate) const NO_QUORUM: u8 = 121;
/// Masters that have just been restarted grant nothing yet.
pub(crate) const QUARANTINED: u8 = 122;
/// The lock was lost, or was about to be, while the command ran.
pub(crate) const LOST: u8 = 123;
/// The command was ended because the lock was held for as long as `--max-hold` allows. The code is that of `timeout`.
pub(crate) const MAX_HOLD: u8 = 124;
/// Options, settings, names, or anything else is wrong with the call. The code is that of `env`, `nohup` and `timeout`.
pub(crate) const OWN_ERROR: u8 = 125;
/// The command is there and cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that has ended the command, or the wait for the lock, as a shell does.
const SIGNAL: u8 = 128;

/// The end of the program, or of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with that exit code.
    Code(u8),
    /// By that signal.
    Signal(Signal),
}

impl End {
    /// The end by the signal of that number, which may have no name.
    pub(crate) fn by_signal(number: i32) -> Self {
        let code = || Self::Code(SIGNAL.saturating_add(number.to_le_bytes()[0]));
        Signal::try_from(number).map_or_else(|_| code(), Self::Signal)
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => SIGNAL.saturating_add((signal as i32).to_le_bytes()[0]),
        }
    }
}

/// For the manual.
pub(crate) const TABLE: &str = "\
Exit codes:
  that of COMMAND, or 128 + N if signal N has ended it
  120  held: somebody else has the lock (-E chooses another code)
  121  no quorum: too few masters can be reached
  122  quarantined: masters that were restarted grant nothing yet
  123  lost: the lock was lost, or about to be, while COMMAND ran
  124  COMMAND was ended because --max-hold was over
  125  an error of quorlock's own: options, settings, a name that cannot be used
  126  COMMAND cannot be run
  127  COMMAND is not found
  128 + N  signal N ended the wait for the lock";

/// For the manual of `elect`.
pub(crate) const ELECT_TABLE: &str = "\
Exit codes:
  that of COMMAND, or 128 + N if signal N has ended it, after a signal that ends programs
  121  no quorum for longer than --no-quorum-timeout, if that is given
  123  lost: the term was lost, or about to be, when such a signal came
  125  an error of quorlock's own: options, settings, a name that cannot be used
  126  COMMAND cannot be run
  127  COMMAND is not found
  128 + N  signal N came while another host led";

/// For the manual of `leader`.
pub(crate) const LEADER_TABLE: &str = "\
Exit codes:
  0    the output is the value of the leader, or its owner if it has none
  1    nobody leads
  121  no quorum: too few masters answer, or too many of them may have forgotten who leads
  125  an error of quorlock's own: options, settings, a right that the user lacks";

/// For the manual of `status`.
pub(crate) const STATUS_TABLE: &str = "\
Exit codes:
  0    the output says who holds the lock; with --quiet: it is free
  120  with --quiet: it is held, or kept for --min-hold
  121  no quorum: too few masters answer, or too many of them may have forgotten who holds it
  125  an error of quorlock's own: options, settings, a right that the user lacks";

/// For the manual of `list`, `unlock` and `admit`.
pub(crate) const ADMIN_TABLE: &str = "\
Exit codes:
  0    done; the output says whether the lock is held, and whether a list is complete
  121  no quorum: too few masters answer
  122  quarantined: masters that were restarted grant nothing yet
  125  an error of quorlock's own: options, settings, a right that the user lacks";

/// For the manual of `top`.
pub(crate) const TOP_TABLE: &str = "\
Exit codes:
  0    the key q was typed, --times is over, or the reader of the output has ended
  125  an error of quorlock's own: options, settings
  128 + N  signal N came";

/// For the manual of `doctor`.
pub(crate) const DOCTOR_TABLE: &str = "\
Exit codes:
  0    nothing is wrong; there may be notes
  1    warnings: locks work, but worse than they could, or only until something else fails
  2    problems: a master grants no locks, or may break them
  125  an error of quorlock's own: options or settings";

/// For the manual of `bench`.
pub(crate) const BENCH_TABLE: &str = "\
Exit codes:
  0    measured
  121  no quorum: too few masters can be reached
  122  quarantined: masters that were restarted grant nothing yet; quorlock admit --force ends that, if nobody holds a lock
  125  an error of quorlock's own: options, settings
  128 + N  signal N came";

/// For the manual of `demo`.
pub(crate) const DEMO_TABLE: &str = "\
Exit codes:
  0    without a lock the shop oversold, and under quorlock it did not
  1    any other result
  121  no quorum: too few masters can be reached
  122  quarantined: masters that were restarted grant nothing yet
  123  lost: a lock was lost while an item was sold
  125  an error of quorlock's own: options, settings, masters that cannot be started
  128 + N  signal N came";

/// The reason for which the program ends without having done its task.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) end: End,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { end: End::Code(code), message: message.to_string() }
    }

    /// Something is wrong with the call.
    pub(crate) fn own(message: impl fmt::Display) -> Self {
        Self::new(OWN_ERROR, message)
    }

    /// A signal came that ends programs.
    pub(crate) fn interrupted(signal: Signal, meanwhile: &str) -> Self {
        Self { end: End::Signal(signal), message: format!("{signal} came {meanwhile}") }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NoQuorum => NO_QUORUM,
            ErrorKind::Quarantined { .. } => QUARANTINED,
            ErrorKind::Lost => LOST,
            ErrorKind::Held { .. } => HELD,
            _ => OWN_ERROR,
        };
        Self::new(code, error)
    }
}
