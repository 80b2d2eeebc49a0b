//! The public interface as its users see it: code that must compile, and texts.

mod support;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::time::Duration;

use quorlock::crossbeam_channel::{Receiver, bounded, select};
use quorlock::{
    Builder, Error, ErrorKind, Guard, LossReason, Mode, MultiMutex, Mutex, NodeFault,
    OptionalGuard as _, Quorlock, Renewal, RiskReason, WithLockError,
};
use support::Servers;
use support::clients::{connected, fresh};

/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

fn settings(servers: &Servers) -> Builder {
    fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(Duration::from_secs(5))
}

#[test]
fn nodes_are_anything_that_reads_as_text() {
    const URLS: [&str; 2] = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"];
    let owned: Vec<String> = URLS.map(str::to_owned).into();
    let builders = [
        Quorlock::builder().nodes(URLS),
        Quorlock::builder().nodes(&URLS),
        Quorlock::builder().nodes(URLS.as_slice()),
        Quorlock::builder().nodes(&owned),
        Quorlock::builder().nodes(owned.iter()),
        Quorlock::builder().nodes(owned.clone()),
        Quorlock::builder().nodes(owned.iter().map(|url| std::borrow::Cow::from(url.as_str()))),
        Quorlock::builder().nodes("redis://127.0.0.1:1,redis://127.0.0.1:2".split(',')),
    ];
    for builder in builders {
        let locks = builder.build().expect("valid settings");
        assert!(locks.node_stats().iter().map(|node| &node.node).eq(URLS.iter()));
    }
}

