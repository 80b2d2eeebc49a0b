//! The masters and the settings: by options, the environment, and a file.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::{Folder, World, ends_with, printed, program, told};
use crate::support::authority::Authority;
use crate::support::{Server, Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

/// The command runs for each master, with its URL, and comes before the password of the file.
#[test]
fn a_command_prints_the_password() {
    let servers = Servers::start_with(3, &["--requirepass", "s3cret"]);
    let folder = Folder::new();
    let log = folder.write("asked", "");
    // Time for the masters' answers on a busy machine.
    let text = "password = \"wr0ng\"\nrestart_quarantine = false\nnode_timeout = \"5s\"\n";
    let file = folder.write("quorlock.toml", text);
    let command = format!("echo $QUORLOCK_NODE >>{}; echo s3cret", log.display());
    let run = |option: Option<&str>, environment: Option<&str>| {
        let mut program = program();
        program.arg("run").arg("--config").arg(&file).args(["-n", "job"]);
        program.args(option.into_iter().flat_map(|command| ["--password-command", command]));
        if let Some(command) = environment {
            program.env("QUORLOCK_PASSWORD_COMMAND", command);
        }
        program.env("QUORLOCK_NODES", servers.urls().join(",")).args(["--", "true"]);
        program.output().expect("it starts")
    };
    ends_with(&run(Some(&command), Some("false")), 0);
    let asked = std::fs::read_to_string(&log).expect("the command has written it");
    for url in servers.urls() {
        assert!(asked.lines().any(|line| line == url), "{url} in {asked}");
    }
    ends_with(&run(None, Some(&command)), 0);
    let failed = run(Some("echo s3cret; exit 3"), None);
    let told = told(&failed);
    assert!(told.contains("password command failed") && !told.contains("s3cret"), "{told}");
}

/// Calls that do not wait for a lock would fail otherwise: the command takes longer than `--node-timeout`.
#[test]
fn a_slow_password_command_is_waited_for() {
    let servers = Servers::start_with(3, &["--requirepass", "s3cret"]);
    let command = "sleep 2; echo s3cret";
    let run = |arguments: &[&str], rest: &[&str]| {
        let mut program = program();
        let always = ["--password-command", command, "--node-timeout", "1s", "--no-quarantine"];
        program.args(arguments).args(always).args(rest);
        program.env("QUORLOCK_NODES", servers.urls().join(",")).output().expect("it starts")
    };
    ends_with(&run(&["run", "-n", "job"], &["--", "true"]), 0);
    for call in [&["status", "job"][..], &["list"], &["unlock", "job", "--force"]] {
        let output = run(call, &[]);
        assert!(output.status.success(), "{call:?}: {}", told(&output));
    }
    let found = printed(&run(&["doctor"], &[]));
    assert!(!found.contains("credentials"), "{found}");
}

/// The time limit of a command belongs to a program that runs. A program that has ended leaves nothing behind.
#[test]
fn a_password_command_that_hangs_ends_with_the_program() {
    let servers = Servers::start_with(1, &["--requirepass", "s3cret"]);
    let folder = Folder::new();
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let pid = folder.write("pid", "");
        let command = format!("sleep 300 & echo $! >{}; wait", pid.display());
        let mut program = program();
        program.args(["list", "--password-command", &command]);
        let mut child =
            program.env("QUORLOCK_NODES", servers.urls().join(",")).spawn().expect("it starts");
        let mut sleeper = None;
        wait_until("the command runs", LIMIT, || {
            let text = std::fs::read_to_string(&pid).expect("the file is there");
            sleeper = text.trim().parse::<i32>().ok();
            sleeper.is_some()
        });
        if let Some(signal) = signal {
            let id = i32::try_from(child.id()).expect("a process id");
            kill(Pid::from_raw(id), signal).expect("it runs");
        }
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), signal.map(|it| it as i32), "{status:?}");
        let sleeper = Pid::from_raw(sleeper.expect("its id"));
        wait_until("the command has ended", LIMIT, || is_gone(sleeper));
    }
}

/// A killed process may be left as a zombie where nobody reaps orphans.
fn is_gone(process: Pid) -> bool {
    match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => {
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
        }
        Err(_) => kill(process, None).is_err(),
    }
}

