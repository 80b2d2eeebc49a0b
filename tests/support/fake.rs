//! Fake servers that misbehave.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs that use parts of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Listens on a free port, and answers every command with the result of `reply` for its first word in
/// upper case. Only to probes it answers properly, and accepts any mark. It lives as long as the
/// test program; its threads sleep while no client connects.
pub fn server(reply: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static) -> String {
    serve(move |words, writer| {
        let answer = match words[0].to_uppercase().as_str() {
            _ if is_probe(words) => admit(&words[5]),
            command => reply(command),
        };
        writer.write_all(&answer).ok()
    })
}

/// Returns true if the command calls `lua/node/admit.lua`.
pub fn is_probe(words: &[String]) -> bool {
    let command = words[0].to_uppercase();
    // A batch names the mark as well, but has more keys.
    command.starts_with("EVAL") && words[2] == "1" && words[3].ends_with("{quorlock}:mark")
}

/// Counts of endless answers.
#[derive(Default)]
pub struct Flood {
    /// The number of connections with an endless answer now, and of those that had one before.
    pub now: AtomicUsize,
    pub before: AtomicUsize,
}

/// A server like that of [`redis`], except for the commands that `floods` picks. To these it sends `begin`, and then `more`
/// again and again until the client stops reading.
pub fn flooding(
    floods: impl Fn(&[String]) -> bool + Clone + Send + 'static,
    begin: &'static str,
    more: &'static str,
    reply: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static,
) -> (String, Arc<Flood>) {
    let flood = Arc::new(Flood::default());
    let counted = flood.clone();
    let url = serve(move |words, writer| {
        if floods(words) {
            counted.now.fetch_add(1, Ordering::SeqCst);
            let mut read = writer.write_all(begin.as_bytes());
            let more = more.repeat(16 * 1024);
            while read.is_ok() {
                read = writer.write_all(more.as_bytes());
            }
            counted.before.fetch_add(1, Ordering::SeqCst);
            counted.now.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let answer = match words[0].to_uppercase().as_str() {
            _ if is_probe(words) => admit(&words[5]),
            command => handshake("7.0.15", words).unwrap_or_else(|| reply(command)),
        };
        writer.write_all(&answer).ok()
    });
    (url, flood)
}

type Reply<'a> = &'a dyn Fn(&[String], &mut TcpStream) -> Option<()>;

pub fn serve(
    reply: impl Fn(&[String], &mut TcpStream) -> Option<()> + Clone + Send + 'static,
) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reply = reply.clone();
            thread::spawn(move || talk(stream, &reply));
        }
    });
    format!("redis://127.0.0.1:{port}")
}

/// A server that takes part in the handshake like one of that version. `reply` answers all other commands.
pub fn redis(version: &str, reply: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static) -> String {
    let version = version.to_owned();
    serve(move |words, writer| {
        let answer = match words[0].to_uppercase().as_str() {
            _ if is_probe(words) => admit(&words[5]),
            command => handshake(&version, words).unwrap_or_else(|| reply(command)),
        };
        writer.write_all(&answer).ok()
    })
}

/// A server like that of [`redis`] with a current version. `reply` gets all words of the command.
pub fn redis_of_words(reply: impl Fn(&[String]) -> Vec<u8> + Clone + Send + 'static) -> String {
    serve(move |words, writer| {
        let answer = match words[0].to_uppercase().as_str() {
            _ if is_probe(words) => admit(&words[5]),
            _ => handshake("7.0.15", words).unwrap_or_else(|| reply(words)),
        };
        writer.write_all(&answer).ok()
    })
}

/// A server that answers INFO with that text, and takes part in the handshake. It knows no other command.
pub fn of_info(info: &'static str) -> String {
    serve(move |words, writer| {
        let answer = match words[0].to_uppercase().as_str() {
            "INFO" => format!("${}\r\n{info}\r\n", info.len()).into_bytes(),
            _ if is_probe(words) => admit(&words[5]),
            _ => handshake("", words).unwrap_or_else(|| b"-ERR unknown command\r\n".to_vec()),
        };
        writer.write_all(&answer).ok()
    })
}

/// The answers of a server of that version to a connecting client.
pub fn handshake(version: &str, words: &[String]) -> Option<Vec<u8>> {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(1);
    Some(match words[0].to_uppercase().as_str() {
        "PING" => b"+PONG\r\n".to_vec(),
        "TIME" => b"*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n".to_vec(),
        "INFO" => info(version),
        // Each connection has an id of its own, and can be ended by it.
        "CLIENT" if words[1] == "ID" => {
            format!(":{}\r\n", CONNECTIONS.fetch_add(1, Ordering::SeqCst)).into_bytes()
        }
        "CLIENT" if words[1].starts_with("SET") => b"+OK\r\n".to_vec(),
        "CLIENT" => b":1\r\n".to_vec(),
        "HELLO" => b"%1\r\n+proto\r\n:3\r\n".to_vec(),
        _ => return None,
    })
}

/// The answer of `lua/node/admit.lua` if it accepts the new mark.
pub fn admit(mark: &str) -> Vec<u8> {
    admit_of(mark, false)
}

/// The answer of `lua/node/admit.lua` if it accepts the new mark, on a server that refuses `INFO` in scripts or does not.
pub fn admit_of(mark: &str, refuses_info: bool) -> Vec<u8> {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let marks = if mark.is_empty() { "*0\r\n".to_owned() } else { format!("*1\r\n{}", bulk(mark)) };
    let changed = u8::from(!mark.is_empty());
    let time = bulk("1700000000") + &bulk("0");
    format!("*5\r\n:{changed}\r\n{time}{marks}:{}\r\n", u8::from(refuses_info)).into_bytes()
}

fn info(version: &str) -> Vec<u8> {
    let [run_id, repl_id, none] = ["a", "b", "0"].map(|digit| digit.repeat(40));
    let text = format!(
        "# Server\r\nredis_version:{version}\r\nrun_id:{run_id}\r\n# Replication\r\nrole:master\r\n\
         master_replid:{repl_id}\r\nmaster_replid2:{none}\r\n"
    );
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Serves a connection until the client leaves, or sends something that is no Redis command.
fn talk(stream: TcpStream, reply: Reply<'_>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut reader, '*')? {
            let length = number(&mut reader, '$')?;
            let mut word = vec![0; length + 2];
            reader.read_exact(&mut word).ok()?;
            words.push(String::from_utf8_lossy(&word[..length]).into_owned());
        }
        reply(&words, &mut writer)?;
    }
}

fn number(reader: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim().strip_prefix(sign)?.parse().ok()
}
