//! The permits of a semaphore: slots with numbers, each of which has one owner at a time.

/// The largest number of permits of a semaphore. It keeps a request for all of them, and a list of the free ones,
/// short.
pub(crate) const MOST_PERMITS: u32 = 1_000;

const WORDS: usize = MOST_PERMITS.div_ceil(64) as usize;

/// A set of slots.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slots([u64; WORDS]);

impl Slots {
    /// Adds a slot. Slots that no semaphore has are ignored.
    pub(crate) fn insert(&mut self, slot: usize) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    pub(crate) fn contains(&self, slot: usize) -> bool {
        self.0.get(slot / 64).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The slots in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..WORDS * 64).filter(|slot| self.contains(*slot))
    }
}

impl FromIterator<usize> for Slots {
    fn from_iter<I: IntoIterator<Item = usize>>(slots: I) -> Self {
        let mut all = Self::default();
        slots.into_iter().for_each(|slot| all.insert(slot));
        all
    }
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The number of permits of a semaphore that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PermitsWanted {
    pub(crate) count: u32,
    /// The number of permits of the semaphore.
    pub(crate) of: u32,
}

impl PermitsWanted {
    /// The only permit of a semaphore.
    pub(crate) const ONE_OF_ONE: Self = Self { count: 1, of: 1 };
}

/// The permits that an attempt asks for. Empty for locks of other kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) slots: Slots,
    /// The number of permits of the semaphore.
    pub(crate) of: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_slots_that_were_put_in() {
        let slots: Slots = [999, 0, 64, 63, 0].into_iter().collect();
        assert_eq!(slots.iter().collect::<Vec<_>>(), [0, 63, 64, 999]);
        assert_eq!(slots.len(), 4);
        assert!(slots.contains(64) && !slots.contains(65) && !slots.contains(5_000));
        let strange: Slots = [5_000].into_iter().collect();
        assert_eq!(strange, Slots::default(), "no semaphore has that one");
        assert_eq!(format!("{slots:?}"), "{0, 63, 64, 999}");
    }
}
