//! Queues are found by name, opened and closed, and listed.

use crate::controller::Controller;
use crate::event::Caller;
use crate::queues::Queue;
use crate::record::Record;
use cosy_model::api::{QueueInfo, Reply};
use cosy_model::{QueueId, QueueSpec, QueueState, Refusal, RefusalCode, Time};

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
