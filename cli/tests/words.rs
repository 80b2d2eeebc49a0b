//! The program's messages name its own options, commands and pages, not the library's calls.

use std::process::Output;

use crate::program::{Folder, World, ends_with, printed, program, told};
use crate::support::Servers;

/// Checks for words that users of the program do not know.
#[track_caller]
fn speaks_of_the_program(text: &str) {
    for word in ["Quorlock", "::", "docs.rs", "restart_quarantine", "try_lock", "builder"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

fn run_on(servers: &Servers, options: &[&str]) -> Output {
    let mut program = program();
    program.env("QUORLOCK_NODES", servers.urls().join(","));
    program.args(["run", "-n", "--node-timeout", "2s"]).args(options).args(["job", "--", "true"]);
    program.output().expect("the program starts")
}

#[test]
fn the_quarantine_is_told_with_what_the_program_has_against_it() {
    let (servers, folder) = (Servers::start(3), Folder::new());
    let output = run_on(&servers, &[]);
    ends_with(&output, 122);
    let text = told(&output);
    for words in [
        "(--max-ttl is 10 s)",
        "`quorlock admit --force` ends it at once",
        "there is --no-quarantine: ",
        "See \"The first seconds\" in `quorlock man operations`",
    ] {
        assert!(text.contains(words), "no {words}: {text}");
    }
    speaks_of_the_program(&text);
    assert!(!text.contains("max_ttl"), "{text}");
    // A setting in the file has the file's name, and a setting that an option overrides has the option's name.
    let file = folder.write("settings.toml", "max_ttl = \"10s\"\nrestart_quarantine = true\n");
    let by_file = ["--config", file.to_str().expect("text")];
    let text = told(&run_on(&servers, &by_file));
    assert!(text.contains("(max_ttl is 10 s)"), "{text}");
    assert!(text.contains("there is restart_quarantine = false: "), "{text}");
    let text = told(&run_on(&servers, &[&by_file[..], &["--max-ttl", "10s"]].concat()));
    assert!(text.contains("(--max-ttl is 10 s)"), "{text}");
}

#[test]
fn what_clients_disagree_on_is_told_by_options_and_by_a_page_that_the_program_has() {
    let world = World::new();
    let said = |options: &[&str]| {
        let output = run_on(&world.servers, options);
        ends_with(&output, 125);
        let text = told(&output);
        speaks_of_the_program(&text);
        text
    };
    let text = said(&["--max-ttl", "20s"]);
    assert!(text.contains("--max-ttl is 20 s here and 10 s there"), "{text}");
    assert!(text.contains("\"Another max_ttl\" in `quorlock man operations`"), "{text}");
    let text = said(&["--no-quarantine"]);
    assert!(text.contains("the quarantine (--no-quarantine) is off here and on there"), "{text}");
    let text = said(&["--clock-tolerance", "1ms"]);
    assert!(text.contains("--clock-tolerance is 1 ms; it must be"), "{text}");
    let text = said(&["--ttl", "1m"]);
    assert!(text.contains("--max-ttl is 10 s (the default): no lock may live longer"), "{text}");
    let text = said(&["--max-hold", "1ms"]);
    assert!(text.contains("--max-hold is 1 ms; it must be at least the --node-timeout"), "{text}");
    // A reference to a page that does not exist would be of no use.
    let output = program().args(["man", "operations"]).output().expect("it starts");
    ends_with(&output, 0);
    let page = printed(&output);
    for section in ["The first seconds", "Access lists", "Another `max_ttl`", "Names of settings"] {
        assert!(page.contains(&format!("\n## {section}\n")), "no {section}");
    }
    assert!(page.contains("quorlock admit --force"));
    let link = page.lines().find(|line| line.contains("](") || line.contains("crate::"));
    assert_eq!(link, None);
}

/// Commands that take no lock have no option for a TTL.
#[test]
fn a_short_longest_ttl_needs_no_other_setting() {
    let world = World::new();
    for command in ["status", "unlock", "list", "doctor"] {
        let mut options = vec![command, "--max-ttl", "5s", "--set-name", "another"];
        options.extend((command == "unlock").then_some("--force"));
        options.extend(["status", "unlock"].contains(&command).then_some("job"));
        let output = world.output(&options);
        let text = told(&output) + &printed(&output);
        assert!(text.contains("the name of the set is another here"), "{command}: {text}");
    }
}
