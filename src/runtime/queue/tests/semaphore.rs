//! The callers of one client that want permits of a semaphore.

use crossbeam_channel::never;

use super::*;
use crate::clock;
use crate::core::acquire::MOST_ASKERS;
use crate::core::acquire::Patience;
use crate::core::queue::Turn;
use crate::core::vote::PermitsWanted;
use crate::handle::sealed;
use crate::kinds::Permits;
use crate::runtime::fan_out::Interrupts;

#[test]
fn so_many_ask_at_a_time_and_who_wants_one_permit_does_not_wait_behind_those_who_want_two() {
    let nodes = nodes(1);
    let locks = client(&nodes);
    let permits = |count| Some(PermitsWanted { count, of: 5 });
    let one = Wanted { permits: permits(1), ..wanted(<Permits as sealed::Kind>::kind(), true) };
    let two = Wanted { permits: permits(2), ..wanted(<Permits as sealed::Kind>::kind(), true) };
    let queues = locks.coordinator().queues();
    let mut askers: Vec<_> =
        (0..MOST_ASKERS).map(|_| queues.enter(&two, Patience::Forever)).collect();
    let [mut next, mut last] = [(); 2].map(|()| queues.enter(&two, Patience::Forever));
    assert!(askers.iter_mut().all(|caller| caller.look().0.turn == Turn::Ask));
    assert!(matches!(next.look().0.turn, Turn::Wait(_)));
    assert!(matches!(last.look().0.turn, Turn::Wait(_)));
    assert_eq!(queues.enter(&one, Patience::Forever).look().0.turn, Turn::Ask);
    assert_eq!(queues.enter(&two, Patience::Once).look().0.turn, Turn::Ask);

    drop(askers.pop());
    let never = never();
    next.wait(clock::now().after(LIMIT), Interrupts { cancel: &never, closed: &never });
    assert_eq!(next.look().0.turn, Turn::Ask);
    assert!(matches!(last.look().0.turn, Turn::Wait(_)));
}
