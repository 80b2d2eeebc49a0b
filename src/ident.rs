//! Names of locks, and the owners of keys.

use std::sync::Arc;
use std::{fmt, slice};

use crate::error::Error;

mod owner;

pub use owner::Owner;
pub(crate) use owner::{
    WRITES, candidate_label, forms_of, is_kept, kept_text, label_of, owner_text,
    owner_text_with_thread, queued_text, random_owner, random_text, value_of, wrong_label,
};

/// The longest name, in bytes: as long as the longest path on Linux, since paths are popular names.
pub(crate) const LONGEST: usize = 4_096;

/// The endings of keys that are kept next to the mark or next to locks, always together with braces.
const AUXILIARY: [&str; 11] = [
    ":asked",
    ":fence",
    ":forced",
    ":mark",
    ":offset",
    ":queue",
    ":queue_ends",
    ":reads",
    ":replicated",
    ":reserved",
    READ_TIMEOUT,
];

/// The name of a lock: any bytes that are not empty, not too long, and no key of our own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    /// The prefix, followed by the name.
    key: Vec<u8>,
    prefix: usize,
}

impl Name {
    /// Keys with braces that are kept next to locks are no names.
    pub(crate) fn new(prefix: &[u8], name: &[u8]) -> Result<Self, Error> {
        if name.is_empty() {
            return Err(Error::invalid_name("the name of a lock must not be empty"));
        }
        if name.len() > LONGEST {
            return Err(Error::invalid_name(format!(
                "the name of the lock has {} bytes; {LONGEST} is the maximum (use a hash of it)",
                name.len()
            )));
        }
        let key = [prefix, name].concat();
        let name = Self { key, prefix: prefix.len() };
        let is_auxiliary = |end: &&&str| name.key.ends_with(end.as_bytes());
        match AUXILIARY.iter().find(is_auxiliary).filter(|_| name.key.contains(&b'{')) {
            Some(end) => Err(Error::invalid_name(format!(
                "{name} cannot be locked: keys with braces that end in \"{}\" are quorlock's own; \
                 use another name",
                end
            ))),
            None => Ok(name),
        }
    }

    /// Returns the name whose key that is; `None` if it is the key of no name.
    pub(crate) fn of_key(prefix: &[u8], key: &[u8]) -> Option<Self> {
        Self::new(prefix, key.strip_prefix(prefix)?).ok()
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the name alone, readable and not too long.
    pub(crate) fn text(&self) -> String {
        short_text(self.as_bytes())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.key[self.prefix..]
    }
}

/// Returns the pattern, in Redis's glob syntax, of the keys of the names that match `pattern`. An empty one matches all
/// names.
pub(crate) fn key_pattern(prefix: &[u8], pattern: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(2 * prefix.len() + pattern.len());
    for byte in prefix {
        if b"*?[\\".contains(byte) {
            all.push(b'\\');
        }
        all.push(*byte);
    }
    all.extend_from_slice(if pattern.is_empty() { b"*" } else { pattern });
    all
}

/// For sentences.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock \"{}\"", self.text())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NameText(self.as_bytes()).fmt(f)
    }
}

/// The names of one lock: usually one name. Several names are taken together, or not at all.
///
/// They are sorted and without duplicates: callers that want the same names want the same lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Names(Arc<Sorted>);

#[derive(PartialEq, Eq, Hash)]
struct Sorted(Box<[Name]>);

