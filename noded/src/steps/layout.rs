//! Which task of a step goes to which of the job's nodes.
//!
//! Pure: what the job has on each node and what running steps hold in, a layout or the
//! reason why there is none out. Nodes keep the order of the job. Slurm's `srun` is the
//! model for the options; a step takes cores for its tasks only, never a whole node.

use cosy_model::step::{Distribution, GpuBind, JobPart, RankRun, StepLayout, StepSpec};
use cosy_model::{JobId, MiB, limits};

mod arranged;
mod words;

use words::many;

/// What steps hold of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeUse {
    /// Number of cores.
    pub cores: u32,
    /// Memory of the tasks together.
    pub memory: MiB,
    /// Number of GPUs.
    pub gpus: u32,
}

/// A step that fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Which tasks of the step run on which nodes.
    pub layout: StepLayout,
    /// What it takes of each node of the job, by the node's place in the job.
    pub takes: Vec<(usize, NodeUse)>,
}

/// Why a step does not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DoesNotFit {
    /// The step will never fit, or contradicts itself.
    #[error("{0}")]
    Never(String),
    /// Other steps of the job hold what it needs.
    #[error("{0}")]
    NotNow(String),
}

/// The job as its first node knows it.
#[derive(Clone, Copy, Debug)]
pub struct JobShape<'a> {
    /// Id of the job, for messages.
    pub job: JobId,
    /// Nodes of the job, in its order.
    pub parts: &'a [JobPart],
    /// Its cores for each task, at least 1.
    pub cores_per_task: u32,
}

/// Lays a step out on what the job has beyond `held`, which has one entry for each node.
///
/// # Errors
/// [`DoesNotFit`].
pub fn place(job: JobShape<'_>, held: &[NodeUse], spec: &StepSpec) -> Result<Placed, DoesNotFit> {
    let idle = vec![NodeUse::default(); job.parts.len()];
    let whole = Plan::new(job, &idle, spec).map_err(DoesNotFit::Never)?;
    let possible = whole.counts().map_err(DoesNotFit::Never)?;
    whole.binds_gpus(&possible).map_err(DoesNotFit::Never)?;
    if spec.overlap || held.iter().all(|h| *h == NodeUse::default()) {
        return Ok(whole.placed(&possible, spec.overlap));
    }
    let now = Plan::new(job, held, spec).map_err(DoesNotFit::NotNow)?;
    let counts = now
        .counts()
        .map_err(|_| DoesNotFit::NotNow(now.held_text()))?;
    Ok(now.placed(&counts, false))
}

/// Everything that is known before tasks are counted out.
struct Plan<'a> {
    job: JobShape<'a>,
    held: &'a [NodeUse],
    spec: &'a StepSpec,
    cores_per_task: u32,
    /// Tasks that each node could take; 0 where it must not be used.
    room: Vec<u32>,
    required: Vec<bool>,
}

impl<'a> Plan<'a> {
    fn new(job: JobShape<'a>, held: &'a [NodeUse], spec: &'a StepSpec) -> Result<Self, String> {
        let cores_per_task = spec.cores_per_task.unwrap_or(job.cores_per_task).max(1);
        let required = flags(job, &spec.require)?;
        let avoided = flags(job, &spec.avoid)?;
        if let Some(at) = (0..required.len()).find(|at| required[*at] && avoided[*at]) {
            let node = &job.parts[at].peer.node;
            return Err(format!("node {node} is both required and to be avoided"));
        }
        let mut plan = Self {
            job,
            held,
            spec,
            cores_per_task,
            room: Vec::new(),
            required,
        };
        plan.room = (0..job.parts.len())
            .map(|at| if avoided[at] { 0 } else { plan.room_on(at) })
            .collect();
        Ok(plan)
    }

    fn free(&self, at: usize) -> NodeUse {
        let (part, held) = (&self.job.parts[at], self.held[at]);
        NodeUse {
            cores: part.cores.saturating_sub(held.cores),
            memory: MiB(part
                .memory
                .map_or(u64::MAX, |m| m.0.saturating_sub(held.memory.0))),
            gpus: part.gpus.saturating_sub(held.gpus),
        }
    }

