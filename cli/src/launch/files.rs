//! `--output`, `--error`, `--input`: who opens which file.
//!
//! A name that differs by task or node (`%t`, `%n`, `%N`) is opened there, as the user, by
//! the step's supervisors. Any other is one file: the command opens and writes it. Pure.

use cosy_model::OsText;
use cosy_model::step::{InputFrom, OutputTo, StepKey};

/// Where the command writes the output of tasks that comes to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocalTarget {
    /// Standard output or error of the command, as it is output or errors.
    Own,
    /// A file, named by this pattern (see [`expand`]).
    File(OsText),
    /// Where the other stream goes.
    Same,
}

/// Where one stream of output goes: what supervisors do with it, and what the command does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamTarget {
    /// What the supervisors on the nodes do with it.
    pub remote: OutputTo,
    /// What the command does with the output that supervisors send to it.
    pub local: LocalTarget,
}

impl StreamTarget {
    const fn to_own_stream(remote: OutputTo) -> Self {
        Self {
            remote,
            local: LocalTarget::Own,
        }
    }
}

/// Reads a value of `--output` or `--error`: `all`, `none`, a rank, or a pattern; `name` is that of
/// the step, for `%x`.
pub fn output(value: Option<&OsText>, name: &str) -> StreamTarget {
    let Some(value) = value else {
        return StreamTarget::to_own_stream(OutputTo::Command);
    };
    match value.0.as_slice() {
        b"all" => StreamTarget::to_own_stream(OutputTo::Command),
        b"none" => StreamTarget::to_own_stream(OutputTo::Null),
        other => match rank(other) {
            Some(rank) => StreamTarget::to_own_stream(OutputTo::Rank(rank)),
            None if names_several_files(other) => {
                StreamTarget::to_own_stream(OutputTo::File(for_nodes(other, name)))
            }
            None => StreamTarget {
                remote: OutputTo::Command,
                local: LocalTarget::File(value.clone()),
            },
        },
    }
}

/// The same for errors: without a value they go to the file of the output where there is one.
pub fn error(value: Option<&OsText>, output: &StreamTarget, name: &str) -> StreamTarget {
    if value.is_some() {
        return self::output(value, name);
    }
    let remote = match &output.remote {
        OutputTo::File(_) => OutputTo::Output,
        other => other.clone(),
    };
    let local = match output.local {
        LocalTarget::File(_) | LocalTarget::Same => LocalTarget::Same,
        LocalTarget::Own => LocalTarget::Own,
    };
    StreamTarget { remote, local }
}

/// Where input comes from, and the file that the command reads for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamSource {
    /// Where supervisors on the nodes take the input of tasks from.
    pub remote: InputFrom,
    /// The file that the command reads for them; `None`: its own standard input.
    pub file: Option<OsText>,
}

