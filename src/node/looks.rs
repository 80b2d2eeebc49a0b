//! The use of looking for answers before a caller sleeps: as far as it has been of any.

use std::sync::atomic::{AtomicU32, Ordering};

/// The credit that a look earns if it has found something, and costs if it was in vain. Half of them have to be of use.
const STEP: u32 = 2;

/// The most credit.
const MOST: u32 = 16;

/// One look is made each so many waits where they are not worth it: that may have changed.
const NOW_AND_THEN: u32 = 64;

/// Looks are worth it while `credit` is left.
pub(super) struct Looks {
    credit: AtomicU32,
    waits: AtomicU32,
}

impl Looks {
    pub(super) const fn new() -> Self {
        Self { credit: AtomicU32::new(MOST), waits: AtomicU32::new(0) }
    }

    /// Returns true if a caller that is about to wait is to look first.
    pub(super) fn is_worth_it(&self) -> bool {
        self.credit.load(Ordering::Relaxed) > 0
            || self.waits.fetch_add(1, Ordering::Relaxed).is_multiple_of(NOW_AND_THEN)
    }

    /// A look has found something, or nothing.
    pub(super) fn note(&self, found: bool) {
        // Callers that look are alone, and where they are not, an error of one look does no harm.
        let credit = self.credit.load(Ordering::Relaxed);
        let credit = if found { (credit + STEP).min(MOST) } else { credit.saturating_sub(STEP) };
        self.credit.store(credit, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_are_in_vain_are_given_up_but_for_one_now_and_then() {
        let looks = Looks::new();
        let worth = |waits: u32| (0..waits).filter(|_| looks.is_worth_it()).count();
        assert_eq!(worth(1_000), 1_000);
        (0..MOST / STEP).for_each(|_| looks.note(false));
        assert_eq!(worth(10 * NOW_AND_THEN), 10);
        looks.note(true);
        assert_eq!(worth(1_000), 1_000, "the server is near again");
        looks.note(false);
        assert_eq!(worth(10 * NOW_AND_THEN), 10);
    }
}