#[test]
fn options_come_before_the_environment_and_that_before_the_file() {
    let world = World::new();
    let urls = world.servers.urls();
    let run = |options: &[&str], environment: Option<&str>| {
        let mut program = program();
        program.arg("run").args(options).args(["-n", "job", "--", "true"]);
        if let Some(nodes) = environment {
            program.env("QUORLOCK_NODES", nodes);
        }
        program.output().expect("it starts").status.code()
    };
    let nodes = |urls: &[String]| format!("nodes = {urls:?}\nnode_timeout = \"5s\"\n");
    let [right, wrong] =
        [("right", nodes(&urls)), ("wrong", nodes(&["redis://127.0.0.1:1".to_owned()]))]
            .map(|(name, text)| world.folder.write(name, &text).to_str().expect("text").to_owned());
    assert_eq!(run(&["--config", &right], None), Some(0));
    assert_eq!(run(&["--config", &wrong], None), Some(121));
    assert_eq!(run(&["--config", &wrong], Some(&urls.join(","))), Some(0));
    let by_options: Vec<_> = urls.iter().flat_map(|url| ["--node", url]).collect();
    let all = [&["--config", &wrong][..], &by_options].concat();
    assert_eq!(run(&all, Some("redis://127.0.0.1:1")), Some(0));
    // All clients agree on these settings.
    let of_another_set = [&["--config", &right], &["--set-name", "another"][..]].concat();
    assert_eq!(run(&of_another_set, None), Some(125));
    let with_prefix = [&["--config", &right], &["--key-prefix", "app:"][..]].concat();
    assert_eq!(
        run(&with_prefix, None),
        Some(122),
        "it has marks of its own, which are not there yet"
    );
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line_and_no_secret() {
    let folder = Folder::new();
    let file = folder.write("settings.toml", "nodes = []\n\npassword = \"secret\" x\n");
    let run = |options: &[&str]| {
        let output = program()
            .args(["run"])
            .args(options)
            .args(["job", "true"])
            .output()
            .expect("it starts");
        ends_with(&output, 125);
        told(&output)
    };
    let text = run(&["--config", file.to_str().expect("text")]);
    assert!(text.contains("settings.toml, line 3: ") && !text.contains("secret"), "{text}");
    let file = folder.write("settings.toml", "nodes = []\ntll = \"5s\"\n");
    let text = run(&["--config", file.to_str().expect("text")]);
    assert!(text.contains("settings.toml, line 2: unknown field `tll`"), "{text}");
    for (wrong, setting, expected) in [
        ("nodes = \"redis://:secret@host\"", "nodes", "a list of URLs: [\"redis://HOST\", ..]"),
        ("password = [\"secret\"]", "password", ""),
        ("ttl = \"secret\"", "ttl", "a duration"),
        ("renewal = \"secret\"", "renewal", ""),
        ("backoff = \"secret\"", "backoff", "{ min = \"5ms\", max = \"100ms\" }"),
        ("wait_replicas = 7", "wait_replicas", "{ replicas = 1, timeout = \"100ms\" }"),
        ("nodes = [\n7]", "nodes", "a string"),
    ] {
        let file = folder.write("settings.toml", wrong);
        let text = run(&["--config", file.to_str().expect("text")]);
        let line = wrong.lines().count();
        let says = format!(
            "settings.toml, line {line}: the value of {setting} is not what this setting takes; expected "
        );
        let is_told = text.contains(&says) && text.contains(expected);
        assert!(is_told && !text.contains("secret"), "{wrong}: {text}");
    }
    let text = run(&["--config", "no-such-file"]);
    assert!(text.contains("the file no-such-file of --config does not exist"), "{text}");
}

#[test]
fn what_is_wrong_with_the_call_is_told() {
    let world = World::new();
    for (options, says) in [
        (&["--node", "http://host"][..], "node 1"),
        (&["--node", "redis://user:secret@host"], "everybody on this machine can read"),
        (&["--node", "unix:///socket?pass=secret"], "everybody on this machine can read"),
        (&["--node", "redis://host", "--node", "redis://host"], "the same server"),
        (&["--ttl", "0s"], "the TTL is 0;"),
        (&["--ttl", "1m"], "--max-ttl is 10 s"),
        (&["--ttl", "soon"], "invalid value 'soon' for '--ttl <TIME>'"),
        (&["--grace", "9s"], "--grace is 9000 ms"),
        (&["--ttl", "400ms"], "too short to end a command"),
        (&["--permits", "3"], "--permits is for --kind semaphore"),
        (&["--permits", "0", "--kind", "semaphore"], "a semaphore needs a permit"),
        (&["--kind", "read", "--min-hold", "1m"], "--min-hold is for locks with one holder"),
        (&["--wait", "1s", "--no-wait"], "cannot be used with"),
        (&["--nowait"], "--nowait"),
    ] {
        let output = world.output(&[&["run"], options, &["job", "--", "echo", "never"]].concat());
        ends_with(&output, 125);
        assert!(told(&output).contains(says), "{options:?}: {}", told(&output));
        assert!(!told(&output).contains("secret") && printed(&output).is_empty());
    }
    let output = world.output(&["run", "", "--", "true"]);
    ends_with(&output, 125);
    assert!(told(&output).contains("the name of a lock must not be empty"), "{}", told(&output));
    let output = program().args(["run", "job", "true"]).output().expect("it starts");
    ends_with(&output, 125);
    assert!(told(&output).contains("no masters are named"), "{}", told(&output));
    world.servers.wait_no_keys();
}

#[test]
fn the_password_comes_from_the_environment_or_the_file() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let folder = Folder::new();
    let run = |options: &[&str], password: Option<&str>| {
        let mut program = program();
        let node = ["--no-quarantine", "--no-quorum-timeout", "5s", "--node", &server.url()];
        program.arg("run").args(node).args(options).args(["job", "--", "true"]);
        if let Some(password) = password {
            program.env("QUORLOCK_PASSWORD", password);
        }
        program.output().expect("it starts")
    };
    ends_with(&run(&[], Some("secret")), 0);
    let file = folder.write("settings.toml", "password = \"secret\"\n");
    let by_file = ["--config", file.to_str().expect("text")];
    ends_with(&run(&by_file, None), 0);
    for output in [run(&[], None), run(&[], Some("wrong")), run(&by_file, Some("wrong"))] {
        assert!([Some(121), Some(125)].contains(&output.status.code()), "{}", told(&output));
        assert!(!told(&output).contains("secret"), "{}", told(&output));
    }
    let asked = run(&["--ask-password"], Some("secret"));
    // There may be no terminal, or none that answers.
    assert_ne!(asked.status.code(), Some(0));
}

