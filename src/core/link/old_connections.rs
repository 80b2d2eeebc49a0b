//! Connections to one node that were given up while requests on them were unanswered.

use std::collections::VecDeque;

use super::super::base::{Mechanism, Rule, Time};
use super::late::{LATEST, Via};

/// The most old connections that are known one by one.
const MOST: usize = 16;

/// Counts the connections to one node, and knows the earlier ones over which something may still arrive.
///
/// A new connection first ends the old ones on the server. A connection that the server has ended, or does not have any more,
/// runs nothing. A server's ids are never used twice, but they belong to one run of it.
#[derive(Debug)]
pub(crate) struct OldConnections {
    opened: u64,
    old: VecDeque<Old>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Old {
    /// The run of the server to which it led; `None` if it may be any.
    run: Option<String>,
    /// Its id on that server, if we may know it and the connection can be ended.
    id: Option<u64>,
    /// The time from which, as a rule, nothing arrives over it any more. A server that hangs, or something between us and it, may
    /// keep data for longer. So a connection that can be ended is not over before it was ended.
    until: Time,
}

impl Old {
    /// Returns true if something may still arrive over it at that run of the server.
    fn may_deliver(&self, run: &str, now: Time) -> bool {
        now < self.until || self.id.is_some() && self.run.as_deref() == Some(run)
    }
}

impl OldConnections {
    pub(crate) const fn new() -> Self {
        Self { opened: 0, old: VecDeque::new() }
    }

    /// Notes that a connection was given up at `now`, although not all requests that were written over it were answered. It led
    /// to that run of the server, and has that id there.
    pub(crate) fn given_up(&mut self, run: &str, id: Option<u64>, now: Time) {
        let run = (!run.is_empty()).then(|| run.to_owned());
        let id = id.filter(|_| run.is_some());
        self.old.push_back(Old { run, id, until: now.after(LATEST) });
        if self.old.len() > MOST {
            self.old.pop_front();
            // The entry stands for both connections from now on, and nobody can end both.
            if let Some(first) = self.old.front_mut() {
                *first = Old { run: None, id: None, until: now.after(LATEST) };
            }
        }
    }

    /// Returns the connections to be ended on the server whose run that is, over the connection with the id `own`. That one
    /// is left out: a proxy may have several of our connections share it, and ending it would end the present one.
    pub(crate) fn that_have_to_end(&mut self, run: &str, own: Option<u64>, now: Time) -> Vec<u64> {
        self.old.retain(|old| old.may_deliver(run, now));
        if let Some(own) = own {
            self.cannot_be_ended(run, own);
        }
        let of_this_run = self.old.iter().filter(|old| old.run.as_deref() == Some(run));
        let have_to_end: Vec<_> = of_this_run.filter_map(|old| old.id).collect();
        have_to_end.if_off(Mechanism::OldConnectionsAreEnded, Vec::new())
    }

    /// Notes that the server does not let us end the connection.
    pub(crate) fn cannot_be_ended(&mut self, run: &str, id: u64) {
        let that = |old: &&mut Old| old.run.as_deref() == Some(run) && old.id == Some(id);
        self.old.iter_mut().filter(that).for_each(|old| old.id = None);
    }

    /// Notes that the server has ended the connection, or does not have it any more.
    pub(crate) fn ended(&mut self, run: &str, id: u64) {
        self.old.retain(|old| old.run.as_deref() != Some(run) || old.id != Some(id));
    }

    /// Notes a new connection to that run of the server, and returns it.
    pub(crate) fn opened(&mut self, run: &str, now: Time) -> Via {
        self.old.retain(|old| old.may_deliver(run, now));
        self.opened += 1;
        // Another run is another process; the process that may have had the requests is gone.
        let concerns = |old: &Old| run.is_empty() || old.run.as_deref().is_none_or(|of| of == run);
        Via { connection: self.opened, fenced: !self.old.iter().any(concerns) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::base::without;
    use super::*;

    fn at(s: u64) -> Time {
        Time::from_start(Duration::from_secs(s))
    }

    fn old() -> OldConnections {
        OldConnections::new()
    }

    #[test]
    fn a_connection_is_fenced_once_the_earlier_ones_are_ended() {
        let mut old = old();
        assert_eq!(old.opened("run", at(0)), Via { connection: 1, fenced: true });
        old.given_up("run", Some(7), at(1));
        assert_eq!(old.that_have_to_end("run", None, at(1)), [7]);
        assert_eq!(old.opened("run", at(1)), Via { connection: 2, fenced: false });
        old.given_up("run", Some(8), at(2));
        assert_eq!(old.that_have_to_end("run", None, at(2)), [7, 8]);
        old.ended("run", 7);
        assert!(!old.opened("run", at(2)).fenced);
        old.ended("run", 8);
        assert!(old.opened("run", at(2)).fenced);
    }

    #[test]
    fn ids_are_of_one_run_of_the_server() {
        let mut old = old();
        old.given_up("run", Some(7), at(1));
        assert!(old.that_have_to_end("other", None, at(1)).is_empty());
        assert!(old.opened("other", at(1)).fenced, "that process has ended");
        // A proxy leads back to the first server.
        assert_eq!(old.that_have_to_end("run", None, at(1)), [7]);
        assert!(!old.opened("run", at(1)).fenced);
    }

    #[test]
    fn a_connection_that_is_shared_ends_nothing() {
        let mut old = old();
        old.given_up("run", Some(7), at(1));
        assert!(old.that_have_to_end("run", Some(7), at(1)).is_empty());
        assert!(!old.opened("run", at(1)).fenced);
    }

    #[test]
    fn without_an_id_only_time_ends_it() {
        let mut old = old();
        old.given_up("run", None, at(1));
        assert!(old.that_have_to_end("run", None, at(1)).is_empty());
        assert!(!old.opened("run", at(1).after(LATEST).before(Duration::from_secs(1))).fenced);
        assert!(old.opened("run", at(1).after(LATEST)).fenced);
    }

    #[test]
    fn what_can_be_ended_is_not_over_before_it_was() {
        let mut old = old();
        old.given_up("run", Some(7), at(1));
        let late = at(1).after(LATEST * 2);
        assert!(old.opened("other", at(2)).fenced);
        assert_eq!(old.that_have_to_end("run", None, late), [7]);
        assert!(!old.opened("run", late).fenced);
        old.cannot_be_ended("run", 7);
        assert!(old.opened("run", late).fenced, "then time decides");
    }

    #[test]
    fn there_are_never_more_than_there_is_room_for_and_none_is_forgotten() {
        let mut old = old();
        for id in 0..3 * MOST as u64 {
            old.given_up("run", Some(id), at(1));
        }
        assert_eq!(old.old.len(), MOST);
        for id in old.that_have_to_end("run", None, at(1)) {
            old.ended("run", id);
        }
        assert_eq!(old.old.len(), 1, "what stands for many stays");
        assert!(!old.opened("run", at(1)).fenced);
        assert!(!old.opened("other", at(1)).fenced);
    }

    #[test]
    fn without_the_mechanism_none_is_ended() {
        without(&[Mechanism::OldConnectionsAreEnded], || {
            let mut old = OldConnections::new();
            old.given_up("run", Some(7), at(1));
            assert!(old.that_have_to_end("run", None, at(1)).is_empty());
            assert!(!old.opened("run", at(1)).fenced);
        });
    }
}
