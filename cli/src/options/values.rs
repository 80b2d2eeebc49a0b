//! Times and texts, as options have them.

use std::time::Duration;

/// Parses a time of an option: in seconds, as in `flock`, or with units.
pub(super) fn time(text: &str) -> Result<Duration, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let time = match text.parse() {
        Ok(seconds) if is_number => Duration::try_from_secs_f64(seconds).ok(),
        _ => humantime::parse_duration(text).ok(),
    };
    time.ok_or(
        "a time is a number of seconds, such as 5 or 0.5, or has units, such as 500ms, 90s or 5m",
    )
}

/// Parses the reason that is reported to the holder of a lock.
pub(super) fn reason(text: &str) -> Result<String, &'static str> {
    match text.len() {
        ..=256 if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err("a reason has at most 256 bytes, and no control characters"),
    }
}
