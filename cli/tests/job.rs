//! The command's input and environment, and the exit code that its end leads to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use crate::program::{World, ends_with, is_ignored, printed, program, read, runs, send, told};

/// A shell ends its loop if SIGINT has ended a command, but not if a command has that exit code. A service that SIGTERM has ended
/// has not failed.
#[test]
fn an_exit_code_like_that_of_an_interrupt_is_no_interrupt() {
    let world = World::new();
    let status = |command: &str| world.output(&["run", "job", "--", "sh", "-c", command]).status;
    let signals = [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)];
    for (name, number) in signals.into_iter().filter(|(_, number)| !is_ignored(*number)) {
        let code = status(&format!("exit {}", 128 + number));
        assert_eq!((code.code(), code.signal()), (Some(128 + number), None));
        let signal = status(&format!("kill -{name} $$"));
        assert_eq!((signal.code(), signal.signal()), (None, Some(number)));
        assert!(!signal.core_dumped());
    }
}

#[test]
fn the_exit_code_and_the_signal_of_the_command_are_passed_on() {
    let world = World::new();
    ends_with(&world.output(&["run", "job", "--", "true"]), 0);
    ends_with(&world.output(&["run", "job", "sh", "-c", "exit 7"]), 7);
    ends_with(&world.output(&["run", "job", "--", "sh", "-c", "kill -KILL $$"]), 128 + 9);
    ends_with(&world.output(&["run", "job", "--", "sh", "-c", "kill -40 $$"]), 128 + 40);
    world.servers.wait_no_keys();
}

#[test]
fn the_command_knows_the_name_and_the_token_and_reads_standard_input() {
    let world = World::new();
    let print = ["--", "sh", "-c", "echo $QUORLOCK_NAME ${QUORLOCK_TOKEN-none}; cat"];
    let input = world.folder.write("input", "read\n");
    let run = |options: &[&str]| {
        let mut program = world.program(&[&["run"], options, &print].concat());
        let input = std::fs::File::open(&input).expect("it is there");
        let output = program.stdin(input).env("QUORLOCK_TOKEN", "0").output().expect("it starts");
        ends_with(&output, 0);
        printed(&output)
    };
    let tokens: Vec<u64> = (0..2)
        .map(|_| {
            let text = run(&["the job"]);
            let token =
                text.strip_prefix("the job ").and_then(|text| text.strip_suffix("\nread\n"));
            token.and_then(|token| token.parse().ok()).unwrap_or_else(|| panic!("{text}"))
        })
        .collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    assert_eq!(run(&["--kind", "semaphore", "--permits", "2", "calls"]), "calls none\nread\n");
}

#[test]
fn a_command_that_cannot_be_run_takes_no_lock() {
    let world = World::new();
    let kept = |command: &str| world.output(&["run", "--min-hold", "1h", "job", "--", command]);
    let output = kept("no-such-command");
    ends_with(&output, 127);
    assert_eq!(told(&output), "quorlock: there is no command \"no-such-command\"\n");
    ends_with(&kept("./no-such-file"), 127);
    world.folder.write("text", "no program");
    let output = kept("./text");
    ends_with(&output, 126);
    let words = "\"./text\" cannot be run: permission denied";
    assert!(told(&output).contains(words), "{}", told(&output));
    ends_with(&kept("/"), 126);
    // An editor has ended the lines as Windows does.
    let script = world.folder.write("script", "#!/bin/sh\r\ntrue\r\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let output = kept("./script");
    ends_with(&output, 127);
    assert_eq!(
        told(&output),
        "quorlock: \"./script\" is a script for \"/bin/sh\\r\", which does not exist\n"
    );
    // A call with a `--grace` that its TTL does not allow takes no lock either.
    let options = ["run", "--min-hold", "1h", "--grace", "9s", "job", "--", "true"];
    ends_with(&world.output(&options), 125);
    ends_with(&world.output(&["run", "-n", "job", "--", "true"]), 0);
}

#[test]
fn signals_go_to_the_command_and_it_says_how_it_ends() {
    let world = World::new();
    let script = "trap 'exit 9' TERM; trap 'echo usr1 > got' USR1; echo $$ > pid; while :; do sleep 0.05; done";
    let (running, command) = world.hold_by(&["job", "--", "sh", "-c", script]);
    running.signal("USR1");
    assert_eq!(world.folder.line("got"), "usr1");
    assert!(runs(command));
    running.signal("TERM");
    assert_eq!(running.end().0, Some(9));
    world.servers.wait_no_keys();
}

/// Exceptions are the signals of the job's own suspension, and those of a fault of the program itself.
#[test]
fn all_signals_go_to_the_command() {
    let world = World::new();
    let names = "HUP INT QUIT USR1 USR2 ALRM VTALRM PROF WINCH URG IO XCPU PWR";
    let script = format!(
        "for name in {names}; do trap \"echo $name > got-$name\" $name; done; trap 'exit 9' TERM; echo $$ > pid; \
         while :; do sleep 0.05; done"
    );
    let (running, command) = world.hold_by(&["job", "--", "sh", "-c", &script]);
    let is_heard = |name: &&str| {
        let number = [("HUP", 1), ("INT", 2), ("QUIT", 3)].into_iter().find(|it| it.0 == *name);
        number.is_none_or(|(_, number)| !is_ignored(number))
    };
    for name in names.split(' ').filter(is_heard) {
        running.signal(name);
        assert_eq!(world.folder.line(&format!("got-{name}")), name);
    }
    assert!(runs(command));
    // A signal with a number and no name.
    running.signal("40");
    assert_eq!(running.end().0, Some(9));
    world.servers.wait_no_keys();
}

#[test]
fn a_command_that_is_suspended_hears_that_it_is_to_end() {
    let world = World::new();
    let (running, command) = world.hold(&["job"]);
    send("STOP", command);
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
    world.servers.wait_no_keys();
}

/// `nohup` is an example.
#[test]
fn what_was_ignored_before_is_ignored_by_the_command_as_well() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_quorlock");
    let command = format!(
        "trap '' HUP; exec {program} run job -- sh -c 'echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; exit 3'"
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &command]).current_dir(world.folder.path(""));
    shell.env("QUORLOCK_NODES", world.servers.urls().join(","));
    let running = crate::program::Running::new(&mut shell);
    let id: u32 = world.folder.line("pid").parse().expect("a process id");
    running.signal("HUP");
    send("HUP", id);
    world.folder.write("go", "");
    assert_eq!(running.end().0, Some(3));
}

