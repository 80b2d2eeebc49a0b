//! Two guards that exclude each other are never both valid.

use super::foremost::Foremost;
use super::holds::Hold;
use super::violation::Violation;

/// Each hold that began before the end of one that excludes it. `holds` are in order of their beginning.
pub(crate) fn exclusion(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut longest = Foremost::by(|hold| hold.end);
    for hold in holds {
        for first in longest.excluded_by(hold).filter(|first| hold.begin < first.end) {
            violations.push(Violation::TwoInside {
                names: first.names_in_common(hold),
                first: first.into(),
                second: hold.into(),
            });
        }
        longest.note(hold);
    }
    violations
}
