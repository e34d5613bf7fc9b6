//! Whether all GPUs are still there: looked at with the health of the node.

use super::{Daemon, Event, Nodes};
use crate::gpus::GpusFound;
use crate::gpus::ask::{PATIENCE, late, look};
use std::sync::Arc;
use std::time::Duration;

/// How long a helper that has answered may take to end.
const END: Duration = Duration::from_secs(10);

impl Daemon {
    /// Looks whether all GPUs and other devices are still there; what libraries say of GPUs is an event.
    pub(super) fn look_at_gpus(&mut self) {
        if !matches!(self.nodes, Nodes::Real(_)) {
            return;
        }
        let config = Arc::clone(&self.config);
        if self.gpus.note_files(&config.devices, &config.gpu_search) {
            self.say_health();
        }
        if !self.gpus.begin(&config.gpu_search) {
            return;
        }
        let (events, reaper) = (self.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let (result, mut end) = look(&config.gpu_search, PATIENCE, Some(&reaper)).await;
            let _ = events.send(Event::GpuLook(result)).await;
            // One that has answered and does not end hangs in the kernel.
            if tokio::time::timeout(END, end.wait()).await.is_err() {
                let _ = events.send(Event::GpuLook(Err(late(PATIENCE)))).await;
                end.wait().await;
            }
            let _ = events.send(Event::GpuLookOver).await;
        });
    }

    /// A look has come to an end.
    pub(super) fn gpus_looked_at(&mut self, result: Result<GpusFound, String>) {
        if !self.config.gpu_search.off && self.gpus.note_look(result) {
            self.say_health();
        }
    }
}
