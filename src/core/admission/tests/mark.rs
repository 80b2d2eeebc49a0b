//! Tests of the mark's text.

use proptest::prelude::*;

use super::*;

const RUN: &str = "d45eaf70ea2b590722e768d829b50a108cf6c756";
const REPL: &str = "b38e0e1ff43848f77ca38ccfe7b893db98d21826";

fn mark(state: MarkState) -> Mark {
    let configuration = Configuration {
        set_name: "default".to_owned(),
        nodes: 3,
        max_ttl: Duration::from_secs(10),
        clock_tolerance: Duration::from_millis(100),
        quarantine: true,
        index: None,
    };
    let identity = Identity::new(RUN, REPL).expect("ids");
    Mark { configuration, identity, noted: Noted { ahead_ms: -12, at_ms: 17 }, state }
}

#[test]
fn the_text_is_as_documented() {
    let start = "quorlock-mark 2 set=default nodes=3 max_ttl_ms=10000 clock_tolerance_ms=100 quarantine=on index=-";
    assert_eq!(
        mark(MarkState::Admitted).to_string(),
        format!("{start} run={RUN} repl={REPL} ahead_ms=-12 noted_at_ms=17 admitted")
    );
    let state = MarkState::Quarantined { until_ms: Some(1_795_238_850_123), id: 0xc0_ffee };
    assert_eq!(
        mark(state).to_string(),
        format!(
            "{start} run={RUN} repl={REPL} ahead_ms=-12 noted_at_ms=17 quarantined until_ms=1795238850123 id=0000000000c0ffee"
        )
    );
    let state = MarkState::Quarantined { until_ms: None, id: u64::MAX };
    assert!(mark(state).to_string().ends_with("quarantined until_ms=- id=ffffffffffffffff"));
}

#[test]
fn whatever_is_written_otherwise_is_no_mark_of_ours() {
    let admitted = mark(MarkState::Admitted).to_string();
    let quarantined = mark(MarkState::Quarantined { until_ms: Some(7), id: 1 }).to_string();
    let changed = |from: &str, to: &str| {
        let text = admitted.replacen(from, to, 1);
        let text = if text == admitted { quarantined.replacen(from, to, 1) } else { text };
        assert!(text != admitted && text != quarantined, "\"{from}\" is in neither");
        text
    };
    let others = [
        String::new(),
        "1".to_owned(),
        "list".to_owned(),
        changed("quorlock-mark 2", "quorlock-mark 1"),
        changed("quorlock-mark 2 ", "quorlock-mark 2  "),
        changed("quorlock-mark", "Quorlock-mark"),
        changed("set=default", "set="),
        changed("set=default", "set=a=b"),
        changed("set=default", "set=default nodes=3"),
        changed("nodes=3", "nodes=03"),
        changed("nodes=3", "nodes=+3"),
        changed("nodes=3", "nodes=0"),
        changed("nodes=3", "nodes=99999999999999999999"),
        changed("max_ttl_ms=10000", "max_ttl_ms=0"),
        changed("max_ttl_ms=10000", "max_ttl_ms=10s"),
        changed(" clock_tolerance_ms=100", ""),
        changed("clock_tolerance_ms=100", "clock_tolerance_ms=0"),
        changed("quarantine=on", "quarantine=yes"),
        changed("index=-", "index=3"),
        changed("index=-", "index="),
        changed(RUN, ""),
        changed(RUN, "d45e-f70e"),
        changed(RUN, &"a".repeat(65)),
        changed("ahead_ms=-12 ", ""),
        changed("ahead_ms=-12", "ahead_ms=-012"),
        changed("ahead_ms=-12", "ahead_ms=-0"),
        changed("ahead_ms=-12", "ahead_ms=-"),
        changed(" noted_at_ms=17", ""),
        changed("noted_at_ms=17", "noted_at_ms=-17"),
        changed("admitted", "Admitted"),
        changed("admitted", "admitted "),
        changed("admitted", "admitted\n"),
        changed("admitted", "quarantined"),
        changed("until_ms=7", "until_ms=-7"),
        changed("until_ms=7", "until_ms=007"),
        changed("id=0000000000000001", "id=1"),
        changed("id=0000000000000001", "id=000000000000000G"),
        changed("id=0000000000000001", "id=0000000000000001 x"),
        quarantined.replace("quarantine=on", "quarantine=off"),
    ];
    for text in others {
        assert_eq!(Mark::parse(&text), None, "{text}");
    }
}

