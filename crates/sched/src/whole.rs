//! Whole-node jobs: a node is taken or it is not, so sets of nodes are enough and amounts
//! need not be looked at.

use crate::group::Feasible;
use crate::line::{Brief, GroupId};
use crate::pass::{Pass, at_least_one};
use crate::scheduler::Scheduler;
use crate::select::{Candidate, Pick, select, select_alike};
use crate::timeline::Timeline;
use cosy_model::{NodeId, Time};
use std::cmp::Reverse;

impl Scheduler {
    /// The nodes that a whole-node job would get at `at` for its whole limit. `idle` are
    /// the nodes that may be chosen and on which no job of now will be running then.
    pub(crate) fn picks_whole(
        &self,
        pass: &Pass,
        brief: &Brief,
        at: Time,
        idle: &crate::NodeMask,
    ) -> Option<Vec<Pick>> {
        let window = (at, at + at_least_one(brief.limit));
        let clear = pass.timeline.clear(idle, window, brief.whole)?;
        let group = self.groups.get(brief.group);
        let gap = |node: NodeId| {
            let cleared = match at > pass.now {
                true => self.machine.cleared(node, pass.now),
                false => pass.now,
            };
            if !self.machine.ahead.contains(node) {
                return (Reverse(cleared), Time::FAR);
            }
            let (since, until) = self.machine.gap(node, window, pass.now);
            (Reverse(since.max(cleared)), until)
        };
        if let Some(capacity) = group.alike {
            return select_alike(&group.demand, capacity, &clear, gap);
        }
        let candidate = |node| {
            let (since, until) = gap(node);
            let total = &self.machine.node(node).total;
            Candidate::with(&group.demand, node, total, since.0, until)
        };
        select(&group.demand, clear.iter().filter_map(candidate).collect())
    }

    /// The timeline with the reservations of a component.
    pub(crate) fn reserved(&self, component: usize) -> Timeline {
        let mut timeline = Timeline::default();
        let component = &self.components[component];
        for (at, reservation) in &component.bounds {
            let block = self.blocks.get(reservation);
            if let Some(block) = block.filter(|block| block.start == *at) {
                let nodes = block.shares.iter().map(|share| share.node);
                timeline.book(nodes, block.start, block.end);
            }
        }
        timeline
    }

    /// Whether the group could run, without keeping the answer.
    pub(crate) fn feasible_now(&self, group: GroupId) -> Feasible {
        let known = self.groups.get(group);
        if known.is_current(self.epoch) {
            return known.feasible;
        }
        let mut known = known.clone();
        let queue = &self.queues[known.queue().index()];
        known.refresh(self.epoch, &self.machine, &queue.nodes);
        known.feasible
    }

    /// True when the queue of the group is known.
    pub(crate) fn has_queue(&self, group: GroupId) -> bool {
        self.groups.get(group).queue().index() < self.queues.len()
    }
}
