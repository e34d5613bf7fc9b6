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
use words::{Bad, Trouble, signal_words, trouble_line, without};

/// Most different reasons that are remembered.
const TOLD: usize = 1000;

/// What is known about the end of a step.
#[derive(Debug)]
pub struct Ends {
    layout: StepLayout,
    /// Number of the node of each rank; made when the first task fails.
    node_of: Vec<u32>,
    tasks: BTreeMap<Bad, Vec<u32>>,
    troubles: BTreeMap<Trouble, (Vec<String>, u64)>,
    nodes_left: usize,
    ended_nodes: Vec<bool>,
    worst: u8,
    worst_end: (i32, i32),
    killed_by_command: bool,
    /// The command has ended the step for what went wrong before: that is the exit code.
    decided: bool,
    /// Why tasks never ran: a node says the same of itself then.
    told: BTreeSet<String>,
    /// A task has ended the step with this exit code: what it takes with it is no news.
    aborted: Option<u8>,
    dialect: Dialect,
    /// The step, in Slurm's dialect.
    key: Option<StepKey>,
    /// Whole lines of the supervisors about tasks that never ran, in Slurm's dialect.
    said: Vec<String>,
}

impl Ends {
    /// For a step that starts.
    pub fn new(layout: StepLayout) -> Self {
        Self {
            nodes_left: layout.nodes.len(),
            ended_nodes: vec![false; layout.nodes.len()],
            node_of: Vec::new(),
            tasks: BTreeMap::new(),
            troubles: BTreeMap::new(),
            worst: exit::OK,
            worst_end: (0, 0),
            killed_by_command: false,
            decided: false,
            told: BTreeSet::new(),
            aborted: None,
            dialect: Dialect::Cosy,
            key: None,
            said: Vec::new(),
            layout,
        }
    }

    /// Speaks in these words. In Slurm's the exit code is the largest of all tasks, also of
    /// those that were ended for another's sake.
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// The step's name, which supervisors give in what they say.
    pub fn of_step(self, key: StepKey) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// A task has ended; true when it ended badly.
    pub fn task(&mut self, rank: u32, end: TaskEnd) -> bool {
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
            && let Some(said) = end.failure.take_if(|t| t.ends_with('\n'))
            && self.said.len() < TOLD
        {
            // Its node says the same of itself.
            self.told.insert(said.clone());
            self.said.push(said);
        }
        let bad = match (end.failure, end.signal) {
            (Some(text), _) => {
                let text = without(&text, &self.node_of(rank));
                if self.told.len() < TOLD && !self.told.contains(&text) {
                    self.told.insert(text.clone());
                }
                Bad::NeverRan(text)
            }
            (None, 0) => Bad::Code(end.exit_code),
            (None, signal) => Bad::Signal(signal),
        };
        self.tasks.entry(bad).or_default().push(rank);
        true
    }

    /// A node has ended.
    pub fn node(&mut self, node: u32, end: &NodeEnd) {
        self.node_gone(node);
        if let Some(key) = self.key.filter(|_| end.starved > 0)
            && self.dialect == Dialect::Slurm
            && self.said.len() < TOLD
        {
            self.said
                .push(end_messages::out_of_memory(&key.to_string(), end.starved));
        }
        let trouble = match &end.end.cause {
            EndCause::Exited => return,
            EndCause::TimeLimit | EndCause::Deadline => Trouble::TimeLimit,
            EndCause::Cancelled => Trouble::Cancelled,
            EndCause::OutOfMemory => Trouble::OutOfMemory,
            EndCause::LaunchFailed(why) => {
                let why = without(why, self.node_name(node));
                if self.told.contains(&why) {
                    return self.at_least(exit::FAILED);
                }
                Trouble::LaunchFailed(why)
            }
            EndCause::SupervisorLost => Trouble::SupervisorLost,
            EndCause::NodeLost => Trouble::NodeLost,
        };
        self.trouble(node, trouble, end.end.peak_memory_bytes);
    }

    /// Nodes from which nothing more comes.
    pub fn lost(&mut self, nodes: &[u32], reason: &str) {
        for node in nodes {
            self.node_gone(*node);
            self.trouble(*node, Trouble::Lost(reason.to_owned()), 0);
        }
    }

    /// The command itself has ended the step: that it was ended need not be said again.
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

    /// A task ends the whole step with that exit code.
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

    /// The exit code for all of it.
    pub const fn code(&self) -> u8 {
        self.worst
    }

