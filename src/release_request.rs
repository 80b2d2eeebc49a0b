//! A request to the holder of a lock to give it up.

use std::fmt;

use crate::error::Error;

/// The longest reason, in bytes.
pub(crate) const LONGEST_REASON: usize = 256;

/// A message of [`Guard::asked`](crate::Guard::asked): somebody asks the holder to give the lock up, by
/// [`Handle::ask_to_release`](crate::Handle::ask_to_release).
///
/// The request forces nothing: the holder finishes its work in order and then gives the lock back, or continues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The reason of the request: at most 256 bytes without control characters; may be empty. Any client of the nodes may
    /// have written it.
    pub reason: String,
}

impl ReleaseRequest {
    /// The request with that reason, which any client may have written.
    pub(crate) fn new(text: &str) -> Self {
        let clean = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let mut reason = String::new();
        for c in text.chars().map(clean) {
            if reason.len() + c.len_utf8() > LONGEST_REASON {
                break;
            }
            reason.push(c);
        }
        Self { reason }
    }
}

/// "asked to release it", with the reason behind a colon.
impl fmt::Display for ReleaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("asked to release it")?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// Returns an error for a reason that is too long, or that no terminal should show.
pub(crate) fn check_reason(reason: &str) -> Result<(), Error> {
    if reason.len() > LONGEST_REASON {
        let message = format!(
            "the reason of a request to release a lock has {} bytes; {LONGEST_REASON} is the maximum",
            reason.len()
        );
        return Err(Error::config(message));
    }
    match reason.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Error::config(format!(
            "the reason of a request to release a lock contains \"{}\"; it must have no control characters",
            c.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_client_has_written_is_cut_and_cleaned() {
        assert_eq!(ReleaseRequest::new("deploy of 1.2").reason, "deploy of 1.2");
        assert_eq!(ReleaseRequest::new("a\x1b[2Jb").reason, "a\u{fffd}[2Jb");
        let long = ReleaseRequest::new(&"\u{e4}".repeat(300)).reason;
        assert_eq!((long.len(), long.chars().count()), (LONGEST_REASON, LONGEST_REASON / 2));
        assert_eq!(ReleaseRequest::new("").to_string(), "asked to release it");
        assert_eq!(ReleaseRequest::new("x").to_string(), "asked to release it: x");
    }

    #[test]
    fn reasons_are_short_and_without_control_characters() {
        assert!(check_reason("").is_ok() && check_reason("maintenance \u{2014} now").is_ok());
        assert!(check_reason(&"x".repeat(LONGEST_REASON)).is_ok());
        assert!(check_reason(&"x".repeat(LONGEST_REASON + 1)).is_err());
        assert!(check_reason("a\nb").is_err());
    }
}
