//! No call takes longer than it may.

use std::time::Duration;

/// What threads need to be woken up, and to get around to things.
const MOMENT: Duration = Duration::from_millis(100);

/// A call has taken `bound.0`, and may have taken `bound.1`.
pub(super) fn too_long(client: usize, bound: Option<(Duration, Duration)>) -> Option<String> {
    let (took, most) = bound?;
    (took > most + MOMENT)
        .then(|| format!("a call of client {client} took {:?} longer than it may", took - most))
}
