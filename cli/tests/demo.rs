//! The demonstration, and the files and processes that it leaves.

use std::fs;
use std::process::Command;

use crate::program::{Folder, LIMIT, Running, World, ends_with, printed, program, runs, told};
use crate::support::wait_until;

/// The demonstration, with its own folder for temporary files.
fn demo(folder: &Folder, options: &[&str]) -> Command {
    let mut demo = program();
    demo.arg("demo").args(options).env("TMPDIR", folder.path(""));
    demo
}

/// Starts a demonstration without end. Returns it with the process ids of its masters.
fn begun(folder: &Folder) -> (Running, Vec<u32>) {
    let running = Running::new(&mut demo(folder, &["--stock", "1000000"]));
    // The stock is written once all masters answer.
    wait_until("it sells", LIMIT, || left(folder).iter().any(|path| path.ends_with("/without")));
    let servers = servers(folder);
    assert_eq!(servers.len(), 5);
    (running, servers)
}

/// Returns the processes whose working folder is below that folder.
fn servers(folder: &Folder) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("a Linux machine").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let works_below = |id: &u32| {
        fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|path| path.starts_with(folder.path("")))
    };
    ids.filter(works_below).collect()
}

/// Returns the files in the folder.
fn left(folder: &Folder) -> Vec<String> {
    let mut folders = vec![folder.path("")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            found.push(entry.path().display().to_string());
            folders.push(entry.path());
        }
    }
    found
}

#[track_caller]
fn shows_what_a_lock_is_for(printed: &str) {
    let sold = |round: &str| -> u32 {
        let row = printed.lines().find_map(|line| line.strip_prefix(round)).expect("its figures");
        row.split_whitespace().next().and_then(|sold| sold.parse().ok()).expect("a number")
    };
    assert!(sold("without a lock ") > 30, "{printed}");
    assert_eq!(sold("under quorlock "), 30, "{printed}");
}

#[test]
fn it_oversells_without_a_lock_only_while_masters_are_killed() {
    let folder = Folder::new();
    let output = demo(&folder, &["--stock", "30"]).output().expect("the program starts");
    ends_with(&output, 0);
    let text = printed(&output);
    shows_what_a_lock_is_for(&text);
    assert!(text.contains("5 masters, started here"), "{text}");
    assert_eq!(text.matches("killed a master, redis://127.0.0.1:").count(), 2, "{text}");
    assert_eq!(left(&folder), Vec::<String>::new());
}

#[test]
fn without_a_server_its_masters_are_embedded() {
    let folder = Folder::new();
    let mut demo = demo(&folder, &["--stock", "30"]);
    let output = demo.env("QUORLOCK_REDIS_SERVER", "/no/server").output().expect("it starts");
    ends_with(&output, 0);
    let text = printed(&output);
    shows_what_a_lock_is_for(&text);
    assert!(text.contains("embedded") && text.contains("/no/server cannot be run"), "{text}");
    assert_eq!(text.matches("killed a master, redis://127.0.0.1:").count(), 2, "{text}");
    assert_eq!(left(&folder), Vec::<String>::new());
}

#[test]
fn masters_that_are_named_are_not_killed() {
    let world = World::new();
    let output = world.output(&["demo", "--stock", "30"]);
    ends_with(&output, 0);
    let text = printed(&output);
    shows_what_a_lock_is_for(&text);
    assert!(!text.contains("killed a master"), "{text}");
    assert!(world.servers.iter().all(|server| server.is_up()));
    world.servers.wait_no_keys();
}

#[test]
fn a_signal_ends_it_with_all_that_it_has_started() {
    let folder = Folder::new();
    let (running, servers) = begun(&folder);
    running.signal("TERM");
    let (code, _, told) = running.end();
    assert_eq!(code, Some(143), "{told}");
    assert!(servers.iter().all(|server| !runs(*server)));
    assert_eq!(left(&folder), Vec::<String>::new());
}

#[test]
fn what_it_has_started_ends_also_when_it_is_killed() {
    let folder = Folder::new();
    let (running, servers) = begun(&folder);
    running.signal("KILL");
    assert_eq!(running.end().0, Some(128 + 9));
    wait_until("no master runs", LIMIT, || servers.iter().all(|server| !runs(*server)));
    wait_until("nothing is left", LIMIT, || left(&folder).is_empty());
}

#[test]
fn options_out_of_range_are_refused() {
    for options in [["--stock", "9"], ["--clients", "0"], ["--threads", "101"]] {
        let output = demo(&Folder::new(), &options).output().expect("the program starts");
        ends_with(&output, 125);
        assert!(told(&output).contains(options[0]), "{}", told(&output));
    }
    let alone = ["--clients", "1", "--threads", "1"];
    let output = demo(&Folder::new(), &alone).output().expect("the program starts");
    ends_with(&output, 125);
}
