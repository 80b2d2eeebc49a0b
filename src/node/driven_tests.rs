//! A caller that drives the connection to a far or slow node while another request comes for the node.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use super::super::fuzzing::HANDSHAKE;
use super::super::job::Answer;
use super::super::request::{Part, Script};
use super::*;
use crate::core::admission::mark::{Identity, Mark, MarkState, Noted};
use crate::core::admission::{Configuration, Offset, Probe, Role};
use crate::core::link::Via;
use crate::node::Address;

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);

static ECHO: Script = Script::new("return 1");

/// The answer to a request.
const ANSWER: &[u8] = b":1\r\n";

/// The answer to TIME, which comes after the requests of each write.
const CLOCK: &[u8] = b"*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n";

/// The end of the handshake.
const LAST_OF_HANDSHAKE: &str = "$7\r\nSETNAME\r\n";

/// The key of each request.
const KEY: &str = "the key";

const MARK: &str = "the mark";

/// A server that answers late, or only when it is allowed to.
#[derive(Default)]
struct Server {
    is_silent: Mutex<bool>,
    changed: Condvar,
    late: Duration,
    /// The present connection.
    stream: Mutex<Option<TcpStream>>,
    /// Number of connections that have ended.
    ended: AtomicUsize,
}

impl Server {
    /// Returns the server and its port.
    fn start(late: Duration) -> (Arc<Self>, u16) {
        let server = Arc::new(Self { late, ..Self::default() });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let ours = server.clone();
        let serve = move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                *ours.stream.lock() = stream.try_clone().ok();
                ours.serve(&mut stream);
                drop(stream);
                ours.ended.fetch_add(1, Ordering::SeqCst);
            }
        };
        clock::spawn("server".to_owned(), serve).expect("there are threads");
        (server, port)
    }

    fn serve(&self, stream: &mut TcpStream) {
        stream.set_nodelay(true).expect("a socket");
        stream.write_all(HANDSHAKE).expect("it fits");
        let (mut heard, mut bytes, mut is_greeted) = (String::new(), [0; 65_536], false);
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            heard += &String::from_utf8_lossy(&bytes[..length]);
            if !is_greeted {
                let Some(end) = heard.find(LAST_OF_HANDSHAKE) else { continue };
                heard.drain(..end + LAST_OF_HANDSHAKE.len());
                is_greeted = true;
            }
            clock::sleep(self.late);
            self.changed.wait_while(&mut self.is_silent.lock(), |is_silent| *is_silent);
            if stream.write_all(&answers(&mut heard)).is_err() {
                return;
            }
        }
    }

    /// Ends the connection, like a server that is restarted. Its requests stay unanswered, and nothing can be written to it any more,
    /// since it has not read all bytes.
    fn hang_up(&self) {
        let stream = self.stream.lock().take().expect("there is a connection");
        stream.shutdown(Shutdown::Both).expect("it was open");
        drop(stream);
        self.is_silent(false);
        let is_over = || self.ended.load(Ordering::SeqCst) == 1;
        assert!(clock::poll(clock::now().after(LIMIT), is_over), "the connection does not end");
    }

    fn is_silent(&self, is_silent: bool) {
        *self.is_silent.lock() = is_silent;
        self.changed.notify_all();
    }
}

/// Removes all known requests from what the server has heard, and returns their answers in order.
fn answers(heard: &mut String) -> Vec<u8> {
    // The mark is refused, so that it is not asked for again.
    let refusal = b"-NOPERM it is not for you\r\n";
    let info = b"$2\r\n\r\n\r\n";
    let known: [(&str, &[u8]); 5] =
        [(KEY, ANSWER), (MARK, refusal), ("TIME", CLOCK), ("server", info), ("replication", info)];
    let next = |heard: &String| {
        let found = known.iter().filter_map(|(word, answer)| {
            let word = format!("\r\n{word}\r\n");
            Some((heard.find(&word)? + word.len(), *answer))
        });
        found.min_by_key(|(until, _)| *until)
    };
    let mut answers = Vec::new();
    while let Some((until, answer)) = next(heard) {
        answers.extend_from_slice(answer);
        heard.drain(..until);
    }
    answers
}

#[derive(Default)]
struct Asker {
    heard: AtomicUsize,
    failed: AtomicUsize,
}

impl Sink for Asker {
    fn sending(&self, _node: usize, _via: Via) -> bool {
        true
    }

    fn unsent(&self, _node: usize) {}

    fn answer(&self, _node: usize, answer: Answer) {
        self.failed.fetch_add(usize::from(answer.is_err()), Ordering::SeqCst);
        self.heard.fetch_add(1, Ordering::SeqCst);
    }
}

impl Asker {
    fn wait_heard(&self, answers: usize) {
        let heard = || self.heard.load(Ordering::SeqCst) >= answers;
        assert!(clock::poll(clock::now().after(LIMIT), heard), "no answer comes");
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst) > 0
    }
}

fn ask() -> Ask {
    Ask::Anyway(Arc::new(Request::new(&ECHO, 1, &[Part::Bytes(KEY.as_bytes())])))
}

