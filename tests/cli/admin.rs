//! What operators ask for.

use serde_json::Value;

use crate::program::{LIMIT, World, ends_with, printed, told};
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
fn unlock_asks_for_force_and_says_whether_anybody_had_it() {
    let world = World::new();
    ends_with(&world.output(&["unlock", "job"]), 125);
    let output = world.output(&["unlock", "--force", "job"]);
    ends_with(&output, 0);
    assert_eq!(told(&output), "quorlock: nobody had job\n");
    let _held = world.hold(&["job"]);
    let output = world.output(&["unlock", "--force", "job"]);
    ends_with(&output, 0);
    assert!(told(&output).contains("job is taken from its holder"), "{}", told(&output));
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
    let _calls = world.hold(&["--kind", "semaphore", "--permits", "5", "calls"]);
    let calls = holder("calls");
    assert_eq!((&calls["held_as"], &calls["permits"]), (&"semaphore".into(), &5.into()));
    let _config = world.hold(&["--kind", "read", "config"]);
    assert_eq!(holder("config")["held_as"], "read");
    let _printer = world.hold(&["--kind", "fair", "printer"]);
    assert_eq!(holder("printer")["held_as"], "exclusive");
    let waiting = world.start(&["run", "--kind", "fair", "printer", "--", "true"]);
    wait_until("it stands in the queue", LIMIT, || json("printer")["names"][0]["waiting"] == 1);
    let output = world.output(&["status", "printer"]);
    assert!(printed(&output).contains("; in its queue: 1\n"), "{}", printed(&output));
    waiting.signal("TERM");
    assert_eq!(waiting.end().0, Some(128 + 15));
}
