//! The choice of the semaphore slots that an attempt asks for.

use std::cmp::Reverse;

use super::super::base::Mechanism;
use super::super::base::votes_needed;
use super::super::vote::{Attempt, Permits, PermitsWanted, Slots};

/// Maximum number of attempts in a row at slots that refusals have named. After them the caller waits as for any lock that is
/// held. Without contenders one attempt is enough. Each further one means that somebody else has got a slot meanwhile.
const MOST_INFORMED: u32 = 8;

/// Maximum number of node sets that are tried for all wanted slots. Nine nodes have 256 majorities, seven have 64.
const MOST_SETS: usize = 64;

/// The free slots that the refusals of one call have named, and the choice of slots for the next attempt.
///
/// All nodes are asked for the same slots, since a slot is an exclusive lock over a majority of them. If each node counted its
/// own permits, too many would be granted. Say that two nodes have one permit left each, and the third has two: then each of
/// the first two forms a majority with the third, and two callers win.
#[derive(Debug)]
pub(super) struct SlotChoice {
    wanted: PermitsWanted,
    /// The slots that each node has reported as free last; `None`: it has reported nothing, or too long ago.
    free: Vec<Option<Slots>>,
    /// Attempts in a row at slots that a refusal has named.
    informed: u32,
}

impl SlotChoice {
    pub(super) const fn new(wanted: PermitsWanted) -> Self {
        Self { wanted, free: Vec::new(), informed: 0 }
    }

    /// Returns the slots to ask for; `random` is in `0.0..1.0`.
    pub(super) fn picks(&self, random: f64) -> Permits {
        let (slots, _) = self.choose(random);
        Permits { slots, of: self.wanted.of }
    }

    /// Notes that `attempt` at the slots that were picked last was in vain.
    pub(super) fn refused(&mut self, attempt: &Attempt) {
        self.free = attempt.free_slots();
    }

    /// Decides whether the next attempt asks for slots that the last refusals have named. Returns its number among such attempts
    /// in a row. `None`: no slots were named, no majority may grant the wanted ones, or enough attempts were made.
    pub(super) fn goes_where_free(&mut self) -> Option<u32> {
        let said =
            self.free.iter().any(Option::is_some) && Mechanism::RefusalsNameFreeSlots.is_on();
        let (_, found) = self.choose(0.0);
        if !said || !found || self.informed >= MOST_INFORMED {
            return None;
        }
        self.informed += 1;
        Some(self.informed)
    }

    /// Returns true if the next attempt is the first one at named slots.
    pub(super) const fn goes_to_first_named(&self) -> bool {
        self.informed == 1
    }

    /// Forgets the named slots, since the caller waits: they will be out of date after the wait.
    pub(super) fn waits(&mut self) {
        self.free.clear();
        self.informed = 0;
    }

