//! The commands for operators.

use serde_json::Value;

use crate::program::{LIMIT, World, ends_with, printed, read, told};
use crate::support::reaper::Process;
use crate::support::wait_until;

#[test]
fn status_says_who_holds_a_lock_on_each_master() {
    let world = World::new();
    let status = |options: &[&str]| {
        let output = world.output(&[&["status"], options].concat());
        ends_with(&output, 0);
        printed(&output)
    };
    assert!(status(&["job"]).starts_with("\"job\" is free\n"), "{}", status(&["job"]));
    let _held = world.hold(&["job"]);
    let text = status(&["job"]);
    assert!(text.starts_with("\"job\" is held by "), "{text}");
    assert!(world.servers.urls().iter().all(|url| text.contains(url)), "{text}");
    let json: Value = serde_json::from_str(&status(&["--json", "job"])).expect("JSON");
    assert_eq!(json["state"], "held");
    let name = &json["names"][0];
    assert_eq!((&name["name"], &name["holders"][0]["nodes"]), (&"job".into(), &3.into()));
    assert!(name["remaining_ttl_ms"].as_u64().is_some_and(|ms| ms <= 10_000), "{json}");
    assert!(name["holders"][0]["token"].as_u64().is_some(), "{json}");
    let nodes = name["nodes"].as_array().expect("a list");
    assert!(nodes.iter().all(|node| node["owners"][0] == name["holders"][0]["owner"]), "{json}");
}

#[test]
fn status_of_a_set_that_does_not_answer_is_no_answer() {
    let mut world = World::new();
    (0..2).for_each(|i| world.servers[i].kill());
    let output = world.output(&["status", "--no-quorum-timeout", "300ms", "job"]);
    ends_with(&output, 121);
    assert!(told(&output).contains(&world.servers[0].url()), "{}", told(&output));
}

#[test]
fn a_quiet_status_answers_by_its_exit_code() {
    let mut world = World::new();
    let status = |world: &World| {
        let output = world.output(&["status", "--quiet", "--node-timeout", "5s", "job"]);
        assert_eq!((printed(&output), told(&output)), (String::new(), String::new()));
        output.status.code()
    };
    assert_eq!(status(&world), Some(0), "free");
    let (held, _) = world.hold(&["--min-hold", "1h", "job"]);
    assert_eq!(status(&world), Some(120), "held");
    held.signal("TERM");
    held.end();
    assert_eq!(status(&world), Some(120), "kept");
    (0..2).for_each(|i| world.servers[i].restart_empty());
    wait_until("they have forgotten", LIMIT, || status(&world) == Some(121));
    (0..2).for_each(|i| world.servers[i].kill());
    assert_eq!(status(&world), Some(121), "no quorum");
    let output = world.output(&["status", "--quiet", "--config", "no-such-file", "job"]);
    ends_with(&output, 125);
    assert!(told(&output).contains("no-such-file"), "a call that is wrong is told");
}

#[test]
fn unlock_asks_for_force_and_says_whether_anybody_had_it() {
    let world = World::new();
    ends_with(&world.output(&["unlock", "job"]), 125);
    let output = world.output(&["unlock", "--force", "job"]);
    ends_with(&output, 0);
    assert_eq!(told(&output), "quorlock: nobody had \"job\"\n");
    let _held = world.hold(&["--min-hold", "1h", "job"]);
    let json: Value =
        serde_json::from_str(&printed(&world.output(&["status", "--json", "job"]))).expect("JSON");
    let owner = json["names"][0]["holders"][0]["owner"].as_str().expect("text");
    let output = world.output(&["unlock", "--force", "job"]);
    ends_with(&output, 0);
    let told = told(&output);
    let begins =
        format!("quorlock: \"job\" is taken from its holder, {owner}, and others can take it");
    assert!(told.starts_with(&begins), "{told}");
    // The default TTL is 10 s, and a renewal is due when a third of it is over.
    let times: Vec<f64> = told
        .split(" for ")
        .skip(1)
        .map(|rest| rest.split(" s").next().and_then(|time| time.parse().ok()).expect("a time"))
        .collect();
    let [renewal, end] = times[..] else { panic!("{told}") };
    assert!(renewal > 0.0 && renewal <= 3.4 && end > renewal && end <= 10.0, "{told}");
    // Nobody works on under a lock that is only kept.
    ends_with(&world.output(&["run", "--min-hold", "1h", "done", "--", "true"]), 0);
    let output = world.output(&["unlock", "--force", "done"]);
    ends_with(&output, 0);
    let says = "quorlock: \"done\" was kept after its holder had given it back, and is free\n";
    assert_eq!(crate::program::told(&output), says);
}

