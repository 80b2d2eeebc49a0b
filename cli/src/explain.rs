//! `quorlock explain`: an error, an exit code or an event, and the remedy.

use std::ops::RangeInclusive;
use std::str::FromStr as _;

use nix::sys::signal::Signal;

use crate::exit::{End, Failure};
use crate::options::Explain;
use crate::pages::links;
use crate::tell::{print, quoted};

/// The page of all errors and events. The library's documentation has it as well.
const ERRORS: &str = include_str!("../errors.md");

/// The texts of errors whose kinds have other names.
const TEXTS: [(&str, &str); 4] = [
    ("wrong configuration", "config"),
    ("lock lost", "lost"),
    ("would wait for itself", "woulddeadlock"),
    ("wrong kind of key", "wrongkind"),
];
/// Shortest beginning of a name that is taken for the name.
const SHORTEST: usize = 4;

/// Prints all sections, and all lines about events, that fit the words.
pub(crate) fn explain(options: &Explain) -> Result<u8, Failure> {
    let what = options.what.join(" ");
    let found = found(&what);
    if found.is_empty() {
        return Err(Failure::own(format!(
            "{} is no exit code, no error and no event of quorlock; quorlock explain without a word lists them",
            quoted(what.as_bytes())
        )));
    }
    print(found.join("\n\n"))?;
    Ok(0)
}

/// The text of the page's links: each leads to a section of the manual for operators.
fn without_links(text: &str) -> String {
    links(ERRORS).fold(text.to_owned(), |text, (section, _)| {
        text.replace(
            &format!("[{section}]"),
            &format!("\"{section}\" in `quorlock man operations`"),
        )
    })
}

fn found(what: &str) -> Vec<String> {
    let what = what.trim().to_lowercase();
    if what.is_empty() {
        return vec![titles()];
    }
    let what = ["exit code ", "exit status ", "error "]
        .into_iter()
        .fold(what.as_str(), |what, before| what.trim_start_matches(before));
    if let Some(code) = code(what) {
        let of_code =
            sections().filter(|section| section.codes().is_some_and(|it| it.contains(&code)));
        let found: Vec<_> = of_code.map(|section| section.shown()).collect();
        let others = || sections().filter(|section| section.title == OTHERS);
        return if found.is_empty() { others().map(|it| it.shown()).collect() } else { found };
    }
    let name = TEXTS.iter().find(|(text, _)| *text == what).map_or(what, |(_, name)| *name);
    let letters = letters(name);
    if let Some(exact) = sections().find(|section| self::letters(section.name()) == letters) {
        return vec![exact.shown()];
    }
    let begins = |section: &Section| {
        letters.len() >= SHORTEST && self::letters(section.name()).starts_with(&letters)
    };
    let by_name = sections().filter(begins).map(|section| section.shown());
    let has_words = |event: &String| {
        let event = event.to_lowercase();
        event.contains(what) || event.lines().next().is_some_and(|it| what.contains(bare(it)))
    };
    let found: Vec<_> = by_name.chain(events().filter(has_words)).collect();
    if !found.is_empty() {
        return found;
    }
    let has_words = |section: &Section| section.text.to_lowercase().replace('`', "").contains(what);
    sections().filter(has_words).map(|section| section.shown()).collect()
}

/// The exit code that is meant: a number, or the name of a signal.
fn code(what: &str) -> Option<u8> {
    what.parse().ok().or_else(|| {
        let signal = Signal::from_str(&what.to_uppercase()).ok()?;
        Some(End::Signal(signal).code())
    })
}

/// The title of an event, without its level.
fn bare(title: &str) -> &str {
    title.rsplit_once(" (").map_or(title, |(text, _)| text)
}

fn letters(text: &str) -> String {
    text.replace([' ', '_', '-'], "").to_lowercase()
}

/// The line above the section of events.
const EVENTS: &str = "\n## Events\n";
/// The title of the section about the exit codes of other commands.
const OTHERS: &str = "Other exit codes";

struct Section {
    title: &'static str,
    text: &'static str,
}

/// The sections about errors and exit codes, which come before the events.
fn sections() -> impl Iterator<Item = Section> {
    let page = ERRORS.split(EVENTS).next().unwrap_or_default();
    page.split("\n## ").skip(1).filter_map(|section| {
        let (title, text) = section.split_once('\n')?;
        Some(Section { title, text: text.trim() })
    })
}

impl Section {
    fn shown(&self) -> String {
        format!("{}\n\n{}", self.title, without_links(self.text))
    }

