//! How jobs are asked for: the options of `sbatch`, `srun` and `salloc`, what they mean,
//! and the job that comes of them.
//!
//! Knows nothing of files, environment or sockets: texts are handed in, a
//! [`cosy_model::JobSpec`] or a [`Fault`] comes out. Source: sbatch(1), srun(1), salloc(1)
//! of 22.05 and its captures.

pub mod array;
pub mod binding;
mod bsub;
pub mod components;
pub mod constraint;
pub mod count;
pub mod depend;
pub mod directives;
pub mod distribution;
pub mod export;
mod gpus;
pub mod gres;
pub mod help;
mod ignored_values;
pub mod mail;
pub mod options;
pub mod sampling;
pub mod script;
pub mod signal;
pub mod spec;
pub mod spread;
mod synopsis;
pub mod table;
pub mod times;
pub mod variables;

/// The programs that ask for jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// The command for scripts, `sbatch`.
    Sbatch,
    /// The command for steps and programs, `srun`.
    Srun,
    /// The command for allocations, `salloc`.
    Salloc,
}

impl Program {
    /// Name of the program, as messages have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sbatch => "sbatch",
            Self::Srun => "srun",
            Self::Salloc => "salloc",
        }
    }

    /// How it begins the sentence that says why a job was not accepted.
    pub const fn refusal(self) -> &'static str {
        match self {
            Self::Sbatch => "Batch job submission failed",
            Self::Srun => "Unable to allocate resources",
            Self::Salloc => "Job submit/allocate failed",
        }
    }
}

/// A line of an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// As it is.
    Plain(String),
    /// Behind `sbatch: error: `.
    Error(String),
    /// Behind `sbatch: fatal: `.
    Fatal(String),
    /// Behind `sbatch: error: ` and `Batch job submission failed: `.
    Refusal(String),
}

/// Why a command line asks for nothing that could be submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What to print on standard error.
    pub lines: Vec<Line>,
    /// Exit code of the command.
    pub code: u8,
}

impl Fault {
    /// An error of one line with exit code 1.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            lines: vec![Line::Error(text.into())],
            code: 1,
        }
    }

    /// The same, told as one that ends the program.
    pub fn fatal(text: impl Into<String>) -> Self {
        Self {
            lines: vec![Line::Fatal(text.into())],
            code: 1,
        }
    }

    /// An error of one line with exit code 255, as for most values that cannot be read.
    pub fn value(text: impl Into<String>) -> Self {
        Self {
            code: 255,
            ..Self::error(text)
        }
    }

    /// `Invalid --OPTION specification`, exit code 255.
    pub fn specification(option: &str) -> Self {
        Self::value(format!("Invalid --{option} specification"))
    }

    /// A sentence that the original's controller answers with.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self {
            lines: vec![Line::Refusal(text.into())],
            code: 1,
        }
    }

    /// The lines as `program` prints them.
    pub fn text(&self, program: Program) -> String {
        let name = program.name();
        let one = |line: &Line| match line {
            Line::Plain(text) => format!("{text}\n"),
            Line::Error(text) => format!("{name}: error: {text}\n"),
            Line::Fatal(text) => format!("{name}: fatal: {text}\n"),
            Line::Refusal(text) => format!("{name}: error: {}: {text}\n", program.refusal()),
        };
        self.lines.iter().map(one).collect()
    }
}

/// A point in time of the tests' zone.
#[cfg(test)]
pub(crate) fn at(text: &str) -> jiff::Zoned {
    let at: jiff::civil::DateTime = text.parse().expect("date and time");
    at.to_zoned(jiff::tz::TimeZone::UTC)
        .expect("in the calendar")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |fault: Fault, want: &str| assert_eq!(fault.text(Program::Sbatch), want);
        check(Fault::specification("time"), "sbatch: error: Invalid --time specification\n");
        check(
            Fault::refusal("Job dependency problem"),
            "sbatch: error: Batch job submission failed: Job dependency problem\n",
        );
    }
}
