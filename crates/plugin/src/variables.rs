//! What a plugin's script prints: one `NAME=value` in each line.

use crate::{JOB_OUTPUT, JOB_VARIABLES};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// Why a script's output cannot be used; none of it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VariablesError {
    /// More than a script may print.
    #[error("it printed more than {JOB_OUTPUT} bytes")]
    TooLong,
    /// More than a script may set.
    #[error("it set more than {JOB_VARIABLES} variables")]
    TooMany,
    /// A line that is not `NAME=value`.
    #[error("line {line} of its output is not NAME=value: '{text}'")]
    NotAssignment {
        /// Line of the output, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
}

/// Reads `NAME=value` lines. Empty lines and such that begin with `#` are passed over;
/// a value is everything up to the end of the line, as it is.
///
/// # Errors
/// [`VariablesError`].
pub fn parse(output: &[u8]) -> Result<Environment, VariablesError> {
    if output.len() > JOB_OUTPUT {
        return Err(VariablesError::TooLong);
    }
    let mut all = Environment::new();
    for (at, line) in output.split(|b| *b == b'\n').enumerate() {
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let (name, value) = assignment(line).ok_or_else(|| not_assignment(at, line))?;
        all.insert(name, value);
        if all.len() > JOB_VARIABLES {
            return Err(VariablesError::TooMany);
        }
    }
    Ok(all)
}

fn assignment(line: &[u8]) -> Option<(OsString, OsString)> {
    let at = line.iter().position(|b| *b == b'=')?;
    let (name, value) = (&line[..at], &line[at + 1..]);
    let first = name.first()?;
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let good = name.iter().all(word) && !first.is_ascii_digit() && !value.contains(&0);
    good.then(|| (OsStr::from_bytes(name).to_owned(), OsString::from_vec(value.to_vec())))
}

fn not_assignment(at: usize, line: &[u8]) -> VariablesError {
    let text = String::from_utf8_lossy(line);
    let clean = text.chars().filter(|c| !c.is_control());
    VariablesError::NotAssignment {
        line: at + 1,
        text: clean.take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(output: &str, expected: Result<&[(&str, &str)], VariablesError>) {
        let expected = expected.map(|pairs| {
            pairs
                .iter()
                .map(|(n, v)| (OsString::from(n), OsString::from(v)))
                .collect()
        });
        assert_eq!(parse(output.as_bytes()), expected, "{output:?}");
    }

    fn bad(line: usize, text: &str) -> VariablesError {
        VariablesError::NotAssignment {
            line,
            text: text.to_owned(),
        }
    }

    #[test]
    fn lines() {
        check("", Ok(&[]));
        check("A=1\nB_2= x = y \n", Ok(&[("A", "1"), ("B_2", " x = y ")]));
        check("# said\n\nA=\nA=2", Ok(&[("A", "2")]));
        check("A=1\nexport B=2\n", Err(bad(2, "export B=2")));
        check("hello", Err(bad(1, "hello")));
        check("1A=2", Err(bad(1, "1A=2")));
        check("=2", Err(bad(1, "=2")));
        check("A=\0", Err(bad(1, "A=")));
    }

    #[test]
    fn limits() {
        let many: String = (0..=JOB_VARIABLES).map(|n| format!("A{n}=\n")).collect();
        check(&many, Err(VariablesError::TooMany));
        let long = format!("A={}", "x".repeat(JOB_OUTPUT));
        check(&long, Err(VariablesError::TooLong));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn never_a_name_that_an_environment_cannot_hold(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for (name, value) in parse(&bytes).unwrap_or_default() {
                prop_assert!(!name.is_empty() && !name.as_bytes().contains(&b'='));
                prop_assert!(!name.as_bytes().contains(&0) && !value.as_bytes().contains(&0));
            }
        }
    }
}
