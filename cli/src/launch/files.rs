//! `--output`, `--error`, `--input`: who opens which file.
//!
//! A name that differs by task or node (`%t`, `%n`, `%N`) is opened there, as the user, by
//! the step's supervisors. Any other is one file: the command opens and writes it. Pure.

use cosy_model::OsText;
use cosy_model::step::{InputFrom, OutputTo, StepKey};

/// What the command does with a stream of output that comes to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Local {
    /// Its own standard output or error.
    Own,
    /// A file, by pattern.
    File(OsText),
    /// As the other stream.
    Same,
}

/// Where one stream goes: what the supervisors are told, and what the command does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamTarget {
    /// What the supervisors on the nodes are told.
    pub there: OutputTo,
    /// What the command does with what it gets.
    pub here: Local,
}

impl StreamTarget {
    const fn own(there: OutputTo) -> Self {
        Self {
            there,
            here: Local::Own,
        }
    }
}

/// What a value of `--output` or `--error` means: `all`, `none`, a rank, a pattern.
pub fn output(value: Option<&OsText>, name: &str) -> StreamTarget {
    let Some(value) = value else {
        return StreamTarget::own(OutputTo::Command);
    };
    match value.0.as_slice() {
        b"all" => StreamTarget::own(OutputTo::Command),
        b"none" => StreamTarget::own(OutputTo::Null),
        other => match rank(other) {
            Some(rank) => StreamTarget::own(OutputTo::Rank(rank)),
            None if differs(other) => StreamTarget::own(OutputTo::File(for_nodes(other, name))),
            None => StreamTarget {
                there: OutputTo::Command,
                here: Local::File(value.clone()),
            },
        },
    }
}

/// The same for errors: without a value they go where the output goes, when that is a file.
pub fn error(value: Option<&OsText>, output: &StreamTarget, name: &str) -> StreamTarget {
    if value.is_some() {
        return self::output(value, name);
    }
    let there = match &output.there {
        OutputTo::File(_) => OutputTo::Output,
        other => other.clone(),
    };
    let here = match output.here {
        Local::File(_) | Local::Same => Local::Same,
        Local::Own => Local::Own,
    };
    StreamTarget { there, here }
}

/// Where input comes from, and the file that the command reads for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// What the supervisors on the nodes are told.
    pub there: InputFrom,
    /// A file that the command reads; its own standard input without.
    pub file: Option<OsText>,
}

/// What a value of `--input` means: `all`, `none`, a rank, a pattern.
pub fn input(value: Option<&OsText>, name: &str) -> Input {
    let from = |there| Input { there, file: None };
    let Some(value) = value else {
        return from(InputFrom::All);
    };
    match value.0.as_slice() {
        b"all" => from(InputFrom::All),
        b"none" => from(InputFrom::Null),
        other => match rank(other) {
            Some(rank) => from(InputFrom::Rank(rank)),
            None if differs(other) => from(InputFrom::File(for_nodes(other, name))),
            None => Input {
                there: InputFrom::All,
                file: Some(value.clone()),
            },
        },
    }
}

fn rank(text: &[u8]) -> Option<u32> {
    let fine = (1..=7).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    fine.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// One part of a pattern: plain bytes, or a letter after `%` with its width.
enum Part<'a> {
    Plain(&'a [u8]),
    Letter {
        letter: u8,
        width: usize,
        text: &'a [u8],
    },
}

fn parts(pattern: &[u8]) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        let digits = rest[at + 1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let Some(letter) = rest.get(at + 1 + digits).copied() else {
            break;
        };
        all.push(Part::Plain(&rest[..at]));
        let end = at + digits + 2;
        let text = &rest[at..end];
        let width = std::str::from_utf8(&rest[at + 1..at + 1 + digits]).unwrap_or("");
        let width = width.parse().unwrap_or(0).min(20);
        all.push(Part::Letter {
            letter,
            width,
            text,
        });
        rest = &rest[end..];
    }
    all.push(Part::Plain(rest));
    all
}

/// True when the name is another one for each task or node.
fn differs(pattern: &[u8]) -> bool {
    parts(pattern).iter().any(|p| {
        matches!(
            p,
            Part::Letter {
                letter: b't' | b'n' | b'N',
                ..
            }
        )
    })
}

/// A pattern as supervisors understand it: they know no names of steps, nor `%J`.
fn for_nodes(pattern: &[u8], name: &str) -> OsText {
    let mut out = Vec::new();
    for part in parts(pattern) {
        match part {
            Part::Letter { letter: b'x', .. } => {
                out.extend_from_slice(name.replace('%', "%%").as_bytes());
            }
            Part::Letter { letter: b'J', .. } => out.extend_from_slice(b"%j.%s"),
            Part::Letter { text, .. } | Part::Plain(text) => out.extend_from_slice(text),
        }
    }
    OsText(out)
}

