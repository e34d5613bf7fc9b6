//! How a step begins on a node: its directory, its supervisor, and the parts of its tree
//! below this node.

use super::layout::Placed;
use super::serve::{Connection, encode, say_now};
use super::table::{Job, Running, Steps, SupervisorState};
use super::tree::split;
use super::{StepShare, StepTask, UpKind, directory_name};
use crate::cgroup::{AttemptLimits, Group, StepLimits};
use crate::devices::DeviceNumber;
use crate::peer::hop::Hop;
use crate::shepherd::nursery::ShepherdSpec;
use crate::spool::{KEEP, name_of};
use cosy_model::node::AttemptKey;
use cosy_model::step::{
    JobPart, Peer, RankRun, StepAnswer, StepId, StepKey, StepLayout, StepOrder, StepSpec,
};
use cosy_model::{MiB, OsText, RefusalCode, Span, limits, variables};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::watch;

/// How long a command may take to read that its step was created.
const TAKE: Duration = Duration::from_secs(10);

impl Steps {
    /// Starts a step of a job whose first node this is.
    pub(super) fn start(
        &mut self,
        attempt: AttemptKey,
        step: StepId,
        spec: Box<StepSpec>,
        connection: Connection,
        placed: Placed,
    ) {
        let key = StepKey { attempt, step };
        if let Err(why) = self.has_room() {
            return connection.refuse(RefusalCode::TooMany, why);
        }
        let Some(first) = self.known_first(attempt) else {
            return connection.refuse(RefusalCode::WrongState, "the job is over");
        };
        let order = match order(key, *spec, placed.layout, first.ledger.parts()) {
            Ok(order) => order,
            Err(why) => return connection.refuse(RefusalCode::Unavailable, why),
        };
        first.ledger.take(step, placed.takes);
        match self.begin(order, UpKind::Command) {
            Ok(task) => self.hand_over(key, &task, connection),
            Err(e) => {
                if let Some(first) = self.known_first(attempt) {
                    first.ledger.give_back(step);
                }
                let text =
                    format!("node {}: cannot keep step {key} in the spool: {e}", self.setup.name);
                connection.refuse(RefusalCode::Unavailable, text);
            }
        }
    }

    /// Whether one more step may run here.
    ///
    /// # Errors
    /// In one line, why not.
    pub(super) fn has_room(&self) -> Result<(), String> {
        let running: usize = self.jobs.values().map(|job| job.running.len()).sum();
        match running < limits::STEPS_ON_NODE {
            true => Ok(()),
            false => Err(format!(
                "{running} steps run on node {}, which is the most at once; try again when some are over",
                self.setup.name
            )),
        }
    }

    /// Keeps this node's part of a step in the spool and notes it; its supervisor is asked
    /// for by the caller.
    ///
    /// # Errors
    /// The file system's; nothing is left then.
    pub(super) fn begin(&mut self, order: StepOrder, up: UpKind) -> io::Result<Arc<StepTask>> {
        let key = order.key;
        let path = self.path(key.attempt);
        let Some(job) = self.jobs.get(&key.attempt) else {
            return Err(io::Error::other("the job is over"));
        };
        let mut task = self.task(job, order, up);
        self.spool.create(&path, &task)?;
        let (gone, is_gone) = watch::channel(false);
        self.start_children(&task, &is_gone);
        task.forget_what_is_started();
        let task = Arc::new(task);
        let Some(job) = self.jobs.get_mut(&key.attempt) else {
            return Err(io::Error::other("the job is over"));
        };
        if !task.order.spec.overlap {
            job.shares.take(key.step, &task.share, &task.order.spec);
        }
        job.touched = true;
        let running = Running {
            task: Arc::clone(&task),
            reach: SupervisorState::Expected(Vec::new()),
            since: Instant::now(),
            gone,
        };
        job.running.insert(key.step, running);
        Ok(task)
    }

    fn task(&self, job: &Job, order: StepOrder, up: UpKind) -> StepTask {
        let key = order.key;
        let own = order.tree.first().copied().unwrap_or(0);
        let tasks = order.layout.count_of(own);
        let share = job.shares.choose(
            &job.allocation,
            &order.spec,
            tasks,
            order.layout.cores_per_task,
            &self.setup.processors,
        );
        let given = self.given(job, &order, &share);
        let mut variables = self.variables(key);
        variables.extend(given.variables);
        StepTask {
            groups: self.groups(job, &order, &share, &given.denied),
            keep: self.keep(job, key.attempt),
            variables,
            own: given.own,
            children: split(order.tree.get(1..).unwrap_or_default()),
            limit: limit(job, &order.spec),
            warn: order.spec.warn.or(job.allocation.warn_steps),
            reset_oom_score: self.setup.protected,
            allocation: (*job.allocation).clone(),
            order,
            share,
            up,
        }
    }

