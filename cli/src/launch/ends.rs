//! How the tasks and nodes of a step ended: the exit code that stands for all of it, and
//! what is said about it.
//!
//! Pure. Ends that are alike are said in one line ("tasks 0-99: exit code 1"), so that ten
//! thousand tasks that fail for one reason make one line and not ten thousand. The exit
//! code is the largest of all tasks, 128 and the number for a signal, as shells have it;
//! but once the command ends the step because something went wrong, what comes after that
//! is its consequence and counts no more.

mod words;

#[cfg(test)]
mod tests;

pub use words::tasks_words;

use super::srun_messages;
use crate::exit;
use cosy_model::job::EndCause;
use cosy_model::step::{NodeEnd, StepLayout, TaskEnd};
use cosy_model::{Dialect, StepKey, fold};
use cosy_slurm::end_messages;
use signal_hook::consts::{SIGKILL, SIGTERM};
use std::collections::{BTreeMap, BTreeSet};
use words::{NodeFailure, TaskFailure, node_failure_line, signal_words, without_node_name};

/// Different reasons that are remembered, at most.
const REMEMBERED_REASONS: usize = 1000;

/// How the tasks and nodes of a step have ended so far.
#[derive(Debug)]
pub struct Ends {
    layout: StepLayout,
    /// Number of the node of each rank; made when the first task fails.
    node_of: Vec<u32>,
    tasks: BTreeMap<TaskFailure, Vec<u32>>,
    node_failures: BTreeMap<NodeFailure, (Vec<String>, u64)>,
    nodes_left: usize,
    ended_nodes: Vec<bool>,
    worst: u8,
    worst_end: (i32, i32),
    killed_by_command: bool,
    /// The command has ended the step because something went wrong: the exit code is fixed.
    decided: bool,
    /// Reasons why tasks never ran, which are reported with the tasks: the end of a node for the same
    /// reason adds no line.
    reported: BTreeSet<String>,
    /// A task has ended the step with this exit code: tasks that end by SIGTERM or SIGKILL after
    /// that are not reported.
    aborted: Option<u8>,
    dialect: Dialect,
    /// The step, named in lines of Slurm's dialect.
    key: Option<StepKey>,
    /// Whole lines of the supervisors about tasks that never ran, in Slurm's dialect.
    supervisor_lines: Vec<String>,
}

impl Ends {
    /// Nothing has ended yet; lines are in Cosy's dialect.
    pub fn new(layout: StepLayout) -> Self {
        Self {
            nodes_left: layout.nodes.len(),
            ended_nodes: vec![false; layout.nodes.len()],
            node_of: Vec::new(),
            tasks: BTreeMap::new(),
            node_failures: BTreeMap::new(),
            worst: exit::OK,
            worst_end: (0, 0),
            killed_by_command: false,
            decided: false,
            reported: BTreeSet::new(),
            aborted: None,
            dialect: Dialect::Cosy,
            key: None,
            supervisor_lines: Vec::new(),
            layout,
        }
    }

    /// Words lines in this dialect. In Slurm's the exit code is the largest of all tasks, also of
    /// tasks that the command ended because others had failed.
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Names the step, for the lines of supervisors in Slurm's dialect.
    pub fn of_step(self, key: StepKey) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// A task has ended; true when it ended badly.
    pub fn task_ended(&mut self, rank: u32, end: TaskEnd) -> bool {
        let code = exit::of_end(end.exit_code, end.signal, end.failure.is_none());
        let taken_along = self.aborted.is_some() && matches!(end.signal, SIGTERM | SIGKILL);
        if code == exit::OK || taken_along {
            return false;
        }
        if code > self.worst && !self.decided {
            self.worst = code;
            self.worst_end = (end.exit_code, end.signal);
        }
        let mut end = end;
        if self.dialect == Dialect::Slurm
            && let Some(line) = end.failure.take_if(|t| t.ends_with('\n'))
            && self.supervisor_lines.len() < REMEMBERED_REASONS
        {
            // The end of its node gives the same reason.
            self.reported.insert(line.clone());
            self.supervisor_lines.push(line);
        }
        let failure = match (end.failure, end.signal) {
            (Some(text), _) => {
                let text = without_node_name(&text, &self.node_of(rank));
                if self.reported.len() < REMEMBERED_REASONS && !self.reported.contains(&text) {
                    self.reported.insert(text.clone());
                }
                TaskFailure::NeverRan(text)
            }
            (None, 0) => TaskFailure::Code(end.exit_code),
            (None, signal) => TaskFailure::Signal(signal),
        };
        self.tasks.entry(failure).or_default().push(rank);
        true
    }

