//! A node keeps all keys of a lock with several names, or none.

use crate::simulation::claim::short;

/// A node has run a request of that owner, which had these of its lock's keys before, and has those now.
///
/// What somebody else has deleted may stay so: then nothing has changed. All else is a grant, an extension or a
/// repair of some of the names.
pub(super) fn left_in_part(
    node: usize,
    what: &str,
    owner: &[u8],
    before: &[bool],
    now: &[bool],
) -> Option<String> {
    let in_part = now.contains(&true) && now.contains(&false);
    (in_part && now != before).then(|| {
        let short = short(owner);
        let (had, has) = (count(before), count(now));
        format!("by {what} {short} has {has} of {} keys on node {node}, and had {had}", now.len())
    })
}

fn count(keys: &[bool]) -> usize {
    keys.iter().filter(|ours| **ours).count()
}
