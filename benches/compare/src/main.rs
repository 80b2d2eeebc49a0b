//! Measures, in one run and in turns, on servers that it starts itself: this library, the crates `redlock` and `rslock`,
//! and the cost of the protocol alone.
//!
//! `cargo run --release -p compare`, with the names of some scenarios to run only those; `--seconds N` is the approximate
//! time of each; `--quick` shows in seconds that each one runs; `--rtt MS` adds that round trip to the servers of
//! `uncontended`, `throughput` and `burst`, `--rtt 0,0,0,0,40` to the fifth alone; `--draw FOLDER` writes two pictures of
//! the figures of this run; `--recorder`, with the feature `metrics`, gives the figures of quorlock to the recorder of
//! Prometheus.
//!
//! A benchmark is not a test. Next to a figure with a goal, it prints PASS or FAIL; the exit status does not depend on the
//! figures.

use std::fs;
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use svg::{Chart, Plot};

mod burst;
mod contest;
mod contestant;
mod distance;
mod floor;
mod growth;
mod handover;
mod hung;
mod others;
mod process;
mod report;
mod spent;
mod starvation;
mod svg;
mod threaded;
mod throughput;
mod turns;
mod uncontended;
mod wire;

#[path = "../../../tests/support/cpu.rs"]
mod cpu;
#[path = "../../../tests/support/lua.rs"]
#[allow(dead_code, unreachable_pub, reason = "only a part of it is used here")]
mod lua;
#[path = "../../../tests/support/server.rs"]
mod server;

type Scenario = fn(&Settings, &mut Pictures);

const SCENARIOS: [(&str, Scenario); 7] = [
    ("uncontended", uncontended::run),
    ("throughput", throughput::run),
    ("hung", hung::run),
    ("handover", handover::run),
    ("burst", burst::run),
    ("starvation", starvation::run),
    ("growth", growth::run),
];

/// The time limits of a run.
pub(crate) struct Settings {
    /// The approximate time of one scenario, in seconds.
    seconds: f64,
    turn: Duration,
    /// True if each thing is to be done only once.
    quick: bool,
    /// The additional round trip to each node, if there is any.
    round_trips: Vec<Duration>,
}

/// The pictures of the figures.
#[derive(Default)]
pub(crate) struct Pictures {
    charts: Vec<Chart>,
    plots: Vec<Plot>,
}

impl Settings {
    /// Returns the number of turns of each part, if `parts` share the scenario's time.
    pub(crate) fn turns(&self, parts: usize) -> usize {
        let turns = self.seconds / self.turn.as_secs_f64() / parts as f64;
        (turns as usize).max(2)
    }
}

fn main() {
    // Other threads would wait for ever for one that has failed.
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |failure| {
        print(failure);
        std::process::exit(101);
    }));
    let turn = Duration::from_millis(150);
    let mut settings = Settings { seconds: 25.0, turn, quick: false, round_trips: Vec::new() };
    let mut folder = None;
    let mut chosen = Vec::new();
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == process::ARGUMENT).is_some() {
        return process::run(arguments);
    }
    if arguments.next_if(|argument| argument == distance::ARGUMENT).is_some() {
        return distance::run(arguments);
    }
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--quick" => {
                let turn = Duration::from_millis(50);
                settings = Settings { seconds: 1.0, turn, quick: true, ..settings };
            }
            "--draw" => folder = Some(PathBuf::from(arguments.next().unwrap_or_else(|| usage()))),
            #[cfg(feature = "metrics")]
            "--recorder" => {
                let recorder = metrics_exporter_prometheus::PrometheusBuilder::new();
                recorder.install_recorder().expect("the only recorder");
            }
            "--rtt" => {
                let figures = arguments.next().unwrap_or_else(|| usage());
                let ms =
                    |figure: &str| figure.parse().ok().filter(|ms| (0.0..=1_000.0).contains(ms));
                let round_trips = figures.split(',').map(|figure| ms(figure).map(|ms| ms / 1e3));
                let round_trips = round_trips.map(|it| it.map(Duration::from_secs_f64)).collect();
                settings.round_trips = Option::unwrap_or_else(round_trips, || usage());
            }
            "--seconds" => {
                let seconds = arguments.next().and_then(|n| n.parse().ok());
                settings.seconds = seconds.unwrap_or_else(|| usage());
            }
            name => match SCENARIOS.iter().find(|(known, _)| *known == name) {
                Some(scenario) => chosen.push(*scenario),
                None => usage(),
            },
        }
    }
    if chosen.is_empty() {
        chosen.extend(SCENARIOS);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; turns of {:?}", settings.turn);
    if !settings.round_trips.is_empty() {
        println!("round trips of {:?} more, where distance is measured", settings.round_trips);
    }
    let mut pictures = Pictures::default();
    for (_, scenario) in chosen {
        scenario(&settings, &mut pictures);
    }
    let unconfirmed = contestant::UNCONFIRMED.load(Ordering::Relaxed);
    println!("\nUnlocks of quorlock that were not confirmed in time: {unconfirmed}");
    if let Some(folder) = folder {
        let write = |name, picture: String| {
            fs::write(folder.join(name), picture).expect("the folder can be written to");
        };
        if !pictures.charts.is_empty() {
            write("speed.svg", svg::bars(&pictures.charts));
        }
        if !pictures.plots.is_empty() {
            write("growth.svg", svg::lines(&pictures.plots));
        }
    }
}

fn usage() -> ! {
    let names: Vec<_> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    eprintln!(
        "usage: compare [{}] [--seconds N] [--quick] [--rtt MS[,MS..]] [--draw FOLDER]",
        names.join("|")
    );
    std::process::exit(2)
}