    /// Exit code and signal of the worst task.
    pub const fn worst(&self) -> (i32, i32) {
        self.worst_end
    }

    /// True when something waits to be said.
    pub fn has_news(&self) -> bool {
        !self.tasks.is_empty() || !self.troubles.is_empty()
    }

    /// What is to be said, a line each; it is forgotten here.
    pub fn take_lines(&mut self) -> Vec<String> {
        let tasks = std::mem::take(&mut self.tasks);
        let mut troubles = std::mem::take(&mut self.troubles);
        if self.dialect == Dialect::Slurm {
            return self.slurm_lines(tasks, &troubles);
        }
        if self.killed_by_command {
            troubles.remove(&Trouble::Cancelled);
        }
        let mut lines: Vec<String> = tasks
            .into_iter()
            .map(|(bad, ranks)| self.task_line(&bad, ranks))
            .collect();
        lines.extend(
            troubles
                .iter()
                .map(|(trouble, (nodes, peak))| trouble_line(trouble, nodes, *peak)),
        );
        lines
    }

    /// A line for each node and way to end; of nodes as a whole only what nobody else says.
    fn slurm_lines(
        &mut self,
        tasks: BTreeMap<Bad, Vec<u32>>,
        troubles: &BTreeMap<Trouble, (Vec<String>, u64)>,
    ) -> Vec<String> {
        let memory = troubles.get(&Trouble::OutOfMemory);
        let mut by_node: BTreeMap<(Bad, String), Vec<u32>> = BTreeMap::new();
        for (bad, ranks) in tasks {
            for rank in ranks {
                let place = (bad.clone(), self.node_of(rank));
                by_node.entry(place).or_default().push(rank);
            }
        }
        let mut lines = Vec::new();
        for ((bad, node), mut ranks) in by_node {
            ranks.sort_unstable();
            let starved = memory.is_some_and(|(nodes, _)| nodes.contains(&node));
            let how = match bad {
                Bad::Code(code) => srun_messages::ended(code, 0),
                Bad::Signal(SIGKILL) if starved => "Out Of Memory".to_owned(),
                Bad::Signal(signal) => srun_messages::ended(0, signal),
                Bad::NeverRan(text) => text,
            };
            lines.push(format!("error: {node}: {}: {how}", tasks_words(&ranks)));
        }
        for (trouble, (nodes, peak)) in troubles {
            match trouble {
                Trouble::TimeLimit | Trouble::Cancelled | Trouble::OutOfMemory => {}
                Trouble::NodeLost | Trouble::Lost(_) => {}
                Trouble::LaunchFailed(_) | Trouble::SupervisorLost => {
                    lines.push(format!("error: {}", trouble_line(trouble, nodes, *peak)));
                }
            }
        }
        lines
    }

    /// Where the tasks are.
    pub const fn layout(&self) -> &StepLayout {
        &self.layout
    }

    /// What supervisors said of tasks: whole lines, as they are.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn node_gone(&mut self, node: u32) {
        if let Some(ended) = self.ended_nodes.get_mut(node as usize)
            && !*ended
        {
            *ended = true;
            self.nodes_left -= 1;
        }
    }

    fn trouble(&mut self, node: u32, trouble: Trouble, peak: u64) {
        let by_tasks = matches!(trouble, Trouble::TimeLimit | Trouble::Cancelled);
        if self.dialect == Dialect::Cosy || !by_tasks {
            self.at_least(exit::FAILED);
        }
        let name = self.node_name(node).to_owned();
        let (nodes, largest) = self.troubles.entry(trouble).or_default();
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

    /// The node of a task; `?` for one that is not there.
    pub fn node_of(&mut self, rank: u32) -> String {
        if self.node_of.is_empty() {
            self.node_of = nodes_by_rank(&self.layout);
        }
        let node = self.node_of.get(rank as usize).copied();
        self.node_name(node.unwrap_or(u32::MAX)).to_owned()
    }

    fn task_line(&mut self, bad: &Bad, mut ranks: Vec<u32>) -> String {
        ranks.sort_unstable();
        let mut nodes: Vec<String> = ranks.iter().map(|r| self.node_of(*r)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let how = match bad {
            Bad::Code(code) => format!("exit code {code}"),
            Bad::Signal(signal) => format!("ended by signal {}", signal_words(*signal)),
            Bad::NeverRan(text) => text.clone(),
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
