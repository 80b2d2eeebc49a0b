//! The commands in the documentation have the documented effects.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::program::{World, printed, program, told};

const PAGES: [&str; 3] = [
    include_str!("../../README.md"),
    include_str!("../../docs/guide.md"),
    include_str!("../../docs/program.md"),
];

/// Pages that name commands and options of the program in their sentences.
const MANUAL: [&str; 6] = [
    PAGES[0],
    PAGES[1],
    PAGES[2],
    include_str!("../../OPERATIONS.md"),
    include_str!("../../docs/defaults.md"),
    include_str!("../../docs/errors.md"),
];

/// The scripts that the commands run.
const SCRIPTS: [&str; 5] = ["deploy.sh", "report.sh", "sync", "stop", "migrate"];

/// Returns the shell lines of a page that begin with the program's name.
fn commands(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter(|line| line.starts_with("quorlock "))
}

#[test]
fn each_command_of_the_pages_works() {
    let world = World::new();
    let folder = world.folder.path("");
    symlink(env!("CARGO_BIN_EXE_quorlock"), folder.join("quorlock")).expect("a link");
    for script in SCRIPTS {
        let path = world.folder.write(script, &format!("#!/bin/sh\necho {script} >> ran\n"));
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
    }
    // Enough time on a busy machine.
    let settings = world.folder.write("quorlock.toml", "node_timeout = \"4s\"\n");
    let path = std::env::var("PATH").expect("there is one");
    let mut count = 0;
    for line in PAGES.into_iter().flat_map(commands) {
        count += 1;
        // These run for a long time, and have tests of their own.
        let long = ["quorlock bench", "quorlock demo", "quorlock elect", "quorlock top"];
        let long = long.into_iter().find(|it| line.starts_with(it));
        let line = long.map_or(line.to_owned(), |it| line.replacen(it, &format!("{it} --help"), 1));
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(&folder);
        shell.env("PATH", format!("{}:{path}", folder.display()));
        shell.env("QUORLOCK_NODES", world.servers.urls().join(","));
        shell.env("QUORLOCK_CONFIG", &settings);
        let output = shell.output().expect("there is a shell");
        let code = output.status.code();
        // The doctor's exit code depends on its findings, and the election has no leader.
        let is_fine = code == Some(0)
            || line.starts_with("quorlock doctor") && code <= Some(2)
            || line.starts_with("quorlock leader") && code == Some(1);
        assert!(is_fine, "{line}: {code:?}\n{}{}", printed(&output), told(&output));
    }
    assert!(count > 10, "{count} commands");
    let ran = fs::read_to_string(world.folder.path("ran")).expect("they ran");
    let each = SCRIPTS.iter().all(|script| ran.lines().any(|line| line == *script));
    assert!(each, "{ran}");
}

/// Returns the texts between backticks outside of blocks of code.
fn inline(page: &str) -> impl Iterator<Item = &str> {
    let prose = page.split("```").step_by(2);
    prose.flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// With `--help` a command is parsed and does nothing.
#[test]
fn each_command_in_the_sentences_of_the_pages_exists() {
    let mut count = 0;
    for text in MANUAL.into_iter().flat_map(inline) {
        let Some(words) = text.strip_prefix("quorlock ") else { continue };
        count += 1;
        let words = words.replace(['[', ']', '\''], "").replace(" -- ", " --help -- ");
        let mut command = program();
        command.args(words.split(' '));
        if !words.contains("--help") && !words.starts_with("help ") {
            command.arg("--help");
        }
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{text}: {}", told(&output));
    }
    assert!(count > 30, "{count} commands");
}

#[test]
fn each_option_in_the_sentences_of_the_pages_exists() {
    let help = |words: &[&str]| {
        let output = program().args(words).output().expect("it starts");
        assert!(output.status.success(), "{words:?}: {}", told(&output));
        printed(&output)
    };
    let commands = [
        "run", "elect", "leader", "status", "list", "top", "unlock", "admit", "doctor", "bench",
        "demo",
    ];
    let help: String = commands.into_iter().map(|command| help(&["help", command])).collect();
    let is_known =
        |option: &str| help.split([' ', ',', '\n', '=', '[', ']']).any(|word| word == option);
    let mut count = 0;
    for option in MANUAL.into_iter().flat_map(inline).filter(|text| text.starts_with("--")) {
        count += 1;
        let name = option.split([' ', '=']).next().unwrap_or_default();
        assert!(is_known(name), "{option}");
    }
    assert!(count > 30, "{count} options");
    assert!(!is_known("--no-such-option"));
}
