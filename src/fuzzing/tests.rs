//! The properties, tried with nearly correct input, and with any input. The fuzzer starts from these.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// The bytes unchanged, or with one byte changed, or cut off.
fn damaged(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (bytes, 0..4, any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut bytes, how, at, byte)| {
            match how {
                1 if !bytes.is_empty() => *at.get_mut(&mut bytes) = byte,
                2 => bytes.truncate(at.index(bytes.len() + 1)),
                _ => {}
            }
            bytes
        },
    )
}

/// A length or a number, often one at which programs fail.
fn number() -> impl Strategy<Value = String> {
    let edges = [
        "0",
        "1",
        "2",
        "3",
        "8",
        "-0",
        "-1",
        "-2",
        "+1",
        "01",
        " 1",
        "",
        "x",
        "1e3",
        "65536",
        "262144",
        "2147483647",
        "2251799813685247",
        "2251799813685248",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
    ];
    prop_oneof![
        select(edges.to_vec()).prop_map(str::to_owned),
        (-9..70_000_i64).prop_map(|n| n.to_string())
    ]
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn list(sign: char, parts: &[Vec<u8>]) -> Vec<u8> {
    let parts_a_line = if matches!(sign, '%' | '|') { 2 } else { 1 };
    let mut bytes = format!("{sign}{}\r\n", parts.len() / parts_a_line).into_bytes();
    bytes.extend(parts.concat());
    bytes
}

/// A string in an answer: any string, or one with a meaning somewhere.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "OK",
        "alone",
        "master",
        "slave",
        "cluster",
        "message",
        "subscribe",
        "unsubscribe",
        "1700000000",
        "NOSCRIPT No matching script",
        "NOPERM this user has no permissions",
        "LOADING",
        "BUSY",
        "MISCONF",
        "ERR unknown command 'EVAL'",
        "WRONGPASS invalid",
        "READONLY",
        "OOM",
        "DENIED",
        "MOVED 1 a:1",
        "{one}:released",
        "redis_version:7.2.0\r\nrun_id:a1",
        "redis_version:\u{1b}[2J\r\nrun_id:",
    ];
    prop_oneof![
        3 => select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => number().prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..40),
        1 => "[a-f0-9]{40}".prop_map(String::into_bytes),
        1 => (any::<u8>(), 0..5_000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

/// Any answer that a server can give, and some that it cannot.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let line =
        (select(b"+:-_,#(".to_vec()), prop_oneof![number().prop_map(String::into_bytes), word()])
            .prop_map(|(sign, line)| [&[sign][..], &line, b"\r\n"].concat());
    let sized = (select(b"$=!*%~|>".to_vec()), number(), word()).prop_map(|(sign, size, text)| {
        [&[sign][..], size.as_bytes(), b"\r\n", &text, b"\r\n"].concat()
    });
    let leaf = prop_oneof![
        4 => word().prop_map(|word| bulk(&word)),
        4 => number().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        2 => line,
        1 => sized,
    ];
    leaf.prop_recursive(10, 64, 8, |inner| {
        let lists = (select(vec!['*', '*', '*', '%', '~', '|', '>']), vec(inner.clone(), 0..8))
            .prop_map(|(sign, parts)| list(sign, &parts));
        let deep = (inner, 0..120_usize)
            .prop_map(|(inner, depth)| [b"*1\r\n".repeat(depth), inner].concat());
        prop_oneof![6 => lists, 1 => deep]
    })
}

/// Answers of our own scripts, of TIME, and of a probe, nearly correct.
fn ours() -> impl Strategy<Value = Vec<u8>> {
    let integer = |number: &String| format!(":{number}\r\n").into_bytes();
    let integers =
        vec(number().prop_map(move |it| integer(&it)), 1..4).prop_map(|it| list('*', &it));
    let time = (number(), number())
        .prop_map(|(s, us)| list('*', &[bulk(s.as_bytes()), bulk(us.as_bytes())]));
    let ids = ("[a-f0-9]{0,41}", "[a-f0-9]{0,41}", "[0a]{0,40}");
    let probe = (
        0..3,
        select(vec!["master", "slave", "cluster", ""]),
        ids,
        number(),
        vec(mark_text(), 0..2),
    )
        .prop_map(|(changed, role, (run, repl, repl2), seconds, marks)| {
            let marks: Vec<_> = marks.iter().map(|mark| bulk(mark.as_bytes())).collect();
            let texts =
                [role, &run, &repl, &repl2, &seconds, "40566"].map(|it| bulk(it.as_bytes()));
            let changed = format!(":{changed}\r\n").into_bytes();
            list('*', &[&[changed][..], &texts, &[list('*', &marks)]].concat())
        });
    prop_oneof![integers, number().prop_map(|n| format!(":{n}\r\n").into_bytes()), time, probe]
}

fn answers(most: usize) -> impl Strategy<Value = Vec<u8>> {
    damaged(vec(prop_oneof![answer(), ours()], 0..most).prop_map(|answers| answers.concat()))
}

