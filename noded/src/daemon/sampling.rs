//! Jobs are measured at an interval.

use super::{Daemon, Nodes};
use crate::samples::Measured;

impl Daemon {
    /// Measures all jobs, unless that is under way.
    pub(super) fn sample(&mut self) {
        if self.config.sampling.interval.is_none() || self.sampling {
            return;
        }
        if let Nodes::Real(node) = &self.nodes {
            self.sampling = node.begin_sampling();
        }
    }

    pub(super) fn sampled(&mut self, all: &[Measured]) {
        self.sampling = false;
        self.real(|node| node.sampled(all));
    }
}
