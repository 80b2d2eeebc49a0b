//! Commands in their wire format: arrays of bulk strings, several in a row.

use super::keyspace::Bytes;

const MOST_WORDS: usize = 65_536;
const MOST_BYTES: usize = 16 << 20;
/// A sign, a number and the end of the line.
const LONGEST_LINE: usize = 32;

/// The input is no command, or too large. The bytes after it cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The first command in `bytes` and its length in bytes; `None` if the command is not complete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Vec<Bytes>, usize)>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    let Some(count) = reader.number(b'*', MOST_WORDS)? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = reader.number(b'$', MOST_BYTES)? else { return Ok(None) };
        if reader.at + length > MOST_BYTES {
            return Err(Malformed);
        }
        let Some(word) = reader.word(length)? else { return Ok(None) };
        words.push(word);
    }
    Ok(Some((words, reader.at)))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self, sign: u8, most: usize) -> Result<Option<usize>, Malformed> {
        let rest = &self.bytes[self.at..];
        let line = &rest[..rest.len().min(LONGEST_LINE)];
        if line.first().is_some_and(|first| *first != sign) {
            return Err(Malformed);
        }
        let Some(end) = line.windows(2).position(|two| two == b"\r\n") else {
            return if line.len() < LONGEST_LINE { Ok(None) } else { Err(Malformed) };
        };
        let number = std::str::from_utf8(&line[1..end]).ok().and_then(|text| text.parse().ok());
        self.at += end + 2;
        number.filter(|number| *number <= most).map(Some).ok_or(Malformed)
    }

    fn word(&mut self, length: usize) -> Result<Option<Bytes>, Malformed> {
        let rest = &self.bytes[self.at..];
        let (Some(word), Some(end)) = (rest.get(..length), rest.get(length..length + 2)) else {
            return Ok(None);
        };
        self.at += length + 2;
        if end == b"\r\n" { Ok(Some(word.to_vec())) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n";

    #[test]
    fn commands_are_taken_one_by_one() {
        let (words, length) = parse(TWO).expect("well-formed").expect("complete");
        assert_eq!(words, [b"GET".to_vec(), b"\r\n".to_vec()]);
        let next = parse(&TWO[length..]).expect("well-formed").expect("complete");
        assert_eq!(next, (vec![b"PING".to_vec()], TWO.len() - length));
        for cut in 0..length {
            assert_eq!(parse(&TWO[..cut]), Ok(None), "the first {cut} bytes");
        }
    }

    #[test]
    fn what_is_no_command_or_too_large_is_refused() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"*x\r\n",
            b"*-1\r\n",
            b"*100000\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$99999999\r\n",
            b"*1\r\n$3\r\nabcde",
            b"*00000000000000000000000000000000000001\r\n",
            b"\x16\x03\x01",
        ] {
            assert_eq!(parse(bytes), Err(Malformed), "{}", bytes.escape_ascii());
        }
        let much = format!(
            "*2\r\n${0}\r\n{1}\r\n${0}\r\n",
            MOST_BYTES / 2 + 1,
            "x".repeat(MOST_BYTES / 2 + 1)
        );
        assert_eq!(parse(much.as_bytes()), Err(Malformed));
    }
}
