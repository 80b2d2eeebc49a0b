//! `quorlock top`: the masters and the locks that are held, again and again.

mod keys;
mod screen;
mod view;

use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
use quorlock::{ErrorKind, HeldLocks, Quorlock, Stats};

use crate::clock::{self, Time};
use crate::exit::{End, Failure};
use crate::options::Top;
use crate::{list, password_command, signals};
use keys::Key;
use screen::Screen;
use view::Size;

/// The shortest pause between two questions. A page takes each master several requests.
const SHORTEST: Duration = Duration::from_millis(50);
/// Time beyond `--every` after which the display reports its age, if no new answers have come.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// The pause between two looks at the age of the display.
const REDRAWN_EVERY: Duration = Duration::from_secs(1);
/// Time for which a signal waits until the last page is written.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// Most signals that wait until a page is written.
const SIGNALS: usize = 64;

/// The answers of the masters at one time.
struct Snapshot {
    held: Result<HeldLocks, quorlock::Error>,
    stats: Stats,
    at: Time,
}

/// Shows the locks until the user ends it, or for as many times as the options say.
pub(crate) fn top(options: &Top) -> Result<End, Failure> {
    if options.every < SHORTEST {
        return Err(Failure::own(format_args!(
            "--every must be at least {}",
            humantime::format_duration(SHORTEST)
        )));
    }
    // Set up before any thread starts, since each thread would get signals.
    let signals = end_by(signals::listen_of_screen()?).map_err(Failure::own)?;
    let client = options.set.client()?;
    let (stop, snapshots) = ask(client, options).map_err(Failure::own)?;
    let on_terminal = stdout().is_terminal();
    let screen = on_terminal.then(Screen::new);
    let keys = match on_terminal && stdin().is_terminal() {
        true => keys::listen().map_err(Failure::own)?,
        false => never(),
    };
    let mut display = Display { options, screen, last: None, shown: 0 };
    match display.run(&signals, &snapshots, keys, &stop) {
        // The reader of the pipe has ended.
        Err(Ended::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::Code(0)),
        Err(Ended::Write(error)) => Err(Failure::own(error)),
        Err(Ended::Signal(signal)) => Ok(End::Signal(signal)),
        Err(Ended::Failure(failure)) => Err(failure),
        Ok(()) => Ok(End::Code(0)),
    }
}

/// Passes the signals on. One that ends the program does so also while a page cannot be written: a terminal that is halted (Ctrl-S)
/// goes on, and a pipe that stays full is left.
fn end_by(signals: Receiver<Signal>) -> io::Result<Receiver<Signal>> {
    let (sender, passed_on) = bounded(SIGNALS);
    let ends = move || {
        for signal in signals {
            let _ = sender.try_send(signal);
            if !matches!(signal, Signal::SIGWINCH | Signal::SIGTSTP) {
                screen::go_on();
                clock::pause(ENDS_WITHIN);
                screen::restore();
                password_command::end_all();
                std::process::exit(End::Signal(signal).code().into());
            }
        }
    };
    clock::spawn("ending", ends)?;
    Ok(passed_on)
}

/// Asks the masters by a thread of its own, since that takes some time while masters cannot be reached. It asks at once when the
/// returned sender sends, and ends when that sender is dropped.
fn ask(client: Quorlock, options: &Top) -> io::Result<(Sender<()>, Receiver<Snapshot>)> {
    let (sender, snapshots) = bounded(1);
    let (stop, stopped) = bounded(1);
    let (scan, every) = (options.scan.clone(), options.every);
    let asks = move || {
        loop {
            let held = list::held_locks(&client, &scan);
            let snapshot = Snapshot { held, stats: client.stats(), at: Time::now() };
            if sender.send(snapshot).is_err() {
                return;
            }
            select! {
                recv(stopped) -> message => if message.is_err() { return },
                recv(after(every)) -> _ => {}
            }
        }
    };
    clock::spawn("asking", asks)?;
    Ok((stop, snapshots))
}

/// The reason for which the display ends before its time.
enum Ended {
    Signal(Signal),
    Write(io::Error),
    Failure(Failure),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

const STOPPED: &str =
    "the thread that asks the masters has ended, which is a fault of quorlock; please report it";

struct Display<'a> {
    options: &'a Top,
    /// `None` if the output is no terminal.
    screen: Option<Screen>,
    last: Option<Snapshot>,
    /// The number of snapshots that were shown.
    shown: u64,
}

impl Display<'_> {
    fn run(
        &mut self,
        signals: &Receiver<Signal>,
        snapshots: &Receiver<Snapshot>,
        mut keys: Receiver<Key>,
        now: &Sender<()>,
    ) -> Result<(), Ended> {
        self.redraw()?;
        loop {
            select! {
                recv(snapshots) -> snapshot => match snapshot {
                    Ok(snapshot) => {
                        self.take(snapshot)?;
                        if self.options.times.is_some_and(|times| self.shown >= times) {
                            return self.leave_last_page();
                        }
                    }
                    Err(_) => return Err(Ended::Failure(Failure::own(STOPPED))),
                },
                recv(signals) -> signal => match signal {
                    Ok(Signal::SIGWINCH) => self.redraw()?,
                    Ok(Signal::SIGTSTP) => {
                        self.screen.iter_mut().for_each(Screen::leave);
                        signals::suspend();
                        self.redraw()?;
                    }
                    Ok(signal) => return Err(Ended::Signal(signal)),
                    Err(_) => return Ok(()),
                },
                recv(&keys) -> key => match key {
                    Ok(Key::Quit) => return Ok(()),
                    // A full channel means that it asks at once anyway.
                    Ok(Key::Refresh) => _ = now.try_send(()),
                    Err(_) => keys = never(),
                },
                recv(after(REDRAWN_EVERY)) -> _ => self.redraw()?,
            }
        }
    }

    /// Shows a new snapshot: on the terminal in place of the last one, elsewhere below it.
    fn take(&mut self, snapshot: Snapshot) -> Result<(), Ended> {
        // The pattern is longer than any name.
        if let Err(error) = &snapshot.held
            && error.kind() == ErrorKind::InvalidName
        {
            return Err(Ended::Failure(Failure::own(error)));
        }
        self.last = Some(snapshot);
        self.shown += 1;
        if self.screen.is_some() {
            return self.redraw();
        }
        let separator = if self.shown > 1 { "\n" } else { "" };
        print(&format!("{separator}{}\n", self.lines(None).join("\n")))
    }

    /// Prints the last page to the first screen, which the user sees from now on.
    fn leave_last_page(&mut self) -> Result<(), Ended> {
        let Some(mut screen) = self.screen.take() else { return Ok(()) };
        screen.leave();
        print(&format!("{}\n", self.lines(Some(screen::size())).join("\n")))
    }

    fn redraw(&mut self) -> Result<(), Ended> {
        let lines = self.screen.is_some().then(|| self.lines(Some(screen::size())));
        match (&mut self.screen, lines) {
            (Some(screen), Some(lines)) => Ok(screen.draw(&lines)?),
            _ => Ok(()),
        }
    }

    fn lines(&self, size: Option<Size>) -> Vec<String> {
        let Some(last) = &self.last else { return vec!["asking the masters ..".to_owned()] };
        let age = Time::now().since(last.at);
        let is_stale = age >= self.options.every.saturating_add(STALE_AFTER);
        view::page(&last.held, &last.stats, is_stale.then_some(age), self.options, size)
    }
}

fn print(text: &str) -> Result<(), Ended> {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}
