//! Owner texts: the values that the nodes keep as owners of keys.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::core::wake::QUEUED;
use crate::random::random;
use crate::terms::OWNER_LABEL;

/// The longest label, in bytes. It is stored with each held key, and sent over the network with each request.
const LONGEST_LABEL: usize = 64;

/// The separator before the random part of an owner text that has a label.
const BEFORE_RANDOM: char = '#';

/// Returns the fault of a label. A label is printable ASCII, so that operators can read and type it wherever it is shown.
pub(crate) fn wrong_label(label: &str) -> Option<String> {
    if label.len() > LONGEST_LABEL {
        return Some(format!(
            "the {OWNER_LABEL} has {} bytes; {LONGEST_LABEL} is the maximum",
            label.len()
        ));
    }
    let other = label.chars().find(|c| !is_printable(*c))?;
    Some(format!(
        "the {OWNER_LABEL} \"{}\" contains \"{}\"; it must be printable ASCII",
        label.escape_debug(),
        other.escape_debug()
    ))
}

const fn is_printable(c: char) -> bool {
    c.is_ascii_graphic() || c == ' '
}

/// Returns the label of a process on a host of that name. Characters that no label may contain are replaced, and a name that
/// is too long loses its end.
pub(crate) fn label_of(host: &str, process: u32) -> String {
    let process = format!(":{process}");
    let clean = |c: char| if c.is_ascii_graphic() { c } else { '-' };
    let host = if host.is_empty() { "unknown" } else { host };
    let room = LONGEST_LABEL.saturating_sub(process.len());
    host.chars().map(clean).take(room).chain(process.chars()).collect()
}

/// Returns a random number that is unique for each attempt anywhere: the bits of a UUID.
pub(crate) fn random_owner() -> u128 {
    uuid::Builder::from_random_bytes(random()).into_uuid().as_u128()
}

/// Returns a random number as it is written to the nodes.
pub(crate) fn random_text(random: u128) -> String {
    Uuid::from_u128(random).to_string()
}

/// Returns the owner of one attempt of a client with that label: `LABEL#RANDOM`, or `RANDOM` if the label is empty.
pub(crate) fn owner_text(label: &str, random: u128) -> String {
    let mut text = random_text(random);
    if !label.is_empty() {
        text.insert(0, BEFORE_RANDOM);
        text.insert_str(0, label);
    }
    text
}

/// Returns the same with a number at its end, `LABEL#RANDOM:1`: Redisson's owners are a client and one of its threads. To
/// Redisson an owner is any text, which it compares with its own owners and uses in names of keys. Each of our owners has
/// one lease, which threads may hand to each other, or share, so the number has no meaning.
pub(crate) fn owner_text_with_thread(label: &str, random: u128) -> String {
    owner_text(label, random) + ":1"
}

/// The separator before the value of a candidate, which is a part of its label.
const BEFORE_VALUE: &str = "#value=";

/// Returns the label of a candidate for a leadership: the label of its client, followed by the candidate's value, if there
/// is one. So the value appears, is renewed and disappears with the lock itself.
pub(crate) fn candidate_label(label: &str, value: &[u8]) -> Arc<str> {
    let mut text = label.to_owned();
    if !value.is_empty() {
        text += BEFORE_VALUE;
        for byte in value {
            match char::from(*byte) {
                plain if plain.is_ascii_alphanumeric() || "-._~:/@,+=".contains(plain) => {
                    text.push(plain)
                }
                other => text += &format!("%{:02x}", u32::from(other)),
            }
        }
    }
    text.into()
}

/// Returns the value of the candidate with that owner text, which any client may have written; empty if there is none.
pub(crate) fn value_of(owner: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(owner).ok().and_then(|text| text.rsplit_once(BEFORE_RANDOM));
    let encoded = text.and_then(|(label, _)| label.rsplit_once(BEFORE_VALUE));
    let Some((_, encoded)) = encoded else { return Vec::new() };
    let mut bytes = encoded.bytes();
    let mut value = Vec::new();
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        value.push(match byte {
            b'%' => match (digit(bytes.next()), digit(bytes.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Vec::new(),
            },
            plain => plain,
        });
    }
    value
}

/// The ending of the owner text of a lock that its owner has given back, and that the node keeps for a while. No random part
/// ends like this.
const KEPT: &str = "#kept";

/// Returns the text in place of the owner under the key of such a lock.
pub(crate) fn kept_text(owner: &str) -> String {
    [owner, KEPT].concat()
}

/// Returns true if that text marks a kept lock.
pub(crate) fn is_kept(owner: &[u8]) -> bool {
    owner.ends_with(KEPT.as_bytes())
}

/// The length of an owner text's end that differs between any two attempts of one caller, in characters: the lower half of
/// the random number, as [`random_text`] writes it.
const OF_ATTEMPT: usize = 18;

/// Returns the entry in the queue of a fair lock of the caller whose attempt has that owner.
pub(crate) fn queued_text(owner: &str) -> String {
    let caller = owner.len().checked_sub(OF_ATTEMPT).and_then(|end| owner.get(..end));
    [caller.unwrap_or(owner), QUEUED].concat()
}

/// The ending of the owner that holds a read-write lock for writing, as Redisson has it. The text before it is the owner
/// once it only reads.
pub(crate) const WRITES: &str = ":write";

/// Returns the owner in all forms that nodes may name: while it holds a lock, while nodes keep what it has given back, and
/// once it only reads after a write.
pub(crate) fn forms_of(owner: &[u8]) -> Vec<Vec<u8>> {
    let holding = owner.strip_suffix(KEPT.as_bytes()).unwrap_or(owner);
    let mut forms = vec![holding.to_vec(), [holding, KEPT.as_bytes()].concat()];
    forms.extend(holding.strip_suffix(WRITES.as_bytes()).map(<[u8]>::to_vec));
    forms
}