#[test]
fn names_of_sets_leave_no_doubt_where_they_end() {
    let longest = "a".repeat(64);
    for name in ["default", "eu-west_1.orders", "A", "-", &longest] {
        assert!(Configuration::is_set_name(name), "{name}");
    }
    let too_long = "a".repeat(65);
    for name in ["", "a b", "a=b", "a\n", "\u{e4}", "a/b", &too_long] {
        assert!(!Configuration::is_set_name(name), "{name}");
    }
}

#[test]
fn differences_name_the_setting_and_both_values() {
    let ours = mark(MarkState::Admitted).configuration;
    let theirs = Configuration {
        max_ttl: Duration::from_secs(60),
        clock_tolerance: Duration::from_secs(1),
        quarantine: false,
        index: Some(0),
        ..ours.clone()
    };
    let difference = |setting, ours: &str, theirs: &str| Difference {
        setting,
        ours: ours.to_owned(),
        theirs: theirs.to_owned(),
    };
    let expected = [
        difference(Setting::MaxTtl, "10 s", "1 min"),
        difference(Setting::ClockTolerance, "100 ms", "1 s"),
        difference(Setting::Quarantine, "on", "off"),
        difference(Setting::Fallback, "off", "on"),
    ];
    assert_eq!(ours.differences(&theirs), expected);
    assert_eq!(ours.differences(&ours), Vec::new());
}

fn any_mark() -> impl Strategy<Value = Mark> {
    let id = "[0-9a-zA-Z]{1,64}";
    let state = prop_oneof![
        Just(MarkState::Admitted),
        (any::<Option<u64>>(), any::<u64>())
            .prop_map(|(until_ms, id)| MarkState::Quarantined { until_ms, id }),
    ];
    let set = ("[A-Za-z0-9._-]{1,64}", 1_usize..1_000, 1_u64.., 1_u64.., any::<Option<usize>>());
    (set, any::<bool>(), id, id, any::<(i64, u64)>(), state).prop_map(
        |(
            (set_name, nodes, max_ttl_ms, tolerance_ms, index),
            quarantine,
            run,
            repl,
            (ahead_ms, at_ms),
            state,
        )| {
            let configuration = Configuration {
                set_name,
                nodes,
                max_ttl: Duration::from_millis(max_ttl_ms),
                clock_tolerance: Duration::from_millis(tolerance_ms),
                quarantine: quarantine || state != MarkState::Admitted,
                index: index.map(|index| index % nodes),
            };
            let identity = Identity::new(&run, &repl).expect("made of letters and digits");
            let noted = Noted { ahead_ms, at_ms };
            Mark { configuration, identity, noted, state }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(mark in any_mark()) {
        let text = mark.to_string();
        prop_assert!(text.len() <= 512, "the script shows no more: {text}");
        prop_assert_eq!(Mark::parse(&text), Some(mark));
    }

    /// One state has one text: scripts compare nothing else.
    #[test]
    fn no_other_text_reads_as_the_same_mark(mark in any_mark(), at in 0..512_usize, byte in 32..127_u8) {
        let text = mark.to_string();
        let at = at % text.len();
        let other = format!("{}{}{}", &text[..at], char::from(byte), &text[at + 1..]);
        prop_assert!(other == text || Mark::parse(&other) != Some(mark));
    }
}
