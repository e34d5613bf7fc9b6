//! Whether all GPUs are still there: looked at with the health of the node.

use super::{Daemon, Event, Nodes};
use crate::gpus::GpusFound;
use crate::gpus::ask::look;

impl Daemon {
    /// Looks whether all GPUs are still there; what comes of it is an event.
    pub(super) fn look_at_gpus(&mut self) {
        let search = self.config.gpu_search.clone();
        if search.off {
            let gone = self.gpus.gone(&self.config.devices);
            return self.gpus_are(gone);
        }
        if !matches!(self.nodes, Nodes::Real(_)) || self.gpus.begin(&search).is_none() {
            return;
        }
        let (events, reaper) = (self.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let mut look = look(&search, Some(&reaper)).await;
            let result = std::mem::replace(&mut look.result, Ok(GpusFound::default()));
            let _ = events.send(Event::GpuLook(result)).await;
            look.over().await;
            let _ = events.send(Event::GpuLookOver).await;
        });
    }

    /// A look has come to an end.
    pub(super) fn gpus_looked_at(&mut self, result: Result<GpusFound, String>) {
        let problem = self.gpus.problem_of(result);
        self.gpus_are(problem);
    }

    fn gpus_are(&mut self, problem: Option<String>) {
        if self.gpus.note(problem) {
            self.say_health();
        }
    }
}
