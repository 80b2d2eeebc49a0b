//! The steps of `OPERATIONS.md` for changing a set, exactly as written; and the errors when a step is
//! left out.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use quorlock::{Builder, Error, ErrorKind, Guard, OptionalGuard as _, Quorlock};
use support::clients::admitted;
use support::{Server, Servers, wait_until};

const MANUAL: &str = include_str!("../OPERATIONS.md");
const NAME: &str = "orders/42";
/// The longest TTL, and so the length of a quarantine.
const MAX_TTL: Duration = Duration::from_secs(3);
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

fn builder(urls: &[String]) -> Builder {
    Quorlock::builder()
        .nodes(urls)
        .ttl(MAX_TTL)
        .max_ttl(MAX_TTL)
        .node_timeout(Duration::from_millis(1_500))
}

fn build(builder: Builder) -> Quorlock {
    builder.build().expect("the settings are valid")
}

fn locks_once(locks: &Quorlock) {
    let guard = locks.lock(NAME).expect("the set grants locks");
    guard.unlock().expect("a majority is up");
}

/// The text of the section with that title.
fn section(title: &str) -> &'static str {
    let (_, rest) = MANUAL.split_once(&format!("\n## {title}\n")).expect("there is that section");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// Deletes the mark of `server` with the exact command of the section.
