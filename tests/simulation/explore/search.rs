//! All runs with few deviations, those with the fewest first.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::cases::Case;
use super::deviation::Deviation;
use super::run::{Explored, Point, run};
use super::trouble::Troubles;
use crate::simulation::checkers::Violation;
use crate::simulation::switches::Switches;

/// A run in which a checker has found something. No run with fewer deviations has a violation.
pub(super) struct Found {
    pub(super) deviations: Vec<Deviation>,
    pub(super) violation: Violation,
}

/// The size of a search.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Number of runs with each number of deviations.
    pub(super) runs: Vec<u64>,
    pub(super) events: u64,
    /// Number of runs in which all participants see the same as in an earlier run.
    pub(super) merged: u64,
    pub(super) grants: u64,
    /// Largest number of events at which one run may deviate.
    pub(super) points: usize,
    /// Number of runs with one deviation more than the search has made.
    pub(super) further: u64,
    pub(super) took: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, events, merged, grants, points, further, took } = self;
        let secs = took.as_secs_f64();
        let sum: u64 = runs.iter().sum();
        write!(
            f,
            "{runs:?} runs by deviations, {merged} like an earlier one, {points} places in a run, {events} events, \
             {grants} grants in {secs:.1} s: {:.2} ms a run; one deviation more: {further} runs",
            secs * 1_000.0 / sum as f64
        )
    }
}

/// A run that may be extended: its deviations, the nodes of these, and the places of the next one.
struct Parent {
    deviations: Vec<Deviation>,
    nodes: Vec<usize>,
    points: Vec<Point>,
}

/// Number of runs that are made before their results are taken in.
const BATCH: usize = 512;

/// Makes all runs of `case`, until one has a violation. Several threads make them, and their results are taken in in order.
pub(super) fn search(case: &Case, switches: Switches) -> (Option<Found>, Figures) {
    let started = Instant::now();
    let mut figures = Figures::default();
    let (mut parents, mut traces) = (Vec::new(), HashSet::new());
    for depth in 0..=case.deviations {
        let mut children = Vec::new();
        figures.runs.push(0);
        let all = if depth == 0 { vec![Vec::new()] } else { Vec::new() };
        let all = all.into_iter().chain(parents.iter().flat_map(|parent| extended(parent, case)));
        let mut all = all.peekable();
        while all.peek().is_some() {
            let batch: Vec<_> = all.by_ref().take(BATCH).collect();
            for (deviations, explored) in made(case, batch, switches) {
                let Explored { violation, points, nodes, events, grants, trace, .. } = explored;
                figures.runs[depth] += 1;
                figures.events += events;
                figures.grants += grants as u64;
                figures.points = figures.points.max(points.len());
                figures.took = started.elapsed();
                if let Some(violation) = violation {
                    return (Some(Found { deviations, violation }), figures);
                }
                let is_new = traces.insert(trace);
                figures.merged += u64::from(!is_new);
                let parent = Parent { deviations, nodes, points };
                if is_new && depth < case.deviations {
                    children.push(parent);
                } else if is_new {
                    figures.further += extended(&parent, case).count() as u64;
                }
            }
        }
        drop(all);
        parents = children;
    }
    (None, figures)
}

/// Makes these runs, in the case's number of threads. With one thread, each run is made when its result is wanted.
fn made(
    case: &Case,
    batch: Vec<Vec<Deviation>>,
    switches: Switches,
) -> Box<dyn Iterator<Item = (Vec<Deviation>, Explored)> + '_> {
    let threads = case.threads.min(batch.len());
    if threads <= 1 {
        return Box::new(batch.into_iter().map(move |deviations| {
            let explored = run(case, &deviations, switches, false);
            (deviations, explored)
        }));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut explored = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(deviations) = batch.get(at) else { return explored };
            explored.push((at, run(case, deviations, switches, false)));
        }
    };
    let mut explored: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let explored = threads.into_iter().flat_map(|thread| thread.join().expect("a run"));
        explored.collect()
    });
    explored.sort_unstable_by_key(|(at, _)| *at);
    Box::new(batch.into_iter().zip(explored.into_iter().map(|(_, explored)| explored)))
}

/// Returns the runs with one deviation more, behind those of `parent`.
fn extended<'a>(parent: &'a Parent, case: &'a Case) -> impl Iterator<Item = Vec<Deviation>> + 'a {
    let Parent { deviations, nodes, points } = parent;
    // The first node that is named may be any, so it is the first one; and so on.
    let next_node = nodes.iter().max().map_or(0, |node| node + 1);
    let is_new = move |point: &&Point| {
        !case.nodes_are_alike || point.node.is_none_or(|node| node <= next_node)
    };
    let further = if deviations.is_empty() { Troubles::ALL } else { case.further };
    let troubles = case.troubles.out_of(further);
    points.iter().filter(is_new).flat_map(move |point| {
        let at = point.at;
        point.troubles.out_of(troubles).iter().map(move |trouble| {
            deviations.iter().copied().chain([Deviation { at, trouble }]).collect()
        })
    })
}
