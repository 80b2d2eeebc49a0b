//! The list of held locks, as the program prints it.

use serde_json::Value;

use crate::program::{LIMIT, World, ends_with, printed, told};
use crate::support::wait_until;

fn json(world: &World, options: &[&str]) -> Value {
    let output = world.output(&[&["list", "--json"], options].concat());
    ends_with(&output, 0);
    serde_json::from_str(&printed(&output)).expect("JSON")
}

fn names(list: &Value) -> Vec<&str> {
    let names = list["names"].as_array().expect("a list");
    names.iter().map(|name| name["name"].as_str().expect("text")).collect()
}

#[test]
fn each_lock_that_is_held_has_a_line() {
    let world = World::new();
    let output = world.output(&["list"]);
    ends_with(&output, 0);
    assert_eq!(
        (printed(&output), told(&output)),
        (String::new(), "quorlock: no lock is held\n".into())
    );
    let _held = [
        world.hold(&["orders/42"]).0,
        world.hold(&["--kind", "semaphore", "--permits", "5", "calls"]).0,
        world.hold(&["--kind", "read", "a name\nof two lines"]).0,
        world.hold(&["--kind", "fair", "printer"]).0,
    ];
    let waiting = world.start(&["run", "--kind", "fair", "printer", "--", "true"]);
    wait_until("it stands in the queue", LIMIT, || {
        json(&world, &["printer"])["names"][0]["waiting"] == 1
    });
    let output = world.output(&["list"]);
    ends_with(&output, 0);
    assert_eq!(told(&output), "");
    let text = printed(&output);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("NAME ") && lines.len() == 5, "{text}");
    let state = lines[0].find("STATE").expect("a title");
    let rows = ["\"a name\\nof two lines\"", "\"calls\"", "\"orders/42\"", "\"printer\""];
    for (line, name) in lines[1..].iter().zip(rows) {
        assert!(
            line.starts_with(&format!("{name} ")) && line[state..].starts_with("held "),
            "{text}"
        );
    }
    let held_as = lines[0].find("HELD AS").expect("a title");
    for (line, what) in lines[1..].iter().zip(["read", "semaphore of 5", "exclusive", "exclusive"])
    {
        assert!(line[held_as..].starts_with(&format!("{what} ")), "{text}");
    }
    let waiting_title = lines[0].find("WAITING").expect("a title");
    for (line, waiting) in lines[1..].iter().zip(["-", "-", "-", "1"]) {
        assert!(line[waiting_title..].starts_with(&format!("{waiting} ")), "{text}");
    }
    let owner = json(&world, &["orders/*"])["names"][0]["holders"][0]["owner"].clone();
    assert!(lines[3].ends_with(owner.as_str().expect("text")), "{text}");
    waiting.signal("TERM");
    assert_eq!(waiting.end().0, Some(128 + 15));
}

#[test]
fn json_has_what_status_says_of_each_lock() {
    let world = World::new();
    let _held = ["orders/42", "orders/7", "users/1"].map(|name| world.hold(&[name]).0);
    let list = json(&world, &["orders/?*"]);
    assert_eq!(names(&list), ["orders/42", "orders/7"]);
    assert_eq!((&list["complete"], &list["faults"]), (&true.into(), &Value::Array(Vec::new())));
    let output = world.output(&["status", "--json", "orders/42"]);
    let status: Value = serde_json::from_str(&printed(&output)).expect("JSON");
    let (one, same) = (&list["names"][0], &status["names"][0]);
    assert_eq!((&one["state"], &one["holders"]), (&same["state"], &same["holders"]));
    assert!(one["remaining_ttl_ms"].as_u64().is_some_and(|ms| ms <= 10_000), "{list}");
}

#[test]
fn what_may_be_missing_is_told_on_standard_error() {
    let mut world = World::new();
    let _held = ["a", "b", "c"].map(|name| world.hold(&[name]).0);
    let output = world.output(&["list", "--most", "2"]);
    ends_with(&output, 0);
    assert_eq!(printed(&output).lines().count(), 3, "{}", printed(&output));
    let more = "quorlock: the list may not be complete: there are more than 2 locks; raise --most to see them\n";
    assert_eq!(told(&output), more);
    let list = json(&world, &["--most", "2"]);
    assert_eq!((&list["complete"], &list["incomplete"][0]), (&false.into(), &"more_names".into()));
    // The program asks the nodes about 1,000 keys at a time, and stops at the time limit.
    let fill = "for i = 1, 20000 do redis.call('SET', 'foreign:' .. i, 'x') end";
    (0..3).for_each(|i| _ = world.servers[i].command(&["EVAL", fill, "0"]));
    let output = world.output(&["list", "--within", "0s", "none/*"]);
    ends_with(&output, 0);
    let over = "quorlock: no lock was found, but one may be held: the scan was ended after 0s; \
                raise --within to scan longer\n";
    assert_eq!((printed(&output), told(&output)), (String::new(), over.to_owned()));
    let url = world.servers[2].url();
    world.servers[2].kill();
    let output = world.output(&["list"]);
    ends_with(&output, 0);
    assert_eq!(printed(&output).lines().count(), 4, "{}", printed(&output));
    assert!(told(&output).starts_with(&format!("quorlock: {url}: ")), "{}", told(&output));
    assert!(!told(&output).contains("complete"), "{}", told(&output));
    let list = json(&world, &[]);
    assert_eq!((&list["complete"], &list["faults"][0]["node"]), (&true.into(), &url.into()));
    world.servers[1].kill();
    ends_with(&world.output(&["list"]), 121);
    (1..3).for_each(|i| world.servers[i].restart_empty());
    let few = "quorlock: the list may not be complete: too few masters that remember all locks have answered\n";
    wait_until("they are up", LIMIT, || told(&world.output(&["list"])).starts_with(few));
    assert_eq!(json(&world, &[])["incomplete"][0], "too_few_nodes");
}
