//! Changes of the machine: nodes that have other amounts or features than before.
//!
//! What nodes tell is taken note of when they register, and acted upon at the end of the turn,
//! once for all of them. Features concern only jobs that ask for them, which are placed anew
//! in pieces; amounts concern everybody, and a node whose amounts have changed takes no jobs
//! until the planner knows them. With many jobs that is done so rarely that it takes a small
//! part of the time only, however often nodes change their minds.

use crate::controller::Controller;
use crate::jobs::job::{Job, Part, PartStep, Place};
use crate::machine::devices::{has_room_for, told_types};
use cosy_model::job::ResourceRequest;
use cosy_model::node::NodeSelf;
use cosy_model::{Amounts, ClockStep, JobId, NodeId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Jobs that are placed anew in one turn because of features.
const PIECE: usize = 500;
/// Jobs that are looked at in one turn for whether they are concerned.
const LOOKS: usize = 20_000;
/// After all jobs were placed anew the next time is not before so much for each of them.
const REST_FOR_EACH: Span = Span(1);
/// And not later than this.
const LONGEST_REST: Span = Span::from_secs(30);

/// Why a node takes no jobs that has less than they hold there.
pub(crate) const SHORT: &str =
    "it has less than its jobs hold: it takes no others until they have ended";

/// What is to be done because nodes have changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Amounts that the planner does not know yet.
    amounts: BTreeMap<NodeId, Amounts>,
    /// Nodes that have less than jobs hold there, by what they told or by the configuration.
    short: BTreeMap<NodeId, Option<NodeSelf>>,
    /// Features that nodes have gained or lost.
    features: BTreeSet<String>,
    /// Not before then are all jobs placed anew.
    rest: Option<Time>,
    /// The next job to be placed anew for these features.
    under_way: Option<(BTreeSet<String>, JobId)>,
    /// How many jobs were placed anew in all.
    placed: u64,
}

impl Changes {
    /// Whether the node has told amounts that the planner does not know.
    pub fn concern(&self, node: NodeId) -> bool {
        self.amounts.contains_key(&node) || self.is_short(node)
    }

    /// Whether jobs hold more there than the node tells that it has.
    pub fn is_short(&self, node: NodeId) -> bool {
        self.short.contains_key(&node)
    }

    /// The node had the one and has the other.
    pub fn features(&mut self, old: &BTreeSet<String>, new: &BTreeSet<String>) {
        self.features.extend(old.symmetric_difference(new).cloned());
    }

    /// Who asks for these is to be placed anew.
    pub fn concern_features(&mut self, names: impl Iterator<Item = String>) {
        self.features.extend(names);
    }

    /// All jobs have been placed anew.
    pub fn all_placed(&mut self, now: Time, jobs: usize) {
        self.features.clear();
        self.under_way = None;
        self.placed += jobs as u64;
        let rest = Span(REST_FOR_EACH.0.saturating_mul(jobs as i64));
        self.rest = Some(now + rest.min(LONGEST_REST));
    }

    /// Some of the jobs that ask for the same may have been placed anew, and others not.
    pub fn under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The clock on the wall was set.
    pub fn clock_set(&mut self, step: ClockStep) {
        self.rest = self.rest.map(|until| until.set_by(step));
    }

    /// When there is something to do next.
    pub fn next_due(&self) -> Option<Time> {
        let soon = !self.features.is_empty() || self.under_way.is_some();
        let rest = self.rest.unwrap_or(Time::EPOCH);
        let amounts = (!self.amounts.is_empty()).then_some(rest);
        soon.then_some(Time::EPOCH).or(amounts)
    }
}

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

fn job_waits(job: Option<&Job>) -> bool {
    job.is_some_and(Job::is_waiting)
}

fn same_place(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Good { demand: a, .. }, Place::Good { demand: b, .. }) => a == b,
        (Place::Lost, Place::Lost) => true,
        (Place::Good { .. } | Place::Lost | Place::Beyond { .. }, _) => false,
    }
}

/// Whether a request asks for one of these features, for good or by preference.
fn mentions(request: &ResourceRequest, features: &BTreeSet<String>) -> bool {
    let groups = [
        &request.any_features,
        &request.same_features,
        &request.prefer_features,
    ];
    let groups = groups.into_iter().flatten().flatten();
    let counted = request.counted_features.iter().flat_map(|c| &c.any);
    let mut all = request
        .features
        .iter()
        .chain(groups)
        .chain(counted.flatten());
    all.any(|name| features.contains(name))
}
