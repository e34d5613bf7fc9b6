//! What `srun` reports of the processes of tasks: with `--slurmd-debug` the messages that the tasks'
//! supervisors have in Slurm, with `--debugger-test` a list of the processes. Sentences only.
//!
//! Source: observed, Slurm 22.05.

use cosy_model::step::{StepLayout, TaskEnd};
use std::collections::BTreeMap;

/// What of the processes is reported.
#[derive(Clone, Debug, Default)]
pub struct SupervisorOptions {
    /// Level of the supervisors' messages: from 2 on, starts and ends of tasks are reported.
    pub level: u32,
    /// Lists all processes, with these programs of the tasks by rank (one alone is that of all).
    pub programs: Option<Vec<String>>,
}

/// The processes of the tasks, as far as they were reported.
#[derive(Debug, Default)]
pub struct Supervisors {
    options: SupervisorOptions,
    processes: BTreeMap<u32, i32>,
    listed: bool,
}

/// A line and who says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SupervisorLine {
    /// A message of a supervisor on a node.
    Node(String),
    /// A message of this command.
    Command(String),
}

impl Supervisors {
    /// No task has started.
    pub fn new(options: SupervisorOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    fn reports_tasks(&self) -> bool {
        self.options.level >= 2
    }

    /// Tasks (rank, process id) have started on the node with this number.
    pub fn started(
        &mut self,
        layout: &StepLayout,
        node: u32,
        tasks: &[(u32, i32)],
        at: &str,
    ) -> Vec<SupervisorLine> {
        self.processes.extend(tasks.iter().copied());
        let mut lines = Vec::new();
        if self.reports_tasks() {
            let level = level_name(self.options.level + 2);
            let from_node = |text: String| SupervisorLine::Node(format!("slurmstepd: {text}\n"));
            let levels =
                format!("debug levels are stderr='{level}', logfile='error', syslog='quiet'");
            lines.push(from_node(levels));
            let count = layout.count_of(node);
            lines.push(from_node(format!("starting {count} tasks")));
            let one =
                |(rank, pid): &(u32, i32)| from_node(format!("task {rank} ({pid}) started {at}"));
            lines.extend(tasks.iter().map(one));
        }
        lines.extend(self.list(layout));
        lines
    }

    /// The list of all processes, given once, when all tasks have started.
    fn list(&mut self, layout: &StepLayout) -> Vec<SupervisorLine> {
        let Some(programs) = self.options.programs.as_ref().filter(|_| !self.listed) else {
            return Vec::new();
        };
        if self.processes.len() < layout.tasks as usize {
            return Vec::new();
        }
        self.listed = true;
        let mut nodes = BTreeMap::new();
        for (number, name) in (0u32..).zip(&layout.nodes) {
            nodes.extend(layout.ranks_of(number).into_iter().map(|rank| (rank, name)));
        }
        let line = |(rank, pid): (&u32, &i32)| {
            let program = programs.get(*rank as usize).or(programs.first());
            let program = program.map_or("", String::as_str);
            let node = nodes.get(rank).map_or("?", |n| n.as_str());
            SupervisorLine::Command(format!(
                "task:{rank}, host:{node}, pid:{pid}, executable:{program}"
            ))
        };
        self.processes.iter().map(line).collect()
    }

    /// Notes that a task has ended; gives the line to print about it.
    pub fn ended(&self, rank: u32, end: &TaskEnd) -> Option<SupervisorLine> {
        let pid = self.processes.get(&rank).filter(|_| self.reports_tasks())?;
        let how = match end.signal {
            0 => format!("exited with exit code {}.", end.exit_code),
            signal => format!("exited. Killed by signal {signal}."),
        };
        Some(SupervisorLine::Node(format!("slurmstepd: task {rank} ({pid}) {how}\n")))
    }
}

/// Slurm's name of a level of messages.
fn level_name(level: u32) -> &'static str {
    match level {
        0 => "quiet",
        1 => "fatal",
        2 => "error",
        3 => "info",
        4 => "verbose",
        5 => "debug",
        _ => "debug2",
    }
}

/// Reads a value of `--slurmd-debug`, a name or a number; anything else is the highest level.
pub fn level(text: &str) -> u32 {
    const NAMES: [&str; 6] = ["quiet", "fatal", "error", "info", "verbose", "debug"];
    let named = || NAMES.iter().position(|n| text.eq_ignore_ascii_case(n));
    let level = text.trim().parse().ok();
    level
        .or_else(|| named().and_then(|at| u32::try_from(at).ok()))
        .unwrap_or(u32::MAX)
}

/// The highest level of messages.
pub const HIGHEST_LEVEL: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::RankRun;

    fn layout() -> StepLayout {
        let run = |first, count| {
            vec![RankRun {
                first,
                count,
                stride: 1,
            }]
        };
        StepLayout {
            nodes: vec!["n1".into(), "n2".into()],
            ranks: vec![run(0, 2), run(2, 1)],
            tasks: 3,
            cores_per_task: 1,
        }
    }

    fn from_node(text: &str) -> SupervisorLine {
        SupervisorLine::Node(format!("slurmstepd: {text}\n"))
    }

    #[test]
    fn what_supervisors_say() {
        let options = SupervisorOptions {
            level: 2,
            ..SupervisorOptions::default()
        };
        let mut all = Supervisors::new(options);
        let got = all.started(&layout(), 1, &[(2, 77)], "NOW");
        let want = [
            from_node("debug levels are stderr='verbose', logfile='error', syslog='quiet'"),
            from_node("starting 1 tasks"),
            from_node("task 2 (77) started NOW"),
        ];
        assert_eq!(got, want);
        let check = |exit_code, signal, want: &str| {
            let end = TaskEnd {
                exit_code,
                signal,
                failure: None,
            };
            assert_eq!(all.ended(2, &end), Some(from_node(want)));
            assert_eq!(all.ended(9, &end), None);
        };
        check(2, 0, "task 2 (77) exited with exit code 2.");
        check(0, 9, "task 2 (77) exited. Killed by signal 9.");
        let mut quiet = Supervisors::default();
        assert!(quiet.started(&layout(), 1, &[(2, 77)], "NOW").is_empty());
    }

    #[test]
    fn processes_are_listed_when_all_are_known() {
        let options = SupervisorOptions {
            level: 0,
            programs: Some(vec!["id".into()]),
        };
        let mut all = Supervisors::new(options);
        assert!(all.started(&layout(), 1, &[(2, 77)], "").is_empty());
        let got = all.started(&layout(), 0, &[(0, 5), (1, 6)], "");
        let line = |text: &str| SupervisorLine::Command(text.to_owned());
        let want = [
            line("task:0, host:n1, pid:5, executable:id"),
            line("task:1, host:n1, pid:6, executable:id"),
            line("task:2, host:n2, pid:77, executable:id"),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn levels() {
        let check = |text: &str, want| assert_eq!(level(text), want, "{text}");
        check("error", 2);
        check("Verbose", 4);
        check("3", 3);
        check("0", 0);
        check("foo", u32::MAX);
    }
}
