//! Properties of single states, which the checkers of the simulator do not look at: a waiter has a timer while its lock is free,
//! and all nodes grant locks again in the end.

use std::time::Duration;

use crate::core::admission::mark::{Mark, MarkState};
use crate::core::base::{POLL, majority};
use crate::simulation::claim::MARK;
use crate::simulation::lock_id::key;
use crate::simulation::world::World;

/// Rounding, and the error of clocks.
const MOMENT: Duration = Duration::from_millis(20);

/// Time within which a message about a release has arrived, unless it is lost.
const TOLD: Duration = Duration::from_millis(10);

/// Checks each state of a run: while a lock is free, nobody sleeps for longer than the longest pause, or without a timer. Somebody
/// does so since `since`.
pub(super) fn check(world: &mut World, since: &mut Option<Duration>) {
    if !world.net.is_over_for_now() {
        return;
    }
    let Some((client, due)) = sleeper(world) else { return *since = None };
    if !is_free(world) {
        return *since = None;
    }
    let now = world.net.now;
    if *since.get_or_insert(now) + TOLD < now {
        let until =
            if due < now { "without a timer".to_owned() } else { format!("for {:?}", due - now) };
        let what = format!("client {client} sleeps {until}, and the lock is free");
        world.net.checks.report(now, "sleeps", what);
    }
}

/// Returns a client with a call that does not go on by itself within the longest pause, and the time at which it does.
fn sleeper(world: &World) -> Option<(usize, Duration)> {
    let now = world.net.now;
    let running = (0..world.clients.len()).filter(|client| world.clients[*client].runs());
    let mut due = running.flat_map(|client| {
        let longest = POLL.max(world.plan.setup(client).backoff.max) + MOMENT;
        let due = world.clients[client].due_times();
        due.filter(move |due| *due > now + longest || *due + MOMENT < now)
            .map(move |due| (client, due))
    });
    due.next()
}

/// Returns true if a majority of the nodes would grant the lock to anybody.
fn is_free(world: &mut World) -> bool {
    let (now, all) = (world.net.now, world.net.nodes.len());
    let free = world.net.nodes.iter_mut().filter_map(|node| {
        let mark = node.value(MARK, now)?;
        let mark = Mark::parse(std::str::from_utf8(&mark).ok()?)?;
        let grants = mark.state == MarkState::Admitted && node.down == 0;
        (grants && node.owners(&key(0), now).is_empty()).then_some(())
    });
    free.count() >= majority(all)
}

/// Returns a client and a node that does not grant locks to it.
pub(super) fn shut_out(world: &World) -> Option<(usize, usize)> {
    let running = (0..world.clients.len()).filter(|client| world.clients[*client].runs());
    let mut pairs =
        running.flat_map(|client| (0..world.net.nodes.len()).map(move |node| (client, node)));
    pairs.find(|(client, node)| !world.clients[*client].is_granted_by(*node))
}
