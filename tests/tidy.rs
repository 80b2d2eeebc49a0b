//! The rules of `ARCHITECTURE.md` that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

/// All files below `folder` that end in `extension`, with their text.
fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("a text file");
                found.push((path.strip_prefix(root).expect("below it").to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no .{extension} file below {folder}");
    found
}

/// No line of the files, comments left aside, contains any of `words`.
fn none_says(files: &[(PathBuf, String)], words: &[&str], rule: &str) {
    for (path, text) in files {
        for (i, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                panic!("{}:{}: \"{word}\": {rule}", path.display(), i + 1);
            }
        }
    }
}

fn outside(files: Vec<(PathBuf, String)>, place: &str) -> Vec<(PathBuf, String)> {
    let total = files.len();
    let rest: Vec<_> = files.into_iter().filter(|(path, _)| !path.starts_with(place)).collect();
    assert!(rest.len() < total, "there is no {place}");
    rest
}

#[test]
fn the_machines_are_pure() {
    none_says(
        &files("src/core", "rs"),
        &[
            "crate::",
            "redis",
            "std::thread",
            "Instant",
            "SystemTime",
            "crossbeam",
            "parking_lot",
            "rand::",
        ],
        "core/ imports nothing of the crate but itself; time, votes and chance are arguments",
    );
}

#[test]
fn only_the_nodes_know_the_redis_crate() {
    none_says(
        &outside(files("src", "rs"), "src/node"),
        &["redis::", "use redis"],
        "only node/ uses the redis crate",
    );
}

#[test]
fn one_place_reads_clocks_sleeps_and_spawns() {
    none_says(
        &outside(files("src", "rs"), "src/clock.rs"),
        &["Instant::now", "SystemTime", "thread::sleep", "thread::spawn", "thread::Builder"],
        "only clock.rs reads clocks, sleeps and spawns",
    );
}

#[test]
fn one_place_knows_chance() {
    none_says(
        &outside(files("src", "rs"), "src/random.rs"),
        &["rand::"],
        "random numbers come from random.rs: those of `rand` panic in destructors of thread-locals",
    );
}

#[test]
fn leases_run_on_the_clock_that_goes_on_while_the_machine_is_suspended() {
    let clock = files("src", "rs").into_iter().find(|(path, _)| path.ends_with("clock.rs"));
    let (_, text) = clock.expect("there is a clock");
    assert!(text.contains("clock_gettime(rustix::time::ClockId::Boottime)"));
}

/// `Duration` shows itself as `12.345678ms`, and text with all its quotes escaped.
#[test]
fn messages_show_nothing_as_programs_do() {
    let shown: Vec<_> = files("src", "rs")
        .into_iter()
        .filter(|(path, _)| {
            let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            let tests =
                ["tests", "_tests", "mutations", "model", "search", "lost_replies", "fuzzing"];
            !tests.iter().any(|end| name.ends_with(end))
        })
        // Tests are last in a file.
        .map(|(path, text)| {
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            (path, code.to_owned())
        })
        .collect();
    none_says(
        &shown,
        &[":?}", ":.1?}", ":.2?}", ":#?}"],
        "messages show durations by `exact` and `rounded`, and all else by Display",
    );
}

#[test]
fn no_kind_knows_another() {
    let kinds = outside(files("src/kinds", "rs"), "src/kinds/mod.rs");
    for (path, text) in &kinds {
        for (other, _) in kinds.iter().filter(|(other, _)| other != path) {
            let other = other.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            if other != "reply" {
                let import = format!("{other}::");
                assert!(!text.contains(&import), "{} imports {other}", path.display());
            }
        }
    }
}

#[test]
fn scripts_state_their_contract() {
    for (path, text) in files("lua", "lua") {
        let path = path.display();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let code = code.collect::<Vec<_>>().join("\n");
        let header: Vec<_> = text.lines().take_while(|line| line.starts_with("--")).collect();
        assert!(header.iter().any(|line| line.starts_with("-- Replies")), "{path}: no replies");
        for table in ["KEYS", "ARGV"] {
            for i in 1..10 {
                let word = format!("{table}[{i}]");
                let stated = header.iter().any(|line| line.starts_with(&format!("-- {word}  ")));
                assert_eq!(code.contains(&word), stated, "{path}: {word} in the header");
            }
        }
        for word in ["tostring", "..", "INCR"] {
            assert!(!code.contains(word), "{path}: \"{word}\": see lua/README.md");
        }
    }
}

