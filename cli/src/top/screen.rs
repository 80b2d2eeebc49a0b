//! The terminal while it shows one page that changes.

use std::io::{self, Write, stdin, stdout};
use std::sync::{Mutex, PoisonError};

use nix::unistd::{getpgrp, tcgetpgrp};
use rustix::termios::{
    Action, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcflow, tcgetattr,
    tcgetwinsize, tcsetattr,
};

use super::view::Size;

/// Size that is assumed of a terminal that does not report its own.
const USUAL: Size = Size { columns: 80, rows: 24 };

// The codes of all terminals since the VT100, but for the second screen, which others ignore.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l"; // second screen, no cursor, no line that goes on in the next row
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const TOP: &str = "\x1b[H";
const CLEAR_ROW: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The settings of the terminal before; `None` while it has its own.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The second screen of the terminal. The first one, with the user's commands, comes back when this is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    is_shown: bool,
}

impl Screen {
    /// A screen that appears with its first page.
    pub(super) const fn new() -> Self {
        Self { is_shown: false }
    }

    /// Gives the terminal back, until the next page.
    pub(super) fn leave(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write(LEAVE);
            restore();
        }
    }

    /// Shows these lines, and nothing else, if this job has the terminal. A job in the background must not change it.
    pub(super) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        if !has_terminal() {
            return Ok(());
        }
        if !self.is_shown {
            self.is_shown = true;
            set();
            write(ENTER)?;
        }
        // The row is cleared first: in its last column, the code would clear a letter.
        let rows = lines.join(&format!("\r\n{CLEAR_ROW}"));
        write(&format!("{TOP}{CLEAR_ROW}{rows}{CLEAR_BELOW}"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

pub(super) fn size() -> Size {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => USUAL,
    }
}

/// Has the terminal give keys one by one, without showing them. Ctrl-C and Ctrl-Z stay signals. An error means that the input is no
/// terminal.
fn set() {
    let Ok(before) = tcgetattr(stdin()) else { return };
    let mut keys = before.clone();
    keys.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    let _ = tcsetattr(stdin(), OptionalActions::Now, &keys);
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
}

/// Gives the terminal its settings back. In the background, the shell has done that.
pub(super) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before.filter(|_| has_terminal()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

/// Has a halted terminal go on.
pub(super) fn go_on() {
    if has_terminal() {
        let _ = tcflow(stdout(), Action::OOn);
    }
}

/// Returns true if this job is in the foreground of its terminal, or the terminal knows no jobs.
fn has_terminal() -> bool {
    tcgetpgrp(stdout()).map_or(true, |foreground| foreground == getpgrp())
}

fn write(text: &str) -> io::Result<()> {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
