//! A fencing token is larger than that of each earlier holder.

use std::ptr;

use super::foremost::Foremost;
use super::holds::Hold;
use super::violation::Violation;

/// Each hold whose token is not above the largest token of the holds that exclude it and had ended when it began.
/// `holds` are in order of their beginning; those without a token are left out.
pub(crate) fn tokens(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut ended: Vec<&Hold> = holds.iter().filter(|hold| hold.token.is_some()).collect();
    ended.sort_by_key(|hold| hold.end);
    let mut ended = ended.into_iter().peekable();
    let mut largest = Foremost::by(|hold| hold.token);
    for hold in holds.iter().filter(|hold| hold.token.is_some()) {
        // A hold of a single proof ends when it begins, but does not precede itself.
        while let Some(before) =
            ended.next_if(|before| before.end <= hold.begin && !ptr::eq(*before, hold))
        {
            largest.note(before);
        }
        for first in largest.excluded_by(hold).filter(|first| hold.token <= first.token) {
            violations.push(Violation::TokenNotLarger {
                names: first.names_in_common(hold),
                first: first.into(),
                second: hold.into(),
            });
        }
    }
    violations
}
