//! `scontrol pidinfo` and `listpids`: which job a process of this host belongs to, and the
//! processes of jobs.
//!
//! The job of a process is read from the environment that it was started with, so that users see
//! their own processes and root sees all. Source: scontrol(1), `listpids` and `pidinfo`.

use super::session::{Session, too_few};
use crate::slurm::messages::say;
use crate::slurm::steps;
use crate::{exit, output, times};
use cosy_model::api::{JobField, JobRef};
use cosy_model::{JobId, Span, Time};
use cosy_slurm::targets::{self, Step};
use cosy_slurm::times::heading;
use std::collections::BTreeMap;
use std::path::Path;

/// A process of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Process {
    pid: u32,
    parent: u32,
    job: u64,
    /// Number of the step; `None` for the script.
    step: Option<String>,
    node: String,
    local: String,
    global: String,
}

impl Process {
    /// Reads `environ` and `stat` of `/proc`; `None` when the process belongs to no job.
    fn read(pid: u32, environment: &[u8], stat: &str) -> Option<Self> {
        let lines = environment.split(|b| *b == 0);
        let pairs = lines.filter_map(|line| std::str::from_utf8(line).ok()?.split_once('='));
        let variables: BTreeMap<&str, &str> = pairs.collect();
        let value = |name| variables.get(name).copied();
        let text = |name| value(name).unwrap_or("0").to_owned();
        // The name of the program, in parentheses, may hold anything; state and parent stand behind
        // it.
        let (_, behind) = stat.rsplit_once(')')?;
        Some(Self {
            pid,
            parent: behind.split_whitespace().nth(1)?.parse().ok()?,
            job: value("SLURM_JOB_ID")?.parse().ok()?,
            step: value("SLURM_STEP_ID").map(str::to_owned),
            node: value("SLURMD_NODENAME").unwrap_or_default().to_owned(),
            local: text("SLURM_LOCALID"),
            global: text("SLURM_PROCID"),
        })
    }

    fn of(pid: u32) -> Option<Self> {
        let dir = Path::new("/proc").join(pid.to_string());
        let environment = std::fs::read(dir.join("environ")).ok()?;
        let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
        Self::read(pid, &environment, &stat)
    }

    fn step(&self) -> &str {
        self.step.as_deref().unwrap_or("batch")
    }

    /// The line of a process; one that a task has started has no ranks.
    fn line(&self, all: &BTreeMap<u32, Self>) -> String {
        let (pid, job, step) = (self.pid, self.job, self.step());
        let same = |p: &Self| p.job == self.job && p.step == self.step;
        let (local, global) = match all.get(&self.parent).is_some_and(same) {
            true => ("-", "-"),
            false => (self.local.as_str(), self.global.as_str()),
        };
        format!("{pid:<8} {job:<8} {step:<8} {local:<7} {global:<8}\n")
    }
}

/// The processes of jobs on this host that may be looked at.
fn processes() -> BTreeMap<u32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    let found = pids.filter_map(Process::of);
    found.map(|p| (p.pid, p)).collect()
}

impl Session<'_> {
    pub(super) fn list_pids(&self, rest: &[String]) -> u8 {
        let target = match rest.first().map(|word| (word, targets::parse(word))) {
            Some((word, None)) => {
                say(&format!("invalid job id specified: {word}"));
                return exit::FAILED;
            }
            Some((_, found)) => found,
            None => None,
        };
        let job = target.as_ref().and_then(|t| t.jobs.first());
        let job = job.map(|job| steps::id_of(self.context, *job).map_or(job.job.0, |id| id.0));
        let step = target.as_ref().and_then(|t| t.step);
        let node = rest.get(1).map(String::as_str);
        let all = processes();
        let change = |p: &&Process| {
            job.is_none_or(|job| p.job == job)
                && node.is_none_or(|node| p.node == node)
                && step.is_none_or(|step| is_step(p, step))
        };
        let lines: Vec<String> = all.values().filter(change).map(|p| p.line(&all)).collect();
        let code = match (&target, lines.is_empty()) {
            (Some(target), true) => {
                let word = if target.step.is_some() {
                    "StepId"
                } else {
                    "JobId"
                };
                let place = node.map_or("this node".to_owned(), |node| format!("node {node}"));
                say(&format!("{word}={} does not exist on {place}.", target.text));
                exit::FAILED
            }
            (Some(_) | None, _) => exit::OK,
        };
        output::print("PID      JOBID    STEPID   LOCALID GLOBALID\n");
        output::print(&lines.concat());
        code
    }

    pub(super) fn pid_info(&self, keyword: &str, rest: &[String]) -> u8 {
        let Some(word) = rest.first() else {
            return too_few(keyword);
        };
        let found = word.parse().ok().and_then(Process::of);
        let end_line = found.and_then(|p| self.ends(p.job));
        match end_line {
            Some(text) => self.print(&text),
            None => {
                say("Failed to locate job for requested pid");
                exit::FAILED
            }
        }
    }

    /// The line about the end of a job's time limit; `None` when there is no such job.
    fn ends(&self, id: u64) -> Option<String> {
        let job = JobRef {
            job: JobId(id),
            task: None,
        };
        let fields = [JobField::Start, JobField::TimeLimit];
        let table = self.table(vec![job], &fields, false).ok()?;
        let start = table.number(0, JobField::Start)?;
        let limit = table.number(0, JobField::TimeLimit).map(Span);
        let Some(limit) = limit.filter(|l| !l.is_unlimited()) else {
            return Some(format!(
                "Slurm JobId={id} has no time limit\nJob remaining time is UNLIMITED\n"
            ));
        };
        let (end, now) = (Time(start) + limit, times::now());
        let left = end.since(times::time_of(&now)).secs().max(0);
        let at = heading(&times::in_zone(end, &now)?);
        Some(format!("Slurm JobId={id} ends at {at}\nJob remaining time is {left} seconds\n"))
    }
}

fn is_step(process: &Process, step: Step) -> bool {
    match step {
        Step::Number(n) => process.step() == n.to_string(),
        Step::Batch => process.step.is_none(),
        Step::Extern => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in tests it says where")]

    use super::*;

    fn process(pid: u32, parent: u32, step: &str) -> Process {
        let environment = format!("A=b\0SLURM_JOB_ID=7\0{step}SLURM_LOCALID=1\0SLURM_PROCID=3\0");
        let stat = format!("{pid} (a) b) S {parent} 1 1");
        Process::read(pid, environment.as_bytes(), &stat).unwrap()
    }

    #[test]
    fn lines_are_as_captured() {
        let found = [
            process(10, 1, ""),
            process(11, 10, ""),
            process(12, 11, "SLURM_STEP_ID=0\0"),
            process(13, 12, "SLURM_STEP_ID=0\0"),
        ];
        let all: BTreeMap<u32, Process> = found.iter().map(|p| (p.pid, p.clone())).collect();
        let lines: Vec<String> = found.iter().map(|p| p.line(&all)).collect();
        assert_eq!(
            lines,
            [
                "10       7        batch    1       3       \n",
                "11       7        batch    -       -       \n",
                "12       7        0        1       3       \n",
                "13       7        0        -       -       \n",
            ]
        );
    }

    #[test]
    fn other_processes_belong_to_no_job() {
        assert_eq!(Process::read(1, b"A=b", "1 (init) S 0 1"), None);
        assert_eq!(Process::read(1, b"SLURM_JOB_ID=x", "1 (init) S 0 1"), None);
        assert_eq!(Process::read(1, b"SLURM_JOB_ID=1", ""), None);
    }
}
