//! Several programs in one step: the file of `--multi-prog`, in Slurm's form.
//!
//! ```text
//! # ranks   program and arguments
//! 0         ./master
//! 1-3,8     ./worker --part %o      # %t: rank, %o: place among the ranks of this line
//! *         ./idle %t               # all others
//! ```
//!
//! Pure. A line may go on after a backslash at its end. Every rank has exactly one line.

use crate::shell_words;
use cosy_model::OsText;
use cosy_model::limits::{ARGUMENTS, STEP_PROGRAMS, STEP_TASKS};
use cosy_model::step::{StepCommand, StepProgram};

/// Largest file, in bytes.
pub const FILE_BYTES: usize = 4 << 20;

/// Why a file of programs cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProgramFileError {
    /// An error in the line with this number.
    #[error("{0}: {1}")]
    Line(usize, LineError),
    /// No line has this rank.
    #[error("rank {0} has no program; a line that begins with * is for all others")]
    RankWithoutProgram(u32),
    /// Two lines have the same rank: number of the second line, and the rank.
    #[error("rank {1} has two programs")]
    RankWithTwoPrograms(usize, u32),
    /// The file has no line with a program.
    #[error("it names no program")]
    Empty,
}

/// Why a line cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// The first word is no list of ranks.
    #[error("'{0}' are no ranks: use 3, 0-7, 1,4-6, or * for all others")]
    InvalidRanks(String),
    /// The step has no task of this rank.
    #[error("there is no rank {rank}: the step has {tasks} tasks (ranks 0-{})", tasks.saturating_sub(1))]
    NoSuchRank {
        /// The number that was named, from 0.
        rank: u32,
        /// Tasks of the step.
        tasks: u32,
    },
    /// Another error, in words; `srun` has no sentence of its own for it.
    #[error("{0}")]
    Other(String),
}

impl ProgramFileError {
    /// The lines of Slurm's `srun` for this error. Source: observed.
    pub fn as_slurm(&self, file: &str) -> Vec<String> {
        let of_line = |line: &usize| format!("Line {line} of configuration file {file} invalid");
        let no_record =
            |rank: u32| format!("Configuration file {file} invalid, no record for task id {rank}");
        match self {
            Self::Line(line, LineError::InvalidRanks(text)) => vec![
                format!("Invalid task range specification ({text})"),
                of_line(line),
            ],
            Self::Line(line, LineError::NoSuchRank { rank, tasks: _ }) => {
                vec![format!("Invalid task id, {rank} >= ntasks"), of_line(line)]
            }
            Self::Line(line, LineError::Other(_)) => vec![of_line(line)],
            Self::RankWithTwoPrograms(line, rank) => {
                vec![format!("Duplicate record for task {rank}"), of_line(line)]
            }
            Self::RankWithoutProgram(rank) => vec![no_record(*rank)],
            Self::Empty => vec![no_record(0)],
        }
    }
}

/// The programs that `text` names, for a step of `tasks` tasks. Where that is not known
/// (`None`), the file says how many there are: the highest rank and 1.
///
/// # Errors
/// [`ProgramFileError`].
pub fn parse(
    text: &str,
    tasks: Option<u32>,
) -> Result<(Vec<StepProgram>, Option<u32>), ProgramFileError> {
    let mut programs: Vec<StepProgram> = Vec::new();
    let mut taken: Vec<(u32, u32, usize)> = Vec::new();
    let mut rest: Option<StepProgram> = None;
    for (number, line) in lines(text) {
        let at = |error: LineError| ProgramFileError::Line(number, error);
        let other = |why: String| at(LineError::Other(why));
        let Some((ranks, command)) = split(&line).map_err(at)? else {
            continue;
        };
        if programs.len() >= STEP_PROGRAMS {
            return Err(other(format!("more than {STEP_PROGRAMS} programs")));
        }
        match ranks {
            Ranks::Rest if rest.is_some() => {
                return Err(other("a second line for all other ranks (*)".to_owned()));
            }
            Ranks::Rest => {
                rest = Some(StepProgram {
                    ranks: Vec::new(),
                    command,
                })
            }
            Ranks::These(ranks) => {
                check_ranks(&ranks, tasks).map_err(at)?;
                taken.extend(ranks.iter().map(|(first, last)| (*first, *last, number)));
                programs.push(StepProgram { ranks, command });
            }
        }
    }
    with_rest(programs, taken, rest, tasks)
}