/// The owner of a lock as a node reports it: text from outside, which any client of the nodes may have written.
///
/// Its [`as_bytes`](Self::as_bytes) equal the holder's [`Guard::owner`](crate::Guard::owner), which is `LABEL#RANDOM` if the
/// holder is a client of quorlock's ([`Builder::owner_label`](crate::Builder::owner_label)). `Display` shows it shortened
/// and without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Vec<u8>);

impl Owner {
    pub(crate) const fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// Returns the owner before it gave the lock back, if this text is that of a kept lock.
    pub(crate) fn before_keeping(&self) -> Option<Self> {
        self.0.strip_suffix(KEPT.as_bytes()).map(|text| Self(text.to_vec()))
    }

    /// Returns the whole text as the nodes keep it: any bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough bytes for every owner that quorlock makes.
        const SHOWN: usize = 512;
        for byte in self.0.iter().copied().take(SHOWN) {
            match char::from(byte) {
                c if is_printable(c) && c != '\\' => write!(f, "{c}")?,
                _ => byte.escape_ascii().fmt(f)?,
            }
        }
        f.write_str(if self.0.len() > SHOWN { ".." } else { "" })
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "00000000-0000-0000-0000-00000000002a";

    #[test]
    fn the_value_of_a_candidate_is_read_from_its_owner() {
        let all: Vec<u8> = (0..=255).collect();
        for value in [&b"10.0.0.7:8080"[..], b"", b"a#b%#value=c", &all[..128], &all[128..]] {
            for label in ["", "web-3:4711", "odd#value=%zz"] {
                let owner = owner_text(&candidate_label(label, value), 42);
                let expected = if value.is_empty() {
                    value_of(owner_text(label, 42).as_bytes())
                } else {
                    value.to_vec()
                };
                assert_eq!(value_of(owner.as_bytes()), expected, "{owner}");
                assert!(owner.len() <= 512, "it is longer than masters name owners");
                assert!(owner.chars().all(is_printable), "{owner}");
            }
        }
        for strange in [&b"\xff#value=a#b"[..], b"l#value=%4#r", b"l#value=%zz#r", b"value", b""] {
            assert_eq!(value_of(strange), b"", "{}", strange.escape_ascii());
        }
    }

    #[test]
    fn the_random_part_follows_the_last_sign() {
        for label in ["web-3:4711", "a", "#", "a#b", " "] {
            let text = owner_text(label, 42);
            assert_eq!(text.rsplit_once(BEFORE_RANDOM), Some((label, RANDOM)));
        }
        assert_eq!(owner_text("", 42), RANDOM);
    }

    #[test]
    fn a_label_is_short_and_printable() {
        for label in ["", "web-3:4711", "a#b", "two words", "\"\\'", &"a".repeat(64)] {
            assert_eq!(wrong_label(label), None, "{label}");
        }
        let refused = |label: &str| wrong_label(label).expect("a bad label");
        assert!(refused(&"a".repeat(65)).contains("65 bytes; 64 is the maximum"));
        assert!(refused("a\nb").contains("\"a\\nb\" contains \"\\n\""));
        assert!(refused("\u{1b}[2J").contains("printable ASCII"));
        assert!(refused("größe").contains("\"größe\" contains \"ö\""));
    }

    #[test]
    fn what_is_kept_of_a_lock_is_its_owners() {
        let both = ["a#b", "a#b#kept"].map(|owner| owner.as_bytes().to_vec());
        assert!(both.iter().all(|owner| forms_of(owner) == both));
        assert_eq!(kept_text("a#b").as_bytes(), both[1]);
        assert_eq!(both.each_ref().map(|owner| is_kept(owner)), [false, true]);
        let [holding, kept] = both.map(Owner::new);
        assert_eq!(holding.before_keeping(), None);
        assert_eq!(kept.before_keeping(), Some(holding));
    }

    #[test]
    fn who_writes_may_go_on_to_read() {
        let forms = ["a:1:write", "a:1:write#kept", "a:1"].map(|owner| owner.as_bytes().to_vec());
        assert!(forms[..2].iter().all(|owner| forms_of(owner) == forms));
        assert!(!forms_of(&forms[2]).contains(&forms[0]), "who reads does not go on to write");
    }

    #[test]
    fn owners_from_outside_are_shown_escaped_and_short() {
        let shown = |text: &[u8]| Owner::new(text.to_vec()).to_string();
        let longest = owner_text(&"l".repeat(LONGEST_LABEL), 42);
        assert_eq!(shown(longest.as_bytes()), longest);
        assert_eq!(shown(b"it's \"me\""), "it's \"me\"");
        assert_eq!(shown(b"a\n\x1b[2J\xff\\"), r"a\n\x1b[2J\xff\\");
        assert_eq!(shown(&[b'a'; 1 << 16]), format!("{}..", "a".repeat(512)));
    }

    #[test]
    fn every_host_makes_a_label() {
        assert_eq!(label_of("web-3.example.com", 4_711), "web-3.example.com:4711");
        assert_eq!(label_of("two words\n\u{e4}\u{1b}", 1), "two-words---:1");
        assert_eq!(label_of("", 1), "unknown:1");
        let long = label_of(&"h".repeat(255), u32::MAX);
        assert_eq!(long.len(), LONGEST_LABEL);
        assert!(long.ends_with("h:4294967295"));
        for label in [long, label_of(&"\u{e4}".repeat(255), 1)] {
            assert_eq!(wrong_label(&label), None, "{label}");
        }
    }
}
