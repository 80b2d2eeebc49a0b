//! A node keeps all keys of a lock with several names, or none.

use crate::simulation::claim::short;

/// Checks a request of that owner on a node, which had these keys of its lock before, and has those now.
///
/// Keys that somebody else has deleted may stay deleted: then nothing has changed. Any other incomplete set is a
/// grant, an extension or a repair of some of the names only.
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
