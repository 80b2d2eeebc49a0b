//! Extensions whose requests and replies are late or lost: while the lease is valid, a majority of the
//! nodes has the key at every millisecond.

use std::time::Duration;

use proptest::prelude::*;

use super::super::base::{Allowance, Basis, Time, majority};
use super::super::link::Via;
use super::super::vote::{Ballot, Extension, ExtensionVote};
use super::*;

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(6);
const LONG: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_millis(200);

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

/// A node of these scenarios: the time until which it has our key.
#[derive(Clone, Copy)]
struct Node {
    until: Time,
    /// True for a node that runs the shipped script; false for a wrong one.
    never_shortens: bool,
}

impl Node {
    fn has_key(&self, now: Time) -> bool {
        now < self.until
    }

    fn extend(&mut self, now: Time, ttl: Duration, repair_until: Option<Time>) -> ExtensionVote {
        let until = now.after(ttl);
        if self.has_key(now) {
            self.until = if self.never_shortens { self.until.max(until) } else { until };
            ExtensionVote::Extended
        } else if repair_until.is_some_and(|repair_until| now < repair_until) {
            self.until = until;
            ExtensionVote::Repaired
        } else {
            ExtensionVote::Free
        }
    }
}

/// The fate of a request to one node: the milliseconds that the request takes, and those of its reply;
/// `None`: lost.
#[derive(Clone, Copy, Debug)]
struct Fate {
    request: Option<u64>,
    reply: Option<u64>,
}

const AT_ONCE: Fate = Fate { request: Some(1), reply: Some(1) };

/// A round under way.
struct Sent {
    extension: Extension,
    repair_until: Option<Time>,
    /// For each request: its node, its time of arrival, and the milliseconds that the reply takes.
    requests: Vec<(usize, Time, Option<u64>)>,
    replies: Vec<(usize, Time, ExtensionVote)>,
    judged: bool,
}

struct Story<'a> {
    never_shortens: bool,
    /// Times, in milliseconds, at which the caller asks for an extension, and its TTL.
    asks: &'a [(u64, Duration)],
    /// The fate of a request, from the time in milliseconds at which it is sent, its round, and its node.
    fate: &'a dyn Fn(u64, usize, usize) -> Fate,
    lasts_ms: u64,
}

impl Story<'_> {
    /// The first millisecond, if any, at which the lease is valid although a majority of the nodes is
    /// without the key; and the number of rounds.
    fn free_while_valid(&self) -> (Option<u64>, usize) {
        let terms = Terms::renewed(TTL, Allowance::FOR_DRIFT);
        let granted = Allowance::FOR_DRIFT.valid_until(at(0), at(0), TTL);
        let mut lease = Lease::new(terms, Basis::Majority, at(0), granted, Schedule::default());
        let node = Node { until: at(0).after(TTL), never_shortens: self.never_shortens };
        let mut nodes = [node; NODES];
        let mut rounds: Vec<Sent> = Vec::new();
        for ms in 0..self.lasts_ms {
            let now = at(ms);
            rounds.iter_mut().for_each(|round| round.carry(&mut nodes, now));
            for round in rounds.iter_mut().filter(|round| !round.judged) {
                if round.extension.decided() || round.extension.answer_by() <= now {
                    round.judged = true;
                    lease.renewed(round.extension.result(now), now);
                }
            }
            let asked = self.asks.iter().find(|(asked_at, _)| *asked_at == ms);
            let renewing = rounds.iter().any(|round| !round.judged);
            let ttl = match (asked, lease.next(now)) {
                (_, Next::Over(_)) => None,
                (Some((_, ttl)), _) => Some(*ttl),
                (None, Next::Renew(due)) if due <= now && !renewing => Some(TTL),
                _ => None,
            };
            if let Some(ttl) = ttl {
                let round = self.send(ms, rounds.len(), lease.ttl(ttl, now), &lease);
                if asked.is_some() {
                    lease.extending(ttl, now, round.extension.valid_at_most());
                }
                rounds.push(round);
            }
            let present = nodes.iter().filter(|node| node.has_key(now)).count();
            if !lease.remaining(now).is_zero() && present < majority(NODES) {
                return (Some(ms), rounds.len());
            }
        }
        (None, rounds.len())
    }

    fn send(&self, ms: u64, index: usize, ttl: Duration, lease: &Lease) -> Sent {
        let now = at(ms);
        let answer_by = now.after(TIMEOUT);
        let mut extension =
            Extension::new(NODES, now, answer_by, ttl, lease.basis(), Allowance::FOR_DRIFT);
        let mut requests = Vec::new();
        for node in 0..NODES {
            assert!(extension.sending(node, Via::unfenced(1), now));
            let Fate { request, reply } = (self.fate)(ms, index, node);
            requests.extend(request.map(|delay| (node, at(ms + delay), reply)));
        }
        let repair_until = lease.repair_until();
        Sent { extension, repair_until, requests, replies: Vec::new(), judged: false }
    }
}

