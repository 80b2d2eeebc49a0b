//! The progress of a measurement, on one line of a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

use crate::tell::on_one_line;

/// Clears its line when it is dropped. Shows nothing if standard error is no terminal.
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
            // An error is ignored: the measurement does not depend on its display.
            let _ = stderr().write_all(on_one_line(&text.to_string()).as_bytes());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
