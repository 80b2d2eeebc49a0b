//! The writes on their way to a node, each with answers that are still to come.
//!
//! Over a network, a write follows another one before that one is answered. The server reads them in order. A request of the
//! first write that goes out again runs behind those of the others. Its release may be among these, but then its caller does not
//! want it any more.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::base::{Mechanism, Time};
use super::driver::{Awaited, Event, Request, Surroundings};
use super::exchange::{Exchange, Left, Manner};
use super::job::Job;

/// The most writes on their way to one node.
const MOST: u32 = 4;

/// The round trip from which on a write follows another one that is not answered. Below it, requests that wait for the answer go
/// out in one write, which costs the server and the client less than several writes.
const FAR: Duration = Duration::from_micros(400);

/// The least time between two writes. Requests that come meanwhile go out in one write.
const BETWEEN: Duration = Duration::from_micros(100);

/// The least time for which the shortest round trip counts. A loaded server answers late, but is no farther away.
const WINDOW: Duration = Duration::from_secs(5);

/// The writes on their way, in order.
pub(super) struct InFlight<R: Request>(VecDeque<Exchange<R>>);

impl<R: Request> InFlight<R> {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds one more write, which is about to be written.
    pub(super) fn push(&mut self, next: Exchange<R>) {
        self.0.push_back(next);
    }

    /// Returns the write whose answers come next.
    pub(super) fn first(&self) -> Option<&Exchange<R>> {
        self.0.front()
    }

    /// Returns the first write and those behind it.
    pub(super) fn first_and_later(&mut self) -> Option<(&mut Exchange<R>, &mut [Exchange<R>])> {
        self.0.make_contiguous().split_first_mut()
    }

    /// Returns the write that is still to be written.
    pub(super) fn unwritten(&mut self) -> Option<&mut Exchange<R>> {
        self.0.iter_mut().find(|exchange| !exchange.is_written)
    }

    /// Returns true if all of them are written.
    pub(super) fn is_written(&self) -> bool {
        self.0.iter().all(|exchange| exchange.is_written)
    }

    /// Returns the number of requests that one more write may have. All writes together may have as many requests as one write:
    /// while a server hangs, the socket has room left for final releases.
    pub(super) fn room(&self, most: usize) -> usize {
        let is_plain = |exchange: &Exchange<R>| exchange.is_plain() && exchange.is_written;
        if self.0.len() < MOST as usize && self.0.iter().all(is_plain) {
            most.saturating_sub(self.0.iter().map(Exchange::requests).sum())
        } else {
            0
        }
    }

    /// Returns the beginning of the last write.
    pub(super) fn last_sent(&self) -> Option<Time> {
        self.0.back().map(|exchange| exchange.sent)
    }

    /// Handles the reading of the node's clock behind the answers to the first write: see [`Exchange::handle_clock`]. `None` if
    /// it is read again.
    pub(super) fn handle_clock<S: Surroundings<R>>(
        &mut self,
        clock: S::Clock,
        around: &mut S,
        events: (&mut VecDeque<Event<R>>, Time),
    ) -> Option<Left<R>> {
        let (first, later) = self.first_and_later()?;
        if !matches!(first.awaited(), Awaited::Clock) {
            return None;
        }
        let left = first.handle_clock(clock, around, later, events)?;
        self.0.pop_front();
        Some(left)
    }

    /// Ends the first write if that was its last answer, without a reading of the clock. Returns the work that is left.
    pub(super) fn end_without_clock(&mut self) -> Option<Left<R>> {
        let first = self.0.front_mut().filter(|it| it.has_all_answers() && !it.reads_clock)?;
        let left = first.left();
        self.0.pop_front();
        Some(left)
    }

    /// Leaves the answers for later: nobody waits for them.
    pub(super) fn leave_answers(&mut self) {
        self.0.iter_mut().for_each(|exchange| exchange.is_timed = false);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no answer is awaited any more.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends all writes, since the connection is of no use any more: see [`Exchange::unanswered`].
    pub(super) fn take_unanswered(&mut self) -> Option<(Vec<Job<R>>, Manner)> {
        let each = self.0.drain(..).map(Exchange::unanswered);
        each.reduce(|first, next| put_behind(first, next)).filter(|(jobs, _)| !jobs.is_empty())
    }
}

/// Puts requests that go out again behind others that do.
pub(super) fn put_behind<R>(
    (mut jobs, manner): (Vec<Job<R>>, Manner),
    (more, other): (Vec<Job<R>>, Manner),
) -> (Vec<Job<R>>, Manner) {
    jobs.extend(more);
    (jobs, manner.and(other))
}

/// The shortest round trip to a node, as it was measured lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    /// The shortest one in the present window of time, and in the window before.
    least: Option<Duration>,
    before: Option<Duration>,
    since: Time,
}

impl RoundTrip {
    pub(super) fn new(now: Time) -> Self {
        Self { least: None, before: None, since: now }
    }

    /// Notes that an answer took so long.
    pub(super) fn note(&mut self, took: Duration, now: Time) {
        if self.since.after(WINDOW) <= now {
            (self.before, self.least, self.since) = (self.least.take(), None, now);
        }
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
    }

    /// Returns the shortest round trip.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.least.into_iter().chain(self.before).min()
    }

    /// Returns the least time between two writes, if one may follow another that is not answered.
    pub(super) fn between_writes(&self) -> Option<Duration> {
        let least = self.shortest()?;
        let is_far = least >= FAR && Mechanism::WritesFollow.is_on();
        is_far.then(|| BETWEEN.max(least / MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn one_quick_answer_counts_for_as_long_as_a_window_and_one_more_at_most() {
        let mut trip = RoundTrip::new(at(0));
        assert_eq!(trip.between_writes(), None, "nothing is known");
        trip.note(Duration::from_millis(40), at(10));
        assert_eq!(trip.between_writes(), Some(Duration::from_millis(10)));
        trip.note(FAR, at(20));
        assert_eq!(trip.between_writes(), Some(BETWEEN));
        trip.note(FAR / 2, at(30));
        assert_eq!(trip.between_writes(), None);
        trip.note(FAR, at(5_000));
        assert_eq!(trip.between_writes(), None, "of the window before");
        trip.note(FAR, at(10_000));
        assert_eq!(trip.between_writes(), Some(BETWEEN));
    }
}