    /// Nothing more comes from a node, which says how its part of the step ended.
    pub fn node_ended(&mut self, node: u32, end: &NodeEnd) {
        self.node_gone(node);
        if let Some(key) = self.key.filter(|_| end.starved > 0)
            && self.dialect == Dialect::Slurm
            && self.supervisor_lines.len() < REMEMBERED_REASONS
        {
            self.supervisor_lines
                .push(end_messages::out_of_memory(&key.to_string(), end.starved));
        }
        let failure = match &end.end.cause {
            EndCause::Exited => return,
            EndCause::TimeLimit | EndCause::Deadline => NodeFailure::TimeLimit,
            EndCause::Cancelled | EndCause::Preempted => NodeFailure::Cancelled,
            EndCause::OutOfMemory => NodeFailure::OutOfMemory,
            EndCause::LaunchFailed(why) => {
                let why = without_node_name(why, self.node_name(node));
                if self.reported.contains(&why) {
                    return self.at_least(exit::FAILED);
                }
                NodeFailure::LaunchFailed(why)
            }
            EndCause::SupervisorLost => NodeFailure::SupervisorLost,
            EndCause::NodeLost => NodeFailure::NodeLost,
        };
        self.node_failed(node, failure, end.end.peak_memory_bytes);
    }

    /// Nothing more comes from nodes to which the connection broke.
    pub fn lost(&mut self, nodes: &[u32], reason: &str) {
        for node in nodes {
            self.node_gone(*node);
            self.node_failed(*node, NodeFailure::Lost(reason.to_owned()), 0);
        }
    }

    /// The command itself has ended the step: tasks and nodes that end for that are not reported.
    pub fn kill_ordered(&mut self) {
        if !self.killed_by_command {
            self.killed_by_command = true;
            self.decided = self.worst != exit::OK && self.dialect == Dialect::Cosy;
        }
    }

    /// The exit code is at least this from now on.
    pub fn at_least(&mut self, code: u8) {
        if code > self.worst {
            self.worst = code;
            self.worst_end = (i32::from(code), 0);
        }
    }

    /// A task has ended the whole step with this exit code (`MPI_Abort`).
    pub fn aborted(&mut self, code: i32) {
        let code = exit::of_end(code, 0, false);
        self.aborted.get_or_insert(code);
        self.at_least(code);
        self.kill_ordered();
    }

    /// True when nothing more comes from any node.
    pub const fn all_over(&self) -> bool {
        self.nodes_left == 0
    }

    /// The exit code that stands for the whole step.
    pub const fn code(&self) -> u8 {
        self.worst
    }

    /// Exit code and signal of the worst task.
    pub const fn worst(&self) -> (i32, i32) {
        self.worst_end
    }

    /// True when [`Self::take_lines`] has lines to give.
    pub fn has_lines(&self) -> bool {
        !self.tasks.is_empty() || !self.node_failures.is_empty()
    }

    /// The lines about ends that were not reported yet; each is given once.
    pub fn take_lines(&mut self) -> Vec<String> {
        let tasks = std::mem::take(&mut self.tasks);
        let mut node_failures = std::mem::take(&mut self.node_failures);
        if self.dialect == Dialect::Slurm {
            return self.slurm_lines(tasks, &node_failures);
        }
        if self.killed_by_command {
            node_failures.remove(&NodeFailure::Cancelled);
        }
        let mut lines: Vec<String> = tasks
            .into_iter()
            .map(|(failure, ranks)| self.task_line(&failure, ranks))
            .collect();
        lines.extend(
            node_failures
                .iter()
                .map(|(failure, (nodes, peak))| node_failure_line(failure, nodes, *peak)),
        );
        lines
    }

