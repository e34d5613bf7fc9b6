//! Numbers of tasks, cores and nodes, and sizes of memory. Source: sbatch(1), captures.

use super::{Fault, Line};
use cosy_model::MiB;

/// Most digits that a number may have.
const DIGITS: usize = 12;

/// A whole number of at least 1, the value of `--option`.
///
/// # Errors
/// `Invalid numeric value "x" for --option.`
pub fn positive(text: &str, option: &str) -> Result<u32, Fault> {
    let number = digits(text).and_then(|n| u32::try_from(n).ok());
    number
        .filter(|n| (1..=i32::MAX as u32).contains(n))
        .ok_or_else(|| {
            Fault::error(format!("Invalid numeric value \"{}\" for --{option}.", cut(text)))
        })
}

fn digits(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let fine = !text.is_empty() && text.len() <= DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

/// A text short enough for an error.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

/// How many nodes: at least, and at most where that was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeCount {
    /// Fewest nodes that will do.
    pub least: u32,
    /// Most, with `-N 2-4`; `-N 2` means 2 and no more.
    pub most: u32,
}

/// Reads `--nodes`: `2`, `2-4`, `1k`, `-3` for at most three.
///
/// # Errors
/// `"x" is not a valid node count`; a range that runs backwards.
pub fn nodes(text: &str) -> Result<NodeCount, Fault> {
    let (least, most) = match text.split_once('-') {
        Some((least, most)) => (least, most),
        None => (text, text),
    };
    let one = |part: &str| {
        node_number(part)
            .ok_or_else(|| Fault::value(format!("\"{}\" is not a valid node count", cut(part))))
    };
    if most.is_empty() && text.contains('-') {
        let least = one(least)?;
        return Err(Fault::value(format!(
            "Maximum node count -1 is less than minimum node count {least}"
        )));
    }
    let (least, most) = match least {
        "" if !most.is_empty() => (1, one(most)?),
        _ => (one(least)?, one(most)?),
    };
    if most < least {
        return Err(Fault::value(format!(
            "Maximum node count {most} is less than minimum node count {least}"
        )));
    }
    Ok(NodeCount { least, most })
}

fn node_number(text: &str) -> Option<u32> {
    let (text, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let n = digits(text)?.checked_mul(factor)?;
    u32::try_from(n).ok().filter(|n| i32::try_from(*n).is_ok())
}

/// Reads a size as `--mem`, `--mem-per-cpu`, `--tmp` have it: megabytes, or with K, M, G
/// or T.
///
/// # Errors
/// `Invalid --option specification`.
pub fn size(text: &str, option: &str) -> Result<MiB, Fault> {
    text.parse().map_err(|_| Fault::specification(option))
}

/// The fault of `-w` with more nodes than `-N` allows.
pub fn too_few_nodes(named: u32, most: u32) -> Fault {
    Fault {
        lines: vec![Line::Error(format!(
            "invalid number of nodes (-N {named}-{most})"
        ))],
        code: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers() {
        let check = |text: &str, want: Option<u32>| {
            assert_eq!(positive(text, "ntasks").ok(), want, "{text}");
        };
        check("3", Some(3));
        check("+3", Some(3));
        check("0", None);
        check("-1", None);
        check("foo", None);
        check("4x", None);
        check("", None);
        check("99999999999", None);
        let fault = positive("foo", "ntasks").unwrap_err();
        let want = "sbatch: error: Invalid numeric value \"foo\" for --ntasks.\n";
        assert_eq!((fault.text(Program::Sbatch).as_str(), fault.code), (want, 1));
    }

    #[test]
    fn node_counts() {
        let check = |text: &str, want: Option<(u32, u32)>| {
            let got = nodes(text).ok().map(|n| (n.least, n.most));
            assert_eq!(got, want, "{text}");
        };
        check("2", Some((2, 2)));
        check("2-4", Some((2, 4)));
        check("0", Some((0, 0)));
        check("1k", Some((1024, 1024)));
        check("2-1", None);
        check("foo", None);
        check("2-", None);
        check("-3", Some((1, 3)));
        check("-", None);
        let text = |t: &str| nodes(t).unwrap_err().text(Program::Sbatch);
        assert_eq!(text("foo"), "sbatch: error: \"foo\" is not a valid node count\n");
        assert_eq!(
            text("3-"),
            "sbatch: error: Maximum node count -1 is less than minimum node count 3\n"
        );
        assert_eq!(
            text("2-1"),
            "sbatch: error: Maximum node count 1 is less than minimum node count 2\n"
        );
    }

    #[test]
    fn sizes() {
        let check = |text: &str, want: Option<u64>| {
            assert_eq!(size(text, "mem").ok(), want.map(MiB), "{text}");
        };
        check("200K", Some(1));
        check("100", Some(100));
        check("2g", Some(2048));
        check("2GB", Some(2048));
        check("0", Some(0));
        check("foo", None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in ".{0,40}") {
            let _ = positive(&text, "n");
            let _ = size(&text, "mem");
            if let Ok(n) = nodes(&text) {
                prop_assert!(n.least <= n.most);
            }
        }
    }
}