/// The files are not at hand where the crate comes from a registry.
#[test]
fn messages_link_to_the_published_manual() {
    let sources = outside(outside(files("src", "rs"), "src/lib.rs"), "src/manual.rs");
    none_says(&sources, &["OPERATIONS.md", "README.md"], "messages name a manual::Section");
}

/// `docs/pictures.md` has the pictures of the README as text, for the crate's page.
#[cfg(unix)]
#[test]
fn the_published_page_has_the_pictures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = std::process::Command::new("bash").arg(root.join("scripts/pictures.sh")).output();
    let made = output.expect("there is bash").stdout;
    let made = String::from_utf8(made).expect("text");
    assert!(made == include_str!("../docs/pictures.md"), "scripts/pictures.sh >docs/pictures.md");
    for (path, _) in files("docs", "svg") {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let readme = include_str!("../README.md");
        assert!(readme.contains(&format!("][{name}]")), "the README does not show {name}");
        assert!(
            readme.contains(&format!("\n[{name}]: docs/{name}.svg\n")),
            "{name} is not defined"
        );
        assert!(made.contains(&format!("[{name}]: data:")), "{name}");
    }
}

/// What a line of code that begins with `#` hides from rustdoc's page it shows on every other one.
#[test]
fn the_readme_hides_no_lines() {
    let hidden = include_str!("../README.md")
        .lines()
        .find(|line| line.starts_with("# ") && line.ends_with([';', '}', '{', ')', ']']));
    assert_eq!(hidden, None);
}

/// No compiler sees the tests in an example of the documentation.
#[test]
fn the_unit_test_in_the_readme_is_one_that_runs() {
    let code = include_str!("embedded/readme.rs");
    assert!(include_str!("../README.md").contains(&format!("```rust,no_run\n{code}```\n")));
}

#[test]
fn files_stay_small() {
    for (path, text) in files("src", "rs") {
        let lines = text.lines().count();
        assert!(lines <= 400, "{} has {lines} lines: does it have one reason?", path.display());
    }
}

/// What each event says, and its level, as they stand in the source: the first literal with a blank in it.
fn events() -> Vec<(String, String)> {
    let lines = include_str!("../src/observe.rs").split("\\\n");
    let source: String = lines.map(str::trim_start).collect();
    let calls = source.split("tracing::").skip(1).filter_map(|call| call.split_once("!("));
    let event = |(level, call): (&str, &str)| {
        let text = call.split('"').skip(1).step_by(2).find(|literal| literal.trim().contains(' '));
        (level.to_uppercase(), text.expect("an event says something").to_owned())
    };
    calls.map(event).collect()
}

/// The table of events in `OPERATIONS.md` has all of them, each once and with its level.
#[test]
fn the_manual_lists_all_events() {
    let manual = include_str!("../OPERATIONS.md");
    let (_, table) = manual.split_once("| event | level |").expect("the table of events");
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| "));
    let rows: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split(" | ");
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
        })
        .collect();
    let events = events();
    assert!(events.len() > 20, "{events:?}");
    // The longest one that fits: an event may begin as another one does.
    let row_of = |text: &str| {
        let fitting = rows.iter().filter(|(event, _)| text.starts_with(event));
        fitting.max_by_key(|(event, _)| event.len())
    };
    for (level, text) in &events {
        let row = row_of(text).unwrap_or_else(|| panic!("OPERATIONS.md does not list \"{text}\""));
        assert_eq!(row.1, level, "{text}");
    }
    for row in &rows {
        let of_row = events.iter().filter(|(_, text)| row_of(text) == Some(row)).count();
        assert_eq!(of_row, 1, "one event is \"{}\"", row.0);
    }
}
