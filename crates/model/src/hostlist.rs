//! Host lists: `n[1-3,7],login` stands for `n1 n2 n3 n7 login`.
//!
//! Grammar as in Slurm (scontrol(1), `hostnames`): names separated by commas outside
//! brackets; in brackets numbers and ranges, leading zeros kept (`n[08-10]` is
//! `n08 n09 n10`); several brackets in one name multiply (`r[1-2]n[1-2]`). The number
//! of names is checked before any is made.

use crate::limits::{HOST_LIST_BYTES, HOST_LIST_NAMES, NAME_BYTES};

/// Digits of the longest number in a name that is counted with.
const LONGEST_NUMBER: usize = 12;

/// Why a text is no host list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// The text does not have the form of a host list.
    #[error("'{text}' is no host list: {why}")]
    Syntax {
        /// The text, shortened.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Stands for more names than [`HOST_LIST_NAMES`].
    #[error("the host list '{text}' stands for {names} names; at most {max} are allowed", max = HOST_LIST_NAMES)]
    TooMany {
        /// The text, shortened.
        text: String,
        /// Number of names.
        names: u64,
    },
}

/// One part of a name: fixed text or numbers in brackets.
enum Part<'a> {
    Text(&'a str),
    Numbers(Vec<Range>),
}

/// An inclusive range of numbers printed with at least `width` digits.
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl Part<'_> {
    /// Bytes that it adds to a name at most.
    fn longest(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Numbers(ranges) => ranges
                .iter()
                .map(|r| r.width.max(r.last.to_string().len()))
                .max()
                .unwrap_or(0),
        }
    }
}

/// All names that `text` stands for, in its order, doubles kept.
///
/// # Errors
/// [`HostListError::Syntax`] or, before any name is made, [`HostListError::TooMany`].
pub fn expand(text: &str) -> Result<Vec<String>, HostListError> {
    let short = || text.chars().take(60).collect::<String>();
    let bad = |why| HostListError::Syntax { text: short(), why };
    if text.len() > HOST_LIST_BYTES {
        return Err(bad("it is too long"));
    }
    let mut patterns = Vec::new();
    let (mut total, mut bytes) = (0u64, 0u64);
    for item in split_outside(text).ok_or_else(|| bad("brackets do not match"))? {
        let item = item.trim();
        if item.is_empty() {
            return Err(bad("a name is empty"));
        }
        let parts = parse(item).map_err(bad)?;
        let longest = parts.iter().map(Part::longest).sum::<usize>();
        if longest > NAME_BYTES {
            return Err(bad("a name is too long"));
        }
        let names = parts.iter().fold(1u64, |n, p| match p {
            Part::Text(_) => n,
            Part::Numbers(ranges) => n.saturating_mul(
                ranges
                    .iter()
                    .fold(0u64, |s, r| s.saturating_add(r.last - r.first + 1)),
            ),
        });
        total = total.saturating_add(names);
        bytes = bytes.saturating_add(names.saturating_mul(longest as u64 + 1));
        patterns.push(parts);
    }
    if total > HOST_LIST_NAMES as u64 {
        return Err(HostListError::TooMany {
            text: short(),
            names: total,
        });
    }
    // Names that do not fold are written one by one, and must be a host list again.
    if bytes > HOST_LIST_BYTES as u64 {
        return Err(bad("its names are too long together"));
    }
    let mut out = Vec::with_capacity(total as usize);
    for parts in &patterns {
        multiply(parts, &mut out);
    }
    Ok(out)
}

/// The first name that `text` stands for; `None` where it is no host list. What stands behind the
/// first item is not expanded.
pub fn first(text: &str) -> Option<String> {
    let items = split_outside(text)?;
    expand(items.first()?).ok()?.into_iter().next()
}

/// Splits at commas that are outside brackets; `None` when brackets do not match.
fn split_outside(text: &str) -> Option<Vec<&str>> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return None,
            '[' => inside = true,
            ']' if !inside => return None,
            ']' => inside = false,
            ',' if !inside => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&text[start..]);
    (!inside).then_some(items)
}

