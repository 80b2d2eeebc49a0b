//! A server's own words in our messages.

use std::fmt;

/// Most characters of a server's words that are shown.
const SHOWN: usize = 200;

/// `text` with control characters escaped, and cut off after [`SHOWN`] characters.
///
/// Messages go to logs and terminals. A server, or something in its place, must be able neither to fill
/// them nor to write lines or control sequences of its own there.
pub(super) const fn quoted(text: &str) -> impl fmt::Display + '_ {
    Quoted(text)
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(SHOWN) {
            match character.is_control() {
                true => character.escape_debug().fmt(f)?,
                false => character.fmt(f)?,
            }
        }
        match characters.next() {
            Some(_) => f.write_str(".."),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_they_are_if_they_are_short_and_printable() {
        assert_eq!(quoted("ERR it's \u{e4} \"test\"").to_string(), "ERR it's \u{e4} \"test\"");
        assert_eq!(quoted("a\n\u{1b}[2J\0").to_string(), "a\\n\\u{1b}[2J\\0");
        let umlauts = "\u{e4}".repeat(SHOWN);
        assert_eq!(quoted(&umlauts).to_string(), umlauts);
        assert_eq!(quoted(&format!("{umlauts}b")).to_string(), format!("{umlauts}.."));
    }
}