/// A container without a password often has an empty variable.
#[test]
fn an_empty_password_is_none() {
    let server = Server::start();
    let mut program = program();
    program.args(["run", "--no-quarantine", "--node", &server.url(), "job", "--", "true"]);
    ends_with(&program.env("QUORLOCK_PASSWORD", "").output().expect("it starts"), 0);
    let world = World::new();
    let text =
        format!("nodes = {:?}\npassword = \"\"\nnode_timeout = \"5s\"\n", world.servers.urls());
    let file = world.folder.write("settings.toml", &text);
    let mut job = crate::program::program();
    job.args(["run", "-n", "--config"]).arg(file).args(["job", "--", "true"]);
    ends_with(&job.output().expect("it starts"), 0);
}

#[test]
fn an_empty_variable_is_none() {
    let world = World::new();
    let text = format!("nodes = {:?}\nnode_timeout = \"5s\"\n", world.servers.urls());
    let file = world.folder.write("settings.toml", &text);
    let mut job = program();
    job.args(["run", "-n", "--config"]).arg(file).args(["job", "--", "true"]);
    ends_with(&job.env("QUORLOCK_NODES", "").output().expect("it starts"), 0);
    let mut job = world.program(&["run", "-n", "--node-timeout", "5s", "job", "--", "true"]);
    ends_with(&job.env("QUORLOCK_CONFIG", "").output().expect("it starts"), 0);
    let mut job = world.program(&["run", "-n", "job", "--", "true"]);
    let output = job.env("QUORLOCK_CONFIG", "nowhere.toml").output().expect("it starts");
    ends_with(&output, 125);
    assert!(told(&output).contains("the file nowhere.toml of QUORLOCK_CONFIG"), "{output:?}");
}

