//! Changes of the machine: nodes that have other amounts or features than before.
//!
//! What nodes tell is taken note of when they register, and acted upon at the end of the turn,
//! once for all of them. Features concern only jobs that ask for them, which are placed anew
//! in pieces; amounts concern everybody, and a node whose amounts have changed takes no jobs
//! until the planner knows them. With many jobs that is done so rarely that it takes a small
//! part of the time only, however often nodes change their minds.

pub(crate) mod procedures;

use crate::jobs::job::{Job, Place};
use cosy_model::job::ResourceRequest;
use cosy_model::node::NodeSelf;
use cosy_model::{Amounts, ClockStep, JobId, NodeId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that are placed anew in one turn because of features.
pub(crate) const PIECE: usize = 500;
/// Jobs that are looked at in one turn for whether they are concerned.
pub(crate) const LOOKS: usize = 20_000;
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

    /// Nodes have told amounts, and it is long enough since all jobs were placed anew.
    pub fn amounts_due(&self, now: Time) -> bool {
        let rests = self.rest.is_some_and(|until| now < until);
        !self.amounts.is_empty() && !rests
    }

    /// The amounts that nodes have told since.
    pub fn take_amounts(&mut self) -> BTreeMap<NodeId, Amounts> {
        std::mem::take(&mut self.amounts)
    }

    /// The features of which jobs are placed anew, and the next one to be looked at.
    pub fn next_piece(&mut self) -> Option<(BTreeSet<String>, JobId)> {
        if self.under_way.is_none() && !self.features.is_empty() {
            self.under_way = Some((std::mem::take(&mut self.features), JobId(0)));
        }
        self.under_way.take()
    }

    /// Jobs are placed anew for these features from that one on.
    pub fn go_on_from(&mut self, rest: Option<(BTreeSet<String>, JobId)>) {
        self.under_way = rest;
    }

    /// One more job was placed anew.
    pub fn count_placed(&mut self) {
        self.placed += 1;
    }

    /// How many jobs were placed anew in all.
    pub fn placed(&self) -> u64 {
        self.placed
    }
}

pub(crate) fn job_waits(job: Option<&Job>) -> bool {
    job.is_some_and(Job::is_waiting)
}

pub(crate) fn same_place(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Good { demand: a, .. }, Place::Good { demand: b, .. }) => a == b,
        (Place::Lost, Place::Lost) => true,
        (Place::Good { .. } | Place::Lost | Place::Beyond { .. }, _) => false,
    }
}

/// Whether a request asks for one of these features, for good or by preference.
pub(crate) fn mentions(request: &ResourceRequest, features: &BTreeSet<String>) -> bool {
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
