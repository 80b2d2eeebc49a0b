//! One name that eight callers want for a while: the share of each of them.

use std::time::Duration;

use super::contest::{Contest, contend};
use super::contestant::{Ending, Ours, all_on};
use super::process::{Crowd, Kind};
use super::report::Goal;
use super::server::Servers;
use super::spent::Spent;
use super::turns::quantile;
use super::{Pictures, Settings};

const NODES: usize = 5;
const HOLD: Duration = Duration::from_millis(1);
/// Numbers of processes, and of threads in each.
const CROWDS: [(usize, usize); 2] = [(4, 2), (8, 1)];

pub(crate) fn run(settings: &Settings, _: &mut Pictures) {
    let servers = &Servers::start(NODES);
    let span = Duration::from_secs_f64(settings.seconds / 4.0);
    println!("\nEight contenders for one name for {span:.0?}, held {HOLD:?}, {NODES} nodes");
    println!(
        "                            served       least to    wait, ms             longest wait"
    );
    println!(
        "                          least   most       most   median      max   to the median one"
    );

    let ours = Ours::new(servers.urls(), "threads", all_on, Ending::Unlock);
    let before = Spent::now(servers);
    let grants = contend(&ours, "starvation", 8, HOLD, span);
    show("1 process, 8 threads", &Contest::new(grants, 8, Spent::now(servers) - before));
    for (processes, threads) in CROWDS {
        let mut crowd = Crowd::start(servers, Kind::Quorlock, processes, threads);
        let contest = crowd.contend(servers, "starvation", HOLD, span);
        show(&format!("{processes} processes, {threads} each"), &contest);
    }
}

fn show(who: &str, contest: &Contest) {
    let ms = |share| quantile(&contest.turn.times, share).as_secs_f64() * 1e3;
    let (evenness, longest) = (contest.evenness(), contest.longest_wait());
    println!(
        "{who:<22} {:>8} {:>6} {evenness:>10.2} {:>8.1} {:>8.1} {longest:>10.1}   {}, {}",
        contest.served[0],
        contest.served[contest.served.len() - 1],
        ms(0.5),
        ms(1.0),
        Goal::AtLeast(0.33).judge(evenness),
        Goal::AtMost(20.0).judge(longest),
    );
}