    fn groups(
        &self,
        job: &Job,
        order: &StepOrder,
        share: &StepShare,
        denied: &[DeviceNumber],
    ) -> Vec<Group> {
        let whole = AttemptLimits {
            name: &name_of(order.key.attempt),
            memory_bytes: job.allocation.memory.map(MiB::bytes),
            cores: &job.allocation.cores,
            ..AttemptLimits::default()
        };
        let own = StepLimits {
            step: order.key.step,
            memory_bytes: order.spec.memory.map(MiB::bytes),
            cores: &share.cores,
            denied,
        };
        self.setup.cgroups.groups_for_step(whole, own)
    }

    /// The groups that a supervisor joins, and in version 2 that in which it is started: the
    /// nursery finds it by its name in the spool.
    fn keep(&self, job: &Job, attempt: AttemptKey) -> Vec<Group> {
        let name = name_of(attempt);
        let whole = AttemptLimits {
            name: &name,
            memory_bytes: job.allocation.memory.map(MiB::bytes),
            cores: &job.allocation.cores,
            ..AttemptLimits::default()
        };
        if let Some(group) = self.setup.cgroups.keep_of(whole) {
            let place = self.path(attempt).join(KEEP);
            if !place.is_symlink()
                && let Err(e) = make_keep(&group, &place)
            {
                tracing::warn!(job = %attempt.job, "supervisors of its steps are not in its control group: {e}");
            }
        }
        self.setup.cgroups.groups_for_supervisor(whole)
    }

    fn variables(&self, key: StepKey) -> Vec<OsText> {
        let own = [
            format!("{}={}", variables::NODE_MARK, self.mark(key)),
            format!("{}={}", variables::JOB_ID, key.attempt.job),
            format!("{}={}", variables::JOB_ATTEMPT, key.attempt.attempt),
        ];
        let all = self.setup.variables.iter().cloned().chain(own);
        all.map(OsText::from).collect()
    }

    /// What the processes of a step carry in their environment.
    pub(super) fn mark(&self, key: StepKey) -> String {
        let step = directory_name(key.step);
        format!("{}/{step}", self.mark_of_attempt(key.attempt))
    }

    /// What those of an attempt carry; steps add theirs.
    pub(super) fn mark_of_attempt(&self, attempt: AttemptKey) -> String {
        format!("{}/{}", self.setup.instance, name_of(attempt))
    }

    /// Tells the command that its step was created, then gives its connection away.
    fn hand_over(&mut self, key: StepKey, task: &StepTask, connection: Connection) {
        let answer = encode(&StepAnswer::Created {
            key,
            layout: task.order.layout.clone(),
            limit: task.limit,
        });
        let spec = ShepherdSpec {
            attempt: key.attempt.into(),
            step: Some(key.step),
        };
        match say_now(&connection.stream, &answer) {
            // A command that has gone is noticed by the supervisor.
            Err(_) => self
                .shepherd_requests
                .send(spec, Some(OwnedFd::from(connection.stream))),
            Ok(n) if n == answer.len() => {
                self.shepherd_requests
                    .send(spec, Some(OwnedFd::from(connection.stream)));
            }
            Ok(n) => {
                let shepherd_requests = self.shepherd_requests.clone();
                tokio::spawn(async move {
                    if let Some(socket) = say_rest(connection, &answer[n..]).await {
                        shepherd_requests.send(spec, Some(socket));
                    }
                });
            }
        }
    }

    fn start_children(&self, task: &StepTask, gone: &watch::Receiver<bool>) {
        for (order, child) in below(&task.order).into_iter().zip(0..) {
            let hop = self.hop(task, child, &order, gone.clone());
            tokio::spawn(hop.keep_up(Some(Box::new(order))));
        }
    }

    /// The hop to a child; `gone`: the supervisor here has ended without an outcome.
    pub(super) fn hop(
        &self,
        task: &StepTask,
        child: u32,
        order: &StepOrder,
        gone: watch::Receiver<bool>,
    ) -> Hop {
        Hop {
            gone,
            pool: Arc::clone(&self.setup.pool),
            directory: self.path_of(order.key),
            key: order.key,
            child,
            nodes: order.tree.clone(),
            peer: order.peers.first().cloned().unwrap_or_else(|| Peer {
                node: String::new(),
                address: String::new(),
                key: String::new(),
            }),
            ticket: task.allocation.ticket.clone(),
        }
    }
}

fn make_keep(group: &Group, place: &std::path::Path) -> io::Result<()> {
    group.create().map_err(io::Error::other)?;
    std::os::unix::fs::symlink(group.path(), place)
}

/// Writes the rest of an answer. A command that does not read it is cut off, which its
/// supervisor then sees.
async fn say_rest(connection: Connection, rest: &[u8]) -> Option<OwnedFd> {
    let mut stream = UnixStream::from_std(connection.stream).ok()?;
    let written = tokio::time::timeout(TAKE, stream.write_all(rest)).await;
    if !matches!(written, Ok(Ok(()))) {
        let _ = stream.shutdown().await;
    }
    stream.into_std().ok().map(OwnedFd::from)
}