#[test]
fn failed_jobs_free_a_lock_whose_minimum_the_file_has() {
    let world = World::new();
    let file = world.folder.write("settings.toml", "min_hold = \"1h\"\n");
    let file = file.to_str().expect("text");
    let job = ["job", "--", "sh", "-c", "exit 7"];
    let frees = ["run", "-n", "--node-timeout", "5s", "--free-failed"];
    let output = world.output(&[&frees, &job[..]].concat());
    ends_with(&output, 125);
    assert!(told(&output).contains("--free-failed needs --min-hold"), "{output:?}");
    ends_with(&world.output(&[&frees, &["--config", file][..], &job].concat()), 7);
    world.servers.wait_no_keys();
}

#[test]
fn the_command_inherits_passwords_only_if_the_user_says_so() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let (plain, with_password) = (server.url(), server.url().replace("://", "://:secret@"));
    let inherited = |options: &[&str], nodes: &str| {
        let mut program = program();
        let command = ["--", "sh", "-c", "echo ${QUORLOCK_PASSWORD-none} ${QUORLOCK_NODES-none}"];
        program.args(["run", "--no-quarantine", "job"]).args(options).args(command);
        program.env("QUORLOCK_PASSWORD", "secret").env("QUORLOCK_NODES", nodes);
        let output = program.output().expect("it starts");
        ends_with(&output, 0);
        printed(&output).trim().to_owned()
    };
    assert_eq!(inherited(&[], &plain), format!("none {plain}"));
    assert_eq!(inherited(&[], &with_password), "none none");
    let kept = inherited(&["--pass-passwords"], &with_password);
    assert_eq!(kept, format!("secret {with_password}"));
}

/// They may be used up at any point of the program.
#[test]
fn a_process_without_file_descriptors_does_not_blame_the_masters() {
    let world = World::new();
    let run = format!("exec {} run -n --min-hold 1h job -- true", env!("CARGO_BIN_EXE_quorlock"));
    let mut told_before = Vec::new();
    for most in 6.. {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {most}; {run}")]);
        shell.env("QUORLOCK_NODES", world.servers.urls().join(","));
        let output = shell.output().expect("sh is there");
        if output.status.success() {
            break;
        }
        // This includes a point between the grant and the beginning of the command.
        world.servers.wait_no_keys();
        told_before.push(told(&output));
    }
    let told = told_before;
    assert!(told.iter().any(|told| told.contains("no file descriptor left")), "{told:?}");
    assert!(!told.iter().any(|told| told.contains("check host and port")), "{told:?}");
    assert!(!told.iter().any(|told| told.contains("panicked")), "{told:?}");
}

#[test]
fn masters_that_speak_tls_are_reached_by_the_files_that_are_named() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let server = authority.ordinary_server("yes");
    let [certificate, key] = authority.sign(&["client"], |_| ());
    let [ca, certificate, key] =
        [("ca", &authority.pem), ("certificate", &certificate), ("key", &key)]
            .map(|(name, text)| folder.write(name, text).to_str().expect("text").to_owned());
    let url = server.url().replace("redis://", "rediss://");
    let status = |options: &[&str]| {
        let patient =
            ["status", "--node-timeout", "5s", "--no-quorum-timeout", "1s", "--node", &url, "job"];
        let output = program().args(patient).args(options).output().expect("it starts");
        (output.status.code(), told(&output))
    };
    let with_certificate = ["--tls-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
    let told = status(&with_certificate);
    assert_eq!(told.0, Some(121), "one that is new may have forgotten locks: {}", told.1);
    assert_eq!(told.1, "", "it has answered");
    for without in [&with_certificate[..2], &[]] {
        let told = status(without);
        assert!(told.1.contains("certificate"), "{without:?}: {told:?}");
    }
    let (code, told) = status(&["--tls-cert", &certificate]);
    assert!(code == Some(125) && told.contains("--tls-key"), "{told}");
}
