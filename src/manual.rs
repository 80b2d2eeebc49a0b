//! The sections of `OPERATIONS.md` that messages name.

use std::fmt;

/// A section with exact steps, for somebody who has got an error or an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Section {
    FirstSeconds,
    OneToThree,
    ReplacingAMaster,
    AnotherMaxTtl,
    AnotherConfiguration,
}

impl Section {
    fn title(self) -> &'static str {
        match self {
            Self::FirstSeconds => "The first seconds",
            Self::OneToThree => "From one master to three",
            Self::ReplacingAMaster => "Replacing a master",
            Self::AnotherMaxTtl => "Another `max_ttl`",
            Self::AnotherConfiguration => "What needs all clients to stop",
        }
    }
}

/// The title as it is read, and where it is: the file is a module of the documentation as well.
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title().replace('`', "");
        write!(f, "\"{title}\" in OPERATIONS.md (quorlock::operations)")
    }
}

#[cfg(test)]
mod tests {
    use super::Section::*;

    #[test]
    fn each_section_is_there() {
        let manual = include_str!("../OPERATIONS.md");
        for section in
            [FirstSeconds, OneToThree, ReplacingAMaster, AnotherMaxTtl, AnotherConfiguration]
        {
            let title = section.title();
            let is_title = |line: &str| line.trim_start_matches('#').trim() == title;
            let there = manual.lines().any(|line| line.starts_with("##") && is_title(line));
            assert!(there, "OPERATIONS.md has no section \"{title}\"");
        }
    }
}