fn parse(mut item: &str) -> Result<Vec<Part<'_>>, &'static str> {
    let mut parts = Vec::new();
    while let Some(open) = item.find('[') {
        if open > 0 {
            parts.push(text_part(&item[..open])?);
        }
        let close = item.find(']').ok_or("brackets do not match")?;
        let ranges = item[open + 1..close]
            .split(',')
            .map(range)
            .collect::<Result<_, _>>()?;
        parts.push(Part::Numbers(ranges));
        item = &item[close + 1..];
    }
    if !item.is_empty() {
        parts.push(text_part(item)?);
    }
    Ok(parts)
}

fn text_part(text: &str) -> Result<Part<'_>, &'static str> {
    let fine = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if fine {
        Ok(Part::Text(text))
    } else {
        Err("names have letters, digits, '-', '_' and '.' only")
    }
}

fn range(text: &str) -> Result<Range, &'static str> {
    let (a, b) = text.split_once('-').unwrap_or((text, text));
    let number = |t: &str| -> Result<u64, &'static str> {
        if t.is_empty() || t.len() > LONGEST_NUMBER || !t.bytes().all(|b| b.is_ascii_digit()) {
            return Err("in brackets there must be numbers and ranges like 1-5");
        }
        t.parse().map_err(|_| "a number is too large")
    };
    let (first, last) = (number(a)?, number(b)?);
    if last < first {
        return Err("a range runs backwards");
    }
    let width = if a.len() > 1 && a.starts_with('0') {
        a.len()
    } else {
        1
    };
    Ok(Range { first, last, width })
}

/// All names of one pattern. As in Slurm the last brackets run fastest, then the first ones,
/// the second ones and so on.
fn multiply(parts: &[Part<'_>], out: &mut Vec<String>) {
    let last = parts.iter().rposition(|p| matches!(p, Part::Numbers(_)));
    let (before, after) = parts.split_at(last.unwrap_or(0));
    let mut heads = vec![String::new()];
    for part in before {
        heads = part.after_each(&heads, true);
    }
    for part in after {
        heads = part.after_each(&heads, false);
    }
    out.append(&mut heads);
}

impl Part<'_> {
    /// Each of `heads` with this part behind it; all of them with the first number, then all
    /// with the next one, or each with all numbers.
    fn after_each(&self, heads: &[String], heads_run: bool) -> Vec<String> {
        let ranges = match self {
            Part::Text(text) => return heads.iter().map(|head| format!("{head}{text}")).collect(),
            Part::Numbers(ranges) => ranges,
        };
        let numbers = || {
            ranges
                .iter()
                .flat_map(|r| (r.first..=r.last).map(|n| format!("{n:0w$}", w = r.width)))
        };
        if heads_run {
            let with = |n: String| heads.iter().map(move |head| format!("{head}{n}"));
            numbers().flat_map(with).collect()
        } else {
            let with = |head: &String| {
                let head = head.clone();
                numbers().map(move |n| format!("{head}{n}"))
            };
            heads.iter().flat_map(with).collect()
        }
    }
}

/// The shortest usual host list for `names`: sorted, doubles taken out, trailing numbers
/// of names with one prefix folded. `expand(fold(names))` gives the sorted names.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    let mut numbered: Vec<Numbered<'_>> = names.iter().map(|n| Numbered::of(n.as_ref())).collect();
    numbered.sort_unstable_by_key(|n| (n.prefix, n.number, n.name));
    numbered.dedup_by_key(|n| n.name);
    put_together(&numbered)
}

/// The same in the order of `names`, doubles kept: only neighbours are put together.
/// `expand(fold_in_order(names))` gives `names`.
pub fn fold_in_order<S: AsRef<str>>(names: &[S]) -> String {
    let numbered: Vec<Numbered<'_>> = names.iter().map(|n| Numbered::of(n.as_ref())).collect();
    put_together(&numbered)
}

/// A name and its last number, if it has one that can be counted on from.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    name: &'a str,
    prefix: &'a str,
    /// The number, and how many digits it is written with.
    number: Option<(u64, usize)>,
}

impl<'a> Numbered<'a> {
    fn of(name: &'a str) -> Self {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(name.len() - digits);
        let number = Some(number).filter(|_| digits <= LONGEST_NUMBER);
        let number = number.and_then(|text| Some((text.parse().ok()?, digits)));
        Self {
            name,
            prefix: if number.is_some() { prefix } else { name },
            number,
        }
    }
}

