//! The load method: until when the present work is taken to last (eq. 1), and how many
//! processors things take.
//!
//! T is half the remaining work of running and waiting jobs, by their limits, divided by
//! the number of processors; then each reservation that starts before the T reached so far,
//! in the order of starts, puts its whole area on top. Processors are the cores of the open
//! nodes of the pool (of all its nodes when none is open).
//!
//! Where the paper is silent: jobs of closed queues are not counted, because they do not
//! run; of a reservation or job that has begun only the rest counts.
//!
//! Source: what-if paper, section 4.1.

use super::effect::asked_cores;
use crate::running::{Holding, Running};
use crate::scheduler::Scheduler;
use crate::{Block, Demand, NodeSet};
use cosy_model::{NodeId, NodeShare, Time};

impl Scheduler {
    /// T of eq. (1) for the queues of a pool.
    pub(super) fn load_end(&self, now: Time, pool: usize) -> Time {
        let processors = self.processors(pool);
        let known = &self.node_pools[pool];
        let running = known.ends.iter().map(|end| {
            let left = i128::from(end.at.since(now).0);
            left.saturating_mul(self.running_cores(self.running.get(end.run), pool))
        });
        let waiting = known.line.queue_keys().map(|queue_key| {
            let demand = &self.groups.get(queue_key.group).demand;
            let cores = self.wanted_cores(demand, pool);
            i128::from(queue_key.limit.0.max(0)).saturating_mul(cores)
        });
        let work = running.chain(waiting).fold(0, i128::saturating_add);
        let mut until = later(now, work, processors.saturating_mul(2));
        for block in self.blocks_from(pool) {
            if block.start >= until {
                break;
            }
            let cores = self.shared_cores(&block.shares, pool);
            let left = i128::from(block.end.since(block.start.max(now)).0);
            until = later(until, left.saturating_mul(cores), processors);
        }
        until
    }

    /// The reservations of a pool, by start.
    pub(super) fn blocks_from(&self, pool: usize) -> impl Iterator<Item = &Block> {
        let bounds = self.node_pools[pool].bounds.iter();
        bounds.filter_map(|((at, id), ())| {
            let block = self.blocks.get(id)?;
            (block.start == *at).then_some(&**block)
        })
    }

    /// Cores of the open nodes of a pool, or of all its nodes when none is open.
    fn processors(&self, pool: usize) -> i128 {
        let nodes = &self.node_pools[pool].nodes;
        let open = nodes.and(&self.machine.open);
        let counted = if open.is_empty() { nodes } else { &open };
        self.cores_of(counted.iter())
    }

    /// All cores of some nodes.
    pub(super) fn cores_of(&self, nodes: impl Iterator<Item = NodeId>) -> i128 {
        let known = nodes.filter(|node| self.machine.knows(*node));
        known
            .map(|node| i128::from(self.machine.total(node).cores))
            .sum()
    }

    /// All cores of the nodes that a whole-node job holds.
    pub(super) fn whole_cores(&self, nodes: &NodeSet) -> i128 {
        match self.machine.common_cores() {
            Some(cores) => i128::from(nodes.count()) * i128::from(cores),
            None => self.cores_of(nodes.iter()),
        }
    }

    /// The processors that a waiting job asks for: a whole-node job as many nodes as it
    /// wants, with the mean number of cores.
    fn wanted_cores(&self, demand: &Demand, pool: usize) -> i128 {
        let first = demand.first();
        let nodes = first.nodes.unwrap_or(1).max(first.fewest_nodes());
        let nodes = nodes.max(1);
        let cores = asked_cores(demand, nodes);
        if !first.exclusive {
            return cores;
        }
        let each = self.machine.common_cores().map(i128::from);
        let each = each.unwrap_or_else(|| {
            let nodes = &self.node_pools[pool].nodes;
            let count = i128::from(nodes.count().max(1));
            (self.cores_of(nodes.iter()) + count - 1) / count
        });
        cores.max(i128::from(nodes) * each)
    }

    fn running_cores(&self, running: &Running, pool: usize) -> i128 {
        match &running.holding {
            Holding::Whole(_) | Holding::WholeListed(_) => {
                let nodes = running.nodes.iter();
                self.cores_of(nodes.filter(|node| self.machine.region(*node) == Some(pool)))
            }
            Holding::Listed(shares) => self.shared_cores(shares, pool),
        }
    }

    fn shared_cores(&self, shares: &[NodeShare], pool: usize) -> i128 {
        let here = shares
            .iter()
            .filter(|share| self.machine.region(share.node) == Some(pool));
        here.map(|share| i128::from(share.amounts.cores)).sum()
    }
}

/// `from` and the time that `processors` need for `work`, rounded up.
fn later(from: Time, work: i128, processors: i128) -> Time {
    if work <= 0 {
        return from;
    }
    let Some(whole) = work.checked_div(processors) else {
        return Time::FAR; // nobody to do it
    };
    let length = whole + i128::from(work % processors != 0);
    let end = i128::from(from.0).saturating_add(length);
    Time(i64::try_from(end).unwrap_or(i64::MAX))
}
