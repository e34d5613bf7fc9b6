//! Which tasks of a step run and which have ended, for messages about an interrupt. Pure.

use super::ends::tasks_words;
use cosy_model::limits::STEP_TASKS;
use cosy_model::step::StepLayout;

/// What has started and ended so far.
#[derive(Debug, Default)]
pub struct Progress {
    nodes: usize,
    started_nodes: usize,
    /// By rank: whether the task succeeded; `None` while it has not ended.
    ended: Vec<Option<bool>>,
}

impl Progress {
    /// Nothing has started.
    pub fn new(layout: &StepLayout) -> Self {
        Self {
            nodes: layout.nodes.len(),
            started_nodes: 0,
            ended: vec![None; layout.tasks.min(STEP_TASKS) as usize],
        }
    }

    /// The tasks of one more node have started.
    pub fn started(&mut self) {
        self.started_nodes = (self.started_nodes + 1).min(self.nodes);
    }

    /// A task has ended, with success or not.
    pub fn ended(&mut self, rank: u32, well: bool) {
        if let Some(ended) = self.ended.get_mut(rank as usize) {
            *ended = Some(well);
        }
    }

    /// Ranks that have not ended.
    fn running(&self) -> Vec<u32> {
        self.ranks_with_end(None)
    }

    fn ranks_with_end(&self, end: Option<bool>) -> Vec<u32> {
        let all = (0u32..).zip(&self.ended);
        let these = all.filter(|(_, ended)| **ended == end);
        these.map(|(rank, _)| rank).collect()
    }

    /// Which tasks run and which have ended how, as srun tells it: `tasks 0,2-3: running`.
    pub fn groups(&self) -> Vec<String> {
        let kinds = [
            (None, "running"),
            (Some(false), "exited abnormally"),
            (Some(true), "exited"),
        ];
        let of = |(end, words)| (self.ranks_with_end(end), words);
        let some = kinds.map(of).into_iter().filter(|(all, _)| !all.is_empty());
        some.map(|(ranks, words)| format!("{}: {words}", tasks_words(&ranks)))
            .collect()
    }

    /// Which tasks run, as in `tasks 0-3 run, 1 of 2 nodes are starting`.
    pub fn words(&self) -> String {
        let running = self.running();
        if self.started_nodes == 0 && running.len() == self.ended.len() {
            return "no task has started yet".to_owned();
        }
        let start = match self.nodes - self.started_nodes {
            0 => String::new(),
            n => format!(", {n} of {} nodes are starting", self.nodes),
        };
        match running.len() {
            0 => format!("all tasks have ended{start}"),
            1 => format!("{} runs{start}", tasks_words(&running)),
            _ => format!("{} run{start}", tasks_words(&running)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_runs() {
        let layout = StepLayout {
            nodes: vec!["a".into(), "b".into()],
            tasks: 4,
            ..StepLayout::default()
        };
        let mut progress = Progress::new(&layout);
        assert_eq!(progress.words(), "no task has started yet");
        progress.started();
        progress.ended(1, true);
        progress.ended(99, true);
        assert_eq!(progress.words(), "tasks 0,2-3 run, 1 of 2 nodes are starting");
        let mut other = Progress::new(&layout);
        other.ended(1, true);
        other.ended(3, false);
        assert_eq!(
            other.groups(),
            [
                "tasks 0,2: running",
                "task 3: exited abnormally",
                "task 1: exited"
            ]
        );
        progress.started();
        progress.ended(0, true);
        progress.ended(3, true);
        assert_eq!(progress.words(), "task 2 runs");
        progress.ended(2, true);
        assert_eq!(progress.words(), "all tasks have ended");
    }
}
