//! Two guards of one name are never both valid.

use super::holds::Hold;
use super::violation::Violation;

/// Each hold that began before one of the same name had ended. `holds` are by name and beginning.
pub(crate) fn exclusion(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for holds in holds.chunk_by(|a, b| a.name == b.name) {
        let mut longest: Option<&Hold> = None;
        for hold in holds {
            if let Some(first) = longest.filter(|first| hold.begin < first.end) {
                violations.push(Violation::TwoInside {
                    name: hold.name.clone(),
                    first: first.into(),
                    second: hold.into(),
                });
            }
            if longest.is_none_or(|longest| hold.end > longest.end) {
                longest = Some(hold);
            }
        }
    }
    violations
}
