//! Jobs are measured at an interval.

use super::{Daemon, Nodes};
use crate::samples::Look;

/// For so many intervals what GPUs did counts as what they do.
const FRESH: u32 = 2;

impl Daemon {
    /// Measures all jobs, unless that is under way.
    pub(super) fn sample(&mut self) {
        if self.config.sampling.interval.is_none() || self.sampling {
            return;
        }
        let Nodes::Real(node) = &self.nodes else {
            return;
        };
        self.sampling = node.begin_sampling();
        if node.has_jobs_with_gpus() {
            self.look_at_gpus();
        }
    }

    pub(super) fn sampled(&mut self, found: &Look) {
        self.sampling = false;
        let age = self.config.sampling.pause() * FRESH;
        let figures = self.gpus.figures(age).to_vec();
        self.real(|node| node.sampled(found, &figures));
    }
}