/// Names with one prefix stand in one pair of brackets: `cn[08,9-10]`. Slurm does the same,
/// whatever their widths.
fn put_together(names: &[Numbered<'_>]) -> String {
    let same = |a: &Numbered<'_>, b: &Numbered<'_>| {
        a.prefix == b.prefix && a.number.is_some() && b.number.is_some()
    };
    let item = |group: &[Numbered<'_>]| match group {
        [one] => one.name.to_owned(),
        many => {
            let numbers = many.iter().filter_map(|n| n.number);
            let prefix = many.first().map_or("", |n| n.prefix);
            format!("{prefix}[{}]", padded_ranges(numbers))
        }
    };
    let items: Vec<String> = names.chunk_by(same).map(item).collect();
    items.join(",")
}

/// Numbers with their digits as ranges. A range is read with the width of its first number,
/// so `099` goes on in `100` and `099-100` comes of it, while `99` does not go on in `0100`.
fn padded_ranges(numbers: impl Iterator<Item = (u64, usize)>) -> String {
    /// First and last number, and the least width that all are written with.
    type Run = (u64, u64, usize);
    let mut runs: Vec<Run> = Vec::new();
    for (number, digits) in numbers {
        let padded = digits > 1 && digits > digits_of(number);
        match runs.last_mut() {
            Some((_, last, width))
                if number.checked_sub(1) == Some(*last)
                    && (padded && digits == *width || !padded && digits >= *width) =>
            {
                *last = number;
            }
            Some(_) | None => runs.push((number, number, if padded { digits } else { 1 })),
        }
    }
    let text = |(a, b, width): &Run| match a == b {
        true => format!("{a:0width$}"),
        false => format!("{a:0width$}-{b:0width$}"),
    };
    let texts: Vec<String> = runs.iter().map(text).collect();
    texts.join(",")
}

fn digits_of(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |n| n as usize + 1)
}

