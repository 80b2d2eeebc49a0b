//! Mutation tests of fencing: without each mechanism, a later holder gets a smaller token.
//!
//! Each scenario runs on the shipped machines with and without the mechanism. The nodes of the model keep numbers, as
//! `lua/mutex` does. A scenario says which nodes a message reaches.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::base::{Allowance, Mechanism, Time, without};
use super::super::link::Via;
use super::*;

const TTL: Duration = Duration::from_secs(10);

/// The time of all nodes during a scenario, in microseconds and as a number.
const NOW_US: i64 = 1_000_000;
const NOW: u64 = 100_000;

/// A node: the owner of its key, and the largest number that it knows.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    owner: Option<u128>,
    fence: u64,
}

impl Node {
    fn acquire(&mut self, owner: u128, proposal: u64) -> Vote {
        let step = match self.owner {
            None => 1,
            Some(other) if other == owner => 0,
            Some(_) => return Vote::Refused(None),
        };
        self.owner = Some(owner);
        self.fence = proposal.max(self.fence + step);
        Vote::Granted(self.fence)
    }

    fn confirm(&mut self, owner: u128, number: u64) -> ConfirmVote {
        if self.owner != Some(owner) {
            if !Mechanism::FenceOnlyWhereOurs.is_on() {
                self.fence = self.fence.max(number);
            }
            return ConfirmVote::NotOurs;
        }
        self.fence = self.fence.max(number);
        ConfirmVote::Confirmed
    }

    fn release(&mut self, owner: u128) {
        self.owner.take_if(|other| *other == owner);
    }
}

/// A client that tries to get the lock, with a clock of its own.
struct Client {
    owner: u128,
    now: Time,
    attempt: Attempt,
    proposal: u64,
    /// Nodes whose answer was heard.
    heard: Vec<bool>,
}

impl Client {
    /// A client whose own clock says `now` while the nodes' clocks say `now_us`.
    fn new(owner: u128, nodes: usize, now: Time, now_us: i64) -> Self {
        Self {
            owner,
            now,
            attempt: Attempt::new(nodes, now, now.after(TTL), TTL, Allowance::FOR_DRIFT),
            proposal: Proposal::new(0, Some(now_us), None).number,
            heard: vec![false; nodes],
        }
    }

    /// The request reaches `node`, and the answer comes back.
    fn ask(&mut self, nodes: &mut [Node], reached: &[usize]) {
        reached.iter().for_each(|node| self.ask_one(nodes, *node, true));
    }

    /// The request reaches `node`; the first answer that comes back counts.
    fn ask_one(&mut self, nodes: &mut [Node], node: usize, answered: bool) {
        assert!(self.attempt.sending(node, Via::unfenced(1), self.now));
        let vote = nodes[node].acquire(self.owner, self.proposal);
        if answered && !std::mem::replace(&mut self.heard[node], true) {
            self.attempt.vote(node, vote);
        }
    }

    /// Writes the number back to the `reached` nodes, if that is due. Returns the number, if the lock is won.
    fn number(&mut self, nodes: &mut [Node], reached: &[usize]) -> Option<u64> {
        if let Some(number) = self.attempt.number_to_write_back() {
            let answer_by = self.now.after(TTL);
            let mut round = Confirmation::new(nodes.len(), answer_by);
            for (i, node) in nodes.iter_mut().enumerate() {
                if reached.contains(&i) {
                    round.vote(i, node.confirm(self.owner, number));
                } else {
                    round.fail(i, Failure::Unknown);
                }
            }
            if round.confirmed() {
                self.attempt.written_back();
            }
        }
        match self.attempt.conclude(self.now) {
            Conclusion::Won { number, .. } => Some(number),
            _ => None,
        }
    }

    fn release(&self, nodes: &mut [Node]) {
        nodes.iter_mut().for_each(|node| node.release(self.owner));
    }
}

fn client(owner: u128, nodes: &[Node]) -> Client {
    Client::new(owner, nodes.len(), Time::from_start(TTL), NOW_US)
}

/// The numbers of the last of three holders, and of a client after all nodes restarted empty. That client comes a
/// second later, and its own clock is unrelated to the others' clocks.
fn numbers_before_and_after_all_is_forgotten() -> (u64, u64) {
    let mut nodes = [Node::default(); 3];
    let holder = |owner, own_clock, now_us, nodes: &mut [Node]| {
        let now = Time::from_start(Duration::from_secs(own_clock));
        let mut client = Client::new(owner, 3, now, now_us);
        client.ask(nodes, &[0, 1, 2]);
        let number = client.number(nodes, &[]).expect("three of three");
        client.release(nodes);
        number
    };
    let before = [500, 500_000, 5_000].map(|own_clock| holder(1, own_clock, NOW_US, &mut nodes));
    assert!(before.is_sorted_by(|earlier, later| earlier < later), "{before:?}");
    let mut nodes = [Node::default(); 3];
    (before[2], holder(2, 20, NOW_US + 1_000_000, &mut nodes))
}

