//! A connection that callers drive themselves, to a server that is played by the test.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use parking_lot::Mutex;

use super::super::fuzzing::HANDSHAKE;
use super::super::job::{Answer, Ask, Sink};
use super::super::mailbox::Found;
use super::super::request::{Part, Request, Script};
use super::super::status::Status;
use super::super::wire::Wire;
use super::*;
use crate::core::admission::Configuration;
use crate::core::link::{Purpose, Release, Via};

/// A timeout that no test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

static ECHO: Script = Script::new("return 1");

/// The bytes of a server that answers a script with `answer`, and answers TIME.
fn says(answer: u32) -> Vec<u8> {
    format!(":{answer}\r\n*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n").into_bytes()
}

#[derive(Default)]
struct Caller {
    heard: Mutex<Vec<Answer>>,
}

impl Sink for Caller {
    fn sending(&self, _node: usize, _via: Via) -> bool {
        true
    }

    fn unsent(&self, _node: usize) {}

    fn answer(&self, _node: usize, answer: Answer) {
        self.heard.lock().push(answer);
    }
}

struct Played {
    driver: Driver,
    mailbox: Arc<Mailbox>,
    server: UnixStream,
    caller: Arc<Caller>,
}

impl Played {
    /// Starts a node that is usable, and of which nothing is asked.
    fn new() -> Self {
        let address = Address::parse("unix:///nowhere/at/all", 1).expect("a URL");
        let names: Arc<[Arc<str>]> = [address.shown().as_ref()].map(Arc::from).into();
        let configuration = Configuration {
            set_name: "default".to_owned(),
            nodes: 1,
            max_ttl: TIMEOUT,
            clock_tolerance: TIMEOUT,
            quarantine: false,
            index: None,
        };
        let set = NodeSet::new(b"mark".to_vec(), &names, &configuration, false);
        let shared = Arc::new(Shared::new(Status::new(address.shown().clone(), TIMEOUT)));
        let (ours, mut server) = UnixStream::pair().expect("there are sockets");
        server.write_all(HANDSHAKE).expect("it fits");
        let wire = Wire::of_pair(ours, TIMEOUT).expect("without TLS");
        let connection = Connection::over(wire, &address, TIMEOUT).expect("a good server");
        let mailbox = set.mailbox(0).clone();
        mailbox.make_waker();
        let mut driver = Driver::new(0, (address, TIMEOUT), shared, set, None);
        driver.connected(Ok(connection));
        let mut played = Self { driver, mailbox, server, caller: Arc::default() };
        // The server refuses a probe of its mark, so that it is not probed again.
        played.answers(b"-NOPERM it is not for you\r\n$2\r\n\r\n\r\n$2\r\n\r\n\r\n");
        assert!(matches!(played.driver.work(), Next::Rest(_)));
        played.written();
        // The node counts as near, however busy the machine was just now.
        played.driver.link.measured(Duration::ZERO, clock::now());
        played.driver.shared.sleeps_until(clock::now());
        played
    }

    fn job(&self, key: &str) -> Job {
        let request = Arc::new(Request::new(&ECHO, 1, &[Part::Bytes(key.as_bytes())]));
        Ask::Anyway(request).into_job(0, self.caller.clone())
    }

    fn submit(&mut self, key: &str) -> Progress {
        let job = self.job(key);
        self.driver.submit(job)
    }

