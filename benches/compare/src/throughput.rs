//! Many threads, each on a name of its own.

use super::contestant::{Contestant, Ending, Ours, all_on, bare};
use super::others::{Redlock, Rslock};
use super::packed::Packed;
use super::report::{Goal, Row, table};
use super::server::{Server, Servers};
use super::svg::Chart;
use super::turns::{Turn, interleave, on_own_names, ratio};
use super::{Pictures, Settings};

const NODES: usize = 5;
/// How many threads, and what share of the packed floor is the goal, with everything on and bare.
const THREADS: [(usize, f64, f64); 2] = [(8, 0.9, 1.0), (64, 0.6, 0.7)];

/// With as many threads it is in the picture.
const DRAWN: usize = 64;

pub(crate) fn run(settings: &Settings, pictures: &mut Pictures) {
    let servers = &Servers::start(NODES);
    let ports: Vec<_> = servers.iter().map(Server::port).collect();
    let contestants: [(&str, Box<dyn Contestant>); 6] = [
        ("packed floor", Box::new(Packed::new(ports))),
        ("quorlock, unlock", Box::new(Ours::new(servers.urls(), "a", all_on, Ending::Unlock))),
        ("quorlock, drop", Box::new(Ours::new(servers.urls(), "c", all_on, Ending::Drop))),
        ("  bare, unlock", Box::new(Ours::new(servers.urls(), "b", bare, Ending::Unlock))),
        ("rslock", Box::new(Rslock::new(servers.urls()))),
        ("redlock", Box::new(Redlock::new(servers.urls()))),
    ];
    for (threads, all_on, bare) in THREADS {
        let turns = settings.turns(THREADS.len() * contestants.len());
        let all = interleave(contestants.len(), turns, |i| {
            on_own_names(servers, &*contestants[i].1, threads, settings.turn)
        });
        let goals = [None, Some(all_on), None, Some(bare), None, None];
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
                "Throughput, {threads} threads on names of their own, {NODES} nodes; ratio: locks \
                 per second to the packed floor's"
            ),
            &rows,
        );
        if threads == DRAWN {
            let drawn = rows.iter().filter(|row| !row.name.starts_with(' '));
            pictures.charts.push(Chart {
                title: format!(
                    "Locks per second, {threads} threads on names of their own: more is better"
                ),
                longest: 1.0,
                bars: drawn.map(|row| row.bar("x the packed floor")).collect(),
            });
        }
    }
}
