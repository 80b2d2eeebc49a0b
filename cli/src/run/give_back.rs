//! The data that the watchdog needs to give the lock back, after its keeper was killed and the command has ended.
//!
//! The data waits unread in a pipe until then. So a password that the user typed is on no command line and in no environment, and
//! the watchdog has it in memory only when it is used.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Duration;

use quorlock::{Error, ErrorKind as LockErrorKind};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use crate::clock::{self, Time};
use crate::exit::Failure;
use crate::options::Set;

/// Interval between attempts if too few masters answer.
const RETRIES: Duration = Duration::from_millis(200);

/// The size that every pipe has at least, in bytes.
#[cfg(target_os = "linux")]
const USUAL_SIZE: usize = 4_096;

/// The masters, and the names of a lock. The environment and the files are the same as the keeper's.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct GivesBack {
    pub(super) set: Set,
    /// The password that the user was asked for.
    pub(super) password: Option<String>,
    pub(super) names: Vec<Vec<u8>>,
}

/// A lock that is held.
#[derive(Deserialize, Serialize)]
pub(super) struct Held {
    gives_back: GivesBack,
    owner: String,
}

impl GivesBack {
    /// The lock as held by that owner.
    pub(super) fn of(&self, owner: &str) -> Held {
        Held { gives_back: self.clone(), owner: owner.to_owned() }
    }
}

/// Hides the password.
impl fmt::Debug for GivesBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivesBack").finish_non_exhaustive()
    }
}

impl Held {
    /// Writes the data to a pipe, for a process that is about to be started.
    pub(super) fn in_a_pipe(&self) -> io::Result<OwnedFd> {
        let text = serde_json::to_vec(self)?;
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // The longest names need more than the usual size of a pipe.
        #[cfg(target_os = "linux")]
        if text.len() > USUAL_SIZE {
            rustix::pipe::fcntl_setpipe_size(&writes, text.len())?;
        }
        if rustix::io::write(&writes, &text)? < text.len() {
            return Err(ErrorKind::WriteZero.into());
        }
        fcntl_setfd(&reads, FdFlags::empty())?;
        Ok(reads)
    }

    /// Reads the data from the pipe of that number.
    pub(super) fn of_pipe(number: i32) -> io::Result<Self> {
        let pipe = File::open(format!("/dev/fd/{number}"))?;
        Ok(serde_json::from_reader(pipe)?)
    }

    /// Gives the lock back. If too few masters answer, it tries again until the time `until`, the end of the lock.
    pub(super) fn give_back(self, until: Time) -> Result<(), Failure> {
        let Self { gives_back: GivesBack { set, password, names }, owner } = self;
        let client = set.configured_by(|| Ok(password))?.with_ttl().build()?;
        let lock = client.multi_mutex(names);
        let is_passing = |error: &Error| error.kind() == LockErrorKind::NoQuorum;
        loop {
            match lock.take_from(&owner) {
                Err(error) if is_passing(&error) && Time::now() < until => clock::pause(RETRIES),
                result => return Ok(result?),
            }
        }
    }
}
