//! Names of files and arguments with `%` in them, by task.
//!
//! Pure. Files: `%t` rank, `%n` number of the node in the step, `%N` name of the node,
//! `%j` job, `%s` step, `%J` job and step, `%u` user, `%%`; a number between `%` and the
//! letter (`%4t`) is a width, filled with zeros. Arguments: `%t` rank, `%o` place among
//! the ranks of its program, `%%`. What is none of these stays as it is.
//! Source: srun(1), "FILENAME PATTERN" and "MULTIPLE PROGRAM CONFIGURATION".

/// Most digits that a number is filled up to (`%8j`).
const WIDTH: usize = 10;

/// What a file's pattern is filled from.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Rank of the task.
    pub rank: u32,
    /// Number of the node in the step.
    pub node_number: u32,
    /// Name of the node.
    pub node: &'a str,
    /// Id of the job, `12` or `12_3`.
    pub job: &'a str,
    /// Number of the step.
    pub step: &'a str,
    /// Login name of the job's owner.
    pub user: &'a str,
}

/// The file's name for one task.
pub fn file_name(pattern: &[u8], names: &Names<'_>) -> Vec<u8> {
    fill(pattern, |letter| {
        Some(match letter {
            b't' => names.rank.to_string(),
            b'n' => names.node_number.to_string(),
            b'N' => names.node.to_owned(),
            b'j' => names.job.to_owned(),
            b's' => names.step.to_owned(),
            b'J' => format!("{}.{}", names.job, names.step),
            b'u' => names.user.to_owned(),
            _ => return None,
        })
    })
}

/// An argument of a task of rank `rank`, which is the `offset`-th of its program.
pub fn argument(pattern: &[u8], rank: u32, offset: u32) -> Vec<u8> {
    fill(pattern, |letter| match letter {
        b't' => Some(rank.to_string()),
        b'o' => Some(offset.to_string()),
        _ => None,
    })
}

fn fill(pattern: &[u8], value: impl Fn(u8) -> Option<String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        out.extend_from_slice(&rest[..at]);
        let (text, length) = field(&rest[at..], &value);
        match text {
            Some(text) => out.extend(text),
            None => out.extend_from_slice(&rest[at..at + length]),
        }
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
    out
}

/// What stands for the field that `text` begins with, and the field's length.
fn field(text: &[u8], value: &impl Fn(u8) -> Option<String>) -> (Option<Vec<u8>>, usize) {
    let digits = text[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let Some(letter) = text.get(1 + digits) else {
        return (None, text.len());
    };
    let length = digits + 2;
    if *letter == b'%' && digits == 0 {
        return (Some(vec![b'%']), length);
    }
    let width = std::str::from_utf8(&text[1..1 + digits])
        .ok()
        .and_then(|d| d.parse::<usize>().ok())
        .unwrap_or(if digits == 0 { 0 } else { WIDTH });
    let filled = value(*letter).map(|v| {
        let number = v.bytes().all(|b| b.is_ascii_digit());
        let width = if number { width.min(WIDTH) } else { 0 };
        format!("{v:0>width$}").into_bytes()
    });
    (filled, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: Names<'_> = Names {
        rank: 7,
        node_number: 2,
        node: "n3",
        job: "12",
        step: "4",
        user: "ann",
    };

    #[test]
    fn patterns() {
        let check = |pattern: &str, expected: &str| {
            let got = file_name(pattern.as_bytes(), &NAMES);
            assert_eq!(String::from_utf8(got).unwrap(), expected, "{pattern}");
        };
        check("out", "out");
        check("out.%t", "out.7");
        check("%4t/%n.%N", "0007/2.n3");
        check("%j-%s %J %u %%", "12-4 12.4 ann %");
        check("%3N", "n3");
        check("%999999999999999999999t", "0000000007");
        check("%x %", "%x %");
        check("100%%t", "100%t");
        check("%12", "%12");
        let argument = argument(b"--of=%o/%t%%%n", 5, 3);
        assert_eq!(argument, b"--of=3/5%%n");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn anything_else_stays(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let named = file_name(&text, &NAMES);
            if !text.contains(&b'%') {
                prop_assert_eq!(&named, &text);
            }
            prop_assert!(named.len() <= text.len() * 12 + 12);
        }
    }
}
