//! Masters are admitted at once where no lock can be held, and otherwise only by force.

use crate::program::{Folder, LIMIT, World, ends_with, printed, program, told};
use crate::support::{Servers, wait_until};
use std::process::Output;

/// A longest TTL that is short enough for a test to wait for it.
const SETTINGS: &str = "max_ttl = \"5s\"\nnode_timeout = \"2s\"\n";

struct Set {
    servers: Servers,
    folder: Folder,
}

impl Set {
    fn start() -> Self {
        let set = Self { servers: Servers::start(3), folder: Folder::new() };
        set.folder.write("settings.toml", SETTINGS);
        set
    }

    fn output(&self, options: &[&str]) -> Output {
        self.output_of([0, 1, 2], options)
    }

    /// The same for a set of other servers.
    fn output_of(&self, servers: [usize; 3], options: &[&str]) -> Output {
        let urls = servers.map(|i| self.servers[i].url());
        let mut program = program();
        program.env("QUORLOCK_NODES", urls.join(","));
        program.env("QUORLOCK_CONFIG", self.folder.path("settings.toml"));
        program.args(options).output().expect("the program starts")
    }

    /// Waits until each server has run for longer than a lock lives.
    fn outlive(&self) {
        let seconds = |i: usize| {
            let redis::Value::BulkString(info) = self.servers[i].command(&["INFO", "server"])
            else {
                return 0;
            };
            let info = String::from_utf8_lossy(&info).into_owned();
            let uptime = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
            uptime.and_then(|seconds| seconds.trim().parse::<u32>().ok()).unwrap_or(0)
        };
        let all = 0..self.servers.len();
        wait_until("they have run for long enough", LIMIT, || all.clone().all(|i| seconds(i) >= 8));
    }

    #[track_caller]
    fn is_refused(&self, why: &str) {
        let output = self.output(&["admit"]);
        ends_with(&output, 122);
        let text = told(&output);
        assert!(text.contains(why) && text.contains("`quorlock admit --force`"), "{why}: {text}");
        assert!(!text.contains("::"), "{text}");
    }
}

#[test]
fn masters_that_have_outlived_every_lock_need_no_force() {
    let set = Set::start();
    set.outlive();
    let output = set.output(&["admit"]);
    ends_with(&output, 0);
    let text = told(&output);
    assert!(text.starts_with("quorlock: these masters grant locks from now on: "), "{text}");
    assert!(set.servers.urls().iter().all(|url| text.contains(url)), "{text}");
    ends_with(&set.output(&["run", "-n", "job", "--", "true"]), 0);
    for options in [&["admit"][..], &["admit", "--force"]] {
        let output = set.output(options);
        ends_with(&output, 0);
        let nothing = "quorlock: nothing to do: no master that can be reached is in quarantine\n";
        assert_eq!(told(&output), nothing);
    }
}

/// The master that stays grants to no new client: its clock can be compared only with those of new masters, which show nothing.
#[test]
fn masters_that_take_the_places_of_others_need_no_force() {
    let set = Set { servers: Servers::start(5), folder: Folder::new() };
    set.folder.write("settings.toml", SETTINGS);
    set.outlive();
    ends_with(&set.output(&["admit"]), 0);
    let output = set.output_of([0, 3, 4], &["admit"]);
    ends_with(&output, 0);
    let text = told(&output);
    let is_told = |i: usize| text.contains(&set.servers[i].url());
    assert!(is_told(3) && is_told(4) && !is_told(0), "{text}");
    ends_with(&set.output_of([0, 3, 4], &["run", "-n", "job", "--", "true"]), 0);
}

/// An example is masters without persistence that were restarted: they are as empty as new ones.
#[test]
fn masters_that_were_started_just_now_need_force() {
    let world = World { servers: Servers::start(3), folder: Folder::new() };
    let set = ["--max-ttl", "1h"];
    let run = || world.output(&[&["run", "-n"], &set[..], &["job", "--", "true"]].concat());
    let output = world.output(&[&["admit"], &set[..]].concat());
    ends_with(&output, 122);
    let text = told(&output);
    assert!(text.contains("it was started "), "{text}");
    assert!(text.contains("They grant locks by themselves in"), "{text}");
    ends_with(&run(), 122);
    ends_with(&world.output(&[&["admit", "--force"], &set[..]].concat()), 0);
    ends_with(&run(), 0);
}

#[test]
fn a_key_of_a_lock_or_a_flush_needs_force() {
    let set = Set::start();
    set.outlive();
    set.servers[1].command(&["SET", "quorlock:job", "somebody", "PX", "60000"]);
    set.is_refused("a node has a key of lock \"job\"");
    let set = Set::start();
    set.outlive();
    set.servers[2].command(&["FLUSHALL"]);
    set.is_refused("has lost keys since its start (by FLUSHALL");
}

/// A mark says that a master is in quarantine, but not the reason. Its clock may have been set, which ends keys.
#[test]
fn a_quarantine_of_somebody_else_and_a_master_that_is_down_need_force() {
    let mut set = Set::start();
    set.outlive();
    // Long enough for the quarantine to last until the next check.
    set.folder.write("settings.toml", "max_ttl = \"1h\"\nnode_timeout = \"2s\"\n");
    ends_with(&set.output(&["run", "-n", "job", "--", "true"]), 122);
    set.is_refused("it was in quarantine before this client came");
    set.servers[0].kill();
    let output = set.output(&["admit"]);
    ends_with(&output, 122);
    assert!(told(&output).contains(&set.servers[0].url()), "{}", told(&output));
    ends_with(&set.output(&["admit", "--force"]), 0);
    assert_eq!(printed(&output), "");
}
