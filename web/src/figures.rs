//! What everybody is told alike, asked for once for all who look at the same moment.

use crate::cluster::Cluster;
use crate::limits::FRESH;
use crate::problem::{Problem, Result};
use cosy_model::api::{NodeInfo, QueueInfo, Reply, Request};
use cosy_model::reservation::{ReservationFilter, ReservationInfo, ReservationState};
use cosy_view::node::NodeCondition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Something that was asked for a moment ago.
struct Kept<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    /// What is kept if it is fresh, else what `ask` gives; who comes meanwhile waits for the same.
    async fn get(&self, fresh: Duration, ask: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let mut kept = self.0.lock().await;
        if let Some((at, found)) = &*kept
            && at.elapsed() < fresh
        {
            return Ok(found.clone());
        }
        let found = Arc::new(ask.await?);
        *kept = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

/// What everybody is told alike.
#[derive(Default)]
pub struct Shared {
    nodes: Kept<Vec<NodeInfo>>,
    queues: Kept<Vec<QueueInfo>>,
    promises: Kept<Promises>,
}

/// How promised starts have come out, as far back as the controller remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Promises {
    /// Bookings that have begun on their nodes at their time.
    pub kept: u32,
    /// Bookings whose nodes were not there.
    pub missed: u32,
    /// Bookings that are still to begin.
    pub ahead: u32,
}

impl Shared {
    /// All nodes.
    ///
    /// # Errors
    /// The controller does not say.
    pub async fn nodes(&self, cluster: &Cluster) -> Result<Arc<Vec<NodeInfo>>> {
        let ask = async {
            match cluster.ask_for_itself(Request::Nodes).await? {
                Reply::Nodes(all) => Ok(all),
                _ => Err(Problem::unexpected()),
            }
        };
        self.nodes.get(FRESH, ask).await
    }

    /// The queues, as this program sees them.
    ///
    /// # Errors
    /// The controller does not say.
    pub async fn queues(&self, cluster: &Cluster) -> Result<Arc<Vec<QueueInfo>>> {
        let ask = async {
            match cluster.ask_for_itself(Request::Queues).await? {
                Reply::Queues(all) => Ok(all),
                _ => Err(Problem::unexpected()),
            }
        };
        self.queues.get(FRESH, ask).await
    }

    /// How promised starts have come out.
    ///
    /// # Errors
    /// The controller does not say.
    pub async fn promises(&self, cluster: &Cluster) -> Result<Arc<Promises>> {
        let ask = async {
            let filter = ReservationFilter {
                ended: true,
                ..ReservationFilter::default()
            };
            match cluster
                .ask_for_itself(Request::Reservations { filter })
                .await?
            {
                Reply::Reservations(all) => Ok(Promises::of(&all)),
                _ => Err(Problem::unexpected()),
            }
        };
        self.promises.get(FRESH * 5, ask).await
    }
}

impl Promises {
    /// Counted.
    pub fn of(all: &[ReservationInfo]) -> Self {
        let mut counted = Self::default();
        for one in all {
            match one.state {
                ReservationState::Active | ReservationState::Ended | ReservationState::Unused
                    if !one.degraded =>
                {
                    counted.kept += 1;
                }
                ReservationState::Active
                | ReservationState::Ended
                | ReservationState::Unused
                | ReservationState::Failed => counted.missed += 1,
                ReservationState::Confirmed => counted.ahead += 1,
                ReservationState::Held
                | ReservationState::Cancelled
                | ReservationState::Expired => {}
            }
        }
        counted
    }
}

/// How full the cluster is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// Nodes in all.
    pub nodes: u64,
    /// Nodes that jobs are on.
    pub nodes_used: u64,
    /// Nodes that take no jobs.
    pub nodes_out: u64,
    /// Cores of nodes that are there.
    pub cores: u64,
    /// Cores that jobs hold.
    pub cores_used: u64,
    /// GPUs of nodes that are there.
    pub gpus: u64,
    /// GPUs that jobs hold.
    pub gpus_used: u64,
    /// Memory of nodes that are there, in MiB.
    pub memory: u64,
    /// Memory that jobs hold, in MiB.
    pub memory_used: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait.
    pub waiting: u64,
}

impl Load {
    /// Summed up.
    pub fn of(nodes: &[NodeInfo], queues: &[QueueInfo]) -> Self {
        let mut load = Self {
            nodes: nodes.len() as u64,
            running: queues.iter().map(|queue| u64::from(queue.running)).sum(),
            waiting: queues.iter().map(|queue| u64::from(queue.waiting)).sum(),
            ..Self::default()
        };
        for node in nodes {
            load.nodes_used += u64::from(node.jobs > 0);
            if is_out(node) {
                load.nodes_out += 1;
                if node.jobs == 0 {
                    continue;
                }
            }
            load.cores += u64::from(node.amounts.cores);
            load.cores_used += u64::from(node.used.cores);
            load.gpus += u64::from(node.amounts.gpus);
            load.gpus_used += u64::from(node.used.gpus);
            load.memory += node.amounts.memory.0;
            load.memory_used += node.used.memory.0;
        }
        load
    }
}

/// Whether a node takes no new jobs.
pub fn is_out(node: &NodeInfo) -> bool {
    match NodeCondition::of(node) {
        // What is off comes up when it is needed.
        Some(
            NodeCondition::Idle
            | NodeCondition::Mixed
            | NodeCondition::Busy
            | NodeCondition::Off
            | NodeCondition::PoweringUp
            | NodeCondition::PoweringDown,
        ) => false,
        Some(
            NodeCondition::Drained
            | NodeCondition::Draining
            | NodeCondition::Unhealthy
            | NodeCondition::Down
            | NodeCondition::Lost
            | NodeCondition::Unknown,
        )
        | None => true,
    }
}

/// Nodes by what they do.
pub fn by_state(nodes: &[NodeInfo]) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.state.as_str()).or_insert(0) += 1;
    }
    counts
}
