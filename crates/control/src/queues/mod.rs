//! Queues as they are now.

pub(crate) use queue::Queue;

pub(crate) mod access;
pub(crate) mod administered;
pub(crate) mod demand;
pub(crate) mod invariants;
pub(crate) mod joint;
pub(crate) mod order;
pub(crate) mod over_limit;
pub(crate) mod procedures;
mod queue;
pub(crate) mod scores;

use crate::config::ClusterConfig;
use crate::jobs::job::Submitted;
use crate::queues::administered::OwnQueues;
use crate::queues::joint::Joint;
use crate::queues::order::Came;
use crate::queues::scores::Scores;
use cosy_model::{MonotonicTime, QueueId, QueueSpec, QueueState, Time, limits};
use cosy_sched::NodeMask;
use std::collections::BTreeMap;

/// All queues, and the order of those who wait in them.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// By number: those of the file, with what administrators made of them.
    all: Vec<Queue>,
    /// Queues of the configuration, and those made or changed at run time.
    own_queues: OwnQueues,
    /// Queues that are one for the planner.
    joint: Joint,
    /// By which dates jobs stand in line.
    came: Came,
    /// What else they stand by.
    scores: Scores,
}

impl Queues {
    /// No queue yet, and what administrators have made of them.
    pub fn new(own_queues: OwnQueues) -> Self {
        Self {
            own_queues,
            ..Self::default()
        }
    }

    /// The configuration has these queues; `nodes` tells those of a queue.
    pub fn build(
        &mut self,
        specs: &[QueueSpec],
        states: &BTreeMap<String, QueueState>,
        nodes: impl Fn(&QueueSpec) -> NodeMask,
    ) {
        let queue = |spec: &QueueSpec| {
            let state = states.get(&spec.name).copied();
            Queue::new(spec.clone(), state.unwrap_or(spec.state), nodes(spec))
        };
        self.all = specs.iter().map(queue).collect();
    }

    /// States that are not those of the configuration.
    pub fn own_states(&self) -> BTreeMap<String, QueueState> {
        let own = self.all.iter().filter(|q| q.state() != q.spec().state);
        own.map(|q| (q.spec().name.clone(), q.state())).collect()
    }

    /// The queue with that number.
    pub fn get(&self, id: QueueId) -> &Queue {
        &self.all[id.index()]
    }

    /// The queue with that number.
    pub fn get_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.all[id.index()]
    }

    /// All queues, in the order of their numbers.
    pub fn all(&self) -> &[Queue] {
        &self.all
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The name of the queue with that number.
    pub fn name(&self, id: QueueId) -> &str {
        &self.get(id).spec().name
    }

    /// The number of the queue with that name.
    pub fn id_of(&self, name: &str) -> Option<QueueId> {
        let at = self.all.iter().position(|q| q.spec().name == name)?;
        Some(QueueId(at as u16))
    }

    /// Jobs are counted anew.
    pub fn count_anew(&mut self) {
        self.all.iter_mut().for_each(Queue::count_anew);
    }

    /// Joins queues for the planner; false when they are one already.
    pub fn join(&mut self, queues: Vec<QueueId>, now: MonotonicTime) -> bool {
        self.joint.join(queues, self.all.len(), now)
    }

    /// The planner's queue for a job of these queues, if they are joined.
    pub fn joint_of(&self, queues: &[QueueId]) -> Option<QueueId> {
        let at = self.joint.find(queues)?;
        Some(QueueId((self.all.len() + at) as u16))
    }

    /// The nodes of each joint queue, and whether its jobs start.
    pub fn joint(&self) -> Vec<(NodeMask, bool)> {
        let one = |queues: &Vec<QueueId>| {
            let all = queues.iter().map(|id| self.get(*id));
            let nodes = all
                .clone()
                .fold(NodeMask::default(), |sum, q| sum.or(q.nodes()));
            (nodes, all.into_iter().all(|q| q.state().starts_jobs()))
        };
        self.joint.sets().iter().map(one).collect()
    }

    /// Queues are joined, and long enough to be parted if no job spans several.
    pub fn may_part(&self, now: MonotonicTime) -> bool {
        self.joint.rests(now, limits::JOINED)
    }

    /// A job spans several queues still.
    pub fn still_joined(&mut self, now: MonotonicTime) {
        self.joint.needed(now);
    }

    /// Each queue is by itself again.
    pub fn part(&mut self) {
        self.joint.clear();
    }

    /// What jobs stand by in queues that order by more than dates.
    pub const fn scores(&self) -> &Scores {
        &self.scores
    }

    /// The same, for those who run, end and wait.
    pub const fn scores_mut(&mut self) -> &mut Scores {
        &mut self.scores
    }

    /// A submission has come, or was loaded; in the order of their ids.
    pub fn note_submission(&mut self, submitted: &Submitted) {
        self.came.note(submitted);
    }

    /// The date by which a job stands in line.
    pub fn date_in_line(&self, submitted: &Submitted) -> Time {
        self.came.in_line(submitted)
    }

    /// That queue was made the default one at run time.
    pub fn is_own_default(&self, name: &str) -> bool {
        self.own_queues.is_default(name)
    }

    /// Lays queues that were made or changed at run time over those of the configuration.
    pub fn lay(&self, config: &mut ClusterConfig) {
        self.own_queues.lay(config);
    }
}
