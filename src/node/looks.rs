//! A record of how useful it is that a caller looks for answers before it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};

/// Credit that a look earns if it has found something, and costs if it has not. So half of the looks must find something.
const STEP: u32 = 2;

/// Upper limit of the credit.
const MOST: u32 = 16;

/// Number of waits for each look while looks are not worth it: that may have changed.
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

    /// Returns true if a caller that is about to wait should look first.
    pub(super) fn is_worth_it(&self) -> bool {
        self.credit.load(Ordering::Relaxed) > 0
            || self.waits.fetch_add(1, Ordering::Relaxed).is_multiple_of(NOW_AND_THEN)
    }

    /// Notes if a look has found something.
    pub(super) fn note(&self, found: bool) {
        // Callers that look are alone. If they are not, an error of one look does no harm.
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