enum Ranks {
    These(Vec<(u32, u32)>),
    Rest,
}

/// Whole lines with the number of their first; a backslash at the end joins two.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match all.last_mut().filter(|_| open) {
            Some((_, whole)) => whole.push_str(part),
            None => all.push((at + 1, part.to_owned())),
        }
        open = more;
    }
    all
}

fn split(line: &str) -> Result<Option<(Ranks, StepCommand)>, LineError> {
    let mut words = shell_words::split(line)
        .map_err(LineError::Other)?
        .into_iter();
    let Some(ranks) = words.next() else {
        return Ok(None);
    };
    let argv: Vec<OsText> = words.map(OsText::from).collect();
    if argv.is_empty() {
        let why = format!("a program is missing after the ranks '{ranks}'");
        return Err(LineError::Other(why));
    }
    if argv.len() > ARGUMENTS {
        return Err(LineError::Other(format!("more than {ARGUMENTS} arguments")));
    }
    let command = StepCommand::Run { argv, expand: true };
    Ok(Some((parse_ranks(&ranks)?, command)))
}

fn parse_ranks(text: &str) -> Result<Ranks, LineError> {
    if text == "*" {
        return Ok(Ranks::Rest);
    }
    let bad = || LineError::InvalidRanks(text.chars().take(40).collect());
    let number = |t: &str| -> Result<u32, LineError> {
        let fine = (1..=7).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
        fine.then(|| t.parse().ok())
            .flatten()
            .filter(|n| *n < STEP_TASKS)
            .ok_or_else(bad)
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(bad());
        }
        all.push((first, last));
    }
    Ok(Ranks::These(all))
}

fn check_ranks(ranks: &[(u32, u32)], tasks: Option<u32>) -> Result<(), LineError> {
    let highest = ranks.iter().map(|r| r.1).max().unwrap_or(0);
    match tasks {
        Some(tasks) if highest >= tasks => Err(LineError::NoSuchRank {
            rank: highest,
            tasks,
        }),
        Some(_) | None => Ok(()),
    }
}

/// The error with the name of the file: `FILE:LINE: what is wrong`.
pub fn in_file(file: &str, error: &ProgramFileError) -> String {
    match error {
        ProgramFileError::Line(..) => format!("{file}:{error}"),
        ProgramFileError::RankWithoutProgram(_)
        | ProgramFileError::RankWithTwoPrograms(..)
        | ProgramFileError::Empty => format!("{file}: {error}"),
    }
}

/// Adds the program of all other ranks (`rest`), and checks that every rank has exactly one program.
fn with_rest(
    mut programs: Vec<StepProgram>,
    mut taken: Vec<(u32, u32, usize)>,
    rest: Option<StepProgram>,
    tasks: Option<u32>,
) -> Result<(Vec<StepProgram>, Option<u32>), ProgramFileError> {
    taken.sort_unstable();
    if let Some(pair) = taken.windows(2).find(|w| w[1].0 <= w[0].1) {
        let second = pair[0].2.max(pair[1].2);
        return Err(ProgramFileError::RankWithTwoPrograms(second, pair[1].0));
    }
    let taken: Vec<(u32, u32)> = taken.iter().map(|t| (t.0, t.1)).collect();
    let named = taken.last().map_or(0, |r| r.1 + 1);
    let tasks = match (tasks, named, &rest) {
        (Some(tasks), _, _) => tasks,
        (None, 0, None) => return Err(ProgramFileError::Empty),
        (None, 0, Some(_)) => {
            programs.extend(rest);
            return Ok((programs, None));
        }
        (None, named, _) => named,
    };
    let free = gaps(&taken, tasks);
    match (free.first(), rest) {
        (None, _) => {}
        (Some(_), Some(rest)) => programs.push(StepProgram {
            ranks: free,
            ..rest
        }),
        (Some((rank, _)), None) => return Err(ProgramFileError::RankWithoutProgram(*rank)),
    }
    Ok((programs, Some(tasks)))
}