    /// The name in a title such as `NoQuorum, exit code 121`.
    fn name(&self) -> &'static str {
        self.title.split(',').next().unwrap_or_default()
    }

    /// The exit codes of a title such as `Signal, exit codes 129 to 192`.
    fn codes(&self) -> Option<RangeInclusive<u8>> {
        let mut numbers = self.title.split(' ').filter_map(|word| word.parse().ok());
        let first = numbers.next()?;
        Some(first..=numbers.next().unwrap_or(first))
    }
}

/// The lines of the table of events: the text, the level and the meaning.
fn events() -> impl Iterator<Item = String> {
    let table = ERRORS.split("| event | level | ").nth(1).unwrap_or_default();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').splitn(3, '|').map(str::trim);
        let (event, level, meaning) = (cells.next()?, cells.next()?, cells.next()?);
        Some(format!("{event} ({level})\n\n{}", without_links(meaning)))
    })
}

fn titles() -> String {
    let errors = sections().map(|section| section.title.to_owned());
    let events = events().filter_map(|event| event.lines().next().map(str::to_owned));
    errors.chain(events).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use quorlock::ErrorKind;

    use super::*;

    #[test]
    fn each_kind_of_error_has_a_section() {
        let kinds = [
            "Config",
            "InvalidName",
            "NoQuorum",
            "Quarantined",
            "Held",
            "Lost",
            "WouldDeadlock",
            "Cancelled",
            "Closed",
            "WrongKind",
        ];
        for kind in kinds {
            assert_eq!(found(kind).len(), 1, "{kind}");
        }
        assert_eq!(found("no quorum"), found("NoQuorum"));
        assert!(found("quarantine").len() > 1, "events as well");
        let kinds =
            [ErrorKind::Config, ErrorKind::Lost, ErrorKind::WouldDeadlock, ErrorKind::WrongKind];
        for kind in kinds {
            assert_eq!(found(&kind.to_string()), found(&format!("{kind:?}")));
        }
        for words in ["connection refused", "no answer in time", "KeysGone"] {
            assert_eq!(found(words).len(), 1, "{words}");
        }
        for reason in ["Expired", "Unconfirmed", "KeysGone", "MaxHold", "ClockStoodStill"] {
            assert!(ERRORS.contains(&format!("| `{reason}` |")), "{reason}");
        }
    }

    /// Covers each line of the tables of exit codes in the program's help.
    #[test]
    fn each_exit_code_has_a_section() {
        let tables = [
            crate::exit::TABLE,
            crate::exit::ELECT_TABLE,
            crate::exit::LEADER_TABLE,
            crate::exit::STATUS_TABLE,
            crate::exit::ADMIN_TABLE,
            crate::exit::DOCTOR_TABLE,
            crate::exit::BENCH_TABLE,
            crate::exit::DEMO_TABLE,
            crate::exit::TOP_TABLE,
        ];
        let codes =
            tables.into_iter().flat_map(str::lines).filter_map(|line| line.trim().split_once("  "));
        let codes: Vec<u8> = codes.filter_map(|(code, _)| code.parse().ok()).collect();
        assert!(codes.len() > 20, "{codes:?}");
        for code in codes {
            assert!(!found(&code.to_string()).is_empty(), "{code}");
        }
        assert_eq!(found("120").len(), 1);
        assert!(found("125").len() > 1, "several errors have it");
        assert!(found("143")[0].starts_with("Signal"));
        assert_eq!((found("SIGTERM"), found("exit code 120")), (found("143"), found("120")));
        assert!(found("7")[0].starts_with(OTHERS));
        assert!(found("300").is_empty() && found("nonsense").is_empty());
    }

    #[test]
    fn events_are_found_by_some_words() {
        let node = found("node is down");
        assert!(node[0].starts_with("node is down (WARN)\n\nIt is out of reach"), "{node:?}");
        let as_logged = found("node is in quarantine: it grants no locks yet");
        assert!(as_logged[0].starts_with("node is in quarantine (WARN)"), "{as_logged:?}");
        assert!(events().count() > 25 && found("").len() == 1);
        let other = links(ERRORS).find(|(_, target)| !target.starts_with("../OPERATIONS.md#"));
        assert_eq!(other, None);
        let shown: Vec<_> = sections().map(|it| it.shown()).chain(events()).collect();
        assert_eq!(shown.iter().find(|text| text.contains(['[', ']'])), None);
    }
}
