//! No call takes longer than it may.

use std::time::Duration;

/// What threads need to be woken up, and to get around to things.
const MOMENT: Duration = Duration::from_millis(100);

/// The longest pause between two attempts, while nodes are in quarantine.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A call has taken `bound.0`, and may have taken `bound.1`.
pub(super) fn too_long(client: usize, bound: Option<(Duration, Duration)>) -> Option<String> {
    let (took, most) = bound?;
    (took > most + MOMENT)
        .then(|| format!("a call of client {client} took {:?} longer than it may", took - most))
}

/// A call has not reached the nodes for as long as `lasted`, which it bears for `timeout`; and goes on
/// trying, or gives up (`over`). `awake`: its process ran all that time.
pub(super) fn unreached(
    client: usize,
    lasted: Duration,
    timeout: Duration,
    over: bool,
    awake: bool,
) -> Option<String> {
    // Clocks may be wrong; and there is a pause before the first try that fails, of a second for who
    // listens, and one last try.
    let (least, most) = (timeout.mul_f64(0.94), timeout.mul_f64(1.06) + LONGEST_PAUSE + MOMENT * 7);
    if over && lasted < least {
        Some(format!("a call of client {client} gave up when no node was reached for {lasted:?}"))
    } else if !over && awake && lasted > most {
        Some(format!("a call of client {client} goes on, with no node reached for {lasted:?}"))
    } else {
        None
    }
}

/// A client got a lock that was free since then, and for which it was waiting, where messages need no
/// more than a moment.
pub(super) fn overslept(client: usize, free_since: Duration, now: Duration) -> Option<String> {
    let took = now.saturating_sub(free_since);
    (took > MOMENT * 6)
        .then(|| format!("client {client} took {took:?} to get a lock that was given back"))
}
