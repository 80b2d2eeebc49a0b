//! A fencing token is larger than that of each holder before.

use super::holds::Hold;
use super::violation::Violation;

/// Each hold whose token is not larger than the largest of those that had ended when it began. `holds` are by
/// name and beginning; those without a token are left out.
pub(crate) fn tokens(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for holds in holds.chunk_by(|a, b| a.name == b.name) {
        let mut ended: Vec<&Hold> = holds.iter().filter(|hold| hold.token.is_some()).collect();
        ended.sort_by_key(|hold| hold.end);
        let mut ended = ended.into_iter().peekable();
        let mut largest: Option<&Hold> = None;
        for hold in holds.iter().filter(|hold| hold.token.is_some()) {
            while let Some(before) = ended.next_if(|before| before.end <= hold.begin) {
                if largest.is_none_or(|largest| before.token > largest.token) && before != hold {
                    largest = Some(before);
                }
            }
            if let Some(first) = largest.filter(|largest| hold.token <= largest.token) {
                violations.push(Violation::TokenNotLarger {
                    name: hold.name.clone(),
                    first: first.into(),
                    second: hold.into(),
                });
            }
        }
    }
    violations
}
