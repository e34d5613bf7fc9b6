//! Values of `noded.toml`. One that does not fit is told with the key that it belongs to,
//! and then passed over.

use cosy_config::{Check, Raw};
use cosy_model::{MiB, Span};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use toml::{Spanned, Value};

/// A list with its place in the file, and those of its values.
pub(super) type List = Spanned<Vec<Raw>>;

pub(super) fn text(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<String> {
    match value.get_ref() {
        Value::String(text) => Some(text.clone()),
        other => {
            let what = format!("{key} must be a text, not {}", other.type_str());
            check.fault(value.span().start, what);
            None
        }
    }
}

pub(super) fn parsed<T: FromStr<Err: Display>>(
    check: &mut Check<'_>,
    key: &str,
    value: &Raw,
) -> Option<T> {
    match text(check, key, value)?.parse() {
        Ok(parsed) => Some(parsed),
        Err(e) => {
            check.fault(value.span().start, format!("{key}: {e}"));
            None
        }
    }
}

/// A text for which `good` has nothing to say.
pub(super) fn checked(
    check: &mut Check<'_>,
    key: &str,
    value: &Raw,
    good: impl FnOnce(&str) -> Result<(), String>,
) -> Option<String> {
    let text = text(check, key, value)?;
    if let Err(why) = good(&text) {
        check.fault(value.span().start, why);
        return None;
    }
    Some(text)
}

/// What one of these words stands for.
pub(super) fn one_of<T: Copy>(
    check: &mut Check<'_>,
    key: &str,
    value: &Raw,
    all: &[(&str, T)],
) -> Option<T> {
    let text = text(check, key, value)?;
    if let Some((_, found)) = all.iter().find(|(word, _)| *word == text) {
        return Some(*found);
    }
    let words: Vec<String> = all.iter().map(|(word, _)| format!("'{word}'")).collect();
    let words = match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    };
    let shown: String = text.chars().take(100).collect();
    check.fault(value.span().start, format!("{key} is {words}, not '{}'", shown.escape_debug()));
    None
}

pub(super) fn truth(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<bool> {
    let read = value.get_ref().as_bool();
    if read.is_none() {
        check.fault(value.span().start, format!("{key} is true or false"));
    }
    read
}

/// A whole number from `least` to `most`.
pub(super) fn number(
    check: &mut Check<'_>,
    key: &str,
    value: &Raw,
    (least, most): (u32, u32),
) -> Option<u32> {
    let number = value.get_ref().as_integer();
    let number = number.and_then(|n| u32::try_from(n).ok());
    let good = number.filter(|n| (least..=most).contains(n));
    if good.is_none() {
        let what = format!("{key} must be a whole number from {least} to {most}");
        check.fault(value.span().start, what);
    }
    good
}

/// Text with a unit, or a number of MiB.
pub(super) fn size(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<MiB> {
    match value.get_ref() {
        Value::Integer(_) => number(check, key, value, (0, u32::MAX)).map(|n| MiB(u64::from(n))),
        _ => parsed(check, key, value),
    }
}

/// A length of time that is more than nothing and has an end.
pub(super) fn length(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<Duration> {
    let span: Span = parsed(check, key, value)?;
    if span.ms() <= 0 || span.is_unlimited() {
        let what = format!("{key} must be more than nothing and have an end");
        check.fault(value.span().start, what);
        return None;
    }
    Some(Duration::from_millis(span.ms().unsigned_abs()))
}

/// A path; a relative one is below the directory of the file.
pub(super) fn path(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<PathBuf> {
    let text = text(check, key, value)?;
    if text.is_empty() || text.contains('\0') {
        check.fault(value.span().start, format!("{key} is no path"));
        return None;
    }
    let base = check.file().parent().unwrap_or(Path::new("."));
    let joined = base.join(text);
    std::path::absolute(&joined).ok().or(Some(joined))
}

pub(super) fn texts(check: &mut Check<'_>, key: &str, list: &List) -> Option<Vec<String>> {
    let items = list.get_ref().iter();
    items.map(|item| text(check, key, item)).collect()
}
