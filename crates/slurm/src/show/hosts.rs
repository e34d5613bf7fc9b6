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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn never_panics(text in "[a-z0-9\\[\\],. é-]{0,40}") {
            let _ = super::names(&text);
        }
    }
}
