//! Queues are found by name, opened and closed, and listed.

use crate::config::ClusterConfig;
use crate::conversations::predictions::Predictions;
use crate::event::Caller;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::planning::rebuild::open_joint_queues;
use crate::queues::access::procedures::require_admin;
use crate::queues::{Queue, Queues};
use crate::record::Record;
use crate::turn::Turn;
use cosy_model::api::{PredictionRecord, QueueInfo, Reply};
use cosy_model::policy::PreemptMode;
use cosy_model::{
    EventKind, EventObject, QueueId, QueueSpec, QueueState, Refusal, RefusalCode, Span, User,
};

impl Queues {
    pub(crate) fn queue_id(&self, name: &str) -> Option<QueueId> {
        self.id_of(name)
    }

    /// The queue that a job names, or the default one.
    pub(crate) fn find_queue(
        &self,
        config: &ClusterConfig,
        name: Option<&str>,
    ) -> Result<QueueId, Refusal> {
        let Some(name) = name.or(config.default_queue.as_deref()) else {
            return Err(Refusal::invalid(format!(
                "no queue is named and there is no default queue: choose one with --queue ({})",
                self.queue_names()
            )));
        };
        self.queue_id(name).ok_or_else(|| {
            Refusal::new(
                RefusalCode::NotFound,
                format!("there is no queue '{name}'; the queues are: {}", self.queue_names()),
            )
        })
    }

    fn queue_names(&self) -> String {
        let names: Vec<&str> = self.all.iter().map(|q| q.spec().name.as_str()).collect();
        if names.is_empty() {
            "none is configured".to_owned()
        } else {
            names.join(", ")
        }
    }
}

pub(crate) fn queue_control(
    config: &ClusterConfig,
    queues: &mut Queues,
    planning: &mut Planning,
    turn: &mut Turn,
    caller: &Caller,
    name: &str,
    state: QueueState,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    require_admin(config, caller, "open and close queues")?;
    let id = queues.find_queue(config, Some(name))?;
    queues.get_mut(id).opened_or_closed(state);
    planning
        .cluster_mut()
        .set_queue_starts(id, state.starts_jobs());
    open_joint_queues(queues, planning);
    turn.record(Record::Queue {
        name: name.to_owned(),
        state,
    });
    let kind = match state {
        QueueState::Open => EventKind::Opened,
        QueueState::Drained => EventKind::Drained,
        QueueState::Stopped => EventKind::Stopped,
        QueueState::Closed => EventKind::Closed,
    };
    let who = caller.user.name.clone();
    turn.happened(now, kind, &who, EventObject::Queue(name.to_owned()), String::new());
    Ok(Reply::Done {
        changed: 1,
        refused: Vec::new(),
    })
}

/// All queues without what is counted on their nodes: it costs nothing where there are many.
pub(crate) fn queues_in_short(
    config: &ClusterConfig,
    queues: &Queues,
    user: &User,
) -> Vec<QueueInfo> {
    queues
        .all
        .iter()
        .map(|q| in_short(config, q, user))
        .collect()
}

fn in_short(config: &ClusterConfig, q: &Queue, user: &User) -> QueueInfo {
    let preemption = &config.preemption;
    let own = preemption.of_queue(&q.spec().name);
    let mode = own.mode.unwrap_or(preemption.mode);
    let preempt = preemption.is_on() && mode != PreemptMode::Off;
    QueueInfo {
        spec: QueueSpec {
            state: q.state(),
            ..q.spec().clone()
        },
        default: config.default_queue.as_deref() == Some(&q.spec().name),
        waiting: q.jobs() - q.running(),
        running: q.running(),
        nodes: q.nodes().count(),
        nodes_up: 0,
        cores: 0,
        cores_used: 0,
        your_level: crate::queues::access::level(q.spec(), user),
        preempt: preempt.then_some(mode),
        grace: own.grace.unwrap_or(Span::ZERO),
        predictions: PredictionRecord::default(),
    }
}

pub(crate) fn list_queues(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    predictions: &Predictions,
    caller: &Caller,
) -> Reply {
    let info = |q: &Queue| {
        let (mut up, mut cores, mut used) = (0, 0u32, 0u32);
        for node in q.nodes().iter() {
            let n = machine.node(node);
            up += u32::from(n.can_be_planned_on());
            cores = cores.saturating_add(n.amounts().cores);
            used = used.saturating_add(planning.cluster().used(node).cores);
        }
        QueueInfo {
            nodes_up: up,
            cores,
            cores_used: used,
            predictions: predictions.of_queue(&q.spec().name),
            ..in_short(config, q, &caller.user)
        }
    };
    Reply::Queues(queues.all.iter().map(info).collect())
}
