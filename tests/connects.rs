//! The cost of a connect: its commands, and how often a client waits for answers. `docs/speed.md` has the same table.

mod support;

use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use quorlock::Builder;
use support::Server;
use support::clients::{admitted, fresh};
use support::relay::{Relay, Words, encoded, read_answer, read_command, refuses_info};

const LIMIT: Duration = Duration::from_secs(60);
const PAGE: &str = include_str!("../docs/speed.md");
const PASSWORD: &str = "secret";

/// The commands that a client sends before it waits for an answer.
type Write = &'static [&'static str];

/// Checks that the server is one that can be used.
const CHECK: Write = &[
    "PING",
    "TIME",
    "INFO server",
    "INFO replication",
    "INFO memory",
    "CLIENT ID",
    "CLIENT SETNAME",
];

/// Reads the mark, and then which server answers.
const PROBE: Write = &["EVAL", "INFO server", "INFO replication"];

/// A way to connect.
struct Way {
    /// As in the page.
    name: &'static str,
    refuses_info: bool,
    has_password: bool,
    parameters: &'static str,
    writes: &'static [Write],
}

impl Way {
    fn server(&self) -> Server {
        match (self.refuses_info, self.has_password) {
            (true, _) => refuses_info(),
            (_, true) => Server::start_with(&["--requirepass", PASSWORD]),
            _ => Server::start(),
        }
    }

    fn builder(&self, url: &str) -> Builder {
        let builder = fresh([format!("{url}{}", self.parameters)]).ttl(LIMIT).max_ttl(LIMIT);
        let builder = builder.node_timeout(LIMIT / 2);
        if self.has_password { builder.password(PASSWORD) } else { builder }
    }

    /// The row of the page, as far as it does not depend on the machine.
    fn row(&self) -> String {
        let commands = self.writes.iter().map(|write| write.len()).sum::<usize>();
        format!("| {} | {} | {commands} |", self.name, self.writes.len())
    }
}

/// The beginning of a command, as in [`Way::writes`].
fn shown(words: &Words) -> String {
    let word = |i: usize| words.get(i).map(|it| String::from_utf8_lossy(it).into_owned());
    let name = word(0).unwrap_or_default();
    match (name.as_str(), word(1)) {
        ("INFO" | "CLIENT", Some(second)) => format!("{name} {second}"),
        _ => name,
    }
}

/// Carries a connection to the server at that address. The answers to a write go to the client once all commands of the write have
/// come. So a client that waits for answers more often comes no further, which is an error, as other commands are.
fn carry(
    client: &TcpStream,
    server: SocketAddr,
    writes: &[Write],
    patience: Duration,
) -> Result<(), String> {
    let server = TcpStream::connect(server).expect("the server is up");
    let (mut to_client, mut to_server) = (client, &server);
    client.set_read_timeout(Some(patience)).expect("no zero");
    let (mut commands, mut answers) = (BufReader::new(client), BufReader::new(&server));
    for write in writes {
        let (mut came, mut answered) = (Vec::new(), Vec::new());
        while came.len() < write.len() {
            let words = read_command(&mut commands);
            let words = words.ok_or_else(|| format!("{came:?}, and nothing more of {write:?}"))?;
            let is_of_library = shown(&words) == "CLIENT SETINFO";
            to_server.write_all(&encoded(&words)).expect("the server is up");
            read_answer(&mut answers, &mut answered).expect("the server is up");
            // Servers from 7.2 on are told the library as well, and nobody waits for their answers.
            if !is_of_library {
                came.push(shown(&words));
            }
        }
        if came != *write {
            return Err(format!("{came:?} instead of {write:?}"));
        }
        to_client.write_all(&answered).map_err(|error| error.to_string())?;
    }
    Ok(())
}

const PLAIN: Way = Way {
    name: "a plain server",
    refuses_info: false,
    has_password: false,
    parameters: "",
    writes: &[CHECK, PROBE],
};

fn ways() -> [Way; 5] {
    let way = |name| Way { name, ..PLAIN };
    [
        PLAIN,
        Way { has_password: true, writes: &[&["AUTH"], CHECK, PROBE], ..way("a password") },
        Way {
            parameters: "/1?protocol=resp3",
            writes: &[&["HELLO", "SELECT"], CHECK, PROBE],
            ..way("RESP3, and another database")
        },
        Way {
            has_password: true,
            parameters: "?protocol=resp3",
            writes: &[&["HELLO"], CHECK, PROBE],
            ..way("RESP3, and a password")
        },
        Way { refuses_info: true, ..way("a server that refuses `INFO` in scripts") },
    ]
}

/// Connects a client, and returns the deviation from `writes`.
fn connect(way: &Way, writes: &[Write], patience: Duration) -> Result<(), String> {
    let server = way.server();
    let relay = Relay::start_with_info(&server, way.refuses_info);
    // Another client uses the server already.
    drop(admitted(way.builder(&relay.url())));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("it is bound"));
    let locks = way.builder(&url).build().expect("valid settings");
    let (client, _) = listener.accept().expect("it connects");
    let carried = carry(&client, relay.address(), writes, patience);
    drop(client);
    drop(locks);
    carried
}

#[test]
fn a_connect_costs_what_the_page_states() {
    for way in ways() {
        assert_eq!(connect(&way, way.writes, LIMIT), Ok(()), "{}", way.name);
        assert!(PAGE.lines().any(|line| line.starts_with(&way.row())), "no {}", way.row());
    }
}

/// The test above would find another wait, and another command.
#[test]
fn a_costlier_connect_is_found() {
    // A client with a password waits once more than one without.
    let with_password = &ways()[1];
    let without: &[Write] =
        &[&["AUTH", "PING", "TIME", "INFO server", "INFO replication", "INFO memory", "CLIENT ID"]];
    let waits = connect(with_password, without, LIMIT / 10).expect_err("it waits behind AUTH");
    assert!(waits.contains("nothing more"), "{waits}");
    let lacks: &[Write] = &[&["PING", "TIME", "INFO server", "INFO replication", "CLIENT ID"]];
    let more = connect(&PLAIN, lacks, LIMIT).expect_err("it reads another section of INFO");
    assert!(more.contains("instead of"), "{more}");
}