fn mark_text() -> impl Strategy<Value = String> {
    let states = [
        "admitted",
        "quarantined until_ms=- id=00c0ffee00c0ffee",
        "quarantined until_ms=7 id=0",
        "",
    ];
    let fields = (number(), number(), number(), number(), number(), select(states.to_vec()));
    let mark = fields.prop_map(|(nodes, ttl, tolerance, ahead, noted, state)| {
        format!(
            "quorlock-mark 2 set=default nodes={nodes} max_ttl_ms={ttl} clock_tolerance_ms={tolerance} \
             quarantine=on index=- run=run0 repl=repl0 ahead_ms={ahead} noted_at_ms={noted} {state}"
        )
    });
    let text = damaged(mark.prop_map(String::into_bytes));
    text.prop_map(|text| String::from_utf8_lossy(&text).into_owned())
}

fn url_text() -> impl Strategy<Value = String> {
    let parts = [
        "redis",
        "rediss",
        "unix",
        "REDIS",
        "http",
        "://",
        ":",
        "/",
        "?",
        "#",
        "@",
        "&",
        "=",
        "%",
        "%2F",
        "[",
        "]",
        "::1",
        "host",
        "localhost",
        "127.0.0.1",
        "6379",
        "0",
        "99999999999",
        "user",
        "secret",
        "db",
        "pass",
        "protocol",
        "resp3",
        "insecure",
        " ",
        "\n",
        "\u{e4}",
        "..",
        "\\",
        "\0",
    ];
    let soup = vec(select(parts.to_vec()), 0..14).prop_map(|parts| parts.concat());
    prop_oneof![
        soup.clone().prop_map(|rest| format!("redis://{rest}")),
        soup.clone().prop_map(|rest| format!("unix:///{rest}")),
        soup,
        any::<String>(),
    ]
}

/// Found by the fuzzer: without its steps up the path contains a URL.
#[test]
fn a_url_in_the_path_behind_steps_up_is_refused_as_well() {
    url("unix:///a/unix:/b/.%2E///c");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn answers_read_the_same_however_they_come(pieces in any::<[u8; 2]>(), bytes in answers(6)) {
        answers_in_pieces(&[&pieces[..], &bytes].concat());
    }

    #[test]
    fn replies_read_as_what_is_documented_or_as_nothing(bytes in answers(3)) {
        script_replies(&bytes);
    }

    #[test]
    fn messages_are_heard_where_there_are_some(bytes in answers(4)) {
        messages(&bytes);
    }

    #[test]
    fn errors_make_short_and_printable_messages(line in word(), more in vec(any::<u8>(), 0..40)) {
        errors(&line);
        errors(&[line, more].concat());
    }

    #[test]
    fn what_a_server_says_of_itself_is_shown_in_short(lines in vec(
        (select(vec!["redis_version:", "run_id:", "garnet_version:", "redis_mode:", "maxmemory_policy:",
            "dragonfly_version:", "cluster_enabled:", "# Server", ""]), word()), 0..6)) {
        let lines = lines.iter().map(|(name, value)| [name.as_bytes(), value, b"\r\n"].concat());
        info(&lines.collect::<Vec<_>>().concat());
    }

    #[test]
    fn marks_have_one_spelling(text in mark_text(), any in any::<String>()) {
        mark(&text);
        mark(&any);
    }

    #[test]
    fn urls_are_read_or_refused(text in url_text()) {
        url(&text);
    }

    #[test]
    fn no_part_of_a_password_is_shown(bytes in vec(any::<u8>(), 2..24)) {
        secret(&bytes);
    }

    #[test]
    fn names_are_locks_or_refused(
        prefix in vec(select(b"a{}:".to_vec()), 0..6),
        bytes in prop_oneof![
            vec(select(b"a{}:\n\0\xff".to_vec()), 0..12),
            (vec(select(b"a{}:".to_vec()), 0..6), select(vec![":fence", ":mark", ":replicated", ":offset"]))
                .prop_map(|(name, end)| [&name, end.as_bytes()].concat()),
            (4_090..4_100_usize).prop_map(|length| vec![b'a'; length]),
        ],
    ) {
        name(&prefix, &bytes);
    }

    #[test]
    fn no_order_of_votes_wins_without_a_majority(data in vec(any::<u8>(), 0..200)) {
        votes(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_endless_answer_ends_at_the_limit(once in any::<u8>(), bytes in answers(3)) {
        endless_answer(&[&[once][..], &bytes].concat());
    }

    #[test]
    fn marks_and_clocks_of_a_minority_keep_the_others_from_nothing(data in vec(any::<u8>(), 0..3_000)) {
        probes(&data);
    }

    #[cfg(unix)]
    #[test]
    fn each_request_is_answered_once_whatever_the_server_says(
        begins in any::<u8>(),
        first in probe_reply(),
        bytes in answers(12),
    ) {
        conversation(&[&[begins | 1][..], &first, &bytes].concat());
        conversation(&[&[begins][..], &bytes].concat());
    }

    #[cfg(unix)]
    #[test]
    fn a_subscriber_comes_to_an_end(bytes in answers(8)) {
        listening(&bytes);
    }
}

/// The reply of a correct node, with a mark or without.
fn probe_reply() -> impl Strategy<Value = Vec<u8>> {
    vec(mark_text(), 0..2).prop_map(|marks| {
        let marks: Vec<_> = marks.iter().map(|mark| bulk(mark.as_bytes())).collect();
        let texts =
            ["master", "run0", "repl0", "0", "1700000000", "0"].map(|it| bulk(it.as_bytes()));
        list('*', &[&[b":0\r\n".to_vec()][..], &texts, &[list('*', &marks)]].concat())
    })
}
