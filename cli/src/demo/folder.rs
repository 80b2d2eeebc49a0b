//! A temporary folder and processes that are gone when this program ends, for whatever reason.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::exit::Failure;
use crate::random::random;

/// Script that waits for the end of its input, which is the end of this program. It removes the folder, and kills its process
/// group, itself included.
const CLEANER: &str = "read -r _; rm -rf -- \"$1\"; kill -KILL 0";

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// A process in a group of its own, so that Ctrl-C does not end it.
    cleaner: Child,
    /// The cleaner's input. Nothing is ever written to it.
    input: Option<ChildStdin>,
}

impl Folder {
    pub(super) fn create(name: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("{name}-{:016x}", random()));
        let failed = |error| Failure::own(format!("{} cannot be made: {error}", path.display()));
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        let cleaner = Command::new("/bin/sh")
            .args(["-c", CLEANER, "quorlock-cleaner"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match cleaner {
            Ok(mut cleaner) => Ok(Self { path, input: cleaner.stdin.take(), cleaner }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(Failure::own(format!("/bin/sh cannot be run: {error}")))
            }
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Starts a process that is killed when this is dropped, or when this program ends.
    pub(super) fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        let group = i32::try_from(self.cleaner.id()).map_err(std::io::Error::other)?;
        command.process_group(group).spawn()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.input.take());
        // The cleaner has killed itself, and the folder is gone by then.
        let _ = self.cleaner.wait();
    }
}
