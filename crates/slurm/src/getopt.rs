//! Command lines as `getopt_long(3)` reads them: tables of options, abbreviations of long
//! options, bundles of short ones, and the texts of its complaints.
//!
//! Knows nothing of what an option means. What is found is handed out in the order in
//! which it stands, and reading ends at the first mistake, so that a program that acts on
//! `--help` before a mistake behind it does what the original does. Source:
//! getopt_long(3), observed behaviour of glibc.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// It takes no value: `--hold`.
    Nothing,
    /// One: `--name=X`, `--name X`, `-nX`, `-n X`.
    Value,
    /// Perhaps, and then in the same word: `--name`, `--name=X`, `-n`, `-nX`.
    Perhaps,
}

/// An option of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opt {
    /// What the program knows it by; two spellings of one option share it.
    pub name: &'static str,
    /// Long spelling without the dashes; empty where there is none.
    pub long: &'static str,
    /// Short spelling, the letter after one dash.
    pub short: Option<u8>,
    /// Whether it takes a value.
    pub argument: Argument,
}

impl Opt {
    /// An option known by its long spelling.
    pub const fn long(long: &'static str, argument: Argument) -> Self {
        Self {
            name: long,
            long,
            short: None,
            argument,
        }
    }

    /// An option with both spellings, known by the long one.
    pub const fn both(short: u8, long: &'static str, argument: Argument) -> Self {
        Self {
            name: long,
            long,
            short: Some(short),
            argument,
        }
    }

    /// An option that is only short, known by `name`.
    pub const fn short(short: u8, name: &'static str, argument: Argument) -> Self {
        Self {
            name,
            long: "",
            short: Some(short),
            argument,
        }
    }

    /// The same option known by another name (another spelling of that one).
    pub const fn known_as(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// Whether options may stand behind the first word that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Yes (`squeue`, `scancel`, `sinfo` ...).
    Permute,
    /// No: everything from there on belongs to a program (`sbatch`, `srun`, `salloc`).
    Stop,
}

/// An option as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenOption {
    /// Which option it is: its [`Opt::name`], however it was spelt.
    pub name: &'static str,
    /// Its value; never there for [`Argument::Nothing`], always for [`Argument::Value`].
    pub value: Option<OsString>,
}

impl GivenOption {
    /// The value as text, bytes that are none replaced; empty without a value.
    pub fn text(&self) -> String {
        let text = self.value.as_deref().map(OsStr::to_string_lossy);
        text.unwrap_or_default().into_owned()
    }
}

/// What is wrong with a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UsageError {
    /// No such long option; with everything behind the dashes.
    Unrecognized(String),
    /// The beginning of several long options.
    Ambiguous(String, Vec<&'static str>),
    /// No such short option.
    Invalid(char),
    /// A long option with `=value` that takes none.
    TakesNothing(&'static str),
    /// A long option without the value that it needs.
    NeedsValue(&'static str),
    /// A short option without the value that it needs.
    ShortNeedsValue(char),
}

impl UsageError {
    /// The line that the C library prints; `program` as it was called (`argv[0]`).
    pub fn text(&self, program: &str) -> String {
        match self {
            Self::Unrecognized(word) => format!("{program}: unrecognized option '--{word}'"),
            Self::Ambiguous(word, all) => {
                let all: String = all.iter().map(|o| format!(" '--{o}'")).collect();
                format!("{program}: option '--{word}' is ambiguous; possibilities:{all}")
            }
            Self::Invalid(c) => format!("{program}: invalid option -- '{c}'"),
            Self::TakesNothing(o) => format!("{program}: option '--{o}' doesn't allow an argument"),
            Self::NeedsValue(o) => format!("{program}: option '--{o}' requires an argument"),
            Self::ShortNeedsValue(c) => {
                format!("{program}: option requires an argument -- '{c}'")
            }
        }
    }
}

/// A command line taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    /// The options, in the order in which they stand, up to a mistake.
    pub found: Vec<GivenOption>,
    /// What is no option.
    pub words: Vec<OsString>,
    /// The first mistake; what stands behind it was not read.
    pub mistake: Option<UsageError>,
}

/// The line that most of Slurm's commands add to a mistake.
pub fn hint(program: &str) -> String {
    format!("Try \"{program} --help\" for more information")
}

/// Takes `args` (without the program's name) apart.
pub fn parse(table: &[Opt], order: Order, args: &[OsString]) -> Parsed {
    let mut parsed = Parsed::default();
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        let bytes = word.as_bytes();
        let read = if bytes == b"--" {
            parsed.words.extend_from_slice(rest);
            return parsed;
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            read_long(table, long, &mut rest).map(|found| parsed.found.push(found))
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            read_bundle(table, &bytes[1..], &mut rest, &mut parsed.found)
        } else if order == Order::Stop {
            parsed.words.push(word.clone());
            parsed.words.extend_from_slice(rest);
            return parsed;
        } else {
            parsed.words.push(word.clone());
            Ok(())
        };
        if let Err(mistake) = read {
            parsed.mistake = Some(mistake);
            return parsed;
        }
    }
    parsed
}

fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `name`, `name=value` or the beginning of a name; takes the next word if it must.
fn read_long(
    table: &[Opt],
    word: &[u8],
    rest: &mut &[OsString],
) -> Result<GivenOption, UsageError> {
    let (name, given) = match word.iter().position(|b| *b == b'=') {
        Some(at) => (&word[..at], Some(owned(&word[at + 1..]))),
        None => (word, None),
    };
    let opt = look_up(table, name, word)?;
    let value = match (opt.argument, given) {
        (Argument::Nothing, Some(_)) => return Err(UsageError::TakesNothing(opt.long)),
        (Argument::Nothing | Argument::Perhaps, None) => None,
        (Argument::Value | Argument::Perhaps, Some(value)) => Some(value),
        (Argument::Value, None) => Some(next(rest).ok_or(UsageError::NeedsValue(opt.long))?),
    };
    Ok(GivenOption {
        name: opt.name,
        value,
    })
}

fn next(rest: &mut &[OsString]) -> Option<OsString> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(first.clone())
}

/// The option of that name, or the only one that begins so.
fn look_up<'a>(table: &'a [Opt], name: &[u8], word: &[u8]) -> Result<&'a Opt, UsageError> {
    let long = || table.iter().filter(|o| !o.long.is_empty());
    if let Some(exact) = long().find(|o| o.long.as_bytes() == name) {
        return Ok(exact);
    }
    let mut begin = long().filter(|o| o.long.as_bytes().starts_with(name));
    let unknown = || UsageError::Unrecognized(lossy(word));
    let first = begin.next().ok_or_else(unknown)?;
    let same = |o: &&Opt| o.name == first.name && o.argument == first.argument;
    let others: Vec<&str> = begin.filter(|o| !same(o)).map(|o| o.long).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let mut all: Vec<_> = std::iter::once(first.long).chain(others).collect();
    all.sort_unstable();
    Err(UsageError::Ambiguous(lossy(word), all))
}

