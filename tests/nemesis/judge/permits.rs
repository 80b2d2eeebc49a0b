//! The holders of a semaphore never have more permits together than it has.

use std::collections::HashMap;

use crate::witness::Class;

use super::holds::Hold;
use super::violation::Violation;

/// Each hold that began when too few permits were left. `holds` are in order of their beginning.
pub(crate) fn permits(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    // By name and kind.
    let mut inside: HashMap<(&str, &str), Vec<(&Hold, u32)>> = HashMap::new();
    for hold in holds {
        let Class::Permits { count, of } = hold.kind.class else { continue };
        for name in &hold.names {
            let inside = inside.entry((name, &hold.kind.label)).or_default();
            inside.retain(|(other, _)| hold.begin < other.end);
            inside.push((hold, count));
            let taken = inside.iter().map(|(_, count)| count).sum();
            if taken > of {
                violations.push(Violation::TooManyPermits {
                    name: name.clone(),
                    of,
                    taken,
                    inside: inside.iter().map(|(hold, _)| (*hold).into()).collect(),
                });
            }
        }
    }
    violations
}
