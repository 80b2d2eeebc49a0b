//! The messages to a user about the wait for a lock: on a terminal, in a pipe, and under cron.

use std::process::Command;
use std::time::Instant;

use crate::program::{LIMIT, Running, World, read};
use crate::support::wait_until;
use crate::terminal::on_terminal;

/// Returns the lines that a terminal shows at the end of that output, without empty ones.
fn screen(output: &str) -> Vec<String> {
    let mut lines = vec![Vec::new()];
    let mut column = 0;
    for character in output.chars() {
        let line = lines.last_mut().expect("one at least");
        match character {
            '\r' => column = 0,
            '\n' => lines.push(Vec::new()),
            _ => {
                line.resize(line.len().max(column + 1), ' ');
                line[column] = character;
                column += 1;
            }
        }
    }
    let lines = lines.into_iter().map(|line| line.iter().collect::<String>().trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_screen_is_read() {
    assert_eq!(screen("\rlong\r\rab  \r"), ["ab"]);
    assert_eq!(screen("\rline\r\r    \rnext\r\nlast\r\n"), ["next", "last"]);
}

/// Returns the lines that were written one over the other.
fn shown(world: &World) -> Vec<String> {
    let output = read(&world.folder.path("shown"));
    let lines = output.split('\r').map(|line| line.trim_end().to_owned());
    lines.filter(|line| line.starts_with("quorlock: waiting for ")).collect()
}

/// Returns the owner's label: the host's name and a process id.
fn label(world: &World) -> String {
    let owner = world.servers[0].get("quorlock:job").expect("it is held");
    owner.rsplit_once('#').map_or("", |(label, _)| label).to_owned()
}

/// The wait is that of the first command in the README, on masters that have just been started.
#[test]
fn on_a_terminal_the_wait_for_new_masters_is_counted_down() {
    let world = World::of_new_masters();
    let begun = Instant::now();
    let Some((running, _typed)) = on_terminal(&world, "quorlock run job -- echo ours") else {
        return;
    };
    assert_eq!(running.end().0, Some(0));
    let seconds = begun.elapsed().as_secs() as usize;
    let lines = shown(&world);
    let left = lines.iter().filter_map(|line| {
        let left = line.strip_prefix(
            "quorlock: waiting for \"job\": new or restarted masters grant locks in ",
        );
        left?.strip_suffix(" s")?.parse::<u64>().ok()
    });
    let left: Vec<_> = left.collect();
    assert!(left.len() >= 3 && left.len() <= seconds, "in {seconds} s: {lines:?}");
    assert!(left[0] <= 11 && left.is_sorted_by(|a, b| a >= b), "{left:?}");
    assert!(left.last() < left.first(), "{left:?}");
    let output = read(&world.folder.path("shown"));
    assert_eq!(screen(&output), ["ours"], "the line is gone: {output:?}");
}

/// Starts `quorlock run job -- echo ours` as cron does.
fn under_cron(world: &World) -> Running {
    let mut cron = Command::new("setsid");
    let line = format!("{} run job -- echo ours", env!("CARGO_BIN_EXE_quorlock"));
    let nodes = format!("QUORLOCK_NODES={}", world.servers.urls().join(","));
    let environment = ["HOME=/", "LOGNAME=root", "SHELL=/bin/sh", "PATH=/usr/bin:/bin", &nodes];
    cron.args(["--wait", "env", "-i"]).args(environment).args(["/bin/sh", "-c", &line]);
    Running::new(cron.stdin(std::process::Stdio::null()))
}

#[test]
fn on_a_terminal_the_holder_is_named_and_under_cron_nothing_is_told() {
    let world = World::new();
    let (held, _) = world.hold(&["job"]);
    let cron = under_cron(&world);
    let pipe = world.start(&["run", "job", "--", "echo", "ours"]);
    // Time for the masters to name the holder, on a busy machine as well.
    let patient = "quorlock run --node-timeout 4s job -- echo ours";
    let Some((running, _typed)) = on_terminal(&world, patient) else { return };
    // The second of each line, and true if it names the holder.
    let held_by = format!(": held by \"{}\"", label(&world));
    let told = |line: &String| {
        let (second, rest) =
            line.strip_prefix("quorlock: waiting for \"job\" for ")?.split_once(" s")?;
        let is_named = rest == held_by;
        (is_named || rest.is_empty()).then_some((second.parse::<u64>().ok()?, is_named))
    };
    wait_until("the holder is named after four seconds", LIMIT, || {
        shown(&world).iter().filter_map(told).any(|(second, is_named)| second >= 4 && is_named)
    });
    let lines = shown(&world);
    let all: Option<Vec<_>> = lines.iter().map(told).collect();
    let all = all.unwrap_or_else(|| panic!("{lines:?}"));
    assert!(all.is_sorted_by_key(|(second, _)| *second), "{lines:?}");
    let first = all.iter().position(|(_, is_named)| *is_named).expect("it is named");
    assert!(all[first..].iter().all(|(_, is_named)| *is_named), "{lines:?}");
    // The line is written once a second, and once more for each answer of the masters: after 1 s, and after 3 s.
    let last = all.last().expect("there are some").0;
    assert!(all.len() as u64 <= last + 2, "{lines:?}");
    held.signal("TERM");
    held.end();
    assert_eq!(running.end().0, Some(0));
    assert_eq!(screen(&read(&world.folder.path("shown"))), ["ours"]);
    for silent in [cron, pipe] {
        assert_eq!(silent.end(), (Some(0), "ours\n".to_owned(), String::new()));
    }
}

#[test]
fn an_interrupt_takes_the_line_away() {
    use std::io::Write;
    let world = World::new();
    let _held = world.hold(&["job"]);
    let Some((running, mut typed)) = on_terminal(&world, "quorlock run job -- echo never") else {
        return;
    };
    wait_until("the line is there", LIMIT, || !shown(&world).is_empty());
    typed.write_all(b"\x03").expect("a terminal");
    assert_eq!(running.end().0, Some(130));
    let screen = screen(&read(&world.folder.path("shown")));
    let told = "quorlock: SIGINT came while it waited for the lock";
    assert!(screen.iter().any(|line| line == told), "{screen:?}");
    assert!(!screen.iter().any(|line| line.contains("waiting for")), "{screen:?}");
}

/// The shell writes its prompt on the terminal.
#[test]
fn a_job_in_the_background_writes_no_line_on_the_terminal() {
    let world = World::new();
    let (held, _) = world.hold(&["job"]);
    let line = "bash --norc -ic 'set -m; quorlock run job -- true & \
                quorlock run -v job -- true 2> told; wait; echo over'";
    let Some((running, _typed)) = on_terminal(&world, line) else { return };
    let told = || read(&world.folder.path("told"));
    wait_until("the other one tells what it waits for", LIMIT, || told().contains("held by"));
    held.signal("TERM");
    held.end();
    assert_eq!(running.end().0, Some(0));
    assert_eq!(shown(&world), Vec::<String>::new());
}

#[test]
fn a_log_gets_a_line_for_each_change_if_the_user_wants_it() {
    const LONG: [&str; 4] = ["--max-ttl", "5m", "--ttl", "5m"];
    let mut world = World::with(&LONG[..2]);
    let (held, _) = world.hold(&[&LONG[..], &["job"]].concat());
    // A master that is late on a busy machine is no outage.
    let options = [&["run", "-v", "--node-timeout", "2s"], &LONG[..], &["job", "--", "true"]];
    let mut program = world.program(&options.concat());
    let told = std::fs::File::create(world.folder.path("told")).expect("there is room");
    let mut running =
        crate::support::reaper::Process::spawn(program.stderr(told)).expect("it starts");
    let holder = format!("held by \"{}\"", label(&world));
    let count = |words: &str| read(&world.folder.path("told")).matches(words).count();
    wait_until("the holder is named", LIMIT, || count(&holder) == 1);
    (0..2).for_each(|i| world.servers[i].pause());
    let outage = "2 of 3 masters cannot be used: ";
    wait_until("the outage is told", LIMIT, || count(outage) == 1);
    (0..2).for_each(|i| world.servers[i].resume());
    wait_until("the holder is named again", LIMIT, || count(&holder) == 2);
    held.signal("TERM");
    held.end();
    assert!(running.wait().expect("it is ours").success());
    assert_eq!(count("\"job\" is granted, after "), 1);
    let all = read(&world.folder.path("told"));
    // There may be one more line before anything is known, and one when the masters are back.
    assert!((4..=7).contains(&all.lines().count()), "{all}");
    assert!(!all.contains('\r'), "{all}");
}
