//! Workflows out of the store.

use super::{Flow, REMEMBER};
use crate::controller::Controller;
use crate::record::LoadedFlow;
use crate::workflows::check::Graph;
use cosy_model::{JobId, Time};

impl Controller {
    /// To be called when reservations and jobs are loaded.
    pub(crate) fn load_flows(&mut self, now: Time, loaded: Vec<LoadedFlow>, next: u64) {
        self.workflows.next = next.max(1);
        for LoadedFlow { row, spec, tasks } in loaded {
            // What was accepted once has no circle.
            let graph = Graph::of(&spec);
            let graph = graph.unwrap_or_else(|_| Graph::without_edges(spec.tasks.len()));
            let id = row.id;
            match row.closed {
                Some(at) if at + REMEMBER <= now => continue,
                Some(at) => drop(self.workflows.forget.insert((at + REMEMBER, id))),
                None => self.workflows.live += 1,
            }
            let live = row.is_live();
            let waits = tasks
                .iter()
                .filter(|task| task.replan && task.end.is_none());
            let waits: Vec<JobId> = waits.map(|task| task.job).collect();
            self.workflows
                .all
                .insert(id, Flow::new(row, spec, graph, tasks));
            if live {
                self.workflows.doubtful.insert(id);
            }
            // Their slots are known to be of no use only now.
            waits.into_iter().for_each(|job| self.review(now, job));
        }
    }
}