/// The longest run time: the step's own, at most what the job has left.
fn limit(job: &Job, spec: &StepSpec) -> Span {
    let left = job.left(Instant::now()).max(Span(1));
    spec.time_limit.map_or(left, |own| own.min(left))
}

/// The order for the whole tree. Where the job's first node has no task it is the last
/// node of the layout, without ranks: it is only passed through.
fn order(
    key: StepKey,
    spec: StepSpec,
    mut layout: StepLayout,
    parts: &[JobPart],
) -> Result<StepOrder, String> {
    let Some(first) = parts.first().map(|part| &part.peer.node) else {
        return Err(format!("job {} has no nodes", key.attempt.job));
    };
    let places: BTreeMap<&str, &Peer> = parts
        .iter()
        .map(|part| (&*part.peer.node, &part.peer))
        .collect();
    let all = layout.nodes.len() as u32;
    let tree: Vec<u32> = match layout.nodes.first() == Some(first) {
        true => (0..all).collect(),
        false => {
            layout.nodes.push(first.clone());
            layout.ranks.push(Vec::<RankRun>::new());
            std::iter::once(all).chain(0..all).collect()
        }
    };
    let peers: Vec<Peer> = tree
        .iter()
        .filter_map(|n| layout.nodes.get(*n as usize))
        .filter_map(|name| places.get(&**name).map(|peer| (*peer).clone()))
        .collect();
    if let Some(silent) = peers.iter().skip(1).find(|peer| peer.address.is_empty()) {
        return Err(format!(
            "node {} does not listen for other nodes: no step over several nodes can use it ('listen' in its noded.toml)",
            silent.node
        ));
    }
    Ok(StepOrder {
        key,
        spec,
        layout,
        tree,
        peers,
    })
}

/// The orders for the children of a node, in the order of [`StepTask::children`].
pub(super) fn below(order: &StepOrder) -> Vec<StepOrder> {
    let mut at = 1;
    split(order.tree.get(1..).unwrap_or_default())
        .into_iter()
        .map(|tree| {
            let to = at + tree.len();
            let peers = order.peers.get(at..to).unwrap_or_default().to_vec();
            at = to;
            StepOrder {
                key: order.key,
                spec: order.spec.clone(),
                layout: order.layout.clone(),
                tree,
                peers,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::key_of;
    use crate::steps::fixture::{part, spec};

    fn layout(nodes: &[String]) -> StepLayout {
        let ranks = (0..nodes.len() as u32).map(|first| {
            vec![RankRun {
                first,
                count: 1,
                stride: 1,
            }]
        });
        StepLayout {
            nodes: nodes.to_vec(),
            ranks: ranks.collect(),
            tasks: nodes.len() as u32,
            cores_per_task: 1,
        }
    }

    fn order_for(parts: &[JobPart], from: usize) -> Result<StepOrder, String> {
        let names: Vec<String> = parts[from..].iter().map(|p| p.peer.node.clone()).collect();
        let key = StepKey {
            attempt: key_of("12.1").unwrap().job().unwrap(),
            step: StepId(0),
        };
        order(key, spec(), layout(&names), parts)
    }

    fn parts(count: usize) -> Vec<JobPart> {
        (0..count).map(|n| part(&format!("n{n}"), 1)).collect()
    }

    /// Goes down the tree; gives the nodes in the order in which they are started.
    fn walk(order: &StepOrder, seen: &mut Vec<String>) {
        let own = &order.layout.nodes[order.tree[0] as usize];
        assert_eq!(order.peers[0].node, *own);
        assert_eq!(order.peers.len(), order.tree.len());
        seen.push(own.clone());
        for child in below(order) {
            walk(&child, seen);
        }
    }

    #[test]
    fn everybody_is_ordered_once_by_its_own_name() {
        for (count, from) in [(1, 0), (5, 0), (40, 0), (40, 3), (300, 299)] {
            let order = order_for(&parts(count), from).unwrap();
            let mut seen = Vec::new();
            walk(&order, &mut seen);
            assert_eq!(seen[0], "n0");
            let mut wanted: Vec<String> = (from..count).map(|n| format!("n{n}")).collect();
            if from > 0 {
                wanted.push("n0".into());
                assert_eq!(order.layout.nodes.last().unwrap(), "n0");
                assert_eq!(order.layout.count_of(order.tree[0]), 0);
            }
            seen.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(seen, wanted);
        }
    }

    #[test]
    fn nodes_that_cannot_be_reached_are_named() {
        let mut parts = parts(3);
        parts[0].peer.address.clear();
        order_for(&parts, 0).unwrap();
        parts[2].peer.address.clear();
        let why = order_for(&parts, 0).unwrap_err();
        assert!(why.starts_with("node n2 does not listen"), "{why}");
    }
}
