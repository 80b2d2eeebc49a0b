//! The servers that answer under a node's address. There must be only one.
//!
//! Behind a load balancer, or a name with several addresses, one client may reach one server and another client another one. Both
//! servers vote then, and neither knows the other's locks: together with one further node each, two clients hold one lock. A
//! client notices this if its own connections reach different servers **at one time**. A server that was restarted or replaced is
//! another one as well, but it comes after the first one.

use std::time::Duration;

use super::super::base::{Backoff, Time};
use super::probe::{Probe, Role};

/// The pauses before another connection checks which server answers. They grow from check to check. While several servers answer,
/// the shortest pause is used.
///
/// They begin with the shortest one again if another server answers, or if the node was lost. The latter happens at most once in
/// the longest pause, and no check begins before the node was up for a second. A server that has too many clients loses their
/// connections again and again. If each of them then made further connections for checks, that would add to its load.
const LOOKS: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };

/// A server that was not seen for so long is gone. Ten checks have not met it then. If connections are spread by chance over two
/// servers, that happens once in a thousand times.
const KEPT: Duration = Duration::from_secs(10);

/// The most servers that are remembered: those that were seen last.
const MOST: usize = 8;

/// One server, as its connections have shown it.
#[derive(Debug)]
struct Server {
    run_id: String,
    /// The time of its first answer.
    since: Time,
    /// The times of the last question to it, and of the answer.
    asked: Time,
    answered: Time,
}

impl Server {
    /// Returns true if it was there when `other` was seen: it had answered before that, and was asked later.
    fn was_there(&self, other: &Self) -> bool {
        self.since < other.asked && other.answered < self.asked
    }
}

/// The servers that were seen under one address.
#[derive(Debug, Default)]
pub(super) struct Servers {
    seen: Vec<Server>,
    several: bool,
    /// The number of checks since they began, and the time of the next one.
    looks: u32,
    look_due: Option<Time>,
    /// The time at which the checks last began with the shortest pause.
    looks_begun: Option<Time>,
    /// True if the node was lost since then.
    was_lost: bool,
    /// The time since which the node is up: that of the first question for the next check.
    up_since: Option<Time>,
}

impl Servers {
    /// Notes the server to which a connection leads. Replicas do not count.
    pub(super) fn sighted(&mut self, probe: &Probe) {
        if probe.role != Role::Master {
            return;
        }
        let (run_id, asked, now) =
            (probe.identity.run_id(), probe.clock.sent, probe.clock.received);
        if self.another_was_seen_after(run_id) {
            self.looks_begun = None;
        }
        self.seen.retain(|server| now < server.answered.after(KEPT));
        let known = self.seen.iter().position(|server| server.run_id == run_id);
        let since = known.map_or(now, |known| self.seen.remove(known).since);
        // The last entry is the server that was seen last.
        self.seen.push(Server { run_id: run_id.to_owned(), since, asked, answered: now });
        if self.seen.len() > MOST {
            self.seen.remove(0);
        }
        let are_at_once = self.seen.iter().any(|one| {
            self.seen.iter().any(|other| one.run_id != other.run_id && one.was_there(other))
        });
        if are_at_once && !self.several {
            self.look_due = Some(now.after(LOOKS.min));
        }
        self.several = are_at_once || self.several && self.seen.len() > 1;
    }

    /// Returns true if several servers answer.
    pub(super) const fn are_several(&self) -> bool {
        self.several
    }

    /// Returns true if another server than `run_id` was seen last. The server `run_id` is then asked whether it is still there.
    pub(super) fn another_was_seen_after(&self, run_id: &str) -> bool {
        self.seen.last().is_some_and(|server| server.run_id != run_id)
    }

    /// Returns true if another connection must now check which server answers, and the time of the next such check. `random` in
    /// `0.0..1.0` picks the pause: clients that check in step may meet the same server each time.
    pub(super) fn looks(&mut self, now: Time, random: f64) -> (bool, Time) {
        let may_begin = self.looks_begun.is_none_or(|begun| now.since(begun) >= LOOKS.max);
        if self.was_lost && may_begin {
            (self.looks, self.look_due, self.was_lost) = (0, None, false);
        }
        let due = *self.look_due.get_or_insert_with(|| {
            self.looks_begun = Some(now);
            now.after(LOOKS.pause(0, random))
        });
        let due = due.max(self.up_since.get_or_insert(now).after(LOOKS.min));
        if now < due {
            return (false, due);
        }
        self.looks = if self.several { 0 } else { self.looks.saturating_add(1) };
        let next = now.after(LOOKS.pause(self.looks, random));
        self.look_due = Some(next);
        (true, next)
    }

