//! Settings from a file, with the names of the builder's methods.

use std::time::Duration;

use quorlock::{Builder, ErrorKind, Fallback, Quorlock, Renewal};

#[cfg(feature = "tls")]
#[path = "support/reaper.rs"]
mod reaper;

fn read(text: &str) -> Result<Builder, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// All settings, each different from its default.
const ALL: &str = r#"
nodes = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"]
password = "secret"
ttl = "7s"
max_ttl = "1m 30s"
clock_tolerance = "150ms"
set_name = "billing"
restart_quarantine = false
node_timeout = "300ms"
no_quorum_timeout = "11s"
renewal = "manual"
max_hold = "1h"
min_hold = "5m"
risk_margin = "3s"
backoff = { min = "6ms", max = "60ms" }
fallback = { single_node = { after = "30s" } }
wait_replicas = { replicas = 2, timeout = "120ms" }
fencing = false
local_queue = false
key_prefix = "app:"
owner_label = "worker"
"#;

#[test]
fn settings_are_read_by_the_names_of_the_calls() {
    let seconds = Duration::from_secs;
    let ms = Duration::from_millis;
    let called = Quorlock::builder()
        .nodes(["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"])
        .password("secret")
        .ttl(seconds(7))
        .max_ttl(seconds(90))
        .clock_tolerance(ms(150))
        .set_name("billing")
        .restart_quarantine(false)
        .node_timeout(ms(300))
        .no_quorum_timeout(seconds(11))
        .renewal(Renewal::Manual)
        .max_hold(seconds(3_600))
        .min_hold(seconds(300))
        .risk_margin(seconds(3))
        .backoff(ms(6), ms(60))
        .fallback(Fallback::SingleNode { after: seconds(30) })
        .wait_replicas(2, ms(120))
        .fencing(false)
        .local_queue(false)
        .key_prefix("app:")
        .owner_label("worker");
    let written = read(ALL).expect("all of it is known");
    assert_eq!(format!("{written:?}"), format!("{called:?}"));
    written.build().expect("the settings are valid");
    assert_eq!(format!("{:?}", read("").expect("nothing")), format!("{:?}", Builder::default()));
}

/// Each method of the builder must have a setting in the file, but for a provider, which is code.
#[test]
fn each_call_of_the_builder_has_its_setting() {
    let source = include_str!("../src/config.rs");
    let calls = source.lines().filter_map(|line| {
        let (name, _) = line.trim().strip_prefix("pub fn ")?.split_once('(')?;
        (!name.ends_with("from_env") && name != "credentials").then_some(name)
    });
    let calls: Vec<_> = calls.collect();
    assert!(calls.len() > 15, "{calls:?}");
    for name in calls {
        // No setting accepts a table of unknown names as its value.
        let error = read(&format!("{name} = {{ nonsense = 1 }}")).expect_err("no value of it");
        assert!(!error.contains("unknown field `{name}`"), "{error}");
        assert!(ALL.contains(&format!("\n{name} = ")) || name.starts_with("tls_"), "{name}");
    }
}

#[test]
fn what_is_not_known_is_an_error_that_says_where() {
    for (text, says) in [
        ("ttl = \"5s\"\ntll = \"5s\"", "line 2"),
        ("tll = \"5s\"", "unknown field `tll`, expected one of `nodes`"),
        ("ttl = 10", "a duration with its unit, such as \"10s\" or \"500ms\""),
        ("ttl = \"10\"", "a duration with its unit"),
        ("ttl = \"soon\"", "a duration with its unit"),
        ("nodes = \"redis://a\"", "expected a list of URLs"),
        ("renewal = \"sometimes\"", "unknown variant `sometimes`, expected `auto` or `manual`"),
        ("fallback = { single_node = { afer = \"1s\" } }", "unknown field `afer`"),
        ("backoff = \"5ms\"", "expected the shortest and the longest pause: { min = \"5ms\""),
        ("backoff = { min = \"1ms\" }", "missing field `max`"),
        ("backoff = { min = \"1ms\", max = \"2ms\", mid = \"1ms\" }", "unknown field `mid`"),
        ("wait_replicas = { replicas = -1, timeout = \"1s\" }", "expected u32"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn values_are_checked_when_the_client_is_built() {
    let builder = read("nodes = [\"redis://127.0.0.1:1\"]\nttl = \"0s\"").expect("it can be read");
    let error = builder.build().expect_err("no lock ends at once");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("ttl"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn certificates_are_given_as_text_or_by_the_path_of_a_file() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["host".to_owned()]).expect("a name");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    let folder = reaper::Folder::create("quorlock-settings").expect("there is room");
    let file = folder.join("ca.pem");
    std::fs::write(&file, &pem).expect("there is room");
    let nodes = "nodes = [\"rediss://127.0.0.1:1\"]\n";
    for ca in [format!("'''{pem}'''"), format!("{:?}", file.to_str().expect("text"))] {
        let builder = read(&format!("{nodes}tls_ca = {ca}")).expect("it can be read");
        builder.build().expect("the certificate can be used");
    }
    let gone = read(&format!("{nodes}tls_ca = \"/no/such/file\"")).expect_err("no such file");
    assert!(gone.contains("tls_ca: the file \"/no/such/file\" cannot be read"), "{gone}");
    let cert =
        format!("tls_client_cert = {{ cert = {file:?}, key = '''{}''' }}", key.serialize_pem());
    read(&format!("{nodes}{cert}")).expect("both").build().expect("they can be used");
}
