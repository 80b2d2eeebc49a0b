//! A proxy that reads the commands which it carries, and keeps its clients' connections open when another server takes over.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs that use parts of it")]

use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread;

use super::server::Server;

/// The name of `INFO` on servers that refuse it in scripts. Scripts do not know it, and the relay translates the commands of clients.
pub const INFO: &str = "INFO-OUTSIDE-OF-SCRIPTS";

/// A command: its name, and its arguments.
pub type Words = Vec<Vec<u8>>;

/// A server that refuses `INFO` in scripts. Clients need a [`Relay`] in front of it, and the helper's own commands must not be `INFO`.
pub fn refuses_info() -> Server {
    Server::start_with(&["--rename-command", "INFO", INFO])
}

/// A proxy in front of a server. Its clients' connections go on when another server takes over.
pub struct Relay {
    port: u16,
    server: Arc<AtomicU16>,
    accepted: Arc<AtomicUsize>,
}

/// One connection through a relay.
pub trait Conversation: Send + 'static {
    /// Called before a command is carried to the server. Another port: it is that of the server from now on, for all connections.
    fn command(&mut self, _words: &Words) -> Option<u16> {
        None
    }

    /// Called with an answer of the server, before the client gets it.
    fn answer(&mut self, _words: &Words, _answer: &mut Vec<u8>) {}
}

/// Nothing happens.
struct Silent;

impl Conversation for Silent {}

impl Relay {
    /// A relay for a [server that refuses `INFO`](refuses_info) in scripts.
    pub fn start(server: &Server) -> Self {
        Self::start_with_info(server, true)
    }

    /// A relay that translates `INFO`, or does not.
    pub fn start_with_info(server: &Server, translates: bool) -> Self {
        Self::start_with(server, translates, || Silent)
    }

    /// A relay with a conversation for each connection. It translates `INFO`, or does not.
    pub fn start_with<C: Conversation>(
        server: &Server,
        translates: bool,
        conversation: impl Fn() -> C + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let server = Arc::new(AtomicU16::new(server.port()));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (target, count) = (server.clone(), accepted.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let (target, conversation) = (target.clone(), conversation());
                thread::spawn(move || relay(client, &target, translates, conversation));
            }
        });
        Self { port, server, accepted }
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The number of connections that clients have made.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Lets another server take over.
    pub fn lead_to(&self, server: &Server) {
        self.server.store(server.port(), Ordering::SeqCst);
    }
}

/// Carries commands and answers, one after the other, until the client leaves.
fn relay(
    client: TcpStream,
    target: &AtomicU16,
    translates: bool,
    mut conversation: impl Conversation,
) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let mut answers = client.try_clone().ok()?;
    let mut commands = BufReader::new(client);
    let mut behind: Option<(u16, BufReader<TcpStream>)> = None;
    loop {
        let words = read_command(&mut commands)?;
        if let Some(other) = conversation.command(&words) {
            target.store(other, Ordering::SeqCst);
        }
        let mut carried = words.clone();
        if translates && words[0].eq_ignore_ascii_case(b"INFO") {
            carried[0] = INFO.into();
        }
        let port = target.load(Ordering::SeqCst);
        let open = behind.take().filter(|(known, _)| *known == port);
        let mut server = open.map_or_else(|| connect(port), |(_, open)| Some(open))?;
        // A server that was restarted has ended the connection.
        let mut answer = match ask(&mut server, &carried) {
            Some(answer) => answer,
            None => {
                server = connect(port)?;
                ask(&mut server, &carried)?
            }
        };
        behind = Some((port, server));
        conversation.answer(&words, &mut answer);
        answers.write_all(&answer).ok()?;
    }
}

fn connect(port: u16) -> Option<BufReader<TcpStream>> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    server.set_nodelay(true).ok()?;
    Some(BufReader::new(server))
}

fn ask(server: &mut BufReader<TcpStream>, words: &Words) -> Option<Vec<u8>> {
    server.get_mut().write_all(&encoded(words)).ok()?;
    let mut answer = Vec::new();
    read_answer(server, &mut answer)?;
    Some(answer)
}

/// The bytes of a command.
pub fn encoded(words: &Words) -> Vec<u8> {
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        command.extend(format!("${}\r\n", word.len()).into_bytes());
        command.extend(word);
        command.extend(b"\r\n");
    }
    command
}

/// Reads one command. `None`: the client has left.
pub fn read_command(from: &mut impl BufRead) -> Option<Words> {
    let mut words = Vec::new();
    for _ in 0..number(&line(from)?)? {
        let length = number(&line(from)?)?;
        let mut word = vec![0; length + 2];
        from.read_exact(&mut word).ok()?;
        word.truncate(length);
        words.push(word);
    }
    Some(words)
}

/// Reads one answer, with all that it contains.
pub fn read_answer(from: &mut impl BufRead, into: &mut Vec<u8>) -> Option<()> {
    let head = line(from)?;
    into.extend(&head);
    let items = match (head[0], number(&head)) {
        (b'$' | b'=', Some(length)) => {
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text).ok()?;
            into.extend(text);
            0
        }
        (b'*' | b'~' | b'>', Some(items)) => items,
        (b'%', Some(pairs)) => 2 * pairs,
        _ => 0,
    };
    (0..items).try_for_each(|_| read_answer(from, into))
}

fn line(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).ok()?;
    line.ends_with(b"\n").then_some(line)
}

/// The number behind the sign; `None` for that of nothing.
fn number(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(&line[1..]).ok()?.trim().parse().ok()
}
