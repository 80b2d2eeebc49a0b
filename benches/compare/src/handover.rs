//! One name that several want all the time: number of changes of the holder.

use std::time::Duration;

use parking_lot::Mutex;

use super::contest::{Contest, contend};
use super::contestant::{Caller, Contestant, Ending, Ours, all_on, bare};
use super::others::{Redlock, Rslock};
use super::process::{Crowd, Kind};
use super::report::Goal;
use super::server::Servers;
use super::spent::Spent;
use super::svg::{Bar, Chart};
use super::turns::{interleave, pooled_us, quartiles};
use super::{Pictures, Settings};

const NODES: usize = 5;
const HOLD: Duration = Duration::from_millis(1);
const THREADS: usize = 8;
const PROCESSES: usize = 4;
/// The best pauses of `rslock` for a hold of 1 ms. The default, up to 200 ms, is too long.
const PAUSE_MS: u64 = 10;

/// A lock within one process, which no lock between processes can beat.
struct InMemory(Mutex<()>);

impl Contestant for InMemory {
    fn caller<'a>(&'a self, _: &str) -> Caller<'a> {
        Box::new(|inside| {
            let guard = self.0.lock();
            inside();
            drop(guard);
        })
    }
}

pub(crate) fn run(settings: &Settings, pictures: &mut Pictures) {
    let servers = &Servers::start(NODES);
    threads(settings, servers);
    processes(settings, servers, pictures);
}

fn threads(settings: &Settings, servers: &Servers) {
    let impatient = Rslock::new(servers.urls()).impatient(Duration::from_millis(PAUSE_MS));
    let contestants: [(&str, Box<dyn Contestant>); 6] = [
        ("parking_lot::Mutex", Box::new(InMemory(Mutex::new(())))),
        ("quorlock", Box::new(Ours::new(servers.urls(), "a", all_on, Ending::Unlock))),
        ("  bare", Box::new(Ours::new(servers.urls(), "b", bare, Ending::Unlock))),
        ("rslock", Box::new(Rslock::new(servers.urls()))),
        ("rslock, 10 ms", Box::new(impatient)),
        ("redlock", Box::new(Redlock::new(servers.urls()))),
    ];
    let span = settings.turn * 2;
    let all = interleave(contestants.len(), settings.turns(4 * contestants.len()), |i| {
        let before = Spent::now(servers);
        let grants = contend(&*contestants[i].1, "handover", THREADS, HOLD, span);
        Contest::new(grants, THREADS, Spent::now(servers) - before)
    });
    println!("\nOne name, held {HOLD:?}, {THREADS} threads of one process, {NODES} nodes");
    header("to parking_lot's changes");
    for ((name, _), contests) in contestants.iter().zip(&all) {
        let ratios = contests.iter().zip(&all[0]);
        let ratios =
            ratios.map(|(one, other)| one.changes_per_second() / other.changes_per_second());
        let [_, ratio, _] = quartiles(ratios.collect());
        let judged = match *name {
            "quorlock" => format!(
                "{}, scripts {}",
                Goal::AtLeast(0.85).judge(ratio),
                Goal::AtMost(12.0).judge(middle(contests, Contest::scripts_per_grant)),
            ),
            _ => String::new(),
        };
        row(name, contests, &format!("{ratio:.3}  {judged}"));
    }
}

fn processes(settings: &Settings, servers: &Servers, pictures: &mut Pictures) {
    let mut crowds = [
        ("quorlock", Kind::Quorlock),
        ("rslock", Kind::Rslock),
        ("rslock, 10 ms", Kind::Impatient(PAUSE_MS)),
    ]
    .map(|(name, kind)| (name, Crowd::start(servers, kind, PROCESSES, 1)));
    let span = settings.turn * 4;
    let all = interleave(crowds.len(), settings.turns(8 * crowds.len()), |i| {
        crowds[i].1.contend(servers, "handover", HOLD, span)
    });
    println!(
        "\nOne name, held {HOLD:?}, {PROCESSES} processes with one thread each, {NODES} nodes"
    );
    header("to rslock's changes");
    let mut bars = Vec::new();
    for ((name, _), contests) in crowds.iter().zip(&all) {
        let changes = middle(contests, Contest::changes_per_second);
        let ratio = changes / middle(&all[1], Contest::changes_per_second);
        let judged = match *name {
            "quorlock" => Goal::AtLeast(450.0).judge(changes).to_string(),
            _ => String::new(),
        };
        row(name, contests, &format!("{ratio:.2}  {judged}"));
        let label = format!("{changes:.0} a second");
        bars.push(Bar { name: (*name).to_owned(), value: Some(changes), label });
    }
    pictures.charts.push(Chart {
        title: format!(
            "One name, held 1 ms, {PROCESSES} processes: changes of holder, more is better"
        ),
        longest: bars.iter().filter_map(|bar| bar.value).fold(1.0, f64::max),
        bars,
    });
}

fn header(ratio: &str) {
    println!("                       changes   grants   scripts        wait, ms             ratio");
    println!(
        "                      a second a second   a grant   median     p99     max   {ratio}"
    );
}

fn row(name: &str, contests: &[Contest], ratio: &str) {
    let wait_ms = |share| pooled_us(contests.iter().map(|contest| &contest.turn), share) / 1e3;
    println!(
        "{name:<20} {:>9.0} {:>8.0} {:>9.1} {:>8.1} {:>7.1} {:>7.1}   {ratio}",
        middle(contests, Contest::changes_per_second),
        middle(contests, |contest| contest.turn.per_second()),
        middle(contests, Contest::scripts_per_grant),
        wait_ms(0.5),
        wait_ms(0.99),
        wait_ms(1.0),
    );
}

fn middle(contests: &[Contest], of: impl Fn(&Contest) -> f64) -> f64 {
    quartiles(contests.iter().map(of).collect())[1]
}
