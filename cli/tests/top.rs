//! The masters and the locks on a page that changes.

use std::fs;
use std::io::Write;
use std::process::Command;

use crate::program::{LIMIT, Running, World, ends_with, printed, read, told};
use crate::support::wait_until;
use crate::terminal::on_terminal;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// The beginning of each page on a terminal.
const TOP: &str = "\x1b[H";

/// The pages that a terminal has shown, each without the codes for the terminal.
fn pages(shown: &str) -> Vec<Vec<String>> {
    let plain = |line: &str| {
        let mut texts = line.split('\x1b');
        let first = texts.next().unwrap_or_default().to_owned();
        texts.fold(first, |plain, rest| {
            plain + rest.split_once(char::is_alphabetic).map_or("", |(_, text)| text)
        })
    };
    let pages = shown.split(TOP).skip(1);
    let lines =
        |page: &str| page.trim_end().split('\n').map(|line| plain(line.trim_end())).collect();
    pages.map(lines).collect()
}

/// Runs the program in a shell of that world, with its output in the file `pages`.
fn into_file(world: &World, options: &str) -> Running {
    let mut shell = Command::new("sh");
    let line = format!("exec {} top {options} > pages", env!("CARGO_BIN_EXE_quorlock"));
    shell.args(["-c", &line]).current_dir(world.folder.path(""));
    shell.env("QUORLOCK_NODES", world.servers.urls().join(","));
    Running::new(&mut shell)
}

#[test]
fn a_pipe_gets_one_page_after_the_other() {
    let world = World::new();
    let _held = world.hold(&["orders/42"]);
    let running = into_file(&world, "--every 100ms");
    let pages = || read(&world.folder.path("pages"));
    let head = "1 lock, 3 of 3 masters grant\n";
    wait_until("two pages", LIMIT, || pages().matches(head).count() >= 2);
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
    let text = pages();
    assert!(!text.contains('\x1b'), "codes for a terminal");
    let lines: Vec<_> = text.lines().skip_while(|line| *line != head.trim_end()).collect();
    assert!(lines[2].starts_with("MASTER ") && lines[2].ends_with("STATE"), "{text}");
    for (line, url) in lines[3..6].iter().zip(world.servers.urls()) {
        let master = url.trim_start_matches("redis://");
        assert!(line.starts_with(master) && line.ends_with("  grants"), "{text}");
    }
    assert!(lines[7].starts_with("NAME ") && lines[7].ends_with("OWNERS"), "{text}");
    assert!(lines[8].starts_with("\"orders/42\"  held "), "{text}");
}

#[test]
fn the_number_of_pages_can_be_limited() {
    let world = World::new();
    let output = world.output(&["top", "--times", "3", "--every", "50ms"]);
    ends_with(&output, 0);
    assert_eq!(told(&output), "");
    assert_eq!(printed(&output).matches("\nMASTER ").count(), 3);
}

#[test]
fn masters_are_not_asked_all_the_time() {
    let world = World::new();
    let output = world.output(&["top", "--every", "0"]);
    ends_with(&output, 125);
    assert_eq!(told(&output), "quorlock: --every must be at least 50ms\n");
}

#[test]
fn a_pattern_chooses_the_locks() {
    let world = World::new();
    let _held = ["orders/42", "users/7"].map(|name| world.hold(&[name]).0);
    let running = into_file(&world, "--every 100ms 'orders/*'");
    let pages = || read(&world.folder.path("pages"));
    wait_until("it shows the lock", LIMIT, || pages().contains("\"orders/42\""));
    running.signal("TERM");
    running.end();
    assert!(!pages().contains("users"), "{}", pages());
}

#[test]
fn a_page_fits_into_a_small_terminal() {
    let world = World::new();
    let _held: Vec<_> = (0..9).map(|i| world.hold(&[&format!("orders/{i}")]).0).collect();
    for (columns, rows) in [(40, 12), (80, 24)] {
        let line =
            format!("sh -c 'stty cols {columns} rows {rows}; exec quorlock top --every 100ms'");
        // The file has the output of the terminal before.
        let _ = fs::remove_file(world.folder.path("shown"));
        let Some((running, mut typed)) = on_terminal(&world, &line) else { return };
        let shown = || read(&world.folder.path("shown"));
        wait_until("it shows all locks", LIMIT, || {
            shown().contains("9 locks, 3 of 3 masters grant")
        });
        typed.write_all(b"q").expect("a terminal");
        assert_eq!(running.end().0, Some(0));
        let shown = shown();
        assert!(shown.contains(ENTER) && shown.contains(LEAVE), "{shown:?}");
        let pages = pages(&shown);
        let fits = |page: &Vec<String>| {
            page.len() <= rows && page.iter().all(|line| line.chars().count() <= columns)
        };
        assert!(pages.iter().all(fits), "{columns} columns, {rows} rows: {pages:#?}");
        let page = pages.iter().find(|page| page[0].contains("9 locks, 3")).expect("all locks");
        let has = |text: &str| page.iter().any(|line| line.contains(text));
        assert!(has("\"orders/0\""), "{page:#?}");
        let cut = (has("more; a PATTERN"), has("HELD AS"));
        assert_eq!(cut, (rows == 12, columns == 80), "{page:#?}");
    }
}

