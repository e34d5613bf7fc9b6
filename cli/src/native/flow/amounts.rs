//! Amounts as workflow files have them: lengths of time, sizes of data, shares, speeds.
//! Whole numbers come out; digits beyond what can be kept are refused, not rounded away.

use crate::native::flow::tree::{Node, ParseError, Value};
use cosy_model::Span;

/// Longest estimate that can be asked for: ten years.
const LONGEST: Span = Span::from_minutes(10 * 366 * 24 * 60);
/// Most bytes from one task to another: 8 EiB less one.
const MOST_BYTES: u64 = i64::MAX as u64;
/// Fastest and slowest, in thousandths.
const SPEEDS: std::ops::RangeInclusive<u64> = 1..=1_000_000;
/// Largest share, in thousandths: a thousand times as much.
const MOST_SHARE: u64 = 1_000_000;

/// A number without sign, in units of `10^-places`; `None` when it is none, has more
/// decimals or is too large.
fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let fine = !whole.is_empty() && digits(whole) && digits(fraction) && whole.len() <= 18;
    if !fine || fraction.len() > places || (text.contains('.') && fraction.is_empty()) {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(places).ok()?)?;
    let part: u64 = if places == 0 {
        0
    } else {
        format!("{fraction:0<places$}").parse().ok()?
    };
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(scale)?
        .checked_add(part)
}

/// Reads an estimate: a length as `csub --time` has it, or seconds with decimals (`12.5s`).
///
/// # Errors
/// Not such a length, nothing, or longer than ten years.
pub fn estimate(text: &str) -> Result<Span, String> {
    let seconds = text.strip_suffix('s').filter(|t| t.contains('.'));
    let span = match seconds.and_then(|t| decimal(t, 3)) {
        Some(ms) => Span(i64::try_from(ms).unwrap_or(i64::MAX)),
        None => text.parse::<Span>().map_err(|e| e.to_string())?,
    };
    if span == Span::ZERO {
        return Err("an estimate must be more than 0".to_owned());
    }
    if span.is_unlimited() || span > LONGEST {
        return Err(format!("'{text}' is too long: at most 10 years"));
    }
    Ok(span)
}

/// The same from a file, where a whole number is minutes.
///
/// # Errors
/// See [`estimate`].
pub fn estimate_in(node: &Node, what: &str) -> Result<Span, ParseError> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Integer(minutes) => minutes.to_string(),
        _ => return Err(node.type_error(what, "a length of time like \"10m\", or minutes")),
    };
    estimate(&text).map_err(|e| ParseError::new(node.line, format!("{what}: {e}")))
}

/// A number of bytes: `2G`, `1.5M`, `800` (K, M, G, T, P of 1024 each).
///
/// # Errors
/// Not such a number.
pub fn bytes(text: &str) -> Result<u64, String> {
    let bad = || {
        format!("'{text}' is no amount of data: use bytes, or a number with K, M, G, T or P (2G)")
    };
    let upper = text.trim().to_ascii_uppercase();
    let upper = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (number, unit) = match upper.char_indices().last() {
        Some((at, c)) if c.is_ascii_alphabetic() => {
            let power = "KMGTP".find(c).ok_or_else(bad)?;
            (&upper[..at], 1_u64 << (10 * (power + 1)))
        }
        _ => (upper, 1),
    };
    let places = if unit == 1 { 0 } else { 3 };
    let scaled = decimal(number.trim_end(), places).ok_or_else(bad)?;
    let divisor = 10_u128.pow(places as u32);
    let all = u128::from(scaled) * u128::from(unit) / divisor;
    u64::try_from(all)
        .ok()
        .filter(|n| *n <= MOST_BYTES)
        .ok_or_else(bad)
}

/// The same from a file, where a whole number is bytes.
///
/// # Errors
/// See [`bytes`].
pub fn bytes_in(node: &Node, what: &str) -> Result<u64, ParseError> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Integer(n) => n.to_string(),
        _ => return Err(node.type_error(what, "an amount of data like \"2G\", or bytes")),
    };
    bytes(&text).map_err(|e| ParseError::new(node.line, format!("{what}: {e}")))
}

