//! Fencing: numbers that rise from each holder of a name to the next.
//!
//! Each node keeps the largest number that it has seen for a name. A request carries a proposal. The node that
//! grants it takes the proposal, or a number above its own if that is larger, and answers it. A lock's number
//! is the largest of a majority's answers, and a majority must *know* it while our keys are there. The reason:
//! the next holder's majority shares a node with that majority. That node grants the next holder after us, and
//! so answers a larger number.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time, give_room_back};

/// The largest possible number: so large that a token fits into 63 bits, and small enough to be exact as one of
/// Lua's floating-point numbers.
pub(crate) const LARGEST_NUMBER: u64 = (1 << 51) - 1;

/// Number of tokens that belong to one number: that of the holder that got it from the nodes, and those of the
/// holders to which its lease was handed.
const SEQUENCES: u64 = 4_096;

/// The largest number of times that a lease can be handed over.
pub(crate) const LAST_SEQUENCE: u64 = SEQUENCES - 1;

/// Time for which a node keeps a fence after its lock.
///
/// Once the fence has expired, the next number is made from the set's time, which is ten minutes later by then.
/// So numbers rise unless the set's time is set back by more than ten minutes. The time is the same for all clients,
/// and no setting: fences cost a node memory in proportion to it, for each name that is used.
///
/// It is one second more than these ten minutes. So an end that is too early by less than a second can stay, and a name that
/// is locked again and again costs its nodes less.
const FENCE_OUTLIVES: Duration = Duration::from_secs(10 * 60 + 1);

/// Time for which a node keeps a fence after its lock, in milliseconds. Without the mechanism, the fence ends
/// before the lock.
pub(crate) fn fence_outlives_ms() -> i64 {
    const MS: i64 = FENCE_OUTLIVES.as_millis() as i64;
    MS.if_off(Mechanism::FencesOutliveLocks, -100)
}

/// A number for a holder of a lock that is larger than that of every earlier holder of the same name.
///
/// Hand it to the storage that the lock protects, with every write. The storage must refuse a write whose token
/// is smaller than the largest it has seen. Then a holder that was paused for longer than its lock lived cannot
/// overwrite the next holder's data. Tokens of different names cannot be compared.
///
/// It is never 0, and fits into a signed 64-bit integer, as databases have them, for centuries. Most of it is
/// the set's time, but callers must not rely on that.
///
/// # Examples
///
/// ```no_run
/// # fn update(statement: &str, values: &[i64]) {}
/// let locks = quorlock::Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let guard = locks.lock("orders/42")?;
/// let token = guard.token().expect("fencing is on unless it is switched off");
/// let token = i64::from(token);
/// update("update orders set state = 'paid', token = $1 where id = 42 and token <= $1", &[token]);
/// # Ok::<(), quorlock::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token of the holder that got the lease by the hand-over with that sequence number. `None` for the
    /// number 0, which no node gives, and if no token is left.
    pub(crate) fn new(number: u64, sequence: u64) -> Option<Self> {
        let exists = (1..=LARGEST_NUMBER).contains(&number) && sequence <= LAST_SEQUENCE;
        exists.then(|| Self(number * SEQUENCES + sequence))
    }

    /// The token with that value; `None`: no token has it.
    pub(crate) fn of_value(value: u64) -> Option<Self> {
        (1..=LARGEST_NUMBER * SEQUENCES + LAST_SEQUENCE).contains(&value).then_some(Self(value))
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        // Never more than `LARGEST_NUMBER * SEQUENCES + SEQUENCES - 1`, which is `i64::MAX`.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The smallest answered number that a majority (`needed`) of the answers does not exceed. Any majority would
/// do. The majority with the smallest numbers is the best choice: if other nodes answered more, more nodes know
/// the number already.
pub(super) fn number_of(answers: impl Iterator<Item = u64> + Clone, needed: usize) -> u64 {
    // This runs for every lock, and there are few nodes, so it collects and sorts nothing.
    let reached_by = |number| answers.clone().filter(|answer| *answer <= number).count();
    let enough = answers.clone().filter(|number| reached_by(*number) >= needed).min();
    enough.or_else(|| answers.max()).unwrap_or(0)
}

/// The number that a request proposes, and the limit of plausible numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) number: u64,
    /// The number that the clocks of several nodes have reached: every number below it is plausible. 0 if too
    /// few clocks are known.
    pub(crate) reached: u64,
}

impl Proposal {
    /// Proposes a number above the `last` one that this process has seen for the name, and no less than the
    /// set's time in units of 10 microseconds. `several_us` is the time that several nodes' own clocks have
    /// reached.
    ///
    /// The time is for nodes that have forgotten their numbers. All earlier numbers are smaller, since the
    /// set's time advances whichever nodes forget. The numbers of the other nodes rise by themselves.
    pub(crate) fn new(last: u64, set_time_us: Option<i64>, several_us: Option<i64>) -> Self {
        let number_of = |time_us: i64| u64::try_from(time_us / 10).ok();
        let set_time_us = set_time_us.if_off(Mechanism::FenceClockFloor, None);
        let time = set_time_us.and_then(number_of).unwrap_or(0);
        let reached = several_us.and_then(number_of).unwrap_or(0);
        Self { number: last.saturating_add(1).max(time), reached }
    }
}

/// The largest number that this process has seen for each name, as far as it remembers.
///
/// Numbers on a node can be ahead of the time. Different nodes answer a proposal below them differently, which
/// costs a round to agree. They answer a proposal above them alike. This saves rounds and nothing else, so
/// names that were not used for long may be forgotten.
#[derive(Debug, Default)]
pub(crate) struct LastNumbers {
    /// Names that were used lately, and names that were used before them.
    recent: HashMap<Box<[u8]>, Last>,
    older: HashMap<Box<[u8]>, Last>,
}

