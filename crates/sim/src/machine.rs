//! Machines as they are written on a command line, and what is too large for them.

pub use crate::replay::Machine;
use crate::workload::{Job, Workload};
use std::fmt;
use std::str::FromStr;

/// Most nodes of a machine that is simulated.
pub const MAX_NODES: u32 = 1_000_000;
/// Most processors of one of its nodes.
pub const MAX_CORES: u32 = 65_535;

/// Why a text is no machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{text}' is no machine: use NODES or NODESxCORES, as 128 or 32x16, with 1 to {MAX_NODES} nodes and 1 to {MAX_CORES} cores"
)]
pub struct MachineError {
    /// The text that was given, shortened.
    pub text: String,
}

/// A job that could not run on an empty machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("job {job} asks for {}, the machine has {machine}", requested_size(*.processors, *.nodes))]
pub struct TooLarge {
    /// Its number in the source.
    pub job: u64,
    /// The line of the source that it comes from, from 1; 0 when it comes from no file.
    pub line: u32,
    /// Processors that it asks for.
    pub processors: u32,
    /// Whole nodes that it asks for.
    pub nodes: Option<u32>,
    /// The machine that it does not fit.
    pub machine: Machine,
}

fn requested_size(processors: u32, nodes: Option<u32>) -> String {
    let processors = counted(processors.into(), "processor");
    nodes.map_or(processors.clone(), |nodes| {
        format!("{processors} on {}", counted(nodes.into(), "node"))
    })
}

/// `1 node`, `2 nodes`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {one}{ending}")
}

/// `128 nodes`, `32 nodes with 16 cores`.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = counted(self.nodes.into(), "node");
        match self.cores {
            1 => f.write_str(&nodes),
            cores => write!(f, "{nodes} with {cores} cores"),
        }
    }
}

/// `NODES` or `NODESxCORES`.
impl FromStr for Machine {
    type Err = MachineError;

    fn from_str(text: &str) -> Result<Self, MachineError> {
        let (nodes, cores) = text.split_once('x').unwrap_or((text, "1"));
        let machine = number(nodes, MAX_NODES)
            .zip(number(cores, MAX_CORES))
            .map(|(nodes, cores)| Self { nodes, cores });
        machine.ok_or_else(|| MachineError {
            text: text.chars().take(60).collect(),
        })
    }
}

/// A whole number from 1 to `most`, in digits only.
fn number(text: &str, most: u32) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.filter(|number| (1..=most).contains(number))
}

impl Machine {
    /// True when `job` could run if nothing else did.
    pub fn holds(&self, job: &Job) -> bool {
        let room = match job.nodes {
            Some(nodes) if self.cores > 1 => u64::from(nodes) * u64::from(self.cores),
            _ => self.size(),
        };
        u64::from(job.processors) <= room && job.nodes.is_none_or(|nodes| nodes <= self.nodes)
    }

    /// Takes jobs that are too large out of `workload` and says how many they were.
    ///
    /// # Errors
    /// [`TooLarge`] with the first of them, unless that is `lenient`.
    pub fn fit(&self, workload: &mut Workload, lenient: bool) -> Result<u64, TooLarge> {
        let first = workload.jobs.iter().find(|job| !self.holds(job));
        if let Some(job) = first.filter(|_| !lenient) {
            return Err(TooLarge {
                job: job.id,
                line: job.line,
                processors: job.processors,
                nodes: job.nodes,
                machine: *self,
            });
        }
        let all = workload.jobs.len();
        workload.jobs.retain(|job| self.holds(job));
        Ok((all - workload.jobs.len()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_sched::Policy;

    #[test]
    fn machines() {
        let check = |text: &str, want: Option<(u32, u32)>| {
            let got: Result<Machine, _> = text.parse();
            let got = got.ok().map(|machine| (machine.nodes, machine.cores));
            assert_eq!(got, want, "{text}");
        };
        check("1", Some((1, 1)));
        check("32x16", Some((32, 16)));
        check("1000000x65535", Some((1_000_000, 65_535)));
        for bad in [
            "",
            "0",
            "4x0",
            "0x4",
            "x",
            "4x",
            "x4",
            "-1",
            "+4",
            "4x-1",
            "4x4x4",
            " 4",
            "4.5",
            "1000001",
            "1x65536",
            "99999999999999999999",
            "4×4",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn too_large_is_what_the_planner_says() {
        for (machine, processors, nodes) in shapes() {
            let job = Job {
                processors,
                nodes,
                ..Job::default()
            };
            let demand = machine.demand(&job);
            let planner = machine.scheduler(Policy::EASY);
            let room = nodes.map_or(u64::MAX, |nodes| u64::from(nodes) * u64::from(machine.cores));
            let want = planner.could_ever_run(&demand).is_ok()
                && (machine.cores == 1 || u64::from(processors) <= room);
            assert_eq!(machine.holds(&job), want, "{machine} {processors} {nodes:?}");
        }
    }

    fn shapes() -> Vec<(Machine, u32, Option<u32>)> {
        let mut all = Vec::new();
        for (nodes, cores) in [(1, 1), (4, 1), (1, 4), (3, 2)] {
            for processors in 1..=9 {
                for asked in [None, Some(1), Some(2), Some(3), Some(4), Some(5)] {
                    all.push((Machine { nodes, cores }, processors, asked));
                }
            }
        }
        all
    }

    #[test]
    fn dropped_or_refused() {
        let job = |id, processors| Job {
            id,
            processors,
            ..Job::default()
        };
        let mut workload = Workload {
            jobs: vec![job(1, 4), job(2, 5), job(3, 99), job(4, 1)],
            ..Workload::default()
        };
        let machine = Machine { nodes: 2, cores: 2 };
        let refused = machine.fit(&mut workload, false).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "job 2 asks for 5 processors, the machine has 2 nodes with 2 cores"
        );
        assert_eq!(machine.fit(&mut workload, true), Ok(2));
        assert_eq!(machine.fit(&mut workload, false), Ok(0));
        let left: Vec<u64> = workload.jobs.iter().map(|job| job.id).collect();
        assert_eq!(left, [1, 4]);
    }
}
