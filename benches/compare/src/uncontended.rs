//! One thread, and a lock that nobody else wants.

use super::contestant::{Contestant, Ending, Ours, all_on, bare};
use super::distance::Reach;
use super::floor::Floor;
use super::others::{Redlock, Rslock};
use super::report::{Goal, Row, table};
use quorlock::Builder;

use super::server::Servers;
use super::svg::Chart;
use super::turns::{Turn, interleave, on_own_names, ratio};
use super::wire::Form;
use super::{Pictures, Settings};

const NODES: [usize; 4] = [1, 3, 5, 7];
/// The number of nodes whose figures the picture shows.
const USUAL: usize = 5;

/// The goal for that number of nodes, as a multiple of the floor's median time.
fn goal_of_unlock(nodes: usize) -> Option<f64> {
    [(1, 0.7), (3, 1.4), (5, 1.2)].into_iter().find_map(|(n, goal)| (n == nodes).then_some(goal))
}

fn goal_of_drop(nodes: usize) -> Option<f64> {
    (nodes == USUAL).then_some(0.65)
}

pub(crate) fn run(settings: &Settings, pictures: &mut Pictures) {
    for nodes in NODES {
        let servers = Servers::start(nodes);
        measure(settings, &servers, pictures);
    }
}

fn measure(settings: &Settings, servers: &Servers, pictures: &mut Pictures) {
    let nodes = servers.len();
    let reach = Reach::new(servers, &settings.round_trips);
    let ours = |prefix, build: fn(Builder) -> Builder, ending| {
        Box::new(Ours::new(reach.urls(), prefix, build, ending)) as Box<dyn Contestant>
    };
    let floor = |form| Box::new(Floor::new(reach.ports.clone(), form)) as Box<dyn Contestant>;
    let contestants: [(&str, Box<dyn Contestant>, Option<f64>); 8] = [
        ("floor", floor(Form::Canonical), None),
        ("  full floor", floor(Form::Full), None),
        ("quorlock, unlock", ours("a", all_on, Ending::Unlock), goal_of_unlock(nodes)),
        ("quorlock, drop", ours("b", all_on, Ending::Drop), goal_of_drop(nodes)),
        ("  bare, unlock", ours("c", bare, Ending::Unlock), None),
        ("  bare, drop", ours("d", bare, Ending::Drop), None),
        ("rslock", Box::new(Rslock::new(reach.urls())), None),
        ("redlock", Box::new(Redlock::new(reach.urls())), None),
    ];
    let turns = settings.turns(NODES.len() * contestants.len());
    let all = interleave(contestants.len(), turns, |i| {
        on_own_names(servers, &*contestants[i].1, 1, settings.turn)
    });
    let rows: Vec<_> = contestants
        .iter()
        .zip(&all)
        .map(|((name, _, goal), turns)| Row {
            name,
            turns,
            ratio: ratio(turns, &all[0], Turn::median_us),
            goal: goal.map(Goal::AtMost),
        })
        .collect();
    table(
        &format!("Uncontended, one thread, {nodes} nodes; ratio: median time to the floor's"),
        &rows,
    );
    if nodes == USUAL {
        let drawn = rows.iter().filter(|row| !row.name.starts_with(' '));
        pictures.charts.push(Chart {
            title: format!(
                "Lock + unlock, one thread, {nodes} masters: median time, less is better"
            ),
            longest: 4.0,
            bars: drawn.map(|row| row.bar("x the floor")).collect(),
        });
    }
}
