//! What the program says and prints.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use quorlock::crossbeam_channel::{Sender, bounded};

use crate::clock;
use crate::exit::Failure;

/// More messages than one run has. Further ones are dropped.
const MOST: usize = 64;
/// How long the end of the program waits for a reader of its messages.
const READ_WITHIN: Duration = Duration::from_millis(300);

/// Where messages go while a command runs.
static WRITER: OnceLock<Sender<Message>> = OnceLock::new();

enum Message {
    Text(String),
    /// All before it are written, once this is dropped.
    Last(Sender<()>),
}

/// Has messages written by a thread of their own from now on: a full pipe or a terminal that is halted (Ctrl-S) blocks whoever
/// writes there, and must not keep a command from being ended.
pub(crate) fn write_by_a_thread() -> io::Result<()> {
    let (sender, messages) = bounded(MOST);
    let writes = move || {
        // Else a terminal with `stty tostop` suspends a process in the background that writes to it.
        let _ = SigSet::from_iter([Signal::SIGTTOU]).thread_block();
        for message in messages {
            match message {
                Message::Text(text) => write(&text),
                Message::Last(written) => drop(written),
            }
        }
    };
    clock::spawn("messages", writes)?;
    let _ = WRITER.set(sender);
    Ok(())
}

/// Writes a message to standard error. An error there is ignored: the reader may have ended, and the command must be ended
/// all the same.
pub(crate) fn tell(message: impl Display) {
    let text = format!("quorlock: {message}\n");
    match WRITER.get() {
        Some(writer) => _ = writer.try_send(Message::Text(text)),
        None => write(&text),
    }
}

/// Waits until all messages are written, for a moment at most.
pub(crate) fn flush() {
    let Some(writer) = WRITER.get() else { return };
    let (written, is_written) = bounded::<()>(0);
    if writer.try_send(Message::Last(written)).is_ok() {
        let _ = is_written.recv_timeout(READ_WITHIN);
    }
}

fn write(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}

/// Prints to standard output. A reader that has closed it, such as `head`, is no error.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::own(error)),
        _ => Ok(()),
    }
}