/// Setters of the same kind take the same type, on the builder and on a handle.
#[test]
fn setters_are_alike() {
    let _: [fn(Builder, Duration) -> Builder; 8] = [
        Builder::ttl,
        Builder::max_ttl,
        Builder::node_timeout,
        Builder::no_quorum_timeout,
        Builder::max_hold,
        Builder::min_hold,
        Builder::risk_margin,
        Builder::clock_tolerance,
    ];
    let _: [fn(Builder, bool) -> Builder; 3] =
        [Builder::restart_quarantine, Builder::fencing, Builder::local_queue];
    let _: [fn(Builder, &'static str) -> Builder; 3] =
        [Builder::key_prefix, Builder::set_name, Builder::owner_label];
    let _: fn(Builder, Renewal) -> Builder = Builder::renewal;
    let _: [fn(Mutex, Duration) -> Mutex; 4] =
        [Mutex::ttl, Mutex::max_hold, Mutex::min_hold, Mutex::risk_margin];
    let _: fn(Mutex, Renewal) -> Mutex = Mutex::renewal;
}

#[test]
fn the_longest_duration_is_no_limit_of_a_hold() {
    let servers = Servers::start(1);
    let hold = Duration::from_secs(6);
    let locks = connected(settings(&servers).max_hold(hold));
    // The keys of a lock live no longer than its longest hold.
    let keys_live = |mutex: Mutex| {
        let guard = mutex.lock().expect("one node");
        let left = servers[0].pttl(KEY);
        guard.unlock().expect("one node");
        Duration::from_millis(u64::try_from(left).expect("it is there"))
    };
    assert!(keys_live(locks.mutex(NAME)) < TTL / 2);
    assert!(keys_live(locks.mutex(NAME).max_hold(Duration::MAX)) > TTL / 2);
    let almost = Duration::MAX.saturating_sub(Duration::from_nanos(1));
    assert!(keys_live(locks.mutex(NAME).max_hold(almost)) > TTL / 2);
    let builder = || settings(&servers).max_hold(hold).max_hold(Duration::MAX);
    assert!(keys_live(connected(builder()).mutex(NAME)) > TTL / 2);
}

#[test]
fn names_read_as_text_where_they_are() {
    let servers = Servers::start(1);
    let locks = connected(settings(&servers));
    let mutex = locks.mutex("größe \"42\"").ttl(TTL).max_hold(TTL);
    assert_eq!((mutex.name(), mutex.name_str()), ("größe \"42\"".as_bytes(), Some("größe \"42\"")));
    let shown = format!("{mutex:?}");
    let expected = r#"Mutex { name: "größe \"42\"", ttl: 20s, renewal: Auto, max_hold: Some(20s), min_hold: None, risk_margin: None, .. }"#;
    assert_eq!(shown, expected);
    let guard = mutex.lock().expect("one node");
    assert_eq!((guard.name(), guard.name_str()), (mutex.name(), mutex.name_str()));
    let shown = format!("{guard:?}");
    assert!(shown.starts_with(r#"Guard { name: "größe \"42\"", mode: SingleNode, "#), "{shown}");
    guard.unlock().expect("one node");

    let guard = locks.lock(b"\xff\n").expect("one node");
    assert_eq!((guard.name(), guard.name_str()), (b"\xff\n".as_slice(), None));
    assert!(format!("{guard:?}").starts_with(r#"Guard { name: b"\xff\n", "#), "{guard:?}");
    guard.unlock().expect("one node");

    // A handle without a valid name shows that name as well.
    let nameless = locks.mutex("");
    assert_eq!(nameless.name_str(), Some(""));
    nameless.lock().expect_err("it has no name");
}

/// The order of names is irrelevant, and duplicates count once.
#[test]
fn several_names_are_shown_in_order_and_each_of_them_once() {
    let servers = Servers::start(1);
    let locks = connected(settings(&servers));
    let lock: MultiMutex = locks.multi_mutex(["b", "a", "b"]).ttl(TTL);
    let shown = format!("{lock:?}");
    assert!(
        shown.starts_with(r#"MultiMutex { names: ["b", "a", "b"], ttl: 20s, "#),
        "as given: {shown}"
    );
    let guard: Guard = lock.lock().expect("one node");
    assert_eq!(
        (guard.name(), guard.names().collect::<Vec<_>>()),
        (&b"a"[..], vec![&b"a"[..], b"b"])
    );
    let shown = format!("{guard:?}");
    assert!(shown.starts_with(r#"Guard { names: ["a", "b"], mode: SingleNode, "#), "{shown}");
    guard.unlock().expect("one node");
    // A lock with one name has the layout of a mutex, and excludes one.
    let one = locks.multi_mutex(["a"]).lock().expect("one node");
    assert!(locks.try_lock("a").optional().expect("one node").is_none());
    assert!(format!("{one:?}").starts_with(r#"Guard { name: "a", "#));
    one.unlock().expect("one node");
    let error = locks.multi_mutex(["a", ""]).lock().expect_err("one has no bytes");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

/// The guard's owner is the text that an operator sees with `redis-cli GET`.
#[test]
fn the_key_of_a_lock_says_who_holds_it() {
    let servers = Servers::start(1);
    let on_server = || {
        let owner = servers[0].command(&["GET", KEY]);
        redis::from_redis_value::<String>(owner).expect("the lock is held")
    };
    let own = format!(":{}", std::process::id());
    for (label, expected) in [(None, own.as_str()), (Some("a #1 label"), "a #1 label")] {
        let builder = settings(&servers);
        let locks = connected(match label {
            Some(label) => builder.owner_label(label),
            None => builder,
        });
        let guard = locks.lock(NAME).expect("one node");
        assert_eq!(guard.owner(), on_server());
        let (label, random) = guard.owner().rsplit_once('#').expect("there is a label");
        assert!(label.ends_with(expected), "{label}");
        assert_eq!(random.len(), 36, "{random}");
        assert!(format!("{guard:?}").contains(&format!("owner: \"{}\"", guard.owner())));
        guard.unlock().expect("one node");
    }
    let nameless = connected(settings(&servers).owner_label(""));
    let [first, second] = [(); 2].map(|()| {
        let guard = nameless.lock(NAME).expect("one node");
        assert_eq!(guard.owner(), on_server());
        guard.owner().to_owned()
    });
    assert_eq!((first.len(), second.len()), (36, 36), "the random part alone");
    assert_ne!(first, second);
}

#[test]
fn words_for_people() {
    fn said<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> Vec<String> {
        let all: Vec<_> = all.into_iter().map(|one| one.to_string()).collect();
        for word in &all {
            let is_plain = |c: char| c.is_lowercase() || " ,_".contains(c);
            assert!(!word.is_empty() && word.chars().all(is_plain), "not as in a sentence: {word}");
        }
        all
    }
    assert_eq!(
        said([Mode::Quorum, Mode::SingleNode, Mode::Fallback]),
        ["quorum", "single node", "fallback"]
    );
    let ready_in = Duration::from_secs(7);
    assert_eq!(
        said([
            ErrorKind::Config,
            ErrorKind::InvalidName,
            ErrorKind::NoQuorum,
            ErrorKind::Quarantined { ready_in },
            ErrorKind::Held { remaining_ttl: None },
            ErrorKind::Lost,
            ErrorKind::Cancelled,
            ErrorKind::Closed,
            ErrorKind::WrongKind,
        ]),
        [
            "wrong configuration",
            "invalid name",
            "no quorum",
            "quarantined",
            "held",
            "lock lost",
            "cancelled",
            "closed",
            "wrong kind of key",
        ]
    );
    let reasons = said([
        LossReason::Expired,
        LossReason::Unconfirmed,
        LossReason::KeysGone,
        LossReason::MaxHold,
        LossReason::ClockStoodStill,
    ]);
    let words = [
        "validity ended",
        "too few nodes confirmed",
        "keys were gone",
        "longest time",
        "the clocks of most nodes",
    ];
    for (reason, words) in reasons.iter().zip(words) {
        assert!(reason.contains(words), "{reason}");
    }
    let risks = said([RiskReason::NotConfirmed, RiskReason::NotAnswered, RiskReason::Late]);
    let words =
        ["too few nodes confirm its", "answered its renewal so far", "this process or its machine"];
    for (reason, words) in risks.iter().zip(words) {
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(
        format!("[{:>12}|{:<8}]", Mode::SingleNode, ErrorKind::Lost),
        "[ single node|lock lost]"
    );
}

/// The channels come from the exported crate, including its macros.
#[test]
fn channels_come_with_the_crate() {
    let servers = Servers::start(1);
    let locks = connected(settings(&servers));
    let guard = locks.lock(NAME).expect("one node");
    let lost: &Receiver<LossReason> = guard.lost();
    select! {
        recv(lost) -> reason => panic!("{reason:?}"),
        default => {}
    }
    let (cancel, cancelled) = bounded(1);
    cancel.send(()).expect("there is room");
    let error = locks.lock_within(NAME, &cancelled).expect_err("cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    guard.unlock().expect("one node");
}

fn survives_panics<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn a_client_can_be_used_on_after_a_panic() {
    survives_panics::<Quorlock>();
    survives_panics::<Builder>();
    survives_panics::<Mutex>();
    survives_panics::<MultiMutex>();
    survives_panics::<Guard>();
    survives_panics::<Error>();
    survives_panics::<NodeFault>();
    survives_panics::<WithLockError<u32>>();
    #[cfg(feature = "embedded")]
    survives_panics::<quorlock::embedded::Nodes>();

    let servers = Servers::start(1);
    let locks = connected(settings(&servers));
    let (mutex, kept) = (locks.mutex(NAME), locks.lock("kept").expect("one node"));
    let panics = || -> u32 { std::panic::resume_unwind(Box::new("inside")) };
    let panicked = [
        catch_unwind(|| locks.with_lock(NAME, |_| panics()).map_err(Error::from)),
        catch_unwind(|| locks.with_lock_fallible(NAME, |_| Ok(panics()))),
        catch_unwind(|| mutex.lock().map(|_guard| panics())),
        catch_unwind(|| kept.check().map(|()| panics())),
        catch_unwind(|| locks.lock(PanicsAsName).map(|_guard| 0)),
    ];
    assert!(panicked.iter().all(Result::is_err), "{panicked:?}");
    kept.check().expect("it was ours all the time");
    mutex.lock().expect("it was given back").unlock().expect("one node");
    kept.unlock().expect("one node");
    servers.wait_no_keys();
}

struct PanicsAsName;

impl AsRef<[u8]> for PanicsAsName {
    fn as_ref(&self) -> &[u8] {
        std::panic::resume_unwind(Box::new("no name"))
    }
}

/// The text fits into a sentence, for messages.
#[test]
fn handles_and_guards_read_as_their_kind_and_name() {
    let servers = Servers::start(1);
    let locks = connected(settings(&servers));
    let accounts = locks.multi_mutex(["b", "a", "c"]);
    assert_eq!(locks.mutex(NAME).to_string(), "mutex \"orders/42\"");
    assert_eq!(locks.mutex([0xff]).to_string(), "mutex \"\\xff\"");
    assert_eq!(accounts.to_string(), "multi_mutex \"b\", \"a\" and \"c\"");
    assert_eq!(locks.multi_mutex([""; 0]).to_string(), "multi_mutex");
    assert_eq!(locks.rw_lock(NAME).to_string(), "rw_lock \"orders/42\"");
    assert_eq!(locks.semaphore(NAME, 3).to_string(), "semaphore \"orders/42\"");
    assert_eq!(
        accounts.lock().expect("one node").to_string(),
        "multi_mutex \"a\", \"b\" and \"c\""
    );
    let guard = locks.reentrant_mutex(NAME).lock().expect("one node");
    assert_eq!(guard.to_string(), "reentrant \"orders/42\"");
    guard.unlock().expect("one node");
    let guard = locks.rw_lock(NAME).write().expect("one node");
    assert_eq!(guard.to_string(), "write \"orders/42\"");
    assert_eq!(guard.downgrade().to_string(), "read \"orders/42\"");
}

/// The text is for logs: it has all settings, including defaults.
#[test]
fn the_settings_of_a_client_can_be_read() {
    let builder = Quorlock::builder().nodes(["redis://user:secret@127.0.0.1:1"]);
    let locks = builder
        .password("hidden")
        .min_hold(TTL)
        .max_hold(TTL * 2)
        .risk_margin(TTL / 2)
        .build()
        .expect("valid");
    let settings = locks.settings();
    assert!(settings.nodes().eq(["redis://127.0.0.1:1"]));
    assert_eq!((settings.min_hold(), settings.max_hold()), (Some(TTL), Some(TTL * 2)));
    assert_eq!(settings.risk_margin(), Some(TTL / 2));
    assert_eq!(settings.node_timeout(), Duration::from_millis(200));
    assert!(settings.owner_label().contains(&std::process::id().to_string()));
    for text in [format!("{settings:?}"), format!("{locks:?}")] {
        for word in ["127.0.0.1:1", "ttl: 10s", "min_hold: Some(20s)", settings.owner_label()] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("secret") && !text.contains("hidden"), "{text}");
    }
}
