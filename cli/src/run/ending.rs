//! The times at which a command is told to end and is killed. They follow from the validity of the lock.

use std::time::Duration;

use crate::clock::Time;
use crate::options::OnLost;

/// Time from the death of the command to the end of validity, at least: a busy machine needs it to deliver signals.
pub(super) const MARGIN: Duration = Duration::from_millis(250);

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Poll again by then; `None`: only when something happens.
    Wait(Option<Time>),
    /// Report that the lock is lost.
    Warn,
    /// Send SIGTERM.
    Terminate,
    /// Send SIGKILL.
    Kill,
}

/// The end of a command whose lock is lost, or about to be. Each step but `Wait` comes once.
#[derive(Debug)]
pub(super) struct Ending {
    on_lost: OnLost,
    grace: Duration,
    /// Time from its death to the end of validity.
    margin: Duration,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Runs,
    /// It has got SIGTERM, and is killed at that time.
    Terminated(Time),
    /// It was killed, or goes on although the lock is lost.
    Over,
}

impl Ending {
    pub(super) fn new(on_lost: OnLost, grace: Duration, margin: Duration) -> Self {
        Self { on_lost, grace, margin, stage: Stage::Runs }
    }

    /// Returns the time at which the command is killed, if it has been told to end.
    pub(super) fn kill_at(&self) -> Option<Time> {
        match self.stage {
            Stage::Terminated(kill_at) => Some(kill_at),
            Stage::Runs | Stage::Over => None,
        }
    }

    /// Returns true if the command has been told to end, or goes on without the lock.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Runs
    }

    /// Returns the next action at `now`, for a lock that is valid until `valid_until`. With `lost` the lock is certainly lost.
    pub(super) fn poll(&mut self, now: Time, valid_until: Time, lost: bool) -> Step {
        let last = valid_until.before(self.margin);
        match (self.stage, self.on_lost) {
            (Stage::Runs, OnLost::Warn) => {
                if lost || now >= valid_until {
                    self.stage = Stage::Over;
                    return Step::Warn;
                }
                Step::Wait(Some(valid_until))
            }
            (Stage::Runs, OnLost::Term) => {
                let begin = last.before(self.grace);
                if !lost && now < begin {
                    return Step::Wait(Some(begin));
                }
                // The lock is lost already, so the command gets its grace time, and no more.
                let kill_at = if lost { now.after(self.grace) } else { last.max(now) };
                self.stage = Stage::Terminated(kill_at);
                Step::Terminate
            }
            (Stage::Runs, OnLost::Kill) => {
                if lost || now >= last {
                    self.stage = Stage::Over;
                    return Step::Kill;
                }
                Step::Wait(Some(last))
            }
            (Stage::Terminated(kill_at), _) => {
                if now >= kill_at {
                    self.stage = Stage::Over;
                    return Step::Kill;
                }
                Step::Wait(Some(kill_at))
            }
            (Stage::Over, _) => Step::Wait(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_ms(1_000_000 + ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ending(on_lost: OnLost) -> Ending {
        Ending::new(on_lost, ms(2_000), ms(250))
    }

    #[test]
    fn a_command_is_dead_before_the_lock_can_be_somebody_elses() {
        let mut it = ending(OnLost::Term);
        assert_eq!(it.poll(at(0), at(10_000), false), Step::Wait(Some(at(7_750))));
        assert_eq!(it.poll(at(5_000), at(15_000), false), Step::Wait(Some(at(12_750))), "renewed");
        assert!(!it.has_begun());
        assert_eq!(it.poll(at(12_750), at(15_000), false), Step::Terminate);
        assert!(it.has_begun());
        assert_eq!(it.poll(at(12_800), at(15_000), false), Step::Wait(Some(at(14_750))));
        assert_eq!(it.poll(at(14_750), at(15_000), false), Step::Kill);
        assert_eq!(it.poll(at(14_800), at(15_000), true), Step::Wait(None));

        let mut it = ending(OnLost::Kill);
        assert_eq!(it.poll(at(0), at(10_000), false), Step::Wait(Some(at(9_750))));
        assert_eq!(it.poll(at(9_750), at(10_000), false), Step::Kill);
        assert_eq!(it.poll(at(9_760), at(10_000), true), Step::Wait(None));
    }

    #[test]
    fn who_looks_too_late_leaves_no_more_time_than_there_is() {
        let mut it = ending(OnLost::Term);
        assert_eq!(it.poll(at(9_900), at(10_000), false), Step::Terminate);
        assert_eq!(it.poll(at(9_900), at(10_000), false), Step::Kill);
    }

    #[test]
    fn once_the_lock_is_lost_the_grace_is_what_is_left() {
        let mut it = ending(OnLost::Term);
        assert_eq!(it.poll(at(0), at(10_000), true), Step::Terminate);
        assert_eq!(it.poll(at(1), at(10_000), true), Step::Wait(Some(at(2_000))));
        assert_eq!(it.poll(at(2_000), at(10_000), true), Step::Kill);
        assert_eq!(ending(OnLost::Kill).poll(at(0), at(10_000), true), Step::Kill);
    }

    #[test]
    fn who_is_only_warned_runs_on() {
        let mut it = ending(OnLost::Warn);
        assert_eq!(it.poll(at(0), at(10_000), false), Step::Wait(Some(at(10_000))));
        assert_eq!(it.poll(at(10_000), at(10_000), false), Step::Warn);
        assert_eq!(it.poll(at(20_000), at(10_000), true), Step::Wait(None));
    }
}