    /// Tasks that fit on a node now.
    fn room_on(&self, at: usize) -> u32 {
        let (spec, free) = (self.spec, self.free(at));
        let memory = spec.memory.is_none_or(|m| m <= free.memory);
        let gpus = spec.gpus_per_node.is_none_or(|g| g <= free.gpus);
        if !memory || !gpus {
            return 0;
        }
        let by_gpus = free
            .gpus
            .checked_div(spec.gpus_per_task)
            .unwrap_or(u32::MAX);
        let by_cores = free.cores / self.cores_per_task;
        // What does not fit is dealt out once it is known how much that is.
        let least = u32::from(spec.overcommit);
        by_cores
            .max(least)
            .min(by_gpus)
            .min(spec.tasks_per_node.unwrap_or(u32::MAX))
    }

    /// Tasks of each node of the job; 0 where it is not used.
    fn counts(&self) -> Result<Vec<u32>, String> {
        let spec = self.spec;
        if !spec.places.is_empty() {
            return self.arranged();
        }
        if spec.tasks.is_none() && spec.nodes.is_none() && spec.tasks_per_node.is_none() {
            return self.as_the_job();
        }
        let tasks = self.tasks()?;
        let nodes = self.nodes_for(tasks)?;
        let mut room: Vec<u32> = (0..self.room.len())
            .map(|at| if nodes[at] { self.room[at] } else { 0 })
            .collect();
        if spec.overcommit {
            overcommit(&mut room, tasks, spec.tasks_per_node.unwrap_or(u32::MAX));
        }
        match u64::from(tasks) <= sum(&room) {
            true => Ok(count_out(self.block(), tasks, &room)),
            false => Err(self.shortage(tasks)),
        }
    }

    /// The job's own tasks, on those of its nodes that are not to be avoided.
    fn as_the_job(&self) -> Result<Vec<u32>, String> {
        let avoided = flags(self.job, &self.spec.avoid)?;
        let wanted: Vec<u32> = (0..self.room.len())
            .map(|at| match avoided[at] {
                true => 0,
                false => self.job.parts[at].tasks.max(1),
            })
            .collect();
        let all = u32::try_from(sum(&wanted)).unwrap_or(u32::MAX);
        if all == 0 {
            return Err(self.none_left());
        }
        let fits = || wanted.iter().zip(&self.room).all(|(w, r)| w <= r);
        match self.spec.overcommit || fits() {
            true => Ok(wanted),
            false => Err(self.shortage(all)),
        }
    }

    /// Checks that tasks can be bound to GPUs: not too many of them, and that all nodes have the GPUs
    /// that they are to see by their places.
    fn binds_gpus(&self, counts: &[u32]) -> Result<(), String> {
        let bound = !matches!(self.spec.gpu_bind, GpuBind::Default | GpuBind::None);
        let most = limits::GPU_BOUND_TASKS;
        if let Some(tasks) = counts.iter().find(|tasks| bound && **tasks > most) {
            return Err(format!("{tasks} tasks on a node: at most {most} can be bound to GPUs"));
        }
        let Some(highest) = self.spec.gpu_bind.highest() else {
            return Ok(());
        };
        for (part, tasks) in self.job.parts.iter().zip(counts).filter(|(_, n)| **n > 0) {
            let gpus = gpus_wanted(self.spec, *tasks).unwrap_or(part.gpus);
            if highest >= gpus {
                return Err(format!(
                    "a task is to see GPU {highest}, counted from 0 among those of the step; on {} it has {}",
                    part.peer.node,
                    many(u64::from(gpus), "GPU")
                ));
            }
        }
        Ok(())
    }

    fn tasks(&self) -> Result<u32, String> {
        let spec = self.spec;
        let usable = self.usable();
        if usable == 0 {
            return Err(match self.room.iter().any(|r| *r > 0) {
                true => self.none_left(),
                false => self.shortage(spec.tasks.unwrap_or(1)),
            });
        }
        let tasks = match (spec.tasks, spec.nodes) {
            (Some(tasks), _) => tasks,
            (None, Some(nodes)) => nodes.saturating_mul(spec.tasks_per_node.unwrap_or(1)),
            (None, None) => usable.saturating_mul(spec.tasks_per_node.unwrap_or(1)),
        };
        match tasks {
            0 => Err("a step needs at least one task".to_owned()),
            n if n > limits::STEP_TASKS => {
                Err(format!("{n} tasks are more than a step may have ({})", limits::STEP_TASKS))
            }
            n => Ok(n),
        }
    }

