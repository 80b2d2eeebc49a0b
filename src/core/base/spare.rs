//! Spare room: a collection that was large once keeps its memory, however few entries are left in it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Room for so many entries is never given back: to give back less, and to get it again, would cost more than it is worth.
const LITTLE: usize = 32;

/// A collection whose memory can be given back.
pub(crate) trait Spare {
    /// Returns the number of entries, and the number for which there is room.
    fn fill(&self) -> (usize, usize);

    /// Keeps room for `entries`, or for the present ones if these are more.
    fn shrink(&mut self, entries: usize);
}

/// Gives most of the room back, if less than a quarter of it is used.
pub(crate) fn give_room_back(collection: &mut impl Spare) {
    let (used, room) = collection.fill();
    if room > LITTLE && used < room / 4 {
        collection.shrink(if used == 0 { 0 } else { used * 2 });
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Spare for HashMap<K, V, S> {
    fn fill(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink(&mut self, entries: usize) {
        self.shrink_to(entries);
    }
}

impl<T> Spare for VecDeque<T> {
    fn fill(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink(&mut self, entries: usize) {
        self.shrink_to(entries);
    }
}

impl<T> Spare for Vec<T> {
    fn fill(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink(&mut self, entries: usize) {
        self.shrink_to(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_is_not_used_is_given_back_and_a_little_is_kept() {
        let mut queue: VecDeque<_> = (0..4_096).collect();
        give_room_back(&mut queue);
        assert!(queue.capacity() >= 4_096, "it is full");
        queue.truncate(100);
        give_room_back(&mut queue);
        assert!((200..400).contains(&queue.capacity()), "{}", queue.capacity());
        queue.clear();
        give_room_back(&mut queue);
        assert_eq!(queue.capacity(), 0);
        queue.reserve(LITTLE);
        let little = queue.capacity();
        give_room_back(&mut queue);
        assert_eq!(queue.capacity(), little);
    }

    #[test]
    fn what_is_left_is_there_still() {
        let mut map: HashMap<_, _> = (0..4_096).map(|i| (i, i)).collect();
        map.retain(|i, _| *i < 100);
        give_room_back(&mut map);
        assert!(map.capacity() < 1_000, "{}", map.capacity());
        assert!((0..100).all(|i| map[&i] == i));
    }
}
