//! What a job asks of the machine, with every name already resolved to node sets.

use crate::NodeMask;
use cosy_model::{Amounts, MiB};

/// What a job asks for.
///
/// Tasks are placed in blocks: the first node of the job (by index) gets as many as fit,
/// then the next, and each node gets at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Demand {
    /// Exact number of nodes; `None` is as few as the tasks need.
    pub nodes: Option<u32>,
    /// Without an exact number: no more nodes than this.
    pub max_nodes: Option<u32>,
    /// All tasks together, at least one for each node.
    pub tasks: u32,
    /// Most tasks on one node.
    pub tasks_per_node: Option<u32>,
    /// Taken for each task.
    pub per_task: Amounts,
    /// Taken once on each node of the job.
    pub per_node: Amounts,
    /// Whole nodes: a node must be entirely free, and all it has is taken.
    pub exclusive: bool,
    /// Hard: nodes that may be chosen (features and avoided nodes are in here).
    pub allowed: NodeMask,
    /// Hard: nodes that must be part of the allocation.
    pub required: NodeMask,
    /// Hard: so many nodes out of each of these sets; a node counts for one of them.
    pub counted: Vec<AtLeast>,
    /// Soft: nodes of the first set come first, then those of the second, then the rest.
    pub tiers: Vec<NodeMask>,
    /// Further parts of the job, each on nodes of its own, that start together with this one.
    /// They have no further parts themselves.
    pub more: Vec<Demand>,
}

/// A number of nodes out of a set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AtLeast {
    /// Out of these.
    pub nodes: NodeMask,
    /// So many.
    pub count: u32,
}

impl Demand {
    /// This part and the further ones.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Demand> {
        std::iter::once(self).chain(&self.more)
    }

    /// One part of several. The first one for a number that is not known.
    pub(crate) fn part(&self, bundle: u16) -> &Demand {
        let further = usize::from(bundle).checked_sub(1);
        further.and_then(|at| self.more.get(at)).unwrap_or(self)
    }

    /// True when all that matters of its nodes is that they are empty. Jobs of several parts
    /// are planned node by node, like those that share nodes.
    pub fn holds_whole_nodes(&self) -> bool {
        self.exclusive && self.more.is_empty()
    }

    /// The fewest nodes that hold everything named and counted.
    pub(crate) fn fewest_nodes(&self) -> u32 {
        let counted = self.counted.iter().map(|set| set.count);
        let counted = counted.fold(0, u32::saturating_add);
        self.required.count().max(counted).max(1)
    }

    /// How many tasks fit into `free` of one node, 0 when not even one does.
    pub fn capacity(&self, free: &Amounts) -> u32 {
        let most = self.tasks_per_node.unwrap_or(u32::MAX).min(self.tasks);
        if !self.per_node.fits(free) {
            return 0;
        }
        let (task, node) = (&self.per_task, &self.per_node);
        let mut tasks = u64::from(most);
        let mut part = |have: u64, once: u64, each: u64| {
            if let Some(fit) = (have - once).checked_div(each) {
                tasks = tasks.min(fit);
            }
        };
        part(free.cores.into(), node.cores.into(), task.cores.into());
        part(free.memory.0, node.memory.0, task.memory.0);
        part(free.disk.0, node.disk.0, task.disk.0);
        part(free.gpus.into(), node.gpus.into(), task.gpus.into());
        for (name, each) in task.other.iter() {
            let have = free.other.get(name);
            part(have.into(), node.other.get(name).into(), each.into());
        }
        tasks as u32
    }

    /// What `tasks` tasks hold of one node.
    pub(crate) fn share(&self, tasks: u32) -> Amounts {
        let mut held = self.per_node.clone();
        held.give(&times(&self.per_task, tasks));
        held
    }
}

fn times(one: &Amounts, count: u32) -> Amounts {
    let mut all = Amounts {
        cores: one.cores.saturating_mul(count),
        memory: MiB(one.memory.0.saturating_mul(count.into())),
        disk: MiB(one.disk.0.saturating_mul(count.into())),
        gpus: one.gpus.saturating_mul(count),
        ..Amounts::default()
    };
    for (name, each) in one.other.iter() {
        all.other.set(name, each.saturating_mul(count));
    }
    all
}

/// Why a demand fits on no node of an empty machine, with figures.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Shortage {
    /// The numbers of the demand contradict each other.
    #[error("{tasks} tasks cannot be spread over {nodes} nodes: each node gets at least one")]
    FewerTasksThanNodes {
        /// Tasks asked for.
        tasks: u32,
        /// Nodes asked for, or required by name.
        nodes: u32,
    },
    /// More nodes are required by name than are asked for.
    #[error("{required} nodes are required by name, but only {nodes} are asked for")]
    RequiredNodes {
        /// Nodes required by name.
        required: u32,
        /// Nodes asked for.
        nodes: u32,
    },
    /// More nodes with certain features are asked for than nodes.
    #[error("{counted} nodes are asked for by number and feature, but only {nodes} nodes in all")]
    CountedNodes {
        /// Nodes asked for by number and feature.
        counted: u32,
        /// Nodes asked for.
        nodes: u32,
    },
    /// The numbers of nodes with certain features cannot be had together.
    #[error("the nodes that may be used do not have the features in the numbers asked for")]
    Counted,
    /// A node required by name may not be used, or is too small.
    #[error("a node that is required by name (number {node}) may not be used or is too small")]
    RequiredNode {
        /// Its index.
        node: u32,
    },
    /// Too few nodes may be used at all.
    #[error("needs {wanted} nodes, only {have} may be used")]
    Nodes {
        /// Nodes asked for.
        wanted: u32,
        /// Nodes that may be used.
        have: u32,
    },
    /// Too few of them are large enough.
    #[error("needs {wanted} nodes with {what} each, only {have} have that")]
    LargeNodes {
        /// Nodes asked for.
        wanted: u32,
        /// Nodes with enough.
        have: u32,
        /// The amount in words: `64 cores`, `2 gpus`.
        what: String,
    },
    /// One task, or what is taken once for each node, is larger than every node.
    #[error("needs {wanted} {what} on one node, the largest has {have}")]
    OneNode {
        /// `cores`, `MiB of memory`, `MiB of disk`, `gpus` or another name.
        what: String,
        /// Amount asked for.
        wanted: u64,
        /// Most that a usable node has.
        have: u64,
    },
    /// Each part would fit by itself, but not each on nodes of its own.
    #[error("its {parts} parts do not fit side by side: each needs nodes of its own")]
    Parts {
        /// How many there are.
        parts: u32,
    },
    /// The tasks do not fit on that many nodes.
    #[error("needs room for {wanted} tasks, {nodes} nodes have room for {have}")]
    Tasks {
        /// Tasks asked for.
        wanted: u32,
        /// Tasks that fit.
        have: u32,
        /// On this many nodes.
        nodes: u32,
    },
}
