//! A server that answers slowly, for example because it has too many clients. A client that gave up its connection would make
//! another one, which costs the server more than the answer.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use quorlock::{Builder, Quorlock};
use support::clients::fresh;
use support::relay::{Conversation, Relay, Words};
use support::{Server, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
const NODE_TIMEOUT: Duration = Duration::from_millis(20);
/// Far above the node timeout, and far below the second that a node has where nobody waits.
const SLOW: Duration = Duration::from_millis(400);

/// The parts of a conversation whose answers are late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    /// The login, and the first question about the node.
    First,
    /// All questions about the node but the first.
    Checks,
}

struct Slow {
    late: Late,
    questions: usize,
    /// The most late answers over one connection.
    most: Arc<AtomicUsize>,
}

impl Conversation for Slow {
    fn answer(&mut self, words: &Words, _answer: &mut Vec<u8>) {
        let is_question = words[0].starts_with(b"EVAL");
        let is_first = words[0] == b"PING" || is_question && self.questions == 0;
        self.questions += usize::from(is_question);
        let is_late = match self.late {
            Late::First => is_first,
            Late::Checks => is_question && !is_first,
        };
        if is_late {
            thread::sleep(SLOW); // the server's time for it
            self.most.fetch_max(self.questions, Ordering::SeqCst);
        }
    }
}

/// Starts a server, some of whose answers are late, and a client that takes no lock. Also returns a count: the most
/// questions that the client has asked over one connection.
fn idle(late: Late, set: fn(Builder) -> Builder) -> (Server, Relay, Quorlock, Arc<AtomicUsize>) {
    let server = Server::start();
    let most = Arc::new(AtomicUsize::new(0));
    let counted = most.clone();
    let conversation = move || Slow { late, questions: 0, most: counted.clone() };
    let relay = Relay::start_with(&server, false, conversation);
    let builder = set(fresh([relay.url()]).node_timeout(NODE_TIMEOUT));
    let locks = builder.build().expect("valid settings");
    (server, relay, locks, most)
}

#[test]
fn a_login_has_more_time_than_a_request() {
    let (_server, _relay, locks, most) = idle(Late::First, |builder| builder);
    wait_until("the node is up", LIMIT, || locks.node_stats()[0].connected);
    assert!(most.load(Ordering::SeqCst) >= 1, "it was late");
}

#[test]
fn a_slow_answer_to_a_check_costs_an_idle_client_no_connection() {
    let set: [fn(Builder) -> Builder; 2] =
        [|builder| builder, |builder| builder.wait_replicas(1, NODE_TIMEOUT)];
    for set in set {
        let (_server, _relay, _locks, most) = idle(Late::Checks, set);
        wait_until("four checks over one connection", LIMIT, || most.load(Ordering::SeqCst) > 4);
    }
}