impl Sent {
    /// Delivers the requests and replies that are due at `now`.
    fn carry(&mut self, nodes: &mut [Node], now: Time) {
        let ttl = self.extension.ttl();
        for (node, _, reply) in self.requests.extract_if(.., |(_, arrives, _)| *arrives <= now) {
            let vote = nodes[node].extend(now, ttl, self.repair_until);
            let reply = reply.map(|delay| (node, now.after(Duration::from_millis(delay)), vote));
            self.replies.extend(reply);
        }
        for (node, _, vote) in self.replies.extract_if(.., |(_, arrives, _)| *arrives <= now) {
            self.extension.vote(node, vote);
        }
    }
}

/// A long extension that all nodes confirm. Then renewals whose replies are lost, and later renewals whose
/// requests are lost.
fn renewals_without_replies(never_shortens: bool) -> (Option<u64>, usize) {
    let fate = |ms: u64, _: usize, node: usize| match ms {
        0..=100 => AT_ONCE,
        101..20_000 => Fate { request: Some(1 + 20 * node as u64), reply: None },
        _ => Fate { request: None, reply: None },
    };
    let story = Story { never_shortens, asks: &[(100, LONG)], fate: &fate, lasts_ms: 62_000 };
    story.free_while_valid()
}

#[test]
fn a_long_extension_is_not_undone_by_renewals_whose_replies_are_lost() {
    let (free, rounds) = renewals_without_replies(true);
    assert_eq!(free, None);
    assert!(rounds > 20, "{rounds} rounds are no test");
    let (free, _) = renewals_without_replies(false);
    assert!(free.is_some_and(|ms| ms < 30_000), "nodes that shorten keys break it: {free:?}");
}

/// A renewal to all nodes is delayed by half a minute. Meanwhile the holder has asked for a minute.
fn a_renewal_that_arrives_late(never_shortens: bool) -> Option<u64> {
    let fate = |ms: u64, _: usize, _: usize| match ms {
        0..3_000 => Fate { request: Some(30_000), reply: None },
        3_000 => AT_ONCE,
        _ => Fate { request: None, reply: None },
    };
    let story = Story { never_shortens, asks: &[(3_000, LONG)], fate: &fate, lasts_ms: 65_000 };
    story.free_while_valid().0
}

#[test]
fn a_late_renewal_does_not_undo_a_long_extension() {
    assert_eq!(a_renewal_that_arrives_late(true), None);
    assert!(a_renewal_that_arrives_late(false).is_some());
}

fn any_fate() -> impl Strategy<Value = Fate> {
    let delay = || {
        prop_oneof![
            5 => (1_u64..30).prop_map(Some),
            2 => (30_u64..400).prop_map(Some),
            1 => (400_u64..20_000).prop_map(Some),
            2 => Just(None),
        ]
    };
    (delay(), delay()).prop_map(|(request, reply)| Fate { request, reply })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any messages may be late or lost, and the caller may ask for any extensions meanwhile. From some
    /// time on, nothing gets through.
    #[test]
    fn a_valid_lease_has_a_majority_at_every_millisecond(
        fates in prop::collection::vec(any_fate(), 1..60),
        asks in prop::collection::vec((0_u64..20_000, 400_u64..60_000), 0..6),
        cut_off_ms in 0_u64..40_000,
    ) {
        let fate = |ms: u64, round: usize, node: usize| match fates[(round * NODES + node) % fates.len()] {
            fate if ms < cut_off_ms => fate,
            _ => Fate { request: None, reply: None },
        };
        let asks: Vec<_> =
            asks.into_iter().map(|(ms, ttl)| (ms, Duration::from_millis(ttl))).collect();
        let story = Story { never_shortens: true, asks: &asks, fate: &fate, lasts_ms: 40_000 };
        prop_assert_eq!(story.free_while_valid().0, None);
    }
}
