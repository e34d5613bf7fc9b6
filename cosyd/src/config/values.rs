//! Values of `cosy.toml` that several sections have: sums, shares, lengths, and what can
//! be switched off. A value that does not fit is told and then passed over.
//!
//! No floating point decides anything: a number is read as the decimal fraction that it is
//! written as.

use cosy_config::Check;
use cosy_model::{Span, Su};
use toml::{Spanned, Value};

/// A value with its place in the file.
pub(super) type Raw = Spanned<Value>;

/// Reads a value; `None` after telling what is wrong with it.
type Read<T> = fn(&mut Check<'_>, &Raw) -> Option<T>;

/// What switches a limit or a protection off.
const OFF: [&str; 2] = ["off", "unlimited"];

/// Puts the value into `field`, if it is there and fits.
pub(super) fn set<T>(check: &mut Check<'_>, value: Option<&Raw>, field: &mut T, read: Read<T>) {
    if let Some(read) = value.and_then(|v| read(check, v)) {
        *field = read;
    }
}

/// The value, or `Some(None)` when it is switched off.
pub(super) fn switchable<T>(
    check: &mut Check<'_>,
    value: Option<&Raw>,
    read: Read<T>,
) -> Option<Option<T>> {
    let value = value?;
    if value.get_ref().as_str().is_some_and(|t| OFF.contains(&t)) {
        return Some(None);
    }
    read(check, value).map(Some)
}

/// What was read, or the fault that the value is not what it should be.
fn or_fault<T>(check: &mut Check<'_>, value: &Raw, read: Option<T>, is_no: &str) -> Option<T> {
    if read.is_none() {
        check.fault(value.span().start, format!("{} {is_no}", shown(value)));
    }
    read
}

/// A sum of service units.
pub(super) fn sum(check: &mut Check<'_>, value: &Raw) -> Option<Su> {
    let read = decimal(value.get_ref()).and_then(|text| text.parse().ok());
    or_fault(
        check,
        value,
        read,
        "is no sum of service units: use a number like 250 or 12.5, at most 6 decimals",
    )
}

/// Per cent from 0 to 100, in millionths of the whole.
pub(super) fn share(check: &mut Check<'_>, value: &Raw) -> Option<u32> {
    let millionths = scaled(value.get_ref(), 10_000, 1_000_000);
    or_fault(
        check,
        value,
        millionths,
        "is no share: use per cent from 0 to 100, like 15 or 7.5, at most 4 decimals",
    )
}

/// A weight in thousandths: 1 is 1000.
pub(super) fn weight(check: &mut Check<'_>, value: &Raw) -> Option<u32> {
    let thousandths = scaled(value.get_ref(), 1000, u32::MAX);
    or_fault(
        check,
        value,
        thousandths,
        "is no weight: use a number like 1 or 2.5, not below 0, at most 3 decimals",
    )
}

/// A number from 0 on.
pub(super) fn count(check: &mut Check<'_>, value: &Raw) -> Option<u32> {
    let read = value.get_ref().as_integer();
    let read = read.and_then(|n| u32::try_from(n).ok());
    or_fault(check, value, read, "is no number of things: use 0, 1, 2, ...")
}

/// A length of time with an end.
pub(super) fn length(check: &mut Check<'_>, value: &Raw) -> Option<Span> {
    let at = value.span().start;
    let Some(text) = value.get_ref().as_str() else {
        let what = format!("{} is no length of time: use text like \"90m\"", shown(value));
        check.fault(at, what);
        return None;
    };
    match text.parse::<Span>() {
        Ok(span) if !span.is_unlimited() => return Some(span),
        Ok(_) => check.fault(at, "this length of time must have an end"),
        Err(e) => check.fault(at, e),
    }
    None
}

/// A length of time with an end that is longer than 0.
pub(super) fn some_time(check: &mut Check<'_>, value: &Raw) -> Option<Span> {
    let read = length(check, value)?;
    if read <= Span::ZERO {
        check.fault(value.span().start, "this length of time must be longer than 0");
        return None;
    }
    Some(read)
}

/// A number times `one`, where that is whole and not above `most`.
pub(super) fn scaled(value: &Value, one: u32, most: u32) -> Option<u32> {
    let millionths = decimal(value)?.parse::<Su>().ok()?.0;
    let product = i128::from(millionths) * i128::from(one);
    let whole = product % i128::from(Su::ONE) == 0;
    let read = u32::try_from(product / i128::from(Su::ONE)).ok()?;
    (whole && read <= most).then_some(read)
}

/// The digits of a number: the shortest that mean it, which are those in the file.
fn decimal(value: &Value) -> Option<String> {
    match value {
        Value::Integer(n) => Some(n.to_string()),
        Value::Float(n) => Some(n.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// The value as written, if it is short.
pub(super) fn shown(value: &Raw) -> String {
    let text = value.get_ref().to_string();
    match text.chars().count() {
        0..=60 => text,
        _ => "this".to_owned(),
    }
}
