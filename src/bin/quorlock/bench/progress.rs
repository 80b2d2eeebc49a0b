//! What is being measured, on one line of a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

/// Lines are padded to it, so that each covers the one before.
const WIDTH: usize = 78;

/// The line is empty again when this is dropped. Where standard error is no terminal, nothing is shown.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { is_shown: stderr().is_terminal() }
    }

    pub(super) fn show(&self, text: impl Display) {
        if self.is_shown {
            // Whether anybody sees it changes nothing.
            let _ = write!(stderr(), "\r{:WIDTH$}\r", text.to_string());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