impl Names {
    /// Fails for more than `most` different names.
    pub(crate) fn new(
        most: usize,
        names: impl IntoIterator<Item = Result<Name, Error>>,
    ) -> Result<Self, Error> {
        let mut names: Vec<_> = names.into_iter().collect::<Result<_, _>>()?;
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Err(Error::invalid_name("a lock needs a name, and none was given"));
        }
        if names.len() > most {
            return Err(Error::invalid_name(format!(
                "the lock has {} names; a lock of its kind has {most} at most",
                names.len()
            )));
        }
        Ok(Self(Arc::new(Sorted(names.into()))))
    }

    /// Returns the names as a text for sentences, which is made only if somebody reads it.
    pub(crate) fn shared_text(&self) -> Arc<dyn fmt::Display + Send + Sync> {
        self.0.clone()
    }

    pub(crate) fn iter(&self) -> slice::Iter<'_, Name> {
        self.0.0.iter()
    }

    /// Returns the keys of the names, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(Name::key)
    }

    /// Returns the name that sorts first, which is the only one of most locks.
    pub(crate) fn first(&self) -> &Name {
        &self.0.0[0]
    }

    /// Returns the keys, as people read and type them.
    pub(crate) fn keys_text(&self) -> String {
        self.keys().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Returns the names alone, readable and not too long.
    pub(crate) fn text(&self) -> String {
        const SHOWN: usize = 4;
        let shown: Vec<_> = self.iter().take(SHOWN).map(Name::text).collect();
        let more = if self.0.0.len() > SHOWN { ", .." } else { "" };
        format!("{}{more}", shown.join(", "))
    }
}

/// For sentences.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Sorted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_names(f, "lock", self.0.iter().map(Name::as_bytes))
    }
}

/// Writes a kind and its names in quotes, as in a sentence.
pub(crate) fn write_with_names<'a>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    names: impl Iterator<Item = &'a [u8]>,
) -> fmt::Result {
    const SHOWN: usize = 4;
    f.write_str(what)?;
    let mut names = names.enumerate().peekable();
    while let Some((i, name)) = names.next_if(|(i, _)| *i < SHOWN) {
        let before = match i {
            0 => "",
            _ if names.peek().is_none() => " and",
            _ => ",",
        };
        write!(f, "{before} \"{}\"", short_text(name))?;
    }
    match names.count() {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Returns a name or a key as people read and type it: escaped if it is not text.
pub(crate) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// Returns the same, and not too long.
fn short_text(bytes: &[u8]) -> String {
    const SHOWN: usize = 80;
    let text = text(bytes);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

/// The name of a lock for `Debug`: as a literal, and not too long.
pub(crate) struct NameText<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for NameText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        let Self(name) = *self;
        let is_whole = match std::str::from_utf8(name) {
            Ok(text) => {
                let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
                fmt::Debug::fmt(&text[..end], f)?;
                end == text.len()
            }
            Err(_) => {
                let end = name.len().min(SHOWN);
                write!(f, "b\"{}\"", name[..end].escape_ascii())?;
                end == name.len()
            }
        };
        f.write_str(if is_whole { "" } else { ".." })
    }
}

/// Returns the key under which a node keeps the largest number of the lock with that key.
pub(crate) fn fence_key(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:fence"].concat()
}

/// Returns the key of the tombstone: the lock with that key was taken away from `owner` by force. It begins as the lock's
/// key does, so that a user with access to the lock's key has access to this one, too.
pub(crate) fn tombstone_key(key: &[u8], owner: &[u8]) -> Vec<u8> {
    [key, b"{", owner, b"}:forced"].concat()
}

/// Returns the key of the request to `owner` to give the lock with that key up. It begins as the lock's key does, like the
/// tombstone. An owner has one key for requests, whether it reads or writes.
pub(crate) fn request_key(key: &[u8], owner: &[u8]) -> Vec<u8> {
    let owner = owner.strip_suffix(WRITES.as_bytes()).unwrap_or(owner);
    [key, b"{", owner, b"}:asked"].concat()
}

/// Returns the channel on which a node tells the holders of the lock with that key about requests to give it up.
pub(crate) fn asked_channel(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:asked"].concat()
}

/// Returns the channel on which a node announces that the lock with that key was given back.
pub(crate) fn release_channel(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:released"].concat()
}

/// Returns the channel on which Redisson's clients announce that the lock with that key was given back.
pub(crate) fn redisson_channel(key: &[u8]) -> Vec<u8> {
    braced(b"redisson_lock__channel:", key)
}

/// Returns the key by which a node distinguishes the numbers of reads from those of writes, for the read-write lock with
/// that key.
pub(crate) fn reads_key(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:reads"].concat()
}

/// Returns the key under which a node keeps the reservation of the lock with that key.
pub(crate) fn reserved_key(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:reserved"].concat()
}

/// Returns the key under which a node keeps the queue of callers that wait for the fair lock with that key.
pub(crate) fn queue_key(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:queue"].concat()
}

/// Returns the key under which a node keeps the time at which each caller's place in that queue ends.
pub(crate) fn queue_ends_key(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:queue_ends"].concat()
}

/// Returns the channel on which a node announces that a write waits for the read-write lock with that key.
pub(crate) fn waiting_channel(key: &[u8]) -> Vec<u8> {
    [b"{", key, b"}:waiting"].concat()
}

/// The beginning of the keys of the strings that live for as long as a read of the lock with that key, as Redisson has them.
pub(crate) fn reads_prefix(key: &[u8]) -> Vec<u8> {
    braced(b"", key)
}

/// Returns the key of the string that lives for as long as that owner's read of the lock with that key.
pub(crate) fn read_timeout_key(key: &[u8], owner: &[u8]) -> Vec<u8> {
    [reads_prefix(key).as_slice(), b":", owner, READ_TIMEOUT.as_bytes()].concat()
}

/// The ending of such a key.
pub(crate) const READ_TIMEOUT: &str = ":rwlock_timeout:1";

/// Returns the channel on which Redisson's clients announce that the read-write lock with that key was given back.
pub(crate) fn redisson_rwlock_channel(key: &[u8]) -> Vec<u8> {
    braced(b"redisson_rwlock:", key)
}

/// As Redisson does: a key that contains braces already names its hash slot.
fn braced(begin: &[u8], key: &[u8]) -> Vec<u8> {
    match key.contains(&b'{') {
        true => [begin, key].concat(),
        false => [begin, b"{", key, b"}"].concat(),
    }
}

/// Returns the channel by which a client wakes its own subscribers, with a `random` number of its own.
pub(crate) fn wake_channel(prefix: &[u8], random: u128) -> Vec<u8> {
    [b"{", prefix, b"}:wake:", random_text(random).as_bytes()].concat()
}

/// Returns the key under which a node keeps its mark.
pub(crate) fn mark_key(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"{quorlock}:mark"].concat()
}

