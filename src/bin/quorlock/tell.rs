//! What the program says and prints.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use crate::exit::Failure;

/// Says it on standard error. Where nobody reads that any more, nobody hears it, and a command is ended all the same.
pub(crate) fn tell(message: impl Display) {
    let _ = writeln!(stderr(), "quorlock: {message}");
}

/// Prints it on standard output. Who has read enough of it is content.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::own(error)),
        _ => Ok(()),
    }
}
