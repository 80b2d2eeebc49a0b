//! The children of this process that are reaped where they were started, and nowhere else.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

static OWN: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Returns their process ids. While this is held, none is started.
pub(crate) fn own() -> MutexGuard<'static, Vec<Pid>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child that its starter waits for.
pub(crate) struct Own(pub(crate) Child);

impl Own {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut own = own();
        let child = command.spawn()?;
        own.push(Pid::from_raw(child.id().cast_signed()));
        drop(own);
        Ok(Self(child))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let pid = self.pid();
        own().retain(|own| *own != pid);
    }
}