/// Returns the key that is written behind grants to see them replicated.
pub(crate) fn replicated_key(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"{quorlock}:replicated"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(prefix: &str, name: &[u8]) -> Option<String> {
        Name::new(prefix.as_bytes(), name).err().map(|error| error.to_string())
    }

    #[test]
    fn names_are_any_bytes_that_are_not_our_own() {
        assert!(refused("quorlock:", b"orders/42").is_none());
        assert!(refused("", b"\xff\0").is_none());
        assert!(refused("quorlock:", b"kafka:offset").is_none(), "without braces it is nobody's");
        assert!(refused("", b"").is_some_and(|message| message.contains("empty")));
        assert!(refused("", &[b'a'; 1 << 20]).is_some_and(|message| message.contains("1048576")));
        for name in
            ["{orders/42}:fence", "a{b}c:fence", "{quorlock}:mark", "a{b}:forced", "a{b}:asked"]
        {
            let message = refused("", name.as_bytes());
            assert!(message.is_some_and(|message| message.contains("quorlock's own")), "{name}");
        }
    }

    /// A lock's fence is never the key of another lock.
    #[test]
    fn no_lock_has_the_key_of_a_fence() {
        for name in ["orders/42", "a}:fence", "{", "}"] {
            let fence = fence_key(name.as_bytes());
            assert!(refused("", &fence).is_some_and(|message| message.contains("quorlock's own")));
        }
        assert_eq!(fence_key(b"quorlock:orders/42"), b"{quorlock:orders/42}:fence");
    }

    #[test]
    fn a_key_is_that_of_a_name_or_of_none() {
        let of_key = |key: &[u8]| {
            let name = Name::of_key(b"p:", key);
            name.map(|name| name.as_bytes().to_vec())
        };
        assert_eq!(of_key(b"p:a\xff"), Some(b"a\xff".to_vec()));
        for key in [&b"p:"[..], b"q:a", b"p:{quorlock}:mark", b"p:a{owner}:forced"] {
            assert_eq!(of_key(key), None, "{}", text(key));
        }
    }

    #[test]
    fn a_prefix_stands_for_itself_in_a_pattern() {
        let pattern = |prefix: &str, pattern: &[u8]| key_pattern(prefix.as_bytes(), pattern);
        assert_eq!(pattern("quorlock:", b""), b"quorlock:*");
        assert_eq!(pattern("", b"[ab]?"), b"[ab]?");
        assert_eq!(pattern(r"*?[\a]", b"*"), br"\*\?\[\\a]*");
    }

    #[test]
    fn names_are_shown_escaped_and_short() {
        let shown = |name: &[u8]| Name::new(b"p:", name).map(|name| name.to_string());
        assert!(shown(b"orders/42").is_ok_and(|text| text == "lock \"orders/42\""));
        assert!(shown(b"\xff").is_ok_and(|text| text == "lock \"\\xff\""));
        assert!(shown(&[b'a'; 4_096]).is_ok_and(|text| text.len() < 100));
        let umlauts = "\u{e4}".repeat(80);
        let expected = format!("lock \"{umlauts}\"");
        assert!(shown(umlauts.as_bytes()).is_ok_and(|text| text == expected), "none is left out");
        assert!(shown(b"two\nlines").is_ok_and(|text| text == "lock \"two\\nlines\""));
    }

    #[test]
    fn the_names_of_one_lock_are_in_order_and_each_of_them_once() {
        let name = |name: &str| Name::new(b"p:", name.as_bytes());
        let names = |given: &[&str]| Names::new(6, given.iter().map(|one| name(one)));
        let of = |given: &[&str]| names(given).expect("good names");
        assert_eq!(of(&["b", "a", "b"]), of(&["a", "b"]));
        assert_eq!(of(&["b", "a"]).keys().collect::<Vec<_>>(), [b"p:a", b"p:b"]);
        assert_eq!(of(&["b", "a"]).first(), &name("a").expect("a good name"));
        assert_eq!(of(&["a"]).to_string(), "lock \"a\"");
        assert_eq!(of(&["b", "a"]).to_string(), "lock \"a\" and \"b\"");
        assert_eq!(of(&["c", "b", "a"]).to_string(), "lock \"a\", \"b\" and \"c\"");
        let six = of(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(six.to_string(), "lock \"a\", \"b\", \"c\", \"d\" and 2 more");
        assert_eq!(six.text(), "a, b, c, d, ..");
        let refused = |given: &[&str]| names(given).map(drop).expect_err("refused").to_string();
        assert!(refused(&[]).contains("none was given"));
        assert!(refused(&["a", "b", "c", "d", "e", "f", "g"]).contains("7 names"));
        assert!(refused(&["a", ""]).contains("must not be empty"));
    }

    #[test]
    fn names_are_literals_in_debug_output() {
        let shown = |name: &[u8]| format!("{:?}", NameText(name));
        assert_eq!(shown(b"orders/42"), r#""orders/42""#);
        assert_eq!(shown(b"a\n\""), r#""a\n\"""#);
        assert_eq!(shown(b"\xff\n"), r#"b"\xff\n""#);
        assert_eq!(shown("ö".repeat(80).as_bytes()), format!("\"{}\"", "ö".repeat(80)));
        assert_eq!(shown("ö".repeat(81).as_bytes()), format!("\"{}\"..", "ö".repeat(80)));
        assert_eq!(shown(&[0xff; 81]), format!("b\"{}\"..", r"\xff".repeat(80)));
    }
}
