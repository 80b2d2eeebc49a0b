//! The patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal character.

/// Returns true if `text` matches `pattern`. The time is at most proportional to the product of their lengths.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Positions to continue from if the last star must match one more byte.
    let mut again = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            again = Some((p + 1, t + 1));
            p += 1;
        } else if let Some(length) = one(&pattern[p..], text[t]) {
            (p, t) = (p + length, t + 1);
        } else if let Some((after_star, next)) = again {
            (p, t) = (after_star, next);
            again = Some((after_star, next + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the pattern's first element, if that element matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => class(rest, byte).map(|length| length + 1),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Like `one`, for a class without its opening bracket. An unclosed class ends with the pattern.
fn class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [start, b'-', end, ..] => {
                found |= (*start.min(end)..=*start.max(end)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, like) in [
            ("*", "", true),
            ("quorlock:*", "quorlock:a", true),
            ("quorlock:*", "other:a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-e]llo", "hdllo", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("", "x", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), like, "{pattern} {text}");
        }
    }
}