/// Bytes in a second: `100M` or `100M/s`.
///
/// # Errors
/// Not such a number, or 0.
pub fn rate_in(node: &Node, what: &str) -> Result<u64, ParseError> {
    let wrong = |e: String| ParseError::new(node.line, format!("{what}: {e}"));
    let rate = match &node.value {
        Value::Text(text) => bytes(text.strip_suffix("/s").unwrap_or(text)).map_err(wrong)?,
        _ => bytes_in(node, what)?,
    };
    match rate {
        0 => Err(wrong("it must be more than 0 bytes in a second".to_owned())),
        rate => Ok(rate),
    }
}

/// A share in thousandths: `50%`, `7.5%`.
///
/// # Errors
/// Not such a share.
pub fn share(text: &str) -> Result<u32, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    let permille = number.and_then(|t| decimal(t, 1));
    permille
        .filter(|n| *n <= MOST_SHARE)
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| {
            format!("'{text}' is no share: use 50% or 7.5% (one decimal, at most 100000%)")
        })
}

/// The same from a file.
///
/// # Errors
/// See [`share`].
pub fn share_in(node: &Node, what: &str) -> Result<u32, ParseError> {
    let text = match &node.value {
        Value::Text(text) => text,
        _ => return Err(node.type_error(what, "a share like \"50%\"")),
    };
    share(text).map_err(|e| ParseError::new(node.line, format!("{what}: {e}")))
}

/// A speed in thousandths: 2 is twice as fast, 0.5 half as fast.
///
/// # Errors
/// Not a number from 0.001 to 1000.
pub fn speed_in(node: &Node, what: &str) -> Result<u32, ParseError> {
    let permille = match &node.value {
        Value::Integer(n) => u64::try_from(*n).ok().and_then(|n| n.checked_mul(1000)),
        Value::Float(n) => decimal(&n.to_string(), 3),
        _ => return Err(node.type_error(what, "a number like 1.5")),
    };
    permille
        .filter(|n| SPEEDS.contains(n))
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| {
            let message = "a speed from 0.001 to 1000 with at most 3 decimals is needed";
            ParseError::new(node.line, format!("{what}: {message}"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates() {
        let check = |text: &str, want: Option<i64>| {
            assert_eq!(estimate(text).ok().map(|s| s.0), want, "{text}");
        };
        check("10", Some(600_000));
        check("10m", Some(600_000));
        check("90s", Some(90_000));
        check("12.345s", Some(12_345));
        check("0.001s", Some(1));
        check("1:00:00", Some(3_600_000));
        for bad in [
            "",
            "-5",
            "0",
            "0.0s",
            "1.2345s",
            "1.s",
            "1.5m",
            "unlimited",
            "4000d",
            "x",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn amounts_of_data() {
        let check = |text: &str, want: Option<u64>| {
            assert_eq!(bytes(text).ok(), want, "{text}");
        };
        check("0", Some(0));
        check("800", Some(800));
        check("2K", Some(2048));
        check("1.5M", Some(3 << 19));
        check("2G", Some(2 << 30));
        check("2GiB", Some(2 << 30));
        check("2 GB", Some(2 << 30));
        check("10b", Some(10));
        for bad in [
            "",
            "-1",
            "G",
            "1.5",
            "1,5G",
            "9999P",
            "2X",
            "é",
            "1e9",
            "99999999999999999999",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn shares_and_speeds() {
        let check = |text: &str, want: Option<u32>| assert_eq!(share(text).ok(), want, "{text}");
        check("50%", Some(500));
        check("7.5 %", Some(75));
        check("0%", Some(0));
        for bad in ["50", "", "%", "-1%", "7.55%", "100001%"] {
            check(bad, None);
        }
        let speed = |value| speed_in(&Node::new(1, value), "x").ok();
        assert_eq!(speed(Value::Integer(2)), Some(2000));
        assert_eq!(speed(Value::Float(0.5)), Some(500));
        assert_eq!(speed(Value::Float(1000.0)), Some(1_000_000));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1001.0, 0.0001] {
            assert_eq!(speed(Value::Float(bad)), None, "{bad}");
        }
        assert_eq!(speed(Value::Integer(-1)), None);
        assert_eq!(speed(Value::Text("2".into())), None);
    }
}
