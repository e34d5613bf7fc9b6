//! Queues as they are now.

pub(crate) mod access;
pub(crate) mod administered;
pub(crate) mod demand;
pub(crate) mod invariants;
pub(crate) mod joint;
pub(crate) mod order;
pub(crate) mod over_limit;

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::Submitted;
use crate::queues::administered::OwnQueues;
use crate::queues::joint::Joint;
use crate::queues::order::Came;
use crate::record::Record;
use cosy_model::api::{QueueInfo, Reply};
use cosy_model::{QueueId, QueueSpec, QueueState, Refusal, RefusalCode, Steady, Time, limits};
use cosy_sched::NodeMask;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Queue {
    pub spec: QueueSpec,
    pub state: QueueState,
    pub nodes: NodeMask,
    /// Live jobs in it.
    pub jobs: u32,
    /// Live jobs by user.
    pub by_user: BTreeMap<cosy_model::Uid, u32>,
    /// Jobs that hold nodes.
    pub running: u32,
}

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
        let queue = |spec: &QueueSpec| Queue {
            state: states.get(&spec.name).copied().unwrap_or(spec.state),
            nodes: nodes(spec),
            spec: spec.clone(),
            jobs: 0,
            by_user: BTreeMap::new(),
            running: 0,
        };
        self.all = specs.iter().map(queue).collect();
    }

    /// States that are not those of the configuration.
    pub fn own_states(&self) -> BTreeMap<String, QueueState> {
        let own = self.all.iter().filter(|q| q.state != q.spec.state);
        own.map(|q| (q.spec.name.clone(), q.state)).collect()
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
        &self.get(id).spec.name
    }

    /// The number of the queue with that name.
    pub fn id_of(&self, name: &str) -> Option<QueueId> {
        let at = self.all.iter().position(|q| q.spec.name == name)?;
        Some(QueueId(at as u16))
    }

    /// Jobs are counted anew.
    pub fn count_anew(&mut self) {
        for queue in &mut self.all {
            (queue.jobs, queue.running) = (0, 0);
            queue.by_user.clear();
        }
    }

    /// Joins queues for the planner; false when they are one already.
    pub fn join(&mut self, queues: Vec<QueueId>, now: Steady) -> bool {
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
                .fold(NodeMask::default(), |sum, q| sum.or(&q.nodes));
            (nodes, all.into_iter().all(|q| q.state.starts_jobs()))
        };
        self.joint.sets().iter().map(one).collect()
    }

    /// Queues are joined, and long enough to be parted if no job spans several.
    pub fn may_part(&self, now: Steady) -> bool {
        self.joint.rests(now, limits::JOINED)
    }

    /// A job spans several queues still.
    pub fn still_joined(&mut self, now: Steady) {
        self.joint.needed(now);
    }

    /// Each queue is by itself again.
    pub fn part(&mut self) {
        self.joint.clear();
    }

    /// A submission has come, or was loaded; in the order of their ids.
    pub fn note_submission(&mut self, submitted: &Submitted) {
        self.came.note(submitted);
    }

    /// The date by which a job stands in line.
    pub fn date_in_line(&self, submitted: &Submitted) -> Time {
        self.came.in_line(submitted)
    }
}

impl Controller {
    pub(crate) fn queue_id(&self, name: &str) -> Option<QueueId> {
        self.queues.id_of(name)
    }

    /// The queue that a job names, or the default one.
    pub(crate) fn find_queue(&self, name: Option<&str>) -> Result<QueueId, Refusal> {
        let Some(name) = name.or(self.config.default_queue.as_deref()) else {
            return Err(Refusal::invalid(format!(
                "no queue is named and there is no default queue: choose one with --queue ({})",
                self.queue_names()
            )));
        };
        self.queue_id(name).ok_or_else(|| {
            Refusal::new(
                RefusalCode::NotFound,
                format!(
                    "there is no queue '{name}'; the queues are: {}",
                    self.queue_names()
                ),
            )
        })
    }

    fn queue_names(&self) -> String {
        let names: Vec<&str> = self
            .queues
            .all
            .iter()
            .map(|q| q.spec.name.as_str())
            .collect();
        if names.is_empty() {
            "none is configured".to_owned()
        } else {
            names.join(", ")
        }
    }

    pub(crate) fn queue_control(
        &mut self,
        now: Time,
        caller: &Caller,
        name: &str,
        state: QueueState,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "open and close queues")?;
        let id = self.find_queue(Some(name))?;
        self.queues.all[id.index()].state = state;
        self.planning
            .cluster_mut()
            .set_queue_starts(id, state.starts_jobs());
        self.open_joint_queues();
        self.record(Record::Queue {
            name: name.to_owned(),
            state,
        });
        let word = match state {
            QueueState::Open => "opened",
            QueueState::Drained => "drained",
            QueueState::Stopped => "stopped",
            QueueState::Closed => "closed",
        };
        let who = caller.user.name.clone();
        self.happened(now, word, &who, format!("queue {name}"), String::new());
        Ok(Reply::Done {
            changed: 1,
            refused: Vec::new(),
        })
    }

    pub(crate) fn list_queues(&self, caller: &Caller) -> Reply {
        let info = |q: &Queue| {
            let (mut up, mut cores, mut used) = (0, 0u32, 0u32);
            for node in q.nodes.iter() {
                let n = self.machine.node(node);
                up += u32::from(n.takes_jobs());
                cores = cores.saturating_add(n.amounts.cores);
                used = used.saturating_add(self.planning.cluster().used(node).cores);
            }
            QueueInfo {
                spec: QueueSpec {
                    state: q.state,
                    ..q.spec.clone()
                },
                default: self.config.default_queue.as_deref() == Some(&q.spec.name),
                waiting: q.jobs - q.running,
                running: q.running,
                nodes: q.nodes.count(),
                nodes_up: up,
                cores,
                cores_used: used,
                your_level: crate::queues::access::level(&q.spec, &caller.user),
            }
        };
        Reply::Queues(self.queues.all.iter().map(info).collect())
    }
}
