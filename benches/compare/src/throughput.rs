//! Many threads, each on a name of its own.

use super::contestant::{Contestant, Ending, Ours, all_on, bare};
use super::distance::Reach;
use super::others::{Redlock, Rslock, RslockTasks};
use super::report::{Goal, Row, table};
use super::server::Servers;
use super::svg::Chart;
use super::threaded::Threaded;
use super::turns::{Turn, interleave, on_own_names, ratio};
use super::wire::Form;
use super::{Pictures, Settings};
use quorlock::Builder;

/// The number of threads, and the goals as shares of the threaded floor: with everything on, and
/// bare.
type Goals = [(usize, f64, f64); 2];

/// The goals for each number of nodes.
const ROUNDS: [(usize, Goals); 2] =
    [(5, [(8, 0.6, 0.8), (64, 0.5, 0.8)]), (1, [(8, 0.65, 0.9), (64, 0.6, 0.9)])];

/// The numbers of nodes and threads that the picture shows.
const DRAWN: (usize, usize) = (5, 64);

pub(crate) fn run(settings: &Settings, pictures: &mut Pictures) {
    for (nodes, goals) in ROUNDS {
        measure(settings, pictures, nodes, goals);
    }
}

fn measure(settings: &Settings, pictures: &mut Pictures, nodes: usize, goals: Goals) {
    let servers = &Servers::start(nodes);
    let reach = Reach::new(servers, &settings.round_trips);
    let ours = |prefix, build: fn(Builder) -> Builder, ending| {
        Box::new(Ours::new(reach.urls(), prefix, build, ending)) as Box<dyn Contestant>
    };
    let floor =
        |form| Box::new(Threaded::one_a_node(reach.ports.clone(), form)) as Box<dyn Contestant>;
    let contestants: [(&str, Box<dyn Contestant>); 9] = [
        ("threaded floor", floor(Form::Canonical)),
        ("  full", floor(Form::Full)),
        ("packed floor", Box::new(Threaded::packed(reach.ports.clone()))),
        ("quorlock, unlock", ours("a", all_on, Ending::Unlock)),
        ("quorlock, drop", ours("c", all_on, Ending::Drop)),
        ("  bare, unlock", ours("b", bare, Ending::Unlock)),
        ("rslock, tasks", Box::new(RslockTasks::new(reach.urls()))),
        ("rslock, threads", Box::new(Rslock::new(reach.urls()))),
        ("redlock", Box::new(Redlock::new(reach.urls()))),
    ];
    for (threads, all_on, bare) in goals {
        let turns = settings.turns(ROUNDS.len() * goals.len() * contestants.len());
        let all = interleave(contestants.len(), turns, |i| {
            on_own_names(servers, &*contestants[i].1, threads, settings.turn)
        });
        let goals = [None, None, None, Some(all_on), None, Some(bare), None, None, None];
        let rows: Vec<_> = contestants
            .iter()
            .zip(&all)
            .zip(goals)
            .map(|(((name, _), turns), goal)| Row {
                name,
                turns,
                ratio: ratio(turns, &all[0], Turn::per_second),
                goal: goal.map(Goal::AtLeast),
            })
            .collect();
        table(
            &format!(
                "Throughput, {threads} threads on names of their own, {nodes} nodes; ratio: locks \
                 per second to the threaded floor's"
            ),
            &rows,
        );
        if (nodes, threads) == DRAWN {
            let drawn = rows.iter().filter(|row| !row.name.starts_with(' '));
            pictures.charts.push(Chart {
                title: format!(
                    "Locks per second, {threads} threads on names of their own: more is better"
                ),
                longest: 1.0,
                bars: drawn.map(|row| row.bar("x the threaded floor")).collect(),
            });
        }
    }
}
