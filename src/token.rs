//! Reading fencing tokens back from storage.

use std::fmt;
use std::str::FromStr;

use crate::core::vote::FencingToken;

/// The number or text is not a [`FencingToken`]: tokens are whole numbers from 1 to 2^63 - 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToken {
    /// The number, or the text in quotes and not too long.
    given: String,
}

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = &self.given;
        write!(f, "{given} is no fencing token: they are whole numbers from 1 to {}", i64::MAX)
    }
}

impl std::error::Error for InvalidToken {}

impl From<InvalidToken> for crate::Error {
    fn from(error: InvalidToken) -> Self {
        Self::config(error.to_string())
    }
}

/// Reads back a token that a storage has kept. Fails for 0, which often stands for "no token yet", and above 2^63 - 1.
///
/// # Examples
///
/// ```
/// use quorlock::FencingToken;
///
/// let kept: i64 = 7_012_345_678_901_234; // from a column that is 0 before the first token
/// let token: FencingToken = "7012345678901235".parse()?; // `guard.token()` of the one that writes
/// let may_write = kept == 0 || token >= FencingToken::try_from(kept)?; // equal: the same holder once more
/// assert!(may_write);
/// let to_keep = i64::from(token);
/// # assert_eq!(to_keep, kept + 1);
/// # Ok::<(), quorlock::InvalidToken>(())
/// ```
impl TryFrom<u64> for FencingToken {
    type Error = InvalidToken;

    fn try_from(value: u64) -> Result<Self, InvalidToken> {
        Self::of_value(value).ok_or_else(|| InvalidToken { given: value.to_string() })
    }
}

/// Reads back a token from a signed column of a database. Fails for 0 and for negative numbers.
impl TryFrom<i64> for FencingToken {
    type Error = InvalidToken;

    fn try_from(value: i64) -> Result<Self, InvalidToken> {
        let token = u64::try_from(value).ok().and_then(Self::of_value);
        token.ok_or_else(|| InvalidToken { given: value.to_string() })
    }
}

/// Reads back a token from the digits of its display form.
impl FromStr for FencingToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        // The number parser accepts a plus sign, which no displayed token has.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let value = digits.and_then(|digits| digits.parse().ok());
        value.and_then(Self::of_value).ok_or_else(|| InvalidToken { given: format!("{text:.40?}") })
    }
}

/// Serialized as a number.
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::from(*self))
    }
}

/// Deserialized from a number.
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        Self::try_from(value).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_as_it_was_written() {
        let largest = i64::MAX.unsigned_abs();
        for value in [1, 4_096, 7_012_345_678_901_234, largest] {
            let token = FencingToken::try_from(value).expect("a token");
            assert_eq!(u64::from(token), value);
            assert_eq!(FencingToken::try_from(i64::from(token)), Ok(token));
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for value in [0, largest + 1, u64::MAX] {
            assert!(FencingToken::try_from(value).is_err(), "{value}");
            assert!(value.to_string().parse::<FencingToken>().is_err(), "{value}");
        }
        for text in ["", "+5", "-5", " 5", "5 ", "0x5", "5.0", "99999999999999999999"] {
            assert!(text.parse::<FencingToken>().is_err(), "{text}");
        }
        assert!(FencingToken::try_from(-1_i64).is_err());
        let error = "orders".parse::<FencingToken>().expect_err("no number");
        let text =
            "\"orders\" is no fencing token: they are whole numbers from 1 to 9223372036854775807";
        assert_eq!(error.to_string(), text);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_a_number_in_a_file() {
        let token = FencingToken::try_from(7_012_345_678_901_234_u64).expect("a token");
        let text = serde_json::to_string(&token).expect("a number");
        assert_eq!(text, "7012345678901234");
        assert_eq!(serde_json::from_str::<FencingToken>(&text).expect("a token"), token);
        let error = serde_json::from_str::<FencingToken>("0").expect_err("no token");
        assert!(error.to_string().contains("0 is no fencing token"), "{error}");
    }
}
