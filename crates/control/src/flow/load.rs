//! Workflows out of the store.

use super::{Flow, REMEMBER};
use crate::controller::Controller;
use crate::flow::check::Graph;
use crate::record::LoadedFlow;
use cosy_model::Time;

impl Controller {
    /// To be called when reservations and jobs are loaded.
    pub(crate) fn load_flows(&mut self, now: Time, loaded: Vec<LoadedFlow>, next: u64) {
        self.flows.next = next.max(1);
        for LoadedFlow { row, spec, tasks } in loaded {
            // What was accepted once has no circle.
            let graph = Graph::of(&spec).unwrap_or_default();
            let id = row.id;
            match row.closed {
                Some(at) if at + REMEMBER <= now => continue,
                Some(at) => drop(self.flows.forget.insert((at + REMEMBER, id))),
                None => self.flows.live += 1,
            }
            self.flows
                .all
                .insert(id, Flow::new(row, spec, graph, tasks));
        }
    }
}