#[test]
fn of_the_hosts_that_start_a_job_one_does_it() {
    let world = World::new();
    // Ten programs that start at once keep a small machine busy.
    let options = ["run", "--no-wait", "--node-timeout", "5s", "--min-hold", "5m", "nightly"];
    let options = [&options[..], &["--", "sh", "-c", "echo done >> done"]].concat();
    let hosts: Vec<_> = (0..10).map(|_| world.start(&options)).collect();
    let mut codes: Vec<_> = hosts.into_iter().map(|host| host.end()).collect();
    codes.sort();
    let nothing = || (String::new(), String::new());
    let (done, others) = codes.split_first().expect("ten");
    assert_eq!((done.0, &done.2), (Some(0), &String::new()), "cron sends no mail");
    assert!(others.iter().all(|(code, printed, told)| {
        (*code, (printed.clone(), told.clone())) == (Some(120), nothing())
    }));
    assert_eq!(read(&world.folder.path("done")), "done\n");
    ends_with(&world.output(&options), 120);
}

#[test]
fn each_kind_lets_in_whom_it_lets_in() {
    let world = World::new();
    let once = |options: &[&str]| {
        let output = world.output(&[&["run", "-n"], options, &["--", "true"]].concat());
        output.status.code().expect("a code")
    };
    let (read, write) = (["--kind", "read", "config"], ["--kind", "write", "config"]);
    let held = world.hold(&read);
    assert_eq!([once(&read), once(&write), once(&["config"])], [0, 120, 120]);
    drop(held);
    let permits = ["--kind", "semaphore", "--permits", "2", "calls"];
    let held = world.hold(&permits);
    assert_eq!(once(&permits), 0);
    let second = world
        .start(&[&["run"], &permits[..], &["--", "sh", "-c", "echo > second; sleep 600"]].concat());
    world.folder.line("second");
    assert_eq!(once(&permits), 120);
    drop((held, second));
    let _held = world.hold(&["--kind", "fair", "printer"]);
    assert_eq!(once(&["--kind", "fair", "printer"]), 120);
    assert_eq!(once(&["--kind", "semaphore", "calls"]), 125, "--permits is missing");
}

#[test]
fn several_names_are_taken_together_or_not_at_all() {
    let world = World::new();
    let script = "echo $QUORLOCK_NAME > name; echo $$ > pid; exec sleep 600";
    let names = ["--also", "b", "--also", "c", "a"];
    let (held, _) = world.hold_by(&[&names[..], &["--", "sh", "-c", script]].concat());
    assert_eq!(world.folder.line("name"), "a");
    let code = |options: &[&str]| {
        let patient = ["run", "-n", "--node-timeout", "5s"];
        let output = world.output(&[&patient, options, &["--", "true"]].concat());
        output.status.code()
    };
    for name in ["a", "b", "c"] {
        assert_eq!(code(&[name]), Some(120), "{name}");
    }
    assert_eq!(code(&["--also", "c", "d"]), Some(120));
    assert_eq!(code(&["d"]), Some(0), "it was not taken without the other one");
    ends_with(&world.output(&["unlock", "--force", "b"]), 0);
    let (ended, _, told) = held.end();
    assert_eq!(ended, Some(123), "{told}");
    assert!(told.contains("\"a\", \"b\" and \"c\" is lost: "), "{told}");
    world.servers.wait_no_keys();
    assert_eq!(code(&["--kind", "write", "--also", "b", "a"]), Some(125));
    let many: Vec<_> = (0..16).map(|i| format!("--also={i}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).chain(["a"]).collect();
    assert_eq!(code(&many), Some(125), "17 names");
}

#[test]
fn help_and_the_version_are_no_errors() {
    for (options, says) in [
        (&["--help"][..], "run"),
        (&["run", "--help"], "Exit codes:"),
        (&["--version"], "quorlock 0"),
    ] {
        let output = program().args(options).output().expect("it starts");
        ends_with(&output, 0);
        assert!(printed(&output).contains(says), "{}", printed(&output));
        assert_eq!(told(&output), "");
    }
    ends_with(&program().output().expect("it starts"), 125);
}

#[test]
fn completions_and_manual_pages_know_the_options() {
    let print = |options: &[&str]| {
        let output = program().args(options).output().expect("it starts");
        ends_with(&output, 0);
        printed(&output)
    };
    for shell in ["bash", "zsh", "fish"] {
        let text = print(&["completions", shell]);
        assert!(text.contains("conflict-exit-code") && !text.contains("lock-watchdog"), "{text}");
    }
    assert!(print(&["man"]).contains("quorlock\\-run(1)") || print(&["man"]).contains("run"));
    let page = print(&["man", "run"]);
    assert!(page.contains(".TH quorlock-run 1") && page.contains("min\\-hold"), "{page}");
    ends_with(&program().args(["man", "watchdog"]).output().expect("it starts"), 125);
}
