//! A directory of an example's own, among the temporary files.

use std::path::PathBuf;
use std::{env, fs, io};

/// A directory that is deleted, with all its files, when this is dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// Creates a directory for `what`, which is part of its name.
    pub(crate) fn create(what: &str) -> io::Result<Self> {
        let name = format!("quorlock-{what}-{:016x}", rand::random::<u64>());
        let directory = Self(env::temp_dir().join(name));
        fs::create_dir(&directory.0)?;
        Ok(directory)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _: io::Result<()> = fs::remove_dir_all(&self.0);
    }
}
