//! The program as users of `flock` call it.

use std::os::unix::fs::PermissionsExt;

use crate::program::{World, ends_with, printed, read, told};

#[test]
fn a_plain_number_is_seconds() {
    let world = World::new();
    let (held, _) = world.hold(&["--ttl", "5", "--grace", "0.5", "job"]);
    assert!(world.servers[0].pttl("quorlock:job") <= 5_000);
    for wait in ["0", "2.5", "3"] {
        let options = ["run", "--node-timeout", "5", "-w", wait, "job", "--", "true"];
        ends_with(&world.output(&options), 120);
    }
    held.signal("TERM");
    held.end();
    let times = ["--wait", "5", "--ttl", "5", "--min-hold", "0.1", "--max-hold", "60"];
    let of_set = ["--node-timeout", "1", "--no-quorum-timeout", "5.5", "--clock-tolerance", "0.1"];
    let output = world.output(&[&["run"], &times[..], &of_set, &["job", "--", "true"]].concat());
    ends_with(&output, 0);
    ends_with(&world.output(&["list", "--within", "5", "--max-ttl", "10"]), 0);
    let output = world.output(&["run", "--wait", "5x", "job", "--", "true"]);
    ends_with(&output, 125);
    assert!(told(&output).contains("a number of seconds, such as 5 or 0.5"), "{}", told(&output));
}

#[test]
fn a_line_is_run_by_the_shell() {
    let world = World::new();
    let run = |options: &[&str], shell: Option<&str>| {
        let mut program = world.program(&[&["run"], options].concat());
        match shell {
            Some(shell) => program.env("SHELL", shell),
            None => program.env_remove("SHELL"),
        };
        program.output().expect("it starts")
    };
    let line = "echo $QUORLOCK_NAME; echo hi | tr h H; exit 3";
    for options in [&["job", "-c", line][..], &["-c", line, "job"], &["job", "--command", line]] {
        let output = run(options, None);
        ends_with(&output, 3);
        assert_eq!(printed(&output), "job\nHi\n", "{options:?}");
    }
    let shell = world.folder.write("shell", "#!/bin/sh\necho \"$1 $2\" > given\n");
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).expect("it is ours");
    ends_with(&run(&["job", "-c", "a line"], shell.to_str()), 0);
    assert_eq!(read(&world.folder.path("given")), "-c a line\n");
    ends_with(&run(&["job", "-c", line, "echo"], None), 125);
    ends_with(&run(&["job"], None), 125);
    let output = run(&["job", "--", "echo hi; date"], None);
    ends_with(&output, 127);
    let hint =
        "there is no command \"echo hi; date\"; to run a shell line, use -c LINE or sh -c LINE";
    assert!(told(&output).contains(hint), "{}", told(&output));
    let output = run(&["job", "--", "no-such-command", "a"], None);
    assert!(!told(&output).contains("sh -c"), "{}", told(&output));
}

#[test]
fn locks_are_shared_or_exclusive_by_the_same_letters() {
    let world = World::new();
    let code = |options: &[&str]| {
        let patient = ["--node-timeout", "5s", "config", "--", "true"];
        let output = world.output(&[&["run"], options, &patient].concat());
        output.status.code().expect("a code")
    };
    let _shared = world.hold(&["-s", "config"]);
    let nonblock = ["-n", "--nonblock", "--nb", "--no-wait"];
    assert_eq!(nonblock.map(|nonblock| code(&[nonblock, "-s"])), [0; 4]);
    assert_eq!(nonblock.map(|nonblock| code(&[nonblock, "--shared", "-o"])), [0; 4]);
    let exclusive = ["-x", "-e", "--exclusive", "-xo"];
    assert_eq!(exclusive.map(|exclusive| code(&["-w0", exclusive])), [120; 4]);
    for wrong in [&["-s", "-x"][..], &["-s", "--kind", "fair"], &["-x", "--kind", "read"]] {
        assert_eq!(code(wrong), 125, "{wrong:?}");
    }
}

#[test]
fn an_option_that_means_something_else_here_is_refused_with_what_to_write() {
    let world = World::new();
    for (options, says) in [
        (&["-F"][..], "-F (--no-fork) is not possible"),
        (&["--no-fork", "-n"], "leave it out"),
        (&["-u"], "quorlock unlock --force NAME"),
        (&["--timeout", "5"], "write --wait TIME"),
        (&["--timeout=5"], "--max-hold TIME"),
    ] {
        let output = world.output(&[&["run"], options, &["job", "--", "echo", "never"]].concat());
        ends_with(&output, 125);
        assert!(told(&output).contains(says), "{options:?}: {}", told(&output));
        assert_eq!(printed(&output), "");
    }
}

/// Some programs have options of several letters with one dash. `-shell` would be read as `-s -h ..`, which asks for help.
#[test]
fn a_word_with_one_dash_runs_nothing_and_is_told_with_what_to_write() {
    let world = World::new();
    for (option, says) in [
        ("-shell=false", "write --shell=false"),
        ("-http-addr", "write --http-addr"),
        ("-timeout", "write --timeout"),
    ] {
        let output = world.output(&["run", option, "job", "--", "echo", "never"]);
        ends_with(&output, 125);
        assert!(told(&output).contains(says), "{}", told(&output));
        assert_eq!(printed(&output), "");
    }
    let output = world.output(&["run", "--wait", "5", "-shell=false", "job", "--", "echo", "no"]);
    ends_with(&output, 125);
    assert_eq!(printed(&output), "");
    // Another error has its own message.
    let output = world.output(&["run", "-nsx", "job", "--", "true"]);
    ends_with(&output, 125);
    assert!(!told(&output).contains("one dash"), "{}", told(&output));
    let output = world.output(&["run", "-h"]);
    ends_with(&output, 0);
    assert!(printed(&output).contains("Usage"));
    // The options behind the command's name are its own.
    ends_with(&world.output(&["run", "-n", "job", "test", "-nosuchtest", "x"]), 2);
}
