//! The program's messages and output.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpgrp, tcgetpgrp};
use quorlock::crossbeam_channel::{Sender, bounded};
use rustix::termios::tcgetwinsize;

use crate::clock;
use crate::exit::Failure;

/// Capacity of the queue of messages, more than one run has. Further messages are dropped.
const MOST: usize = 64;
/// Time for which the end of the program waits for a reader of its messages.
const READ_WITHIN: Duration = Duration::from_millis(300);

/// Width that is assumed of a terminal that does not report its own, in columns.
const COLUMNS: usize = 80;
/// Maximum number of names of a lock that are shown.
const NAMES: usize = 4;

/// True while a line is shown on the terminal.
static HAS_LINE: AtomicBool = AtomicBool::new(false);

/// Receiver of the messages while a command runs.
static WRITER: OnceLock<Sender<Message>> = OnceLock::new();

enum Message {
    Text(String),
    /// The line at the cursor from now on; an empty one removes it. The next message takes its place.
    Line(String),
    /// Dropped once all messages before it are written.
    Last(Sender<()>),
}

/// Has messages written by a thread of their own from now on. A full pipe or a halted terminal (Ctrl-S) blocks its writer, and must
/// not delay the end of a command.
pub(crate) fn write_by_a_thread() -> io::Result<()> {
    let (sender, messages) = bounded(MOST);
    let writes = move || {
        // Without this, a terminal with `stty tostop` suspends a process in the background that writes to it.
        let _ = SigSet::from_iter([Signal::SIGTTOU]).thread_block();
        let mut has_line = false;
        for message in messages {
            match message {
                Message::Text(text) => {
                    if std::mem::take(&mut has_line) {
                        write(&on_one_line(""));
                    }
                    write(&text);
                }
                Message::Line(line) => {
                    if has_line || !line.is_empty() {
                        write(&on_one_line(&line));
                    }
                    has_line = !line.is_empty();
                }
                Message::Last(written) => drop(written),
            }
        }
    };
    clock::spawn("messages", writes)?;
    let _ = WRITER.set(sender);
    Ok(())
}

/// Writes a message to standard error. An error is ignored: the reader may have ended, and the command must still be ended.
pub(crate) fn tell(message: impl Display) {
    let text = format!("quorlock: {message}\n");
    match WRITER.get() {
        Some(writer) => _ = writer.try_send(Message::Text(text)),
        None => write(&text),
    }
}

/// Shows a line on the terminal until the next message. A halted terminal keeps its present line, so that the queue has room for
/// messages that matter more.
pub(crate) fn show_line(line: impl Display) {
    if let Some(writer) = WRITER.get().filter(|writer| writer.is_empty()) {
        HAS_LINE.store(true, Ordering::Relaxed);
        let _ = writer.try_send(Message::Line(format!("quorlock: {line}")));
    }
}

/// Removes the line, before anything else is written to the terminal.
pub(crate) fn clear_line() {
    let writer = WRITER.get().filter(|_| HAS_LINE.swap(false, Ordering::Relaxed));
    if let Some(writer) = writer {
        let _ = writer.try_send(Message::Line(String::new()));
        flush();
    }
}

/// Returns true if a user sees the messages: on a terminal that this process has in the foreground. A job in the background must
/// not write on the line in which the shell reads.
pub(crate) fn has_terminal() -> bool {
    stderr().is_terminal() && tcgetpgrp(stderr()) == Ok(getpgrp())
}

/// A line that replaces the one at the cursor; an empty line removes it. It has no codes that a terminal might not know, and is cut
/// off where it would need a second row.
pub(crate) fn on_one_line(line: &str) -> String {
    let columns = tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    let room = if columns == 0 { COLUMNS } else { columns }.saturating_sub(1);
    let shown: String = match line.chars().count() {
        length if length > room => {
            line.chars().take(room.saturating_sub(2)).chain(['.', '.']).collect()
        }
        _ => line.to_owned(),
    };
    format!("\r{shown:room$}\r")
}

/// A name for people: in quotes, with escapes for bytes that are not printable.
pub(crate) fn quoted(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => format!("\"{}\"", text.escape_debug()),
        Err(_) => format!("b\"{}\"", name.escape_ascii()),
    }
}

/// The names of one lock.
pub(crate) fn quoted_names<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| quoted(name.as_encoded_bytes())).collect();
    match names.split_at_checked(NAMES) {
        Some((shown, [_, ..])) => {
            format!("{} and {} more", shown.join(", "), names.len() - NAMES)
        }
        _ => match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} and {last}", others.join(", "))
            }
            _ => names.concat(),
        },
    }
}

/// A time for people, in whole seconds.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The same with one decimal.
pub(crate) fn tenths(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Waits until all messages are written, at most for `READ_WITHIN`.
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

/// Prints to standard output. A closed pipe, as after `head`, is not an error.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::own(error)),
        _ => Ok(()),
    }
}