#[test]
fn unlock_asks_the_holder_which_goes_on_or_ends_its_command() {
    let world = World::new();
    let output = world.output(&["unlock", "--ask", "job"]);
    ends_with(&output, 0);
    assert_eq!(told(&output), "quorlock: nobody has \"job\"\n");
    for wrong in [&["--ask", "--force", "job"][..], &["--force", "--reason", "x", "job"]] {
        ends_with(&world.output(&[&["unlock"], wrong].concat()), 125);
    }
    // A command that ignores SIGTERM, and ends when the test allows it.
    let script =
        "trap 'echo told >> told' TERM; echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done";
    for (options, says) in [
        (&[][..], "\"job\": asked to release it: deploy\n"),
        (&["--on-asked", "term"], "asked to release it: deploy; the command gets SIGTERM\n"),
    ] {
        for file in ["go", "pid"] {
            let _ = std::fs::remove_file(world.folder.path(file));
        }
        let log = world.folder.path("log");
        let file = std::fs::File::create(&log).expect("there is room");
        let mut program =
            world.program(&[&["run"], options, &["job", "--", "sh", "-c", script]].concat());
        let mut running = Process::spawn(program.stderr(file)).expect("it starts");
        wait_until("it holds the lock", LIMIT, || !world.servers[0].keys().is_empty());
        wait_until("the command runs", LIMIT, || world.folder.path("pid").exists());
        let output = world.output(&["unlock", "--ask", "--reason", "deploy", "job"]);
        ends_with(&output, 0);
        let says_so = told(&output);
        let begins = "quorlock: \"job\": its holder, ";
        assert!(says_so.starts_with(begins) && says_so.contains("was asked"), "{says_so}");
        wait_until("the holder says so", LIMIT, || read(&log).contains(says));
        // The holder says so before it sends the signal.
        let told = if options.is_empty() { "" } else { "told\n" };
        wait_until("the command is told", LIMIT, || read(&world.folder.path("told")) == told);
        assert_eq!(
            world.output(&["status", "--quiet", "job"]).status.code(),
            Some(120),
            "it is held"
        );
        world.folder.write("go", "");
        wait_until("it ends", LIMIT, || running.try_wait().expect("it is ours").is_some());
        assert!(running.wait().expect("it has ended").success(), "{}", read(&log));
    }
    assert_eq!(read(&world.folder.path("told")), "told\n", "the second one, once");
}

/// A held lock that all masters have forgotten is not about to be free.
#[test]
fn status_in_quarantine_says_that_nobody_gets_the_lock_and_not_when() {
    let mut world = World::new();
    let (_held, _) = world.hold(&["--ttl", "10s", "job"]);
    (0..3).for_each(|i| world.servers[i].restart_empty());
    let mut output = world.output(&["status", "free"]);
    wait_until("they are up", LIMIT, || {
        output = world.output(&["status", "free"]);
        printed(&output).matches("may have forgotten").count() == 4
    });
    ends_with(&output, 121);
    let text = printed(&output);
    let says = "\"free\" is unclear; nodes that may have forgotten its holder grant it to nobody for now\n";
    assert!(text.starts_with(says), "{text}");
    let json: Value =
        serde_json::from_str(&printed(&world.output(&["status", "--json", "free"]))).expect("JSON");
    assert_eq!(json["names"][0]["remaining_ttl_ms"], Value::Null, "{json}");
}

#[test]
fn status_tells_the_kind_and_the_queue() {
    let world = World::new();
    let json = |name: &str| -> Value {
        let output = world.output(&["status", "--json", name]);
        ends_with(&output, 0);
        serde_json::from_str(&printed(&output)).expect("JSON")
    };
    let holder = |name: &str| json(name)["names"][0]["holders"][0].clone();
    let waiting_for = |name: &str| json(name)["names"][0]["waiting"].clone();
    let _calls = world.hold(&["--kind", "semaphore", "--permits", "5", "calls"]);
    let calls = holder("calls");
    assert_eq!((&calls["held_as"], &calls["permits"]), (&"semaphore".into(), &5.into()));
    let _config = world.hold(&["--kind", "read", "config"]);
    assert_eq!(holder("config")["held_as"], "read");
    // Waiters for locks of these kinds are not counted.
    assert_eq!([waiting_for("calls"), waiting_for("config")], [Value::Null, Value::Null]);
    assert_eq!(json("config")["names"][0]["nodes"][0]["waiting"], Value::Null);
    let _printer = world.hold(&["--kind", "fair", "printer"]);
    assert_eq!(holder("printer")["held_as"], "exclusive");
    let waiting = world.start(&["run", "--kind", "fair", "printer", "--", "true"]);
    wait_until("it stands in the queue", LIMIT, || json("printer")["names"][0]["waiting"] == 1);
    let output = world.output(&["status", "printer"]);
    assert!(printed(&output).contains("; in its queue: 1\n"), "{}", printed(&output));
    waiting.signal("TERM");
    assert_eq!(waiting.end().0, Some(128 + 15));
}
