//! Where the manual says more: the sections of `OPERATIONS.md` that messages name.
//!
//! Users of the published crate have no such file. They have its page in the documentation, so messages
//! link there, to the version that says so.

use std::fmt;

/// A section with exact steps, for somebody who has got an error or an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Section {
    AccessLists,
    FirstSeconds,
    OneToThree,
    ReplacingAMaster,
    AnotherMaxTtl,
    AnotherConfiguration,
}

impl Section {
    const fn title(self) -> &'static str {
        match self {
            Self::AccessLists => "Access lists",
            Self::FirstSeconds => "The first seconds",
            Self::OneToThree => "From one master to three",
            Self::ReplacingAMaster => "Replacing a master",
            Self::AnotherMaxTtl => "Another max_ttl",
            Self::AnotherConfiguration => "What needs all clients to stop",
        }
    }
}

/// The title, and the address. That has the name by which rustdoc links a heading.
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title();
        let anchor = title.to_lowercase().replace(' ', "-");
        let version = env!("CARGO_PKG_VERSION");
        write!(
            f,
            "\"{title}\", https://docs.rs/quorlock/{version}/quorlock/operations/index.html#{anchor}"
        )
    }
}

/// The commands that the manual's example of an access list allows.
#[cfg(all(test, feature = "diagnosis"))]
pub(crate) fn allowed_commands() -> impl Iterator<Item = &'static str> {
    let mut lines = include_str!("../OPERATIONS.md").lines();
    let line = lines.find(|line| line.starts_with("ACL SETUSER locker on"));
    line.expect("the example").split(' ').filter_map(|word| word.strip_prefix('+'))
}

#[cfg(test)]
mod tests {
    /// A heading is linked by its letters, digits and hyphens.
    #[test]
    fn each_section_is_there() {
        let manual = include_str!("../OPERATIONS.md");
        let arms = include_str!("manual.rs").lines().filter(|line| line.contains(" => \""));
        let titles: Vec<_> = arms.filter_map(|arm| arm.split('"').nth(1)).collect();
        assert!(titles.contains(&super::Section::AccessLists.title()), "{titles:?}");
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