    /// Notes that the node must be reached anew.
    pub(super) const fn lost(&mut self) {
        (self.was_lost, self.up_since) = (true, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::clocks::Offset;
    use super::super::mark::Identity;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    /// Shows the server `run_id`, which was asked at `ms` and answered 10 ms later. Returns true if several servers answer.
    fn sight(servers: &mut Servers, run_id: &str, ms: u64) -> bool {
        servers.sighted(&probe(run_id, ms));
        servers.are_several()
    }

    fn probe(run_id: &str, ms: u64) -> Probe {
        Probe {
            changed: false,
            role: Role::Master,
            identity: Identity::new(run_id, "p1").expect("ids"),
            promoted: false,
            clock: Offset::new(0, at(ms), at(ms + 10)),
            mark: None,
        }
    }

    #[test]
    fn a_server_that_is_seen_before_and_after_another_one_was_there_beside_it() {
        let mut servers = Servers::default();
        assert!(!sight(&mut servers, "a", 0));
        assert!(!sight(&mut servers, "b", 1_000), "it may have come after the other one");
        assert!(sight(&mut servers, "a", 2_000));
        // The answer over another connection is handed in late.
        let mut servers = Servers::default();
        sight(&mut servers, "a", 0);
        sight(&mut servers, "a", 2_000);
        assert!(sight(&mut servers, "b", 1_000));
    }

    #[test]
    fn servers_that_follow_each_other_are_one_at_a_time() {
        let mut servers = Servers::default();
        for (i, run_id) in ["a", "b", "c", "d"].iter().enumerate() {
            for ms in [0, 500] {
                assert!(!sight(&mut servers, run_id, i as u64 * 1_000 + ms), "{run_id}");
            }
        }
        // The old server may answer late, to a question from before the new one came.
        let mut servers = Servers::default();
        sight(&mut servers, "a", 0);
        sight(&mut servers, "b", 1_005);
        assert!(!sight(&mut servers, "a", 1_000));
    }

    #[test]
    fn a_replica_has_no_vote_and_is_no_server_beside_its_master() {
        let mut servers = Servers::default();
        sight(&mut servers, "a", 0);
        servers.sighted(&Probe { role: Role::Replica, ..probe("b", 1_000) });
        assert!(!sight(&mut servers, "a", 2_000));
    }

    #[test]
    fn one_server_is_left_once_the_others_were_not_seen_for_long() {
        let mut servers = Servers::default();
        for (run_id, ms) in [("a", 0), ("b", 1_000), ("a", 2_000)] {
            sight(&mut servers, run_id, ms);
        }
        let mut looks = Vec::new();
        for ms in (2_100..12_000).step_by(100) {
            looks.extend(servers.looks(at(ms), 0.5).0.then_some(ms));
            let is_recent = ms < 11_000;
            assert_eq!(sight(&mut servers, "a", ms), is_recent, "{ms}");
        }
        assert_eq!(looks[0], 3_100, "{looks:?}");
        assert_eq!(looks.len(), 9, "{looks:?}");
        assert!(!sight(&mut servers, "b", 12_000), "it may have been started now");
        assert!(sight(&mut servers, "a", 12_100));
    }

    #[test]
    fn a_look_is_due_soon_after_the_node_was_reached_and_then_ever_more_seldom() {
        let mut servers = Servers::default();
        let mut looks = |s: u64| {
            let (is_due, next) = servers.looks(at(s * 1_000), 1.0);
            (is_due, next.since(at(0)).as_secs())
        };
        assert_eq!(looks(0), (false, 1));
        for (s, next) in [(1, 3), (3, 7), (7, 15), (15, 31), (31, 63), (63, 123), (123, 183)] {
            assert_eq!(looks(s), (true, next));
            assert_eq!(looks(s), (false, next));
        }
        assert_eq!(servers.looks(at(200_000), 0.0), (true, at(201_000)));
        servers.lost();
        assert_eq!(servers.looks(at(200_500), 1.0), (false, at(201_500)));
    }

    /// An example is a server with more clients than it can serve.
    #[test]
    fn a_node_that_is_lost_again_and_again_has_few_looks() {
        let looks_of = |lost_each_ms| {
            let mut servers = Servers::default();
            let mut looks = Vec::new();
            for ms in (0..62_000).step_by(100) {
                looks.extend(servers.looks(at(ms), 1.0).0.then_some(ms));
                if ms % lost_each_ms == lost_each_ms - 100 {
                    servers.lost();
                }
            }
            looks
        };
        assert_eq!(looks_of(300), [0; 0]);
        assert_eq!(looks_of(1_500), [1_000, 4_000, 8_500, 17_500, 34_000, 61_000]);
        let anew = 61_000;
        assert_eq!(looks_of(20_000), [1_000, 3_000, 7_000, 15_000, 31_000, anew]);
    }

    #[test]
    fn a_look_is_due_soon_after_another_server_was_reached() {
        let due_behind_a_loss = |run_id| {
            let mut servers = Servers::default();
            sight(&mut servers, "a", 0);
            for ms in (0..8_000).step_by(100) {
                servers.looks(at(ms), 1.0);
            }
            servers.lost();
            sight(&mut servers, run_id, 8_000);
            servers.looks(at(8_100), 1.0)
        };
        assert_eq!(due_behind_a_loss("a"), (false, at(15_000)));
        assert_eq!(due_behind_a_loss("b"), (false, at(9_100)));
    }

    #[test]
    fn so_many_servers_are_remembered() {
        let mut servers = Servers::default();
        (0..100).for_each(|i| assert!(!sight(&mut servers, &i.to_string(), i)));
        assert_eq!(servers.seen.len(), MOST);
    }
}