/// Starts a node that answers so `late`, and a caller that it has answered a few times.
fn node(late: Duration) -> (Arc<Server>, [Node; 1], Arc<Asker>) {
    let (server, port) = Server::start(late);
    let address = Address::parse(&format!("redis://127.0.0.1:{port}"), 1).expect("a URL");
    let names: Arc<[Arc<str>]> = [address.shown().as_ref()].map(Arc::from).into();
    let configuration = Configuration {
        set_name: "default".to_owned(),
        nodes: 1,
        max_ttl: LIMIT,
        clock_tolerance: LIMIT,
        quarantine: false,
        index: None,
    };
    let set = NodeSet::new(MARK.as_bytes().to_vec(), &names, &configuration, false);
    let node = Node::start(0, address, LIMIT, &set, None, Arc::default()).expect("a thread");
    let asker = Arc::new(Asker::default());
    for answers in 1..=3 {
        node.ask(ask(), &asker);
        asker.wait_heard(answers);
    }
    asker.heard.store(0, Ordering::SeqCst);
    settle(&set, &configuration);
    (server, [node], asker)
}

/// Settles the node, so that nothing must be asked about it for a while.
fn settle(set: &NodeSet, configuration: &Configuration) {
    let now = clock::now();
    let identity = Identity::new("run", "repl").expect("letters");
    let mark = Mark {
        configuration: configuration.clone(),
        identity: identity.clone(),
        noted: Noted { ahead_ms: 0, at_ms: 0 },
        state: MarkState::Admitted,
    };
    let probe = Probe {
        changed: false,
        role: Role::Master,
        identity,
        promoted: false,
        clock: Offset::new(1_700_000_000_000_000, now, now),
        mark: Some(mark.to_string()),
    };
    set.probed(0, probe, now);
    assert!(set.settled_until(0).is_some());
}

/// A caller that drives the node's connection.
fn driving(nodes: &[Node]) -> Driven<'_> {
    let mut driven = Driven::of(nodes, |_| true).expect("there is a node");
    let until = clock::now().after(LIMIT);
    while driven.links.is_empty() {
        assert!(clock::now() < until, "the worker does not let it have the connection");
        drop(driven);
        clock::sleep(Duration::from_millis(1));
        driven = Driven::of(nodes, |_| true).expect("there is a node");
    }
    driven
}

/// Sets the distance of the node, so that a busy machine does not matter.
fn is_so_far(driven: &mut Driven<'_>, distance: Duration) {
    driven.links[0].driver.link.measured(distance, clock::now());
    driven.is_slow = driven.links[0].driver.link.is_far();
}

const DISTANCES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(2)];

#[test]
fn a_caller_lets_go_when_something_else_comes_for_a_node_that_is_far_away_or_slow() {
    for late in DISTANCES {
        for is_there in [true, false] {
            let (server, nodes, asker) = node(late);
            let mut driven = driving(&nodes);
            is_so_far(&mut driven, late);
            server.is_silent(true);
            driven.ask(&nodes[0], ask(), &asker);
            // A renewal or a dropped guard asks like this: before the caller waits, or meanwhile.
            let asks = || nodes[0].ask(ask(), &asker);
            std::thread::scope(|scope| {
                if is_there {
                    asks();
                } else {
                    scope.spawn(asks);
                }
                let until = clock::now().after(LIMIT);
                while driven.carry_on(until.since(clock::now())) == Carried::Nothing {
                    assert!(clock::now() < until, "it waits for the answer");
                }
            });
            assert!(driven.links.is_empty());
            drop(driven);
            server.is_silent(false);
            asker.wait_heard(2);
            assert!(!asker.has_failed(), "the server answers");
        }
    }
}

#[test]
fn a_caller_lets_go_also_with_the_last_answer_that_it_needs() {
    let (server, nodes, asker) = node(DISTANCES[1]);
    let mut driven = driving(&nodes);
    server.is_silent(true);
    driven.ask(&nodes[0], ask(), &asker);
    assert_eq!(driven.carry_on(Duration::from_millis(1)), Carried::Nothing);
    nodes[0].ask(ask(), &asker);
    server.is_silent(false);
    let has_come = || wait_for_answers(&driven.links, None, Duration::ZERO).links == [true];
    assert!(clock::poll(clock::now().after(LIMIT), has_come), "no answer comes");
    assert_eq!(driven.carry_on(LIMIT), Carried::Over);
    assert!(driven.links.is_empty());
    drop(driven);
    asker.wait_heard(2);
    assert!(!asker.has_failed(), "the server answers");
}

const FAR_AWAY: Duration = Duration::from_secs(2);

/// A far node is restarted while two writes are on their way there, and a third one waits.
#[test]
fn a_connection_that_ends_under_a_caller_is_left_to_its_worker() {
    let (server, nodes, asker) = node(DISTANCES[1]);
    let mut driven = driving(&nodes);
    server.is_silent(true);
    // So far that nothing becomes due meanwhile.
    is_so_far(&mut driven, FAR_AWAY);
    let may_follow = |driven: &Driven<'_>| {
        let from = driven.links[0].driver.link.takes_more_from();
        from.is_some_and(|from| from <= clock::now())
    };
    driven.ask(&nodes[0], ask(), &asker);
    assert!(clock::poll(clock::now().after(LIMIT), || may_follow(&driven)), "nothing may follow");
    driven.ask(&nodes[0], ask(), &asker);
    driven.ask(&nodes[0], ask(), &asker);
    let link = &driven.links[0].driver.link;
    assert!(link.writes_on_their_way() == 2 && link.has_unsent(), "the third one waits");
    server.hang_up();
    let until = clock::now().after(LIMIT);
    let is_due = || driven.links[0].driver.link.writes_at().is_some_and(|at| at <= clock::now());
    assert!(clock::poll(until, is_due), "what waits may not go out");
    while driven.carry_on(until.since(clock::now())) != Carried::Over {
        assert!(clock::now() < until, "it waits for an answer");
    }
    drop(driven);
    asker.wait_heard(3);
    assert!(!asker.has_failed(), "the worker connects again, and asks again");
}