/// The short options of one word; what stands behind one with a value is its value.
fn read_bundle(
    table: &[Opt],
    word: &[u8],
    rest: &mut &[OsString],
    found: &mut Vec<GivenOption>,
) -> Result<(), UsageError> {
    for (at, letter) in word.iter().enumerate() {
        let shown = char::from(*letter);
        let known = table.iter().find(|o| o.short == Some(*letter));
        // ':' and ';' stand for something else where the C library looks letters up.
        let opt = known.filter(|_| !b":;-".contains(letter));
        let opt = opt.ok_or(UsageError::Invalid(shown))?;
        let behind = &word[at + 1..];
        let value = match opt.argument {
            Argument::Nothing => None,
            Argument::Perhaps => (!behind.is_empty()).then(|| owned(behind)),
            Argument::Value if !behind.is_empty() => Some(owned(behind)),
            Argument::Value => Some(next(rest).ok_or(UsageError::ShortNeedsValue(shown))?),
        };
        found.push(GivenOption {
            name: opt.name,
            value,
        });
        if opt.argument != Argument::Nothing {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: [Opt; 9] = [
        Opt::both(b'n', "name", Argument::Value),
        Opt::both(b'h', "noheader", Argument::Nothing),
        Opt::both(b'o', "format", Argument::Value),
        Opt::both(b'X', "exclusive", Argument::Perhaps),
        Opt::long("mem", Argument::Value),
        Opt::long("mem-per-cpu", Argument::Value),
        Opt::long("memory", Argument::Value).known_as("mem"),
        Opt::long("node", Argument::Value),
        Opt::short(b'Q', "quiet", Argument::Nothing),
    ];

    fn read(order: Order, line: &str) -> Parsed {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&TABLE, order, &args)
    }

    fn check(order: Order, line: &str, options: &str, words: &str) {
        let parsed = read(order, line);
        assert_eq!(parsed.mistake, None, "{line}");
        let all: Vec<String> = parsed
            .found
            .iter()
            .map(|f| match &f.value {
                Some(_) => format!("{}={}", f.name, f.text()),
                None => f.name.to_owned(),
            })
            .collect();
        assert_eq!(all.join(" "), options, "{line}");
        let got: Vec<_> = parsed.words.iter().map(|w| w.to_string_lossy()).collect();
        assert_eq!(got.join(" "), words, "{line}");
    }

    #[test]
    fn lines() {
        use Order::{Permute, Stop};
        check(Permute, "", "", "");
        check(Permute, "-ho FMT x", "noheader format=FMT", "x");
        check(Permute, "-oF,%C -nu root", "format=F,%C name=u", "root");
        check(Permute, "a -h b", "noheader", "a b");
        check(Stop, "-h a -h b", "noheader", "a -h b");
        check(Permute, "a -- -h b", "", "a -h b");
        check(Stop, "-h -- -h -- b", "noheader", "-h -- b");
        check(Permute, "- -h", "noheader", "-");
        check(Stop, "--name=x=y --format z w", "name=x=y format=z", "w");
        check(Stop, "--name= w", "name=", "w");
        check(Stop, "--form=1 --noh --mem=3", "format=1 noheader mem=3", "");
        check(Stop, "-X -Xuser -hXm w", "exclusive exclusive=user noheader exclusive=m", "w");
        check(Stop, "--excl --exclusive=user", "exclusive exclusive=user", "");
        check(Stop, "--memo 5 -Q", "mem=5 quiet", "");
        check(Stop, "-n -h", "name=-h", "");
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, want: &str| {
            let mistake = read(Order::Permute, line).mistake;
            assert_eq!(mistake.map(|m| m.text("prog")).as_deref(), Some(want), "{line}");
        };
        check("--nosuch", "prog: unrecognized option '--nosuch'");
        check("--nosuch=5", "prog: unrecognized option '--nosuch=5'");
        check("-hY", "prog: invalid option -- 'Y'");
        check("-:", "prog: invalid option -- ':'");
        check("-n", "prog: option requires an argument -- 'n'");
        check("--name", "prog: option '--name' requires an argument");
        check("--noheader=1", "prog: option '--noheader' doesn't allow an argument");
        check("--no=1", "prog: option '--no=1' is ambiguous; possibilities: '--node' '--noheader'");
        check("--me", "prog: option '--me' is ambiguous; possibilities: '--mem' '--mem-per-cpu'");
        assert_eq!(hint("sbatch"), "Try \"sbatch --help\" for more information");
    }

    #[test]
    fn what_stands_before_a_mistake_is_kept() {
        let parsed = read(Order::Stop, "-h --nosuch -Q");
        assert_eq!(parsed.found.len(), 1);
        assert!(parsed.words.is_empty() && parsed.mistake.is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_bytes(args in proptest::collection::vec(proptest::collection::vec(1u8.., 0..8), 0..8)) {
            let args: Vec<OsString> = args.into_iter().map(OsString::from_vec).collect();
            for order in [Order::Permute, Order::Stop] {
                let parsed = parse(&TABLE, order, &args);
                prop_assert!(parsed.words.len() <= args.len());
                if let Some(mistake) = parsed.mistake {
                    prop_assert!(mistake.text("p").starts_with("p: "));
                }
            }
        }
    }
}