    /// Returns as many slots as are wanted, and true if each node of some majority may grant all of them, as far as is known.
    fn choose(&self, random: f64) -> (Slots, bool) {
        let [of, count] = [self.wanted.of, self.wanted.count].map(|it| it as usize);
        // Callers that ask at the same time must not all pick the first slots.
        let start = (random.clamp(0.0, 1.0) * f64::from(self.wanted.of)) as usize;
        let in_turn = || (0..of).map(|slot| (start + slot) % of);
        let nodes = 0..self.free.len();
        let may_grant = |node: usize, slot| self.free[node].is_none_or(|free| free.contains(slot));
        // One majority has to grant all of the slots. So the candidates are sets of nodes that may grant certain slots together.
        // The more nodes in a set, the better; all nodes are best.
        let mut sets: Vec<Vec<_>> = vec![nodes.collect()];
        for slot in in_turn() {
            for known in 0..sets.len() {
                let set: Vec<_> =
                    sets[known].iter().copied().filter(|node| may_grant(*node, slot)).collect();
                let is_enough =
                    set.len() >= votes_needed(self.free.len()) && sets.len() < MOST_SETS;
                if is_enough && !sets.contains(&set) {
                    sets.push(set);
                }
            }
        }
        sets.sort_by_key(|set| Reverse(set.len()));
        let all_of = |set: &Vec<usize>| -> Slots {
            in_turn()
                .filter(|slot| set.iter().all(|node| may_grant(*node, *slot)))
                .take(count)
                .collect()
        };
        match sets.iter().map(all_of).find(|slots| slots.len() == count) {
            Some(slots) => (slots, true),
            // Any slots will do: the refusal names the free ones.
            None => (in_turn().take(count).collect(), false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    fn choice(count: u32, of: u32, free: &[Option<&[usize]>]) -> SlotChoice {
        let free = free.iter().map(|said| said.map(|slots| slots.iter().copied().collect()));
        SlotChoice { free: free.collect(), ..SlotChoice::new(PermitsWanted { count, of }) }
    }

    /// Returns the slots that are picked over all random numbers, and true if they can be won.
    fn picked(choice: &SlotChoice) -> (Vec<Vec<usize>>, bool) {
        let mut all: Vec<_> = (0..100)
            .map(|part| choice.picks(f64::from(part) / 100.0).slots.iter().collect::<Vec<_>>())
            .collect();
        all.sort();
        all.dedup();
        (all, choice.choose(0.0).1)
    }

    #[test]
    fn who_knows_nothing_picks_by_chance() {
        let nothing = SlotChoice::new(PermitsWanted { count: 1, of: 4 });
        assert_eq!(picked(&nothing), (vec![vec![0], vec![1], vec![2], vec![3]], true));
        let two = SlotChoice::new(PermitsWanted { count: 2, of: 3 });
        assert_eq!(picked(&two), (vec![vec![0, 1], vec![0, 2], vec![1, 2]], true));
        assert_eq!(nothing.picks(1.0).of, 4);
        let last = nothing.picks(1.0).slots;
        assert_eq!(last.len(), 1, "{last:?}");
    }

    #[test]
    fn the_last_free_slot_of_a_hundred_is_picked_at_once() {
        let one: Option<&[usize]> = Some(&[77]);
        assert_eq!(picked(&choice(1, 100, &[one, one, one])), (vec![vec![77]], true));
        assert_eq!(picked(&choice(1, 100, &[one, None, one])), (vec![vec![77]], true));
        // One node lies, or has granted the slot to another attempt for a moment.
        assert_eq!(picked(&choice(1, 100, &[one, Some(&[3]), one])), (vec![vec![77]], true));
    }

    #[test]
    fn a_slot_that_no_majority_can_grant_is_none_to_find() {
        let (_, found) = picked(&choice(1, 3, &[Some(&[0]), Some(&[1]), Some(&[2])]));
        assert!(!found);
        let (_, found) = picked(&choice(1, 3, &[Some(&[]), Some(&[]), None]));
        assert!(!found);
    }

    #[test]
    fn several_slots_are_picked_so_that_the_same_majority_can_grant_them() {
        let free: [Option<&[usize]>; 3] = [Some(&[0, 1, 2]), Some(&[1, 2]), Some(&[0, 3])];
        assert_eq!(picked(&choice(2, 5, &free)), (vec![vec![1, 2]], true));
        let (_, found) = picked(&choice(3, 5, &free));
        assert!(!found, "all of them or none");
        // Three nodes may grant both slots, though a fourth node may grant each single one.
        let (four, other): (Option<&[usize]>, Option<&[usize]>) = (Some(&[0]), Some(&[1]));
        let both: Option<&[usize]> = Some(&[0, 1]);
        let free = [both, four, both, other, both];
        assert_eq!(picked(&choice(2, 9, &free)), (vec![vec![0, 1]], true));
    }

    #[test]
    fn so_many_attempts_follow_refusals_and_then_the_caller_waits() {
        let follows = || {
            let mut choice = choice(1, 9, &[Some(&[4]), Some(&[4]), Some(&[4])]);
            let follows: Vec<_> = std::iter::from_fn(|| choice.goes_where_free()).collect();
            choice.waits();
            assert!(!choice.goes_to_first_named());
            assert_eq!(choice.goes_where_free(), None, "nothing is known any more");
            follows
        };
        assert_eq!(follows(), (1..=MOST_INFORMED).collect::<Vec<_>>());
        assert!(without(&[Mechanism::RefusalsNameFreeSlots], follows).is_empty());
        assert_eq!(choice(1, 9, &[Some(&[]), Some(&[]), Some(&[4])]).goes_where_free(), None);
    }
}
