//! The holds that a later hold is compared with.

use std::collections::HashMap;

use super::holds::Hold;

/// For each name and kind, the hold with the largest measure. Kinds are separate, since
/// a shared hold excludes those of all kinds but its own.
pub(crate) struct Foremost<'a, M> {
    measure: fn(&Hold) -> M,
    /// By name, then one hold of each kind.
    holds: HashMap<&'a str, Vec<&'a Hold>>,
}

impl<'a, M: PartialOrd> Foremost<'a, M> {
    pub(crate) fn by(measure: fn(&Hold) -> M) -> Self {
        Self { measure, holds: HashMap::new() }
    }

    pub(crate) fn note(&mut self, hold: &'a Hold) {
        for name in &hold.names {
            let foremost = self.holds.entry(name).or_default();
            match foremost.iter_mut().find(|it| it.kind == hold.kind) {
                Some(it) if (self.measure)(hold) > (self.measure)(it) => *it = hold,
                Some(_) => {}
                None => foremost.push(hold),
            }
        }
    }

    /// The holds that exclude `hold`, each of them once.
    pub(crate) fn excluded_by(&self, hold: &Hold) -> impl Iterator<Item = &'a Hold> {
        let mut found: Vec<&'a Hold> = Vec::new();
        let same_name =
            hold.names.iter().filter_map(|name| self.holds.get(name.as_str())).flatten();
        for it in same_name.copied().filter(|it| !it.shares_with(hold)) {
            if !found.iter().any(|found| std::ptr::eq(*found, it)) {
                found.push(it);
            }
        }
        found.into_iter()
    }
}