    fn usable(&self) -> u32 {
        self.room.iter().filter(|r| **r > 0).count() as u32
    }

    /// The nodes that are used: the required ones, then others in the job's order, as few
    /// as the tasks need (as many as there are when tasks go round).
    fn nodes_for(&self, tasks: u32) -> Result<Vec<bool>, String> {
        let required = self.required.iter().filter(|r| **r).count() as u32;
        let full = (0..self.room.len()).find(|at| self.required[*at] && self.room[*at] == 0);
        if let Some(at) = full {
            let node = &self.job.parts[at].peer.node;
            return Err(format!("no task of the step fits on node {node}"));
        }
        let wanted = self.spec.nodes.unwrap_or(required.max(1));
        if wanted == 0 {
            return Err("a step needs at least one node".to_owned());
        }
        if required > wanted {
            return Err(format!("{required} nodes are required, but the step asks for {wanted}"));
        }
        if wanted > tasks {
            return Err(format!(
                "{} cannot be on {wanted} nodes: each node of a step has a task",
                many(u64::from(tasks), "task")
            ));
        }
        if wanted > self.usable() {
            return Err(self.too_few_nodes(wanted));
        }
        let exact = self.spec.nodes.is_some();
        let most = match (exact, self.spec.distribution) {
            (true, _) => wanted,
            (false, Distribution::Cyclic) => u32::MAX,
            (false, Distribution::Block | Distribution::Plane(_)) => 0,
        };
        let chosen = self.choose(tasks, most.min(tasks), false);
        let enough = (0..self.room.len()).filter(|at| chosen[*at]);
        let enough: u64 = enough.map(|at| u64::from(self.room[at])).sum();
        match exact && enough < u64::from(tasks) {
            // The first ones are too small: the largest.
            true => Ok(self.choose(tasks, wanted, true)),
            false => Ok(chosen),
        }
    }

    /// Required nodes, then others up to `most` of them; with `most` 0 as many as needed.
    fn choose(&self, tasks: u32, most: u32, largest: bool) -> Vec<bool> {
        let mut chosen = self.required.clone();
        let (own, mut others): (Vec<usize>, Vec<usize>) = (0..chosen.len())
            .filter(|at| chosen[*at] || self.room[*at] > 0)
            .partition(|at| chosen[*at]);
        if largest {
            others.sort_by_key(|at| std::cmp::Reverse(self.room[*at]));
        }
        let mut room: u64 = own.iter().map(|at| u64::from(self.room[*at])).sum();
        for (count, at) in (own.len()..).zip(others) {
            let enough = match most {
                0 => count > 0 && room >= u64::from(tasks),
                n => count >= n as usize,
            };
            if enough {
                break;
            }
            chosen[at] = true;
            room += u64::from(self.room[at]);
        }
        chosen
    }

    fn block(&self) -> u32 {
        match self.spec.distribution {
            Distribution::Block => u32::MAX,
            Distribution::Cyclic => 1,
            Distribution::Plane(size) => size.max(1),
        }
    }

    fn placed(&self, counts: &[u32], overlap: bool) -> Placed {
        let used: Vec<usize> = (0..counts.len()).filter(|at| counts[*at] > 0).collect();
        let sizes: Vec<u32> = used.iter().map(|at| counts[*at]).collect();
        let layout = StepLayout {
            nodes: used
                .iter()
                .map(|at| self.job.parts[*at].peer.node.clone())
                .collect(),
            ranks: match self.spec.places.is_empty() {
                true => deal(self.block(), &sizes),
                false => self.arranged_ranks(&used),
            },
            tasks: sizes.iter().sum(),
            cores_per_task: self.cores_per_task,
        };
        let takes = match overlap {
            true => Vec::new(),
            false => used
                .iter()
                .map(|at| (*at, self.takes(counts[*at])))
                .collect(),
        };
        Placed { layout, takes }
    }