    /// The bytes that the server has got since the last call.
    fn written(&mut self) -> String {
        self.server.set_nonblocking(true).expect("a socket");
        let mut bytes = [0; 65_536];
        let read = self.server.read(&mut bytes).unwrap_or(0);
        self.server.set_nonblocking(false).expect("a socket");
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    fn answers(&mut self, bytes: &[u8]) {
        self.server.write_all(bytes).expect("it fits");
    }

    /// The answers that the caller has got since the last call; `None` for a failure.
    fn heard(&self) -> Vec<Option<i64>> {
        let number = |answer: Answer| match answer {
            Ok(Value::Int(number)) => Some(number),
            _ => None,
        };
        self.caller.heard.lock().drain(..).map(number).collect()
    }
}

#[test]
fn an_answer_is_taken_in_when_all_of_it_has_come() {
    let mut played = Played::new();
    assert!(played.driver.can_be_driven());
    assert!(matches!(played.submit("one"), Progress::Reads(_)));
    assert!(played.written().contains("one"));
    let said = says(5);
    for byte in &said[..said.len() - 1] {
        played.answers(&[*byte]);
        played.driver.advance();
    }
    assert!(played.driver.advance().is_none(), "nothing has come");
    assert_eq!(played.heard(), [Some(5)], "the answer counts without the clock");
    played.answers(&said[said.len() - 1..]);
    assert_eq!(played.driver.advance(), Some(Progress::Rests));
    assert!(played.heard().is_empty(), "it is answered once");
}

#[test]
fn a_request_behind_answers_that_were_left_goes_out_with_the_last_of_them() {
    let mut played = Played::new();
    played.submit("one");
    let progress = Progress::Reads(clock::now());
    assert!(!played.driver.leave(progress), "the worker wakes up by itself");
    assert!(played.driver.can_be_driven());
    assert!(matches!(played.submit("two"), Progress::Reads(_)));
    assert!(!played.written().contains("two"));
    assert!(!played.driver.can_be_driven(), "one waits already");
    assert!(played.driver.leave(progress), "it would wait for nobody");
    played.answers(&says(1));
    assert!(matches!(played.driver.advance(), Some(Progress::Reads(_))));
    assert!(played.written().contains("two"));
    played.answers(&says(2));
    assert_eq!(played.driver.advance(), Some(Progress::Rests));
    assert_eq!(played.heard(), [Some(1), Some(2)]);
}

#[test]
fn answers_that_were_left_are_the_workers_a_moment_later() {
    let mut played = Played::new();
    let began = clock::now();
    let progress = played.submit("one");
    assert!(!played.driver.leave(progress));
    played.answers(&says(1));
    // The worker may check at any time.
    let next = loop {
        match played.driver.work() {
            Next::Rest(until) if played.heard().is_empty() => {
                assert!(until <= clock::now().after(LEFT));
                assert!(clock::now() <= began.after(TIMEOUT), "nobody reads it");
            }
            next => break next,
        }
    };
    assert!(matches!(next, Next::Rest(_)));
    assert!(began.after(LEFT) <= clock::now(), "the next caller has its time");
}

#[test]
fn a_connection_that_a_caller_finds_closed_is_the_workers() {
    let mut played = Played::new();
    played.submit("one");
    drop(std::mem::replace(&mut played.server, UnixStream::pair().expect("sockets").0));
    assert_eq!(played.driver.advance(), Some(Progress::Other));
    assert!(!played.driver.can_be_driven());
    assert!(played.heard().is_empty(), "what follows is not for the caller");
    assert!(played.driver.leave(Progress::Other), "the worker is woken");
    assert!(matches!(played.driver.work(), Next::Rest(_)), "there is no server to connect to");
    assert_eq!(played.heard(), [None]);
}

#[test]
fn what_has_waited_for_the_worker_goes_out_first() {
    let mut played = Played::new();
    let job = played.job("first");
    assert!(played.mailbox.put(job).is_ok());
    assert!(played.driver.can_be_driven());
    played.submit("second");
    let written = played.written();
    assert!(written.find("first") < written.find("second"), "{written}");
    assert!(written.contains("first"));
    played.answers(&[&says(1)[..4], &says(2)].concat());
    assert_eq!(played.driver.advance(), Some(Progress::Rests));
    assert_eq!(played.heard(), [Some(1), Some(2)]);
    // So many requests could block the caller's write if the server hangs.
    for _ in 0..=MOST_TAKEN_ALONG {
        let job = played.job("many");
        assert!(played.mailbox.put(job).is_ok());
    }
    assert!(!played.driver.can_be_driven());
    assert_eq!(played.mailbox.wait(Duration::ZERO), Found::Something, "it is the worker's");
}

#[test]
fn an_answer_that_others_wait_for_is_not_left() {
    let mut played = Played::new();
    let job = played.job("renewal");
    assert!(played.mailbox.put(job).is_ok());
    assert!(played.driver.can_be_driven());
    let progress = played.submit("one");
    assert!(matches!(progress, Progress::Reads(_)));
    assert!(played.driver.leave(progress), "the worker is woken");
}

#[test]
fn the_end_of_a_client_does_not_wait_for_answers_that_were_left() {
    let mut played = Played::new();
    let progress = played.submit("one");
    assert!(!played.driver.leave(progress));
    played.driver.left_until = Some(clock::now().after(TIMEOUT));
    played.answers(&says(1));
    assert!(matches!(played.driver.work(), Next::Rest(_)));
    assert!(played.heard().is_empty(), "the next caller has its time");
    played.driver.shared.hurries.store(true, Ordering::Relaxed);
    assert!(matches!(played.driver.work(), Next::Rest(_)));
    assert_eq!(played.heard(), [Some(1)]);
}

#[test]
fn a_message_that_answers_nothing_is_no_answer() {
    let mut played = Played::new();
    played.submit("one");
    played.answers(b">2\r\n+invalidate\r\n+key\r\n");
    assert!(played.driver.advance().is_none());
    played.answers(&says(1));
    assert_eq!(played.driver.advance(), Some(Progress::Rests));
    assert_eq!(played.heard(), [Some(1)]);
}

/// Otherwise renewals would have to wait until no more releases are due.
#[test]
fn what_waits_goes_out_beside_releases_that_are_due() {
    const RELEASES: usize = 300;
    let mut played = Played::new();
    for i in 0..RELEASES {
        let key = format!("kept-{i:03}");
        let request = Arc::new(Request::new(&ECHO, 1, &[Part::Bytes(key.as_bytes())]));
        let asked = Asked { node: 0, request, sink: None, unanswered: None, untold: None };
        let release = Release::of_key(None, None);
        played.driver.link.keep(Job::new(asked, Purpose::Release(release)), clock::now());
    }
    assert!(matches!(played.driver.work(), Next::Read { .. }));
    assert!(played.written().contains("kept-000"));
    let job = played.job("renewal");
    assert!(played.mailbox.put(job).is_ok());
    let clock = &says(1)[4..];
    let answers = ":1\r\n".repeat(RELEASES - 44);
    played.answers(&[answers.as_bytes(), clock].concat());
    assert!(matches!(played.driver.work(), Next::Read { .. }));
    let written = played.written();
    assert!(written.contains("kept-299") && written.contains("renewal"), "{written}");
}

#[test]
fn a_worker_that_waits_for_an_answer_is_woken_for_a_request_once_a_caller_has_had_the_connection() {
    let played = Played::new();
    let socket = played.driver.socket().expect("it is connected").clone();
    let wait = |mailbox: &Mailbox| mailbox.wait_for_answer(&socket, TIMEOUT, false);
    let began = clock::now();
    let job = played.job("one");
    assert!(played.mailbox.send(job).is_ok());
    assert_eq!(wait(&played.mailbox), Found::Something, "it was sent before");
    // A caller takes the answer that the worker waits for.
    let (job, mailbox) = (played.job("two"), played.mailbox.clone());
    let sends = move || {
        mailbox.wait_asleep(TIMEOUT);
        mailbox.was_taken();
        assert!(mailbox.send(job).is_ok());
    };
    clock::spawn("sends".to_owned(), sends).expect("there are threads");
    assert_eq!(wait(&played.mailbox), Found::Something);
    // A request that has to wait for the answer as well does not wake the worker.
    let (job, mailbox) = (played.job("three"), played.mailbox.clone());
    let mut server = played.server.try_clone().expect("a socket");
    let answers = move || {
        mailbox.wait_asleep(TIMEOUT);
        assert!(mailbox.send(job).is_ok());
        assert!(mailbox.is_asleep());
        server.write_all(b"+").expect("it fits");
    };
    clock::spawn("answers".to_owned(), answers).expect("there are threads");
    assert_eq!(wait(&played.mailbox), Found::Something);
    assert!(clock::now() < began.after(TIMEOUT));
}

/// So many bytes would block the caller if the server hangs.
#[test]
fn a_large_request_is_the_workers() {
    let mut played = Played::new();
    assert_eq!(played.submit(&"n".repeat(MOST_AT_ONCE)), Progress::Other);
    assert!(played.written().is_empty());
    assert!(played.driver.leave(Progress::Other), "the worker is woken");
}

#[test]
fn events_are_not_told_by_a_caller_that_drives_connections() {
    let played = Played::new();
    let (set, told) = (&played.driver.set, Arc::new(Mutex::new(Vec::new())));
    let tell = |what: &'static str| {
        let told = told.clone();
        set.tell(move || told.lock().push(what));
    };
    tell("one");
    assert_eq!(told.lock().split_off(0), ["one"]);
    set.driver_comes();
    tell("two");
    assert!(told.lock().is_empty());
    set.driver_leaves();
    assert_eq!(played.mailbox.wait(Duration::ZERO), Found::Something, "a worker is woken for it");
    tell("three");
    assert!(told.lock().is_empty(), "they are told in their order");
    set.tell_events();
    assert_eq!(told.lock().split_off(0), ["two", "three"]);
}
