//! The terms in messages that a program can replace with its own.
//!
//! Messages name settings, calls of the library, and sections of `OPERATIONS.md`. The users of a program know none of these:
//! the program has options, or a file with other names. So each of these names is a [`Term`], and no message contains one as
//! plain text.

use std::fmt;
use std::sync::OnceLock;

type Words = dyn Fn(Term) -> Option<String> + Send + Sync;

static WORDS: OnceLock<Box<Words>> = OnceLock::new();

/// A term in messages that the users of a program may know by another name: see [`set_terms`].
///
/// `Display` shows the term as it is in messages of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Term {
    /// A setting, named by its method of the [`Builder`](crate::Builder), such as `max_ttl`.
    Setting(&'static str),
    /// A call that a message recommends, such as `Quorlock::admit` or `restart_quarantine(false)`.
    Call(&'static str),
    /// A section of [`operations`](crate::operations), named by its heading, such as `Access lists`.
    Section(&'static str),
}

/// Replaces the names of settings, calls and sections in all messages of this process: errors, events and reports. `words`
/// returns the text for a term, or `None` to keep the library's own name.
///
/// For programs with options or a settings file. Call it before anything else, as with a logger: existing texts do not
/// change. Only the first call in a process counts.
///
/// # Examples
///
/// ```
/// use quorlock::{Quorlock, Term};
///
/// // The settings of this program are in a section of its file.
/// quorlock::set_terms(|term| match term {
///     Term::Setting(name) => Some(format!("locks.{name}")),
///     _ => None,
/// });
/// let error = Quorlock::builder().nodes(["redis://a"]).set_name("").build().unwrap_err();
/// assert!(error.to_string().contains("locks.set_name"), "{error}");
/// ```
pub fn set_terms(words: impl Fn(Term) -> Option<String> + Send + Sync + 'static) {
    // As documented, a later call changes nothing.
    let _ = WORDS.set(Box::new(words));
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (WORDS.get().and_then(|words| words(*self)), self) {
            (Some(word), _) => f.write_str(&word),
            (None, Self::Setting(word) | Self::Call(word)) => f.write_str(word),
            (None, Self::Section(title)) => {
                // Rustdoc links a heading by this name.
                let anchor = title.to_lowercase().replace(' ', "-");
                let version = env!("CARGO_PKG_VERSION");
                write!(
                    f,
                    "\"{title}\", https://docs.rs/quorlock/{version}/quorlock/operations/index.html#{anchor}"
                )
            }
        }
    }
}

macro_rules! terms {
    ($($name:ident = $kind:ident($word:literal)),+ $(,)?) => {
        $(pub(crate) const $name: Term = Term::$kind($word);)+

        impl Term {
            /// All terms that occur in messages, so that a program can test that it has a text for each.
            pub const ALL: &[Self] = &[$($name),+];
        }
    };
}

terms! {
    NODES = Setting("nodes"),
    PASSWORD = Setting("password"),
    CREDENTIALS = Setting("credentials"),
    MAX_TTL = Setting("max_ttl"),
    CLOCK_TOLERANCE = Setting("clock_tolerance"),
    SET_NAME = Setting("set_name"),
    RESTART_QUARANTINE = Setting("restart_quarantine"),
    NODE_TIMEOUT = Setting("node_timeout"),
    MAX_HOLD = Setting("max_hold"),
    MIN_HOLD = Setting("min_hold"),
    BACKOFF = Setting("backoff"),
    FALLBACK = Setting("fallback"),
    WAIT_REPLICAS = Setting("wait_replicas"),
    KEY_PREFIX = Setting("key_prefix"),
    OWNER_LABEL = Setting("owner_label"),
    TLS_CA = Setting("tls_ca"),
    TLS_CLIENT_CERT = Setting("tls_client_cert"),
    ADMIT = Call("Quorlock::admit"),
    NO_QUARANTINE = Call("restart_quarantine(false)"),
    ACCESS_LISTS = Section("Access lists"),
    FIRST_SECONDS = Section("The first seconds"),
    ONE_TO_THREE = Section("From one master to three"),
    REPLACING_A_MASTER = Section("Replacing a master"),
    MASTERS_WITH_REPLICAS = Section("Masters with replicas"),
    ANOTHER_MAX_TTL = Section("Another max_ttl"),
    ANOTHER_CONFIGURATION = Section("Changes with all clients stopped"),
}

/// Returns the commands that the manual's example of an access list allows.
#[cfg(all(test, feature = "diagnosis"))]
pub(crate) fn allowed_commands() -> impl Iterator<Item = &'static str> {
    let mut lines = include_str!("../OPERATIONS.md").lines();
    let line = lines.find(|line| line.starts_with("ACL SETUSER locker on"));
    line.expect("the example").split(' ').filter_map(|word| word.strip_prefix('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heading's link consists of its letters, digits and hyphens.
    #[test]
    fn each_section_is_there() {
        let manual = include_str!("../OPERATIONS.md");
        let title = |term: &Term| match term {
            Term::Section(title) => Some(*title),
            Term::Setting(_) | Term::Call(_) => None,
        };
        let titles: Vec<_> = Term::ALL.iter().filter_map(title).collect();
        assert!(titles.len() >= 6, "{titles:?}");
        for title in titles {
            let heading =
                |line: &str| line.replace('`', "").trim_start_matches('#').trim() == title;
            let there = manual.lines().any(|line| line.starts_with("##") && heading(line));
            assert!(there, "OPERATIONS.md has no section \"{title}\"");
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-');
            assert!(title.chars().all(plain), "{title}");
        }
    }
}
