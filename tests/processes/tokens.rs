//! Tokens of many processes with unrelated clocks, over masters of which some forget.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use quorlock::{Builder, Quorlock};

use crate::counting::{self, Number};
use crate::helper::{Helper, PROMPT, say, wait_for_go};
use crate::long;
use crate::roles::{self, Role};
use crate::support::{Servers, wait_until};

const PROCESSES: usize = 8;
const NAMES: usize = 4;
/// The TTL of the locks, and the quarantine of a master that forgets.
const TTL: Duration = Duration::from_secs(8);

/// The errors of the processes' wall clocks, of those that are wrong.
const WRONG: [&str; 3] = ["-5s", "+5s", "+365d"];

pub(crate) fn tokens_rise_whatever_the_clocks_say() {
    let times = if long() { 10_000 } else { 100 };
    let mut servers = Servers::start(5);
    let locks = builder(&servers.urls()).build().expect("the settings are valid");
    wait_until("the masters are admitted", PROMPT, || locks.admit().is_ok());
    let files: Vec<_> = (0..NAMES).map(|_| Number::create()).collect();
    let paths: Vec<_> = files.iter().map(|file| file.path().to_string_lossy()).collect();
    let (paths, times_text) = (paths.join(":"), times.to_string());
    let wrong = if faketime() { &WRONG[..] } else { &[] };
    let mut helpers: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let variables: [(&str, &dyn AsRef<_>); 2] =
                [(roles::FILE, &paths), (roles::TIMES, &times_text)];
            Helper::start_at(&RISE, &servers, &variables, wrong.get(process).copied())
        })
        .collect();
    helpers.iter().for_each(|helper| helper.expect("ready"));
    helpers.iter_mut().for_each(Helper::go);
    let total = PROCESSES * times;
    let limit = PROMPT + Duration::from_millis(50) * total as u32;
    let taken = || files.iter().map(|file| counting::read(file.path()).0).sum::<usize>();
    for (node, share) in [(0, 4), (1, 2)] {
        wait_until("some of them", limit, || {
            taken() >= total / share || helpers.iter_mut().any(Helper::has_ended)
        });
        servers[node].restart_empty();
    }
    helpers.into_iter().for_each(|helper| helper.finish_within(limit));
    assert_eq!(taken(), total, "a lock has let two in");
}

/// Returns true if the machine has the program that shows another time to its child.
#[allow(clippy::print_stdout, reason = "who runs the tests wants to know what was left out")]
fn faketime() -> bool {
    let found = Command::new("faketime").arg("--version").output().is_ok();
    if !found {
        println!("faketime is not installed, so all processes have the same clock");
    }
    found
}

fn builder(urls: &[String]) -> Builder {
    Quorlock::builder().nodes(urls).ttl(TTL).max_ttl(TTL).node_timeout(TTL / 4)
}

/// On "go", takes one lock after the other; each has a larger token than the last holder's.
pub(crate) static RISE: Role = Role {
    name: "rise",
    run: || {
        let files = std::env::var(roles::FILE).expect("the test names files");
        let files: Vec<_> = files.split(':').map(PathBuf::from).collect();
        let times: usize = roles::times();
        let urls = std::env::var("QUORLOCK_NODES").expect("the test names the nodes");
        let urls: Vec<_> = urls.split(',').map(str::to_owned).collect();
        let locks = builder(&urls).build().expect("the settings are valid");
        say("ready");
        wait_for_go();
        (0..times).for_each(|turn| rise(&locks, &files, turn));
    },
};

fn rise(locks: &Quorlock, files: &[impl AsRef<Path>], turn: usize) {
    let name = (turn + std::process::id() as usize) % files.len();
    let guard = locks.lock(format!("name-{name}")).expect("a majority is healthy");
    let token = u64::from(guard.token().expect("fencing is on"));
    let file = files[name].as_ref();
    let (number, last) = counting::read(file);
    assert!(token > last, "{token} after {last}");
    counting::write(file, number + 1, token);
    guard.unlock().expect("it is ours");
}