fn delete_mark(title: &str, server: &Server) {
    let section = section(title);
    let (_, rest) = section.split_once("`redis-cli -u URL ").expect("the section has the line");
    let (arguments, _) = rest.split_once('`').expect("the line has an end");
    let arguments = arguments.split(' ').map(|argument| argument.trim_matches('"'));
    let deleted = match Command::new("redis-cli").arg("--version").output() {
        Ok(_) => {
            let mut command = Command::new("redis-cli");
            let output = command.args(["-u", &server.url()]).args(arguments).output();
            let output = output.expect("it has run before");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        // `redis-cli` may be missing although the server is installed.
        Err(_) => match server.command(&arguments.collect::<Vec<_>>()) {
            redis::Value::Int(deleted) => deleted.to_string(),
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(deleted, "1", "there was a mark");
}

/// Takes the steps of the section: deletes the marks of `servers`. Then the client of `next` takes the lock, after a quarantine.
///
/// One old client was forgotten. It may be the first one to set a mark again, and then the steps must be repeated.
/// `most_are_new`: a try in vain may have begun the quarantines of a majority, whose marks the steps do not delete.
fn take_steps(
    title: &str,
    (servers, most_are_new): (&[Server], bool),
    quarantine: Duration,
    next: impl Fn() -> Quorlock,
) -> (Quorlock, Guard) {
    let has_mark = |server: &Server| server.get("quorlock:{quorlock}:mark").is_some();
    let (mut began, mut taken) = (None, None);
    wait_until("the forgotten client to be too late", LIMIT, || {
        wait_until("each node to have a mark", LIMIT, || servers.iter().all(has_mark));
        servers.iter().for_each(|server| delete_mark(title, server));
        let began = match began {
            Some(first) if most_are_new => first,
            _ => *began.insert(Instant::now()),
        };
        let locks = next();
        match locks.lock(NAME) {
            Ok(guard) => {
                assert!(began.elapsed() >= quarantine, "granted after {:?}", began.elapsed());
                taken = Some((locks, guard));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Config, "{error}"),
        }
        taken.is_some()
    });
    taken.expect("it waits the quarantine out")
}

/// `locks` gets no lock, and an error with the difference and the section of the steps.
fn refused(locks: &Quorlock, words: &[&str]) {
    let told = |error: &Error| {
        let text = error.to_string();
        error.kind() == ErrorKind::Config && words.iter().all(|word| text.contains(word))
    };
    let mut last = None;
    wait_until("the difference to be told", LIMIT, || {
        last = locks
            .try_lock(NAME)
            .optional()
            .map(|guard| assert!(guard.is_none(), "both have it"))
            .err();
        last.as_ref().is_some_and(told)
    });
}

#[test]
fn from_one_master_to_three() {
    const TITLE: &str = "From one master to three";
    let servers = Servers::start(5);
    let urls = servers.urls();
    let old = admitted(builder(&urls[..1]));
    let before = old.lock(NAME).expect("it is free");
    let token = before.token();

    // No client was stopped, and no mark deleted. These new masters are not those below, whose quarantine would otherwise
    // begin here already.
    let words = ["number of nodes is 3 here and 1 there", "\"From one master to three\""];
    refused(&build(builder([&urls[..1], &urls[3..]].concat().as_slice())), &words);
    before.check().expect("that harms nobody");
    before.unlock().expect("the old master is up");

    let next = || build(builder(&urls[..3]));
    let (_new, guard) = take_steps(TITLE, (&servers[..1], true), MAX_TTL, next);
    assert!(guard.token() > token, "{:?} after {token:?}", guard.token());
    refused(&old, &["number of nodes is 1 here and 3 there", "\"From one master to three\""]);
    guard.unlock().expect("three of three");
}

/// No client stops, and the held lock stays held.
#[test]
fn replacing_a_master_under_the_same_address() {
    let mut servers = Servers::start(3);
    let urls = servers.urls();
    let locks = admitted(builder(&urls));
    let held = locks.lock("held all the time").expect("it is free");
    // A majority is replaced, so that the locks depend on the marks of new servers.
    for node in 0..2 {
        // Another server, which has only the address in common.
        servers[node].restart_empty();
        locks_once(&locks);
        let mark = || servers[node].get("quorlock:{quorlock}:mark");
        wait_until("the new master grants locks", LIMIT, || {
            mark().is_some_and(|mark| mark.ends_with(" admitted"))
        });
    }
    held.check().expect("it was renewed on the new masters");
    held.unlock().expect("three of three");
}

#[test]
fn replacing_a_master_under_another_address() {
    const TITLE: &str = "Replacing a master";
    let (servers, new_master) = (Servers::start(3), Server::start());
    let mut urls = servers.urls();
    let old = admitted(builder(&urls));
    locks_once(&old);
    urls[2] = new_master.url();

    // The new address is the only step that was taken.
    let words = ["set is next here and default there", "\"Replacing a master\""];
    refused(&build(builder(&urls).set_name("next")), &words);

    let next = || build(builder(&urls).set_name("next"));
    let (_new, guard) = take_steps(TITLE, (&servers[..2], false), MAX_TTL, next);
    refused(&old, &["set is default here and next there", "\"Replacing a master\""]);
    guard.unlock().expect("three of three");
}

/// A client that sees a master without a mark among others with marks refers to the steps: it may be another
/// server under another address.
#[test]
fn a_new_master_among_old_ones_is_told_of_the_steps() {
    let (servers, new_master) = (Servers::start(3), Server::start());
    let mut urls = servers.urls();
    locks_once(&admitted(builder(&urls)));
    urls[2] = new_master.url();
    let hour = Duration::from_secs(3_600);
    let mut steps = None;
    // One of the other masters is missing, so the new one's vote would be needed.
    urls[1] = "redis://127.0.0.1:1".to_owned();
    let locks = build(builder(&urls).max_ttl(MAX_TTL).no_quorum_timeout(hour));
    wait_until("the steps to be named", LIMIT, || {
        steps = locks.try_lock(NAME).err().map(|error| error.to_string());
        steps.as_ref().is_some_and(|text| {
            text.contains("taken the place of another master")
                && text.contains("\"Replacing a master\"")
        })
    });
}

#[test]
fn another_max_ttl() {
    const TITLE: &str = "Another `max_ttl`";
    let servers = Servers::start(3);
    let urls = servers.urls();
    let old = admitted(builder(&urls));
    locks_once(&old);
    let changed = Duration::from_secs(4);
    let next = || build(builder(&urls).max_ttl(changed).ttl(changed));
    refused(&next(), &["max_ttl is 4 s here and 3 s there", "\"Another max_ttl\""]);

    let (_new, guard) = take_steps(TITLE, (&servers, false), changed, next);
    refused(&old, &["max_ttl is 3 s here and 4 s there", "\"Another max_ttl\""]);
    guard.unlock().expect("three of three");
}

/// Clients of this version join those of an earlier one, and no setting was changed.
#[test]
fn the_default_of_earlier_versions() {
    let servers = Servers::start(1);
    let earlier = Duration::from_secs(30);
    drop(admitted(Quorlock::builder().nodes(servers.urls()).ttl(earlier).max_ttl(earlier)));
    let words = ["max_ttl is 10 s here and 30 s there", "30 s was the default of earlier versions"];
    refused(&build(Quorlock::builder().nodes(servers.urls())), &words);
    // According to the manual, both versions work together if the figure is set.
    let new = build(Quorlock::builder().nodes(servers.urls()).max_ttl(earlier));
    wait_until("the figure is the same", LIMIT, || new.try_lock(NAME).optional().is_ok());
}
