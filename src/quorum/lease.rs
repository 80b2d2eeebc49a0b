//! What is known of a lock that was granted.

use std::time::Duration;

use super::Time;

/// The lease of a held lock: until when it is certainly ours.
///
/// Only a confirmed majority moves the end of validity; a reply that did not come changes nothing
/// ("unknown does not extend").
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    valid_until: Time,
    /// The longest time any of our keys was asked to live for.
    longest_ttl: Duration,
    /// So many nodes said that our key is gone that the clock does not matter any more.
    gone: bool,
}

impl Lease {
    pub(crate) const fn new(valid_until: Time, ttl: Duration) -> Self {
        Self { valid_until, longest_ttl: ttl, gone: false }
    }

    /// How much longer the lock is certainly ours; zero once it may be somebody else's.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        if self.gone { Duration::ZERO } else { self.valid_until.since(now) }
    }

    /// How long ago the validity ended.
    pub(crate) fn ended_ago(&self, now: Time) -> Duration {
        now.since(self.valid_until)
    }

    /// The longest that a key of ours can live on, counted from the last time one was set.
    pub(crate) const fn longest_ttl(&self) -> Duration {
        self.longest_ttl
    }

    /// An extension to `ttl` is about to be sent, which would be valid until `until` at most.
    ///
    /// Who asks for less gets less at once: the nodes may cut nothing short, but the caller said
    /// that it will not use the lock any longer.
    pub(crate) fn extending(&mut self, ttl: Duration, until: Time) {
        self.longest_ttl = self.longest_ttl.max(ttl);
        self.valid_until = self.valid_until.min(until);
    }

    /// A majority confirmed an extension, valid until `until`, and its last vote came at `now`.
    ///
    /// A lease that had ended before is not revived: somebody else may have had the lock since.
    pub(crate) fn extended(&mut self, until: Time, now: Time) {
        if !self.remaining(now).is_zero() {
            self.valid_until = until;
        }
    }

    /// A majority said that our key is not there.
    pub(crate) fn lost(&mut self) {
        self.gone = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    const TTL: Duration = Duration::from_millis(1_000);

    #[test]
    fn validity_ends_by_the_clock_alone() {
        let lease = Lease::new(at(1_000), TTL);
        assert_eq!(lease.remaining(at(400)), Duration::from_millis(600));
        assert_eq!(lease.remaining(at(1_000)), Duration::ZERO);
        assert_eq!(lease.ended_ago(at(1_200)), Duration::from_millis(200));
    }

    /// Case 8 of the field's bugs: an "extend" that revives a lock already lost.
    #[test]
    fn an_extension_confirmed_after_the_end_revives_nothing() {
        let mut lease = Lease::new(at(1_000), TTL);
        lease.extending(TTL, at(1_900));
        lease.extended(at(1_900), at(1_000));
        assert_eq!(lease.remaining(at(1_000)), Duration::ZERO);
    }

    #[test]
    fn asking_for_less_cuts_the_validity_before_anything_is_sent() {
        let mut lease = Lease::new(at(1_000), TTL);
        lease.extending(Duration::from_millis(100), at(300));
        assert_eq!(lease.remaining(at(200)), Duration::from_millis(100));
        assert_eq!(lease.longest_ttl(), TTL, "the keys live on");
    }
}
