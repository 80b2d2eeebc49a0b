//! Obstacles that calls have met: which of them are reported, and when.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::core::acquire::Obstacle;
use crate::core::base::{POLL, Time, give_room_back};
use crate::core::vote::PermitsWanted;
use crate::ident::Names;
use crate::observe;

/// The most obstacles that are remembered. At more, all are forgotten and reported again.
const MOST: usize = 1_024;

/// The time for which an obstacle is remembered after a call has met it last.
const KEPT: Duration = Duration::from_secs(60);

/// The time for which calls must meet another number of permits before it is reported. A short meeting of old and new
/// processes in a rolling deployment is no news.
const LASTING: Duration = Duration::from_secs(10);
/// Number of checks of a waiter ([`POLL`]). An obstacle that no call has met for that long was absent.
const GAP: u32 = 5;

/// The obstacles that calls of one client have met, by lock.
#[derive(Default)]
pub(crate) struct Obstacles(Mutex<HashMap<(Names, Discriminant<Obstacle>), Met>>);

struct Met {
    since: Time,
    last: Time,
    told: bool,
}

impl Obstacles {
    /// Reports, once, that a call for a lock with those names has met that obstacle; `wanted`: its permits, for a semaphore.
    /// `nodes`: the names of all nodes.
    pub(crate) fn tell(
        &self,
        names: &Names,
        wanted: Option<PermitsWanted>,
        obstacle: &Obstacle,
        nodes: &[Arc<str>],
    ) {
        if !self.is_due(names, obstacle, clock::now()) {
            return;
        }
        match obstacle {
            Obstacle::EndlessKeys(on) => {
                let on: Vec<_> = on.iter().map(|node| nodes[*node].clone()).collect();
                observe::endless_key(names, &on);
            }
            Obstacle::OtherPermits(theirs) => {
                let ours = wanted.map_or(0, |permits| permits.of);
                observe::other_permits(names, ours, *theirs);
            }
        }
    }

    /// Forgets the obstacles that no call has met for long, and returns true if any are left.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        let mut met = self.0.lock();
        met.retain(|_, met| now < met.last.after(KEPT));
        give_room_back(&mut *met);
        !met.is_empty()
    }

    /// Notes that a call has met `obstacle`, and returns true if that is to be reported.
    fn is_due(&self, names: &Names, obstacle: &Obstacle, now: Time) -> bool {
        let lasting = match obstacle {
            Obstacle::EndlessKeys(_) => Duration::ZERO,
            Obstacle::OtherPermits(_) => LASTING,
        };
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.clear();
        }
        let met = all.entry((names.clone(), discriminant(obstacle)));
        let met = met.or_insert(Met { since: now, last: now, told: false });
        if now >= met.last.after(POLL * GAP) {
            met.since = now;
        }
        met.last = now;
        let is_due = !met.told && now.since(met.since) >= lasting;
        met.told |= is_due;
        drop(all);
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::Name;

    const ENDLESS: Obstacle = Obstacle::EndlessKeys(Vec::new());

    fn at(s: u64) -> Time {
        Time::from_start(Duration::from_secs(s))
    }

    fn names(name: &str) -> Names {
        Names::new(1, [Name::new(b"", name.as_bytes())]).expect("a name")
    }

    #[test]
    fn an_obstacle_is_told_again_once_no_call_has_met_it_for_a_minute() {
        let obstacles = Obstacles::default();
        let is_due = |name: &str, s| obstacles.is_due(&names(name), &ENDLESS, at(s));
        assert!((0..1_000).all(|i| is_due(&i.to_string(), 0)));
        assert!(!is_due("7", 30));
        assert!(obstacles.tidy(at(59)));
        assert!(!is_due("8", 59));
        assert!(obstacles.tidy(at(60)));
        assert_eq!(obstacles.0.lock().len(), 2);
        assert!(obstacles.0.lock().capacity() < 100);
        assert!(!is_due("7", 89), "a call has met it meanwhile");
        assert!(!obstacles.tidy(at(149)));
        assert!(is_due("7", 149));
    }

    #[test]
    fn another_number_of_permits_is_told_once_it_has_lasted() {
        let obstacles = Obstacles::default();
        let other = Obstacle::OtherPermits(5);
        let is_due = |s| obstacles.is_due(&names("n"), &other, at(s));
        assert!(!is_due(0) && !is_due(9), "it was away meanwhile");
        assert!(!is_due(13) && !is_due(17));
        assert!(obstacles.is_due(&names("n"), &ENDLESS, at(18)), "another obstacle of that lock");
        assert!(is_due(19) && !is_due(20));
        // The obstacle has ended meanwhile.
        assert!(!obstacles.tidy(at(80)));
        assert!(!is_due(90) && !is_due(94) && !is_due(98) && is_due(100));
    }
}