#[test]
fn without_the_masters_time_numbers_begin_again_when_all_is_forgotten() {
    let (before, after) = numbers_before_and_after_all_is_forgotten();
    assert!(before < after, "{before} {after}");
    let (before, after) =
        without(&[Mechanism::FenceClockFloor], numbers_before_and_after_all_is_forgotten);
    assert!(before > after, "{before} {after}");
}

/// One step of three clients on three nodes. Any message may be late, or its answer lost.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { client: usize, node: usize, answered: bool },
    Finish { client: usize, reached: [bool; 3] },
    GiveBack { client: usize, released: [bool; 3] },
    ReleaseArrives { attempt: usize, node: usize },
    CopyArrives { attempt: usize, node: usize },
    AllReleasesArrive,
}

fn any_step() -> impl Strategy<Value = Step> {
    let nodes = || prop::array::uniform3(prop::bool::weighted(0.7));
    prop_oneof![
        10 => (0_usize..3, 0_usize..3, prop::bool::weighted(0.9))
            .prop_map(|(client, node, answered)| Step::Ask { client, node, answered }),
        5 => (0_usize..3, nodes())
            .prop_map(|(client, reached)| Step::Finish { client, reached }),
        3 => (0_usize..3, nodes())
            .prop_map(|(client, released)| Step::GiveBack { client, released }),
        3 => (0_usize..100, 0_usize..3)
            .prop_map(|(attempt, node)| Step::ReleaseArrives { attempt, node }),
        1 => (0_usize..100, 0_usize..3)
            .prop_map(|(attempt, node)| Step::CopyArrives { attempt, node }),
        3 => Just(Step::AllReleasesArrive),
    ]
}

/// Steps, and the distances by which the nodes' numbers are ahead of the time at first.
fn any_story() -> impl Strategy<Value = (Vec<Step>, [u64; 3])> {
    (prop::collection::vec(any_step(), 1..200), prop::array::uniform3(0_u64..9))
}

/// The number of locks that were held under `steps`; `None` if one of them had a number that is not larger than all
/// earlier ones.
fn locks_with_rising_numbers(steps: &[Step], ahead: [u64; 3]) -> Option<usize> {
    let mut nodes = ahead.map(|ahead| Node { owner: None, fence: NOW + ahead });
    let mut clients: Vec<_> = (0..3).map(|owner| client(owner, &nodes)).collect();
    let (mut owners, mut given_up) = (3, Vec::new());
    let (mut held, mut locks, mut last) = ([false; 3], 0, 0);
    for step in steps {
        match *step {
            Step::Ask { client, node, answered } if !held[client] => {
                clients[client].ask_one(&mut nodes, node, answered);
            }
            Step::Finish { client, reached } if !held[client] => {
                let reached: Vec<_> = (0..3).filter(|node| reached[*node]).collect();
                if let Some(number) = clients[client].number(&mut nodes, &reached) {
                    if number <= last {
                        return None;
                    }
                    (held[client], locks, last) = (true, locks + 1, number);
                }
            }
            Step::GiveBack { client, released } => {
                let next = self::client(owners, &nodes);
                owners += 1;
                let before = std::mem::replace(&mut clients[client], next);
                held[client] = false;
                let reached = nodes.iter_mut().zip(released).filter(|(_, released)| *released);
                reached.for_each(|(node, _)| node.release(before.owner));
                given_up.push(before);
            }
            Step::ReleaseArrives { attempt, node } if !given_up.is_empty() => {
                nodes[node].release(given_up[attempt % given_up.len()].owner);
            }
            Step::CopyArrives { attempt, node } if !given_up.is_empty() => {
                let late = &given_up[attempt % given_up.len()];
                nodes[node].acquire(late.owner, late.proposal);
            }
            Step::AllReleasesArrive => {
                given_up.iter().for_each(|attempt: &Client| attempt.release(&mut nodes));
            }
            _ => {}
        }
    }
    Some(locks)
}

proptest! {
    #[test]
    fn numbers_rise_whatever_is_late_or_lost((steps, ahead) in any_story()) {
        prop_assert!(locks_with_rising_numbers(&steps, ahead).is_some());
    }
}

/// The scenarios of the property above are long enough to need each mechanism.
#[test]
fn without_either_mechanism_some_story_has_numbers_that_fall() {
    let mut runner = TestRunner::deterministic();
    let stories: Vec<_> = (0..1_000)
        .map(|_| any_story().new_tree(&mut runner).expect("no story is rejected").current())
        .collect();
    let locks = || {
        let locks = stories.iter().map(|(steps, ahead)| locks_with_rising_numbers(steps, *ahead));
        locks.sum::<Option<usize>>()
    };
    let all = locks();
    assert!(all.is_some_and(|locks| locks > stories.len() / 2), "{all:?}");
    assert_eq!(without(&[Mechanism::FenceWriteBack], locks), None);
    assert_eq!(without(&[Mechanism::FenceOnlyWhereOurs], locks), None);
}