/// Ascending numbers as ranges, `1-3,7`, with at least `width` digits each.
pub fn ranges(numbers: &[u64], width: usize) -> String {
    padded_ranges(numbers.iter().map(|n| (*n, width.max(digits_of(*n)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, names: &[&str]) {
        assert_eq!(expand(text).unwrap(), names, "{text}");
    }

    #[test]
    fn ascending_numbers_become_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7], 1), "1-3,7");
        assert_eq!(ranges(&[1, 2, 3, 7], 0), "1-3,7");
        assert_eq!(ranges(&[8, 9, 10, 11, 98, 99, 100], 2), "08-11,98-100");
        assert_eq!(ranges(&[u64::MAX - 1, u64::MAX], 1), format!("{}-{}", u64::MAX - 1, u64::MAX));
        assert_eq!(ranges(&[], 3), "");
    }

    #[test]
    fn first_names() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(first(text).as_deref(), want, "{text}");
        };
        check("n[1,3]", Some("n1"));
        check("n[03-12],m", Some("n03"));
        check("m,n[1-99999999999]", Some("m"));
        check("a[2-3]b[1,5]", Some("a2b1"));
        check("", None);
        check("n[1", None);
        check("n 1", None);
    }

    #[test]
    fn expands() {
        check("n1", &["n1"]);
        check("n[1-3,7],login", &["n1", "n2", "n3", "n7", "login"]);
        check("n[08-10]", &["n08", "n09", "n10"]);
        check("r[1-2]n[1-2]", &["r1n1", "r1n2", "r2n1", "r2n2"]);
        let three = [
            "a0b2c4", "a0b2c5", "a1b2c4", "a1b2c5", "a0b3c4", "a0b3c5", "a1b3c4", "a1b3c5",
        ];
        check("a[0,1]b[2-3]c[4,5]", &three);
        check("r[1-2]n[1-2]-ib", &["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]);
        check("a[1-2]-ib, b", &["a1-ib", "a2-ib", "b"]);
    }

    #[test]
    fn refuses() {
        for text in [
            "", ",", "n[", "n]", "n[1", "n[1-]", "n[3-1]", "n[a]", "n[[1]]", "n 1", "n;rm", "n[]",
        ] {
            assert!(matches!(expand(text), Err(HostListError::Syntax { .. })), "{text}");
        }
        for text in ["n[1-1000000000]", "a[1-1000]b[1-1000]c[1-1000]"] {
            assert!(matches!(expand(text), Err(HostListError::TooMany { .. })), "{text}");
        }
    }

    /// As Slurm 22.05 prints them.
    #[test]
    fn folds_in_order() {
        let check = |text: &str, want: &str| {
            let names: Vec<&str> = text.split(',').collect();
            assert_eq!(fold_in_order(&names), want, "{text}");
        };
        check("cn099,cn100", "cn[099-100]");
        check("cn001,cn010,cn128,cn9,cn99,cn100,cn0100", "cn[001,010,128,9,99-100,0100]");
        check("cn9,cn10,cn099,cn100,cn1000", "cn[9-10,099-100,1000]");
        check("cn08,cn9,cn10", "cn[08,9-10]");
        check("n9,n2,n3", "n[9,2-3]");
        check("n1,n1", "n[1,1]");
    }

    #[test]
    fn names_have_a_length() {
        check(&"n".repeat(NAME_BYTES), &[&"n".repeat(NAME_BYTES)]);
        // A hundred thousand names of so many bytes would be gigabytes.
        let long = "n".repeat(60_000) + "[1-100000]";
        let zeros = format!("n[{}-{}]", "0".repeat(60_000), 9);
        for text in ["n".repeat(NAME_BYTES + 1), long, zeros] {
            assert!(matches!(expand(&text), Err(HostListError::Syntax { .. })));
        }
    }

    #[test]
    fn what_expands_can_be_written_as_one_name_after_the_other() {
        let tail = "j".repeat(60);
        let refused = expand(&format!("[1-300]k[1-300]{tail}")).unwrap_err();
        assert!(refused.to_string().contains("too long together"), "{refused}");
        let names = expand(&format!("[1-200]k[1-300]{tail}")).unwrap();
        let mut again = expand(&fold(&names)).unwrap();
        again.sort();
        let mut names = names;
        names.sort();
        assert_eq!(again, names);
    }

    #[test]
    fn names_that_end_in_letters_come_back() {
        let names: Vec<String> = (0..HOST_LIST_NAMES)
            .map(|n| format!("rack{:03}-node{:02}-infiniband.site", n / 100, n % 100))
            .collect();
        assert_eq!(expand(&fold(&names)).unwrap(), names);
    }

    #[test]
    fn folds() {
        assert_eq!(fold(&["n3", "n1", "n2", "n7", "x"]), "n[1-3,7],x");
        assert_eq!(fold(&["n08", "n09", "n10"]), "n[08-10]");
        assert_eq!(fold(&["cn100", "cn099"]), "cn[099-100]");
        let all: Vec<String> = (1..=128).map(|n| format!("cn{n:03}")).collect();
        assert_eq!(fold(&all), "cn[001-128]");
        assert_eq!(fold(&["cn9", "cn10", "cn08"]), "cn[08,9-10]");
        assert_eq!(fold(&["n99", "n0100", "n0101"]), "n[99,0100-0101]");
        assert_eq!(fold(&["n0", "n00", "n1"]), "n[0,00,1]");
        assert_eq!(fold::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn fold_then_expand(names in proptest::collection::btree_set("[a-c]{1,2}(0{0,2}[0-9]{1,3})?(-x)?", 0..40)) {
            let names: Vec<String> = names.into_iter().collect();
            let folded = fold(&names);
            let mut back = if folded.is_empty() { Vec::new() } else { expand(&folded).unwrap() };
            back.sort();
            prop_assert_eq!(back, names);
        }

        #[test]
        fn fold_in_order_then_expand(names in proptest::collection::vec("[a-c]{1,2}(0{0,2}[0-9]{1,3})?(-x)?", 1..40)) {
            prop_assert_eq!(expand(&fold_in_order(&names)).unwrap(), names);
        }

        #[test]
        fn neighbours_fold(first in 1..2000u32, many in 2..300u32, width in 1..6usize) {
            let names: Vec<String> = (first..first + many).map(|n| format!("n{n:0width$}")).collect();
            let want = format!("n[{first:0width$}-{:0width$}]", first + many - 1);
            prop_assert_eq!(fold(&names), want);
        }

        #[test]
        fn never_panics(text in "[a-z0-9\\[\\],. -]{0,40}") {
            let _ = expand(&text);
        }
    }
}