/// The ranks below `tasks` that `taken` (ascending, apart) leaves free.
fn gaps(taken: &[(u32, u32)], tasks: u32) -> Vec<(u32, u32)> {
    let mut free = Vec::new();
    let mut next = 0;
    for &(first, last) in taken {
        if first > next {
            free.push((next, first - 1));
        }
        next = last + 1;
    }
    if next < tasks {
        free.push((next, tasks - 1));
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `ranks:program args` of each line.
    fn shown(programs: &[StepProgram]) -> Vec<String> {
        let one = |p: &StepProgram| {
            let ranks: Vec<String> = p.ranks.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            let StepCommand::Run { argv, expand: true } = &p.command else {
                panic!("{p:?}")
            };
            let argv: Vec<String> = argv.iter().map(OsText::lossy).collect();
            format!("{}: {}", ranks.join(","), argv.join(" "))
        };
        programs.iter().map(one).collect()
    }

    #[test]
    fn good_files() {
        let check = |text: &str, tasks: Option<u32>, want: &[&str], count: Option<u32>| {
            let (programs, got) = parse(text, tasks).unwrap();
            assert_eq!(shown(&programs), want, "{text}");
            assert_eq!(got, count, "{text}");
        };
        check(
            "# why\n0 echo zero\n1-2 echo task %t off %o # text\n\n* echo 'a b'\n",
            Some(5),
            &[
                "0-0: echo zero",
                "1-2: echo task %t off %o",
                "3-4: echo a b",
            ],
            Some(5),
        );
        check("0-3 a\n", None, &["0-3: a"], Some(4));
        check("* a b", None, &[": a b"], None);
        check("* a", Some(2), &["0-1: a"], Some(2));
        check("1,3 a \\\n  x\n* b", Some(4), &["1-1,3-3: a x", "0-0,2-2: b"], Some(4));
        // A line for the others when there are none.
        check("0-1 a\n* b", Some(2), &["0-1: a"], Some(2));
    }

    #[test]
    fn errors_name_file_and_line() {
        let check = |text: &str, tasks: Option<u32>, want: &str| {
            let error = in_file("mp.conf", &parse(text, tasks).unwrap_err());
            assert!(error.starts_with("mp.conf"), "{error}");
            assert!(error.contains(want), "{text}: {error}");
        };
        check("0 a\nx b", None, "mp.conf:2: 'x' are no ranks");
        check("0 a\n\n1", None, "mp.conf:3: a program is missing");
        check("0 'a", None, "mp.conf:1: a quote");
        check("0-9 a", Some(4), "mp.conf:1: there is no rank 9: the step has 4 tasks");
        check("* a\n* b", Some(4), "mp.conf:2: a second line");
        check("0-2 a\n2-3 b", None, "rank 2 has two programs");
        check("0-1 a", Some(4), "rank 2 has no program");
        check("1 a", None, "rank 0 has no program");
        check("3-1 a", None, "are no ranks");
        check("0- a", None, "are no ranks");
        check("99999999 a", None, "are no ranks");
        check("", None, "names no program");
        check("# only\n", Some(1), "rank 0 has no program");
    }

    #[test]
    fn mistakes_as_slurm_tells_them() {
        let check = |text: &str, want: &[&str]| {
            let got = parse(text, Some(4)).unwrap_err().as_slurm("mp");
            assert_eq!(got, want, "{text}");
        };
        let line = |n: u32| format!("Line {n} of configuration file mp invalid");
        let (first, second) = (&*line(1), &*line(2));
        let none =
            |rank: u32| format!("Configuration file mp invalid, no record for task id {rank}");
        check("0-1 a\n3 b", &[&none(2)]);
        check("", &[&none(0)]);
        check("0-3 a\n1 b", &["Duplicate record for task 1", second]);
        check("0-7 a", &["Invalid task id, 7 >= ntasks", first]);
        check("x a", &["Invalid task range specification (x)", first]);
        check("0-3", &[first]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn never_panics_and_every_rank_has_one(
            text in "([0-9*,\\- a%to#'\\\\]{0,12}\n){0,8}",
            tasks in proptest::option::of(1u32..20),
        ) {
            if let Ok((programs, Some(count))) = parse(&text, tasks) {
                for rank in 0..count {
                    let of = |p: &&StepProgram| p.ranks.iter().any(|(a, b)| (*a..=*b).contains(&rank));
                    prop_assert_eq!(programs.iter().filter(of).count(), 1);
                }
            }
        }

        #[test]
        fn any_text(text in "\\PC{0,80}") {
            let _ = parse(&text, None);
        }
    }
}
