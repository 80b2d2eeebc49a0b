//! The contender's side of a connection to the witness.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::event::{Answer, Event};

/// Time limit of an answer of the witness, and of a connection. The witness waits for nobody.
const LIMIT: Duration = Duration::from_secs(30);

/// One connection. Each event waits for its answer.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects as `who`, the name of this contender in the history.
    pub(crate) fn connect(witness: &str, who: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(witness)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let client = Self { reader: BufReader::new(stream) };
        client.write_line(who)?;
        Ok(client)
    }

    /// Reports an event to the witness. Returns the answer.
    pub(crate) fn tell(&mut self, event: &Event) -> io::Result<Answer> {
        self.write_line(&serde_json::to_string(event)?)?;
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the witness has gone"));
        }
        Ok(serde_json::from_str(&line)?)
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        // A single write, so that the line is one packet.
        self.reader.get_ref().write_all(format!("{line}\n").as_bytes())
    }
}
