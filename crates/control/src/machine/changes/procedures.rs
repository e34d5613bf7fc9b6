//! What nodes tell about themselves is compared, and jobs are placed anew where it matters.

use crate::controller::Controller;
use crate::jobs::job::{Job, Part, PartStep};
use crate::machine::changes::{LOOKS, PIECE, job_waits, mentions, same_place};
use crate::machine::devices::{has_room_for, told_types};
use cosy_model::node::NodeSelf;
use cosy_model::{JobId, NodeId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Controller {
    /// A node tells what it has, or (`None`) the configuration tells it anew. Where jobs hold
    /// more (a GPU has died, and they have not noticed), what was known of the node stays, and
    /// it takes no jobs until enough of them have ended. True when it has told the types of its
    /// GPUs for the first time.
    pub(crate) fn told_amounts(&mut self, id: NodeId, from: Option<NodeSelf>) -> bool {
        self.machine.changes.amounts.remove(&id);
        self.machine.changes.short.remove(&id);
        let node = &self.machine.nodes[id.index()];
        let told = from.as_ref().map_or(&node.amounts, |from| &from.amounts);
        let amounts = node.spec.amounts.as_ref().unwrap_or(told).clone();
        let types = match &from {
            Some(from) => told_types(from),
            None => node.devices.types().to_vec(),
        };
        if !has_room_for(&amounts, &types, &self.parts_at(id)) {
            self.machine.changes.short.insert(id, from);
            return false;
        }
        let node = &mut self.machine.nodes[id.index()];
        let counted = node.devices.counted;
        if let Some(from) = &from {
            node.devices.tell(from);
        }
        let amounts = node.devices.counted(amounts);
        // The store tells of the types of GPUs from now on, also that there are none.
        let first = !counted && node.devices.counted && amounts.gpus > 0;
        if !node.known || node.amounts != amounts {
            self.machine.changes.amounts.insert(id, amounts);
        }
        first
    }

    /// The configuration has changed: what it says of a node holds at once.
    pub(crate) fn configured_amounts(&mut self, id: NodeId) {
        let told = self.machine.changes.short.remove(&id).flatten();
        self.told_amounts(id, told);
        if let Some(amounts) = self.machine.changes.amounts.remove(&id) {
            let node = &mut self.machine.nodes[id.index()];
            node.amounts = amounts;
            node.known = true;
        }
    }

    /// What jobs hold of a node.
    fn parts_at(&self, id: NodeId) -> Vec<&Part> {
        let jobs = self.machine.nodes[id.index()].jobs.iter();
        let runs = jobs.filter_map(|job| self.jobs.get(job)?.run());
        runs.filter_map(|run| run.part(id))
            .filter(|part| part.step != PartStep::Released)
            .collect()
    }

    /// A job has given back what it held there.
    pub(crate) fn take_over_again(&mut self, id: NodeId) {
        let Some(from) = self.machine.changes.short.remove(&id) else {
            return;
        };
        if self.told_amounts(id, from) {
            self.save_node(id);
        }
        self.update_available(id);
    }

    /// Does what is due because nodes have changed.
    pub(crate) fn changes_due(&mut self, now: Time) {
        let rests = self.machine.changes.rest.is_some_and(|until| now < until);
        if !self.machine.changes.amounts.is_empty() && !rests {
            return self.amounts_changed(now);
        }
        if self.machine.changes.under_way.is_none() && !self.machine.changes.features.is_empty() {
            let features = std::mem::take(&mut self.machine.changes.features);
            self.machine.changes.under_way = Some((features, JobId(0)));
        }
        if let Some((features, from)) = self.machine.changes.under_way.take() {
            self.place_for_features(now, features, from);
        }
    }

    fn amounts_changed(&mut self, now: Time) {
        for (id, amounts) in std::mem::take(&mut self.machine.changes.amounts) {
            let node = &mut self.machine.nodes[id.index()];
            node.amounts = amounts;
            node.known = true;
            self.save_node(id);
        }
        self.machine_changed(now);
    }

    /// Places jobs anew that ask for such features, a piece of them.
    fn place_for_features(&mut self, now: Time, features: BTreeSet<String>, from: JobId) {
        let asks = |job: &Job| job.submitted.requests().any(|r| mentions(r, &features));
        let mut ids = Vec::new();
        let mut next = None;
        for (looked, (id, job)) in self.jobs.range(from..).enumerate() {
            if looked == LOOKS || ids.len() == PIECE {
                next = Some(*id);
                break;
            }
            ids.extend(asks(job).then_some(*id));
        }
        self.machine.changes.under_way = next.map(|next| (features, next));
        for id in ids {
            self.place_one(now, id);
        }
    }

    /// What the first of those that ask for the same was placed as is that of all.
    fn place_one(&mut self, now: Time, id: JobId) {
        let old = self.jobs[&id].submitted.clone();
        let base = old.base;
        let group = self.jobs.group(&base);
        let body = group.and_then(|group| group.bodies.get(&old.body));
        let placed = body.map(|body| body.submitted.clone());
        let placed = placed.filter(|body| !Arc::ptr_eq(body, &old));
        let new = placed.unwrap_or_else(|| Arc::new(self.placed_again(&old)));
        self.lay_body(&new);
        self.machine.changes.placed += 1;
        let waits = job_waits(self.jobs.get(&id));
        let same = same_place(&old.place, &new.place);
        if waits && !same && self.planner_of(id).dequeue(id) {
            self.count_queued(base, false);
            self.planning.left_inside(id);
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.submitted = new;
        }
        if waits && !same {
            self.review(now, id);
        }
    }

    /// How many jobs were placed anew because nodes have changed, since the start: a measure
    /// of work.
    pub fn placed_for_changes(&self) -> u64 {
        self.machine.changes.placed
    }
}
