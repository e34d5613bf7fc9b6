//! Whether this node may act for an allocation.

use super::Node;
use crate::sys;
use cosy_model::node::{Allocation, PrepareFailure};
use cosy_proto::ticket::{self, TicketError};

impl Node {
    /// Whether this node may act for that allocation. What the controller itself sends has
    /// not expired: where it seems so, the clock here is wrong, and the job goes elsewhere.
    pub(super) fn admit(&self, allocation: &Allocation) -> Result<(), PrepareFailure> {
        let now = self.fixed.clock.now();
        let held = self.attempts.contains_key(&allocation.key);
        ticket::check(allocation, &self.fixed.controller, now)
            .and_then(|claims| self.fixed.epoch.admits(&claims, held))
            .map_err(|e| PrepareFailure {
                drain: e == TicketError::Expired,
                reason: e.to_string(),
            })?;
        self.may_act_for(allocation)
            .map_err(|reason| PrepareFailure {
                reason,
                drain: false,
            })
    }

    fn may_act_for(&self, allocation: &Allocation) -> Result<(), String> {
        if allocation.node != self.fixed.name {
            return Err(format!(
                "the allocation is for node {}, this is {}",
                allocation.node, self.fixed.name
            ));
        }
        let own = sys::own_uid();
        if own.0 != 0 && own != allocation.uid {
            return Err(format!(
                "noded on {} does not run as root: it runs only jobs of uid {own}, not of uid {}",
                self.fixed.name, allocation.uid
            ));
        }
        match own.0 {
            0 => self.config.may_run(allocation),
            _ => Ok(()),
        }
    }
}
