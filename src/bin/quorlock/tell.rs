//! What the program says and prints.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use crate::exit::Failure;

/// Writes a message to standard error. An error there is ignored: the reader may have ended, and the command must be ended
/// all the same.
pub(crate) fn tell(message: impl Display) {
    let _ = writeln!(stderr(), "quorlock: {message}");
}

/// Prints to standard output. A reader that has closed it, such as `head`, is no error.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::own(error)),
        _ => Ok(()),
    }
}
