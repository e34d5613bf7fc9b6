//! `--array`. Source: sbatch(1), captures.

use super::Fault;
use cosy_model::ArraySpec;

/// What the original's controller says to any array that it does not take.
pub const INVALID: &str = "Invalid job array specification";

/// Reads `0-15`, `1,3,5-9:2`, `0-99%4`; also in brackets. A limit of 0, or none after the
/// sign, is no limit.
///
/// # Errors
/// [`INVALID`].
pub fn read(text: &str) -> Result<ArraySpec, Fault> {
    let text = text.trim();
    let text = match text.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').unwrap_or(text),
        None => text,
    };
    let text = text.strip_suffix('%').unwrap_or(text);
    let refuse = || Fault::refusal(INVALID);
    // A step is of a range.
    if text
        .split(',')
        .any(|part| part.contains(':') && !part.contains('-'))
    {
        return Err(refuse());
    }
    text.parse().map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrays() {
        let check = |text: &str, want: Option<(&[u32], Option<u32>)>| {
            let got = read(text)
                .ok()
                .map(|a| (a.indices().iter().collect::<Vec<_>>(), a.at_once));
            assert_eq!(got, want.map(|(i, n)| (i.to_vec(), n)), "{text}");
        };
        check("1-3", Some((&[1, 2, 3], None)));
        check("2,5-9:2%2", Some((&[2, 5, 7, 9], Some(2))));
        check("[1-2%1]", Some((&[1, 2], Some(1))));
        check("1-5%0", Some((&[1, 2, 3, 4, 5], None)));
        check("1-2%", Some((&[1, 2], None)));
        check("1,1", Some((&[1], None)));
        check("5-1", None);
        check("1:2", None);
        check("1-3,5:2", None);
        check("foo", None);
        check("", None);
        check("1-99999999", None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[-0-9,:%\\[\\]a ]{0,30}") {
            if let Ok(array) = read(&text) {
                prop_assert!(array.count() >= 1);
            }
        }
    }
}