    /// In Slurm's dialect: a line for each node and way to end. Of failures of whole nodes only
    /// those that neither tasks nor supervisors report.
    fn slurm_lines(
        &mut self,
        tasks: BTreeMap<TaskFailure, Vec<u32>>,
        node_failures: &BTreeMap<NodeFailure, (Vec<String>, u64)>,
    ) -> Vec<String> {
        let memory = node_failures.get(&NodeFailure::OutOfMemory);
        let mut by_node: BTreeMap<(TaskFailure, String), Vec<u32>> = BTreeMap::new();
        for (failure, ranks) in tasks {
            for rank in ranks {
                let place = (failure.clone(), self.node_of(rank));
                by_node.entry(place).or_default().push(rank);
            }
        }
        let mut lines = Vec::new();
        for ((failure, node), mut ranks) in by_node {
            ranks.sort_unstable();
            let starved = memory.is_some_and(|(nodes, _)| nodes.contains(&node));
            let how = match failure {
                TaskFailure::Code(code) => srun_messages::end_text(code, 0),
                TaskFailure::Signal(SIGKILL) if starved => "Out Of Memory".to_owned(),
                TaskFailure::Signal(signal) => srun_messages::end_text(0, signal),
                TaskFailure::NeverRan(text) => text,
            };
            lines.push(format!("error: {node}: {}: {how}", tasks_words(&ranks)));
        }
        for (failure, (nodes, peak)) in node_failures {
            match failure {
                NodeFailure::TimeLimit | NodeFailure::Cancelled | NodeFailure::OutOfMemory => {}
                NodeFailure::NodeLost | NodeFailure::Lost(_) => {}
                NodeFailure::LaunchFailed(_) | NodeFailure::SupervisorLost => {
                    lines.push(format!("error: {}", node_failure_line(failure, nodes, *peak)));
                }
            }
        }
        lines
    }

    /// Which tasks are on which nodes.
    pub const fn layout(&self) -> &StepLayout {
        &self.layout
    }

    /// Lines of supervisors about tasks that never ran, whole and with their line breaks; each is
    /// given once.
    pub fn take_supervisor_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.supervisor_lines)
    }

    fn node_gone(&mut self, node: u32) {
        if let Some(ended) = self.ended_nodes.get_mut(node as usize)
            && !*ended
        {
            *ended = true;
            self.nodes_left -= 1;
        }
    }

    fn node_failed(&mut self, node: u32, failure: NodeFailure, peak: u64) {
        let by_tasks = matches!(failure, NodeFailure::TimeLimit | NodeFailure::Cancelled);
        if self.dialect == Dialect::Cosy || !by_tasks {
            self.at_least(exit::FAILED);
        }
        let name = self.node_name(node).to_owned();
        let (nodes, largest) = self.node_failures.entry(failure).or_default();
        nodes.push(name);
        *largest = peak.max(*largest);
    }

    fn node_name(&self, node: u32) -> &str {
        self.layout.nodes.get(node as usize).map_or("?", |n| n)
    }

    /// Names of nodes by their numbers in the step.
    pub fn names(&self, nodes: &[u32]) -> Vec<String> {
        let name = |n: &u32| self.node_name(*n).to_owned();
        nodes.iter().map(name).collect()
    }

    /// Name of the node of a task; `?` for a rank that the step does not have.
    pub fn node_of(&mut self, rank: u32) -> String {
        if self.node_of.is_empty() {
            self.node_of = nodes_by_rank(&self.layout);
        }
        let node = self.node_of.get(rank as usize).copied();
        self.node_name(node.unwrap_or(u32::MAX)).to_owned()
    }

    fn task_line(&mut self, failure: &TaskFailure, mut ranks: Vec<u32>) -> String {
        ranks.sort_unstable();
        let mut nodes: Vec<String> = ranks.iter().map(|r| self.node_of(*r)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let how = match failure {
            TaskFailure::Code(code) => format!("exit code {code}"),
            TaskFailure::Signal(signal) => format!("ended by signal {}", signal_words(*signal)),
            TaskFailure::NeverRan(text) => text.clone(),
        };
        format!("{}: {}: {how}", fold(&nodes), tasks_words(&ranks))
    }
}

fn nodes_by_rank(layout: &StepLayout) -> Vec<u32> {
    let most = cosy_model::limits::STEP_TASKS.min(layout.tasks) as usize;
    let mut all = vec![u32::MAX; most];
    for node in 0..layout.nodes.len() as u32 {
        for rank in layout.ranks_of(node) {
            if let Some(place) = all.get_mut(rank as usize) {
                *place = node;
            }
        }
    }
    all
}