/// The largest number of a name, and the time at which it was last noted.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: u64,
    at: Time,
}

impl LastNumbers {
    /// Number of names that are remembered at least; twice as many are remembered at most.
    const NAMES: usize = 2_048;

    /// Time after its last use for which a name is remembered, if there are not too many.
    const KEPT: Duration = Duration::from_secs(10);

    /// The largest number seen for the name with that key; 0 if there is none.
    pub(crate) fn last(&self, key: &[u8]) -> u64 {
        let seen = |names: &HashMap<Box<[u8]>, Last>| names.get(key).map_or(0, |last| last.number);
        seen(&self.recent).max(seen(&self.older))
    }

    /// The largest number seen for any of these names.
    pub(crate) fn last_of<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> u64 {
        keys.map(|key| self.last(key)).max().unwrap_or(0)
    }

    pub(crate) fn saw(&mut self, key: &[u8], number: u64, at: Time) {
        let new = Last { number: number.max(self.last(key)), at };
        if let Some(last) = self.recent.get_mut(key) {
            *last = new;
            return;
        }
        if self.recent.len() >= Self::NAMES {
            self.older = mem::take(&mut self.recent);
        }
        self.recent.insert(key.into(), new);
    }

    /// Forgets the names that were not used for long, and returns true if any is left.
    pub(crate) fn tidy(&mut self, now: Time) -> bool {
        for names in [&mut self.recent, &mut self.older] {
            names.retain(|_, last| now < last.at.after(Self::KEPT));
            give_room_back(names);
        }
        !self.recent.is_empty() || !self.older.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_fit_into_63_bits_and_are_never_0() {
        let token = |number, sequence| FencingToken::new(number, sequence).map(u64::from);
        assert_eq!(token(0, 0), None);
        assert_eq!(token(1, 0), Some(4_096));
        assert_eq!(token(1, 4_095), Some(8_191), "one below the next number's first");
        assert_eq!(token(1, 4_096), None);
        assert_eq!(token(LARGEST_NUMBER, 0), Some((1 << 63) - 4_096));
        assert_eq!(token(LARGEST_NUMBER + 1, 0), None);
        let largest = FencingToken::new(LARGEST_NUMBER, LAST_SEQUENCE).map(i64::from);
        assert_eq!(largest, Some(i64::MAX));
    }

    #[test]
    fn a_number_is_the_largest_of_the_majority_with_the_smallest() {
        let number = |answers: &[u64]| number_of(answers.iter().copied(), 3);
        assert_eq!(number(&[7, 5, 6]), 7);
        assert_eq!(number(&[9, 7, 5, 6]), 7);
        assert_eq!(number(&[9, 8, 7, 5, 6]), 7, "three of five know it");
        assert_eq!(number(&[5, 5, 5]), 5);
        assert_eq!(number(&[6, 7]), 7, "too few: the largest there is");
        assert_eq!(number(&[]), 0);
    }

    #[test]
    fn a_proposal_is_above_what_was_seen_and_not_behind_the_sets_time() {
        let proposed = |last, time_us| Proposal::new(last, time_us, None).number;
        assert_eq!(proposed(7, Some(5_001_000)), 500_100);
        assert_eq!(proposed(500_100, Some(5_001_000)), 500_101);
        assert_eq!(proposed(7, None), 8);
        assert_eq!(proposed(0, None), 1);
        assert_eq!(proposed(0, Some(-5_000_000)), 1, "before 1970");
        // A node refuses it, instead of giving a number twice.
        assert_eq!(proposed(LARGEST_NUMBER, Some(5_001_000)), LARGEST_NUMBER + 1);
        let reached = |several_us| Proposal::new(7, Some(5_001_000), several_us).reached;
        assert_eq!((reached(Some(6_000_000)), reached(None)), (600_000, 0));
    }

    #[test]
    fn names_that_were_not_used_for_long_are_forgotten() {
        let at = |s| Time::from_start(Duration::from_secs(s));
        let mut numbers = LastNumbers::default();
        assert!(!numbers.tidy(at(0)));
        (0..3_000_u64).for_each(|name| numbers.saw(&name.to_be_bytes(), 7, at(name / 1_000)));
        let used = 3_u64.to_be_bytes();
        numbers.saw(&used, 6, at(9));
        let known = |numbers: &LastNumbers| numbers.recent.len() + numbers.older.len();
        assert!(numbers.tidy(at(9)));
        assert_eq!(known(&numbers), 3_001, "one of them twice");
        assert!(numbers.tidy(at(11)));
        assert_eq!(known(&numbers), 1_001);
        assert!(numbers.tidy(at(18)));
        assert_eq!((known(&numbers), numbers.last(&used)), (1, 7), "it was used meanwhile");
        assert!(!numbers.tidy(at(19)));
        assert_eq!(numbers.last(&used), 0);
        assert!(numbers.recent.capacity() + numbers.older.capacity() < 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        /// The names used last are remembered, and memory is bounded.
        #[test]
        fn names_are_forgotten_in_the_order_of_their_use(uses in prop::collection::vec(0_u16..9_000, 1..12_000)) {
            let mut numbers = LastNumbers::default();
            for (number, name) in (1..).zip(&uses) {
                numbers.saw(&name.to_be_bytes(), number, Time::default());
            }
            let last = uses.last().expect("at least one");
            prop_assert_eq!(numbers.last(&last.to_be_bytes()), uses.len() as u64);
            prop_assert!(numbers.recent.len() + numbers.older.len() <= 2 * LastNumbers::NAMES);
            for (i, name) in uses.iter().enumerate().rev().take(LastNumbers::NAMES) {
                prop_assert!(numbers.last(&name.to_be_bytes()) > i as u64, "use {}", i);
            }
        }
    }
}