    /// What so many tasks take of a node. GPUs that were not asked for are shared.
    fn takes(&self, tasks: u32) -> NodeUse {
        NodeUse {
            cores: tasks.saturating_mul(self.cores_per_task),
            memory: self.spec.memory.unwrap_or_default(),
            gpus: gpus_wanted(self.spec, tasks).unwrap_or(0),
        }
    }
}

/// GPUs that so many tasks of a step ask for on a node; `None`: whatever the job has there.
pub fn gpus_wanted(spec: &StepSpec, tasks: u32) -> Option<u32> {
    match (spec.gpus_per_task, spec.gpus_per_node) {
        (0, None) => None,
        (0, Some(gpus)) => Some(gpus),
        (each, _) => Some(each.saturating_mul(tasks)),
    }
}

/// Makes room for all tasks: what is more than cores goes evenly to the nodes that are used, up
/// to `most` on each.
fn overcommit(room: &mut [u32], tasks: u32, most: u32) {
    let nodes = room.iter().filter(|r| **r > 0).count() as u64;
    let extra = u64::from(tasks).saturating_sub(sum(room));
    let Some(each) = (extra + nodes.saturating_sub(1)).checked_div(nodes) else {
        return;
    };
    let each = u32::try_from(each).unwrap_or(u32::MAX);
    for r in room.iter_mut().filter(|r| **r > 0) {
        *r = r.saturating_add(each).min(most.max(*r));
    }
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|c| u64::from(*c)).sum()
}

/// Which nodes of the job are named.
fn flags(job: JobShape<'_>, names: &[String]) -> Result<Vec<bool>, String> {
    let mut flags = vec![false; job.parts.len()];
    if names.is_empty() {
        return Ok(flags);
    }
    let places: std::collections::BTreeMap<&str, usize> = job
        .parts
        .iter()
        .enumerate()
        .map(|(at, part)| (&*part.peer.node, at))
        .collect();
    for name in names {
        let Some(at) = places.get(&**name) else {
            let own: Vec<&str> = job.parts.iter().map(|p| &*p.peer.node).collect();
            return Err(format!(
                "node {} is not of job {}, which has {}",
                name.escape_debug(),
                job.job,
                cosy_model::fold(&own)
            ));
        };
        flags[*at] = true;
    }
    Ok(flags)
}

/// How many of `tasks` each node gets, dealt in blocks round the nodes with room; each of
/// these gets at least one. The room is enough.
fn count_out(block: u32, tasks: u32, room: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; room.len()];
    let mut left = tasks;
    let mut without = room.iter().filter(|r| **r > 0).count() as u32;
    while left > 0 {
        let before = left;
        for at in 0..room.len() {
            let free = room[at] - counts[at];
            if free == 0 || left == 0 {
                continue;
            }
            if counts[at] == 0 {
                without -= 1;
            }
            let share = block.min(free).min(left.saturating_sub(without));
            counts[at] += share;
            left -= share;
        }
        if left == before {
            break;
        }
    }
    counts
}

/// Deals ranks in blocks round the nodes until each has its number.
fn deal(block: u32, counts: &[u32]) -> Vec<Vec<RankRun>> {
    let mut ranks = vec![Vec::new(); counts.len()];
    let mut left = counts.to_vec();
    let mut next = 0;
    let mut open: Vec<usize> = (0..counts.len()).filter(|at| left[*at] > 0).collect();
    while !open.is_empty() {
        for at in &open {
            let count = block.min(left[*at]);
            add(&mut ranks[*at], next, count);
            left[*at] -= count;
            next += count;
        }
        open.retain(|at| left[*at] > 0);
    }
    ranks
}

/// Adds ranks `first..first + count`, to the last run where they continue it.
fn add(runs: &mut Vec<RankRun>, first: u32, count: u32) {
    if let Some(last) = runs.last_mut() {
        let single = last.count == 1 && count == 1;
        let continues = last.first + last.stride * last.count == first;
        if single {
            last.stride = first - last.first;
            last.count = 2;
            return;
        }
        if continues && (count == 1 || last.stride == 1) {
            last.count += count;
            return;
        }
    }
    runs.push(RankRun {
        first,
        count,
        stride: 1,
    });
}

#[cfg(test)]
mod tests;