#[test]
fn a_narrow_terminal_shows_that_too_few_masters_grant() {
    let mut world = World::new();
    (0..2).for_each(|master| world.servers[master].kill());
    let line = "sh -c 'stty cols 40 rows 24; exec quorlock top --every 100ms'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    let pages = || pages(&read(&world.folder.path("shown")));
    let tells = |page: &Vec<String>| page.iter().any(|line| line == "TOO FEW FOR A LOCK");
    wait_until("a page tells so", LIMIT, || pages().iter().any(tells));
    typed.write_all(b"q").expect("a terminal");
    assert_eq!(running.end().0, Some(0));
    assert!(pages().iter().flatten().all(|line| line.chars().count() <= 40), "{:#?}", pages());
}

#[test]
fn the_last_page_of_a_limited_number_stays_on_the_terminal() {
    let world = World::new();
    let Some((running, _typed)) = on_terminal(&world, "quorlock top --times 1") else { return };
    assert_eq!(running.end().0, Some(0));
    let shown = read(&world.folder.path("shown"));
    let (_, left) = shown.split_once(LEAVE).expect("the first screen again");
    assert!(left.contains(" masters grant"), "{shown:?}");
}

#[test]
fn a_key_ends_it_and_the_terminal_is_as_before() {
    let world = World::new();
    let line = "sh -c 'quorlock top; echo $? > code; stty -a > after'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    let shows = |text: &str| read(&world.folder.path("shown")).contains(text);
    wait_until("it shows the masters", LIMIT, || shows("3 of 3 masters grant"));
    typed.write_all(b"xq").expect("a terminal");
    running.end();
    assert_eq!(world.folder.line("code"), "0");
    let after = read(&world.folder.path("after"));
    let settings: Vec<_> = after.split([' ', ';', '\n']).collect();
    assert!(settings.contains(&"echo") && settings.contains(&"icanon"), "{after}");
    assert!(shows(LEAVE), "the page is still there");
}

#[test]
fn an_interrupt_ends_it_and_the_terminal_is_as_before() {
    let world = World::new();
    let line = "bash --norc -c 'trap : INT; quorlock top; echo $? > code; stty -a > after'";
    let Some((running, mut typed)) = on_terminal(&world, line) else { return };
    let shows = |text: &str| read(&world.folder.path("shown")).contains(text);
    wait_until("it shows the masters", LIMIT, || shows("3 of 3 masters grant"));
    typed.write_all(b"\x03").expect("a terminal");
    running.end();
    assert_eq!(world.folder.line("code"), "130");
    assert!(read(&world.folder.path("after")).contains(" icanon"));
    assert!(shows(LEAVE), "the page is still there");
}

#[test]
fn it_goes_on_while_masters_die_and_come_back() {
    let mut world = World::new();
    let _held = world.hold(&["orders/42"]);
    let running = into_file(&world, "--every 100ms");
    let shows = |world: &World, text: &str| read(&world.folder.path("pages")).contains(text);
    wait_until("it shows the lock", LIMIT, || shows(&world, "\"orders/42\""));
    world.servers[0].kill();
    wait_until("it shows the fault of one", LIMIT, || shows(&world, "2 of 3 masters grant\n"));
    world.servers[1].kill();
    wait_until("it shows the outage", LIMIT, || shows(&world, "TOO FEW FOR A LOCK"));
    wait_until("it shows the reason", LIMIT, || shows(&world, "connection refused"));
    world.servers[1].restart_empty();
    wait_until("it shows the quarantine", LIMIT, || shows(&world, "  grants in "));
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn it_ends_with_the_reader_of_its_pages() {
    let world = World::new();
    let mut shell = Command::new("sh");
    let line = format!("{} top --every 50ms | head -n 1 > first", env!("CARGO_BIN_EXE_quorlock"));
    shell.args(["-c", &line]).current_dir(world.folder.path(""));
    shell.env("QUORLOCK_NODES", world.servers.urls().join(","));
    assert_eq!(Running::new(&mut shell).end().0, Some(0));
    assert!(world.folder.line("first").contains(" masters grant"));
}