/// Reads a value of `--input`: `all`, `none`, a rank, or a pattern.
pub fn input(value: Option<&OsText>, name: &str) -> StreamSource {
    let from = |remote| StreamSource { remote, file: None };
    let Some(value) = value else {
        return from(InputFrom::All);
    };
    match value.0.as_slice() {
        b"all" => from(InputFrom::All),
        b"none" => from(InputFrom::Null),
        other => match rank(other) {
            Some(rank) => from(InputFrom::Rank(rank)),
            None if names_several_files(other) => from(InputFrom::File(for_nodes(other, name))),
            None => StreamSource {
                remote: InputFrom::All,
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
enum PatternPart<'a> {
    Plain(&'a [u8]),
    Letter {
        letter: u8,
        width: usize,
        text: &'a [u8],
    },
}

fn parts(pattern: &[u8]) -> Vec<PatternPart<'_>> {
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
        all.push(PatternPart::Plain(&rest[..at]));
        let end = at + digits + 2;
        let text = &rest[at..end];
        let width = std::str::from_utf8(&rest[at + 1..at + 1 + digits]).unwrap_or("");
        let width = width.parse().unwrap_or(0).min(20);
        all.push(PatternPart::Letter {
            letter,
            width,
            text,
        });
        rest = &rest[end..];
    }
    all.push(PatternPart::Plain(rest));
    all
}

/// True when the pattern gives each task or node a file of its own.
fn names_several_files(pattern: &[u8]) -> bool {
    parts(pattern).iter().any(|p| {
        matches!(
            p,
            PatternPart::Letter {
                letter: b't' | b'n' | b'N',
                ..
            }
        )
    })
}

/// A pattern with `%x` and `%J` filled in, which supervisors do not know.
fn for_nodes(pattern: &[u8], name: &str) -> OsText {
    let mut out = Vec::new();
    for part in parts(pattern) {
        match part {
            PatternPart::Letter { letter: b'x', .. } => {
                out.extend_from_slice(name.replace('%', "%%").as_bytes());
            }
            PatternPart::Letter { letter: b'J', .. } => out.extend_from_slice(b"%j.%s"),
            PatternPart::Letter { text, .. } | PatternPart::Plain(text) => {
                out.extend_from_slice(text)
            }
        }
    }
    OsText(out)
}

/// The values of the letters in a pattern.
pub struct PatternValues<'a> {
    /// The step whose tasks write, for `%j`, `%s` and `%J`.
    pub key: StepKey,
    /// Name of the job, for `%x`.
    pub name: &'a str,
    /// Login name, for `%u`.
    pub user: &'a str,
}

/// The name of the file that a pattern stands for. Unknown letters stay as they are.
pub fn expand(pattern: &OsText, values: &PatternValues<'_>) -> OsText {
    let mut out = Vec::new();
    for part in parts(&pattern.0) {
        let PatternPart::Letter {
            letter,
            width,
            text,
        } = part
        else {
            if let PatternPart::Plain(text) = part {
                out.extend_from_slice(text);
            }
            continue;
        };
        let job = values.key.attempt.job;
        let value = match letter {
            b'j' | b'A' => format!("{:0width$}", job.0),
            b's' => format!("{:0width$}", values.key.step.0),
            b'J' => values.key.to_string(),
            b'x' => values.name.to_owned(),
            b'u' => values.user.to_owned(),
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
        let check = |value: &str, remote: OutputTo, local: LocalTarget| {
            let got = output(Some(&value.into()), "na%me");
            assert_eq!(got, StreamTarget { remote, local }, "{value}");
        };
        check("all", OutputTo::Command, LocalTarget::Own);
        check("none", OutputTo::Null, LocalTarget::Own);
        check("3", OutputTo::Rank(3), LocalTarget::Own);
        check("out", OutputTo::Command, LocalTarget::File("out".into()));
        check("o-%j-%5s", OutputTo::Command, LocalTarget::File("o-%j-%5s".into()));
        check("o.%4t", OutputTo::File("o.%4t".into()), LocalTarget::Own);
        check("%N.%J.%x", OutputTo::File("%N.%j.%s.na%%me".into()), LocalTarget::Own);
        check("100%", OutputTo::Command, LocalTarget::File("100%".into()));
        check("a%%t", OutputTo::Command, LocalTarget::File("a%%t".into()));
        assert_eq!(output(None, "x"), StreamTarget::to_own_stream(OutputTo::Command));
    }

    #[test]
    fn errors() {
        let check = |out: Option<&str>, err: Option<&str>, remote: OutputTo, local: LocalTarget| {
            let out = output(out.map(OsText::from).as_ref(), "x");
            let got = error(err.map(OsText::from).as_ref(), &out, "x");
            assert_eq!(got, StreamTarget { remote, local });
        };
        check(None, None, OutputTo::Command, LocalTarget::Own);
        check(Some("f"), None, OutputTo::Command, LocalTarget::Same);
        check(Some("f.%t"), None, OutputTo::Output, LocalTarget::Own);
        check(Some("2"), None, OutputTo::Rank(2), LocalTarget::Own);
        check(Some("none"), None, OutputTo::Null, LocalTarget::Own);
        check(Some("f"), Some("g"), OutputTo::Command, LocalTarget::File("g".into()));
        check(Some("none"), Some("all"), OutputTo::Command, LocalTarget::Own);
    }

    #[test]
    fn inputs() {
        let check = |value: &str, remote: InputFrom, file: Option<&str>| {
            let file = file.map(OsText::from);
            assert_eq!(input(Some(&value.into()), "x"), StreamSource { remote, file });
        };
        check("all", InputFrom::All, None);
        check("none", InputFrom::Null, None);
        check("0", InputFrom::Rank(0), None);
        check("in.%t", InputFrom::File("in.%t".into()), None);
        check("in", InputFrom::All, Some("in"));
    }

    fn values() -> PatternValues<'static> {
        PatternValues {
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
            assert_eq!(expand(&pattern.into(), &values()).lossy(), want);
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
            let _ = expand(&pattern, &values());
        }
    }
}
