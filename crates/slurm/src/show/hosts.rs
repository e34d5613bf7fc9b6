//! `scontrol show hostnames`, `hostlist` and `hostlistsorted`.
//!
//! The grammar is that of [`cosy_model::hostlist`]; here is what Slurm's command does
//! beside it: the short form keeps the given order, and an unfinished bracket is no error.
//! Source: scontrol(1), captures of 22.05.

use cosy_model::HostListError;

/// All names, in their order, doubles kept.
///
/// # Errors
/// No host list.
pub fn names(text: &str) -> Result<Vec<String>, HostListError> {
    let text = text.trim_matches([',', ' ', '\n']);
    match unfinished(text) {
        Some(rest) => Ok(vec![format!("{rest}]")]),
        None => cosy_model::expand(text),
    }
}

/// What stands before a bracket that is never closed; Slurm prints it with a closing one.
fn unfinished(text: &str) -> Option<&str> {
    let open = text.rfind('[')?;
    let (before, after) = text.split_at(open);
    let fine = !after.contains(']') && !before.is_empty() && !before.contains(['[', ']', ',']);
    fine.then_some(before)
}

/// The short form in the given order: only neighbours are put together.
pub fn in_order<S: AsRef<str>>(names: &[S]) -> String {
    let mut items: Vec<Item<'_>> = Vec::new();
    for name in names {
        let next = Item::of(name.as_ref());
        match items.last_mut() {
            Some(last) if last.takes(&next) => last.numbers.extend(next.numbers),
            _ => items.push(next),
        }
    }
    let texts: Vec<String> = items.iter().map(Item::text).collect();
    texts.join(",")
}

/// Names with one prefix and numbers of one width.
struct Item<'a> {
    prefix: &'a str,
    width: usize,
    numbers: Vec<u64>,
}

impl<'a> Item<'a> {
    fn of(name: &'a str) -> Self {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(name.len() - digits);
        let padded = number.len() > 1 && number.starts_with('0');
        let width = if padded { number.len() } else { 1 };
        match number.parse() {
            Ok(number) => Self {
                prefix,
                width,
                numbers: vec![number],
            },
            Err(_) => Self {
                prefix: name,
                width,
                numbers: Vec::new(),
            },
        }
    }

    fn takes(&self, next: &Self) -> bool {
        !self.numbers.is_empty()
            && !next.numbers.is_empty()
            && self.prefix == next.prefix
            && self.width == next.width
    }

    fn text(&self) -> String {
        let Self {
            prefix,
            width,
            numbers,
        } = self;
        match numbers.as_slice() {
            [] => (*prefix).to_owned(),
            [one] => format!("{prefix}{one:0width$}"),
            many => format!("{prefix}[{}]", cosy_model::hostlist::ranges(many, *width)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expands() {
        let check = |text: &str, want: &str| {
            assert_eq!(names(text).unwrap_or_default().join(" "), want, "{text}");
        };
        check("n[1-3,5]", "n1 n2 n3 n5");
        check("n[001-003],m1", "n001 n002 n003 m1");
        check("n2,n1,n2", "n2 n1 n2");
        check("n[1-", "n]");
        check("n[1-2]]", "");
        check("", "");
    }

    #[test]
    fn folds() {
        let check = |text: &str, want: &str| {
            let names: Vec<&str> = text.split(' ').collect();
            assert_eq!(in_order(&names), want, "{text}");
        };
        check("n1 n2 n3 n7", "n[1-3,7]");
        check("n9 n2 n3", "n[9,2-3]");
        check("n08 n09 n10 x y2", "n[08-09],n10,x,y2");
        check("login", "login");
        check("n99999999999999999999999", "n99999999999999999999999");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn comes_back(names in proptest::collection::vec("[a-c]{1,2}(0{0,2}[0-9]{1,3})?(-x)?", 1..30)) {
            prop_assert_eq!(super::names(&in_order(&names)).unwrap(), names);
        }

        #[test]
        fn never_panics(text in "[a-z0-9\\[\\],. é-]{0,40}") {
            let _ = super::names(&text);
            let _ = in_order(&[text]);
        }
    }
}
