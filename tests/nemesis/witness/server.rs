//! The witness itself: a thread for each connection, and one book for all of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::event::{Answer, Event, Outcome, Phase, Record, Stamp};
use super::stores::Stores;

/// The listener and the book of the witness.
pub(crate) struct Server {
    listener: TcpListener,
    book: Arc<Mutex<Book>>,
}

/// Stamps are given under its mutex, so the history is in their order.
struct Book {
    began: Instant,
    last: Stamp,
    phase: Phase,
    history: BufWriter<File>,
    stores: Stores,
}

impl Server {
    /// Listens on that address. `folder` gets the files `history` and `stock.sqlite`, which must not exist.
    pub(crate) fn bind(address: &str, folder: &Path) -> io::Result<Self> {
        let history = File::create_new(folder.join("history"))?;
        let stores = Stores::create(&folder.join("stock.sqlite")).map_err(io::Error::other)?;
        let book = Book {
            began: Instant::now(),
            last: Duration::ZERO,
            phase: Phase::default(),
            history: BufWriter::new(history),
            stores,
        };
        let listener = TcpListener::bind(address)?;
        Ok(Self { listener, book: Arc::new(Mutex::new(book)) })
    }

    /// The address on which the witness listens.
    pub(crate) fn address(&self) -> io::Result<String> {
        Ok(self.listener.local_addr()?.to_string())
    }

    /// Serves until the process ends.
    pub(crate) fn serve(&self) -> io::Result<()> {
        loop {
            let (stream, _) = self.listener.accept()?;
            let book = Arc::clone(&self.book);
            thread::Builder::new().name("witness".to_owned()).spawn(move || {
                // A connection that breaks belongs to a contender that was killed.
                let _: io::Result<()> = serve_one(&stream, &book);
            })?;
        }
    }
}

fn serve_one(stream: &TcpStream, book: &Mutex<Book>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream).lines();
    let Some(who) = lines.next().transpose()? else { return Ok(()) };
    let served = serve_lines(lines, stream, &who, book);
    lock(book).note(&who, Event::Gone)?;
    served
}

fn serve_lines(
    lines: impl Iterator<Item = io::Result<String>>,
    mut stream: &TcpStream,
    who: &str,
    book: &Mutex<Book>,
) -> io::Result<()> {
    for line in lines {
        let event = serde_json::from_str(&line?)?;
        let answer = lock(book).note(who, event)?;
        stream.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes())?;
    }
    Ok(())
}

fn lock(book: &Mutex<Book>) -> std::sync::MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Book {
    fn note(&mut self, who: &str, event: Event) -> io::Result<Answer> {
        // No two events have the same stamp, whatever the clock's resolution.
        let stamp = self.began.elapsed().max(self.last + Duration::from_nanos(1));
        self.last = stamp;
        let outcome: Outcome = self.stores.apply(&event).map_err(io::Error::other)?;
        // The history is complete whenever it may be read.
        let flush = matches!(event, Event::Enter { .. } | Event::Gone);
        if let Event::Enter { phase } = event {
            self.phase = phase;
        }
        let record = Record { stamp, who: who.to_owned(), event, outcome };
        serde_json::to_writer(&mut self.history, &record)?;
        self.history.write_all(b"\n")?;
        if flush {
            self.history.flush()?;
        }
        Ok(Answer { stamp, phase: self.phase, outcome })
    }
}
