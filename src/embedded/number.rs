//! Numbers as Redis reads and writes them.

use super::reply::Fault;

/// Reads an integer as Redis does: no sign but a minus, no spaces, no leading zeros.
pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    let number = number.filter(|number| number.to_string().as_bytes() == text);
    number.ok_or(Fault::NOT_AN_INTEGER)
}

/// Reads a floating point number, infinities included.
pub(super) fn float(text: &[u8]) -> Result<f64, Fault> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).ok_or(Fault::NOT_A_FLOAT)
}

/// Formats a number as `%.17g` of the C library: Redis 7.0 does so for scores and for numbers that Lua passes to it.
pub(super) fn text(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    } else if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(decimal: &str) -> &str {
    if !decimal.contains('.') {
        return decimal;
    }
    decimal.trim_end_matches('0').trim_end_matches('.')
}

/// A floating point number as an integer reply: decimals are cut off. A number out of range becomes
/// `i64::MIN`, as x86 converts it.
pub(super) fn truncated(number: f64) -> i64 {
    // As a float, `i64::MAX` rounds up to the first number that is too large.
    if (i64::MIN as f64..i64::MAX as f64).contains(&number) { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_taken_in_one_form_only() {
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(integer(b"0"), Ok(0));
        for wrong in ["", " 1", "1 ", "+1", "01", "-0", "1.0", "1e3", "9223372036854775808", "x"] {
            assert_eq!(integer(wrong.as_bytes()), Err(Fault::NOT_AN_INTEGER), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_as_the_c_library_does() {
        for (number, shown) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (12_345_678_901_234_568.0, "12345678901234568"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e300, "1.0000000000000001e+300"),
            (2f64.powi(53), "9007199254740992"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(number), shown);
        }
    }

    #[test]
    fn integer_replies_are_cut_off_and_not_rounded() {
        for (number, integer) in [
            (3.99, 3),
            (-3.99, -3),
            (1e15, 1_000_000_000_000_000),
            (2f64.powi(63), i64::MIN),
            (f64::NAN, i64::MIN),
        ] {
            assert_eq!(truncated(number), integer);
        }
    }
}