/// What a name of one file can hold.
pub struct Facts<'a> {
    /// The step whose tasks write, for `%j`, `%s` and `%J`.
    pub key: StepKey,
    /// Name of the job, for `%x`.
    pub name: &'a str,
    /// Login name, for `%u`.
    pub user: &'a str,
}

/// The name of a file that the command opens. Letters that are not known stay.
pub fn expand(pattern: &OsText, facts: &Facts<'_>) -> OsText {
    let mut out = Vec::new();
    for part in parts(&pattern.0) {
        let Part::Letter {
            letter,
            width,
            text,
        } = part
        else {
            if let Part::Plain(text) = part {
                out.extend_from_slice(text);
            }
            continue;
        };
        let job = facts.key.attempt.job;
        let value = match letter {
            b'j' | b'A' => format!("{:0width$}", job.0),
            b's' => format!("{:0width$}", facts.key.step.0),
            b'J' => facts.key.to_string(),
            b'x' => facts.name.to_owned(),
            b'u' => facts.user.to_owned(),
            b'%' => "%".to_owned(),
            _ => {
                out.extend_from_slice(text);
                continue;
            }
        };
        out.extend_from_slice(value.as_bytes());
    }
    OsText(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::node::AttemptKey;
    use cosy_model::{Attempt, JobId, StepId};
    use proptest::prelude::*;

    #[test]
    fn outputs() {
        let check = |value: &str, there: OutputTo, here: Local| {
            let got = output(Some(&value.into()), "na%me");
            assert_eq!(got, StreamTarget { there, here }, "{value}");
        };
        check("all", OutputTo::Command, Local::Own);
        check("none", OutputTo::Null, Local::Own);
        check("3", OutputTo::Rank(3), Local::Own);
        check("out", OutputTo::Command, Local::File("out".into()));
        check("o-%j-%5s", OutputTo::Command, Local::File("o-%j-%5s".into()));
        check("o.%4t", OutputTo::File("o.%4t".into()), Local::Own);
        check("%N.%J.%x", OutputTo::File("%N.%j.%s.na%%me".into()), Local::Own);
        check("100%", OutputTo::Command, Local::File("100%".into()));
        check("a%%t", OutputTo::Command, Local::File("a%%t".into()));
        assert_eq!(output(None, "x"), StreamTarget::own(OutputTo::Command));
    }

    #[test]
    fn errors() {
        let check = |out: Option<&str>, err: Option<&str>, there: OutputTo, here: Local| {
            let out = output(out.map(OsText::from).as_ref(), "x");
            let got = error(err.map(OsText::from).as_ref(), &out, "x");
            assert_eq!(got, StreamTarget { there, here });
        };
        check(None, None, OutputTo::Command, Local::Own);
        check(Some("f"), None, OutputTo::Command, Local::Same);
        check(Some("f.%t"), None, OutputTo::Output, Local::Own);
        check(Some("2"), None, OutputTo::Rank(2), Local::Own);
        check(Some("none"), None, OutputTo::Null, Local::Own);
        check(Some("f"), Some("g"), OutputTo::Command, Local::File("g".into()));
        check(Some("none"), Some("all"), OutputTo::Command, Local::Own);
    }

    #[test]
    fn inputs() {
        let check = |value: &str, there: InputFrom, file: Option<&str>| {
            let file = file.map(OsText::from);
            assert_eq!(input(Some(&value.into()), "x"), Input { there, file });
        };
        check("all", InputFrom::All, None);
        check("none", InputFrom::Null, None);
        check("0", InputFrom::Rank(0), None);
        check("in.%t", InputFrom::File("in.%t".into()), None);
        check("in", InputFrom::All, Some("in"));
    }

    fn facts() -> Facts<'static> {
        Facts {
            key: StepKey {
                attempt: AttemptKey {
                    job: JobId(12),
                    attempt: Attempt(1),
                },
                step: StepId(3),
            },
            name: "na",
            user: "ann",
        }
    }

    #[test]
    fn names() {
        let check = |pattern: &str, want: &str| {
            assert_eq!(expand(&pattern.into(), &facts()).lossy(), want);
        };
        check("o-%j.%s", "o-12.3");
        check("%4j-%J-%x-%u-%%-%", "0012-12.3-na-ann-%-%");
        check("%q%", "%q%");
        check("%99999999999999999999999j", "12");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn never_panics(pattern in proptest::collection::vec(any::<u8>(), 0..40)) {
            let pattern = OsText(pattern);
            let _ = (output(Some(&pattern), "x"), input(Some(&pattern), "x"));
            let _ = expand(&pattern, &facts());
        }
    }
}
