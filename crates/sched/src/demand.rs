//! What a job asks of the machine, with every name already resolved to node sets: a list of
//! components, each on nodes of its own, that start together. Most jobs have one.

use crate::{NodeMask, Topology};
use cosy_model::{Amounts, MiB};
use std::sync::Arc;

/// What a job asks for: its components, which start together.
pub type Demand = PerComponent<Component>;

/// Something for each component of a job. One component, which most jobs have, takes no memory
/// beside its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PerComponent<T> {
    first: T,
    further: Box<[T]>,
}

impl<T> From<T> for PerComponent<T> {
    /// For a job of one component.
    fn from(only: T) -> Self {
        Self::new(only, Vec::new())
    }
}

impl<T> PerComponent<T> {
    /// For a job whose components these are, in their order.
    pub fn new(first: T, further: Vec<T>) -> Self {
        let further = further.into_boxed_slice();
        Self { first, further }
    }

    /// That of the first component.
    pub const fn first(&self) -> &T {
        &self.first
    }

    /// That of the one component of a job that has no other.
    pub fn only(&self) -> Option<&T> {
        self.further.is_empty().then_some(&self.first)
    }

    /// That of a component by its number, which counts from 0.
    pub fn get(&self, number: u16) -> Option<&T> {
        match usize::from(number).checked_sub(1) {
            None => Some(&self.first),
            Some(further) => self.further.get(further),
        }
    }

    /// The number of components, at least 1.
    pub fn count(&self) -> usize {
        1 + self.further.len()
    }

    /// In the order of the components.
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        std::iter::once(&self.first).chain(&self.further)
    }

    /// In the order of the components.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    /// What `of` makes of each.
    pub fn map<'a, U>(&'a self, mut of: impl FnMut(&'a T) -> U) -> PerComponent<U> {
        PerComponent {
            first: of(&self.first),
            further: self.further.iter().map(of).collect(),
        }
    }
}

impl Demand {
    /// True when all that matters of its nodes is that they are empty. Jobs of several components
    /// are planned node by node, like those that share nodes.
    pub fn holds_whole_nodes(&self) -> bool {
        self.only().is_some_and(|one| one.exclusive)
    }
}

/// What a component of a job asks for.
///
/// Tasks are placed in blocks: the first node of the component (by index) gets as many as fit,
/// then the next, and each node gets at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Component {
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
    /// Taken once on each of its nodes.
    pub per_node: Amounts,
    /// Whole nodes: a node must be entirely free, and all it has is taken.
    pub exclusive: bool,
    /// Hard: nodes that may be chosen (features and avoided nodes are in here).
    pub allowed: Arc<NodeMask>,
    /// Hard: nodes that must be part of the allocation.
    pub required: NodeMask,
    /// Hard: so many nodes out of each of these sets; a node counts for one of them.
    pub counted: Vec<CountedNodes>,
    /// Soft: nodes of the first set come first, then those of the second, then the rest.
    pub tiers: Vec<NodeMask>,
    /// Soft: nodes on few of these switches.
    pub topology: Option<Arc<Topology>>,
    /// Hard: no more leaf switches of `topology` than these.
    pub max_switches: Option<u32>,
    /// Hard: on each leaf switch of `topology` a multiple of so many nodes, out of `nodes`, which are
    /// a multiple of it too; each node has room for an equal share of the tasks.
    pub segment: Option<u32>,
    /// Hard: nodes side by side in the order of their numbers.
    pub contiguous: bool,
}

/// A number of nodes out of a set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CountedNodes {
    /// Out of these.
    pub nodes: NodeMask,
    /// So many nodes of the set, at least.
    pub count: u32,
}

impl Component {
    /// The fewest nodes that hold everything named and counted.
    pub(crate) fn fewest_nodes(&self) -> u32 {
        let counted = self.counted.iter().map(|set| set.count);
        let counted = counted.fold(0, u32::saturating_add);
        self.required.count().max(counted).max(1)
    }

    /// Whether it depends on which nodes they are that nodes are enough, not on their number alone.
    pub(crate) fn tells_apart(&self) -> bool {
        let near = self.max_switches.is_some() || self.segment.is_some();
        !self.counted.is_empty() || self.contiguous || near
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
    /// So few switches do not have enough nodes together.
    #[error("{} that many such nodes", no_switches(*most))]
    Switches {
        /// Most switches asked for.
        most: u32,
    },
    /// Switches do not have so many groups of nodes together.
    #[error("switches with groups of {segment} such nodes do not have that many together")]
    Segments {
        /// Nodes of a group.
        segment: u32,
    },
    /// Such nodes are not side by side.
    #[error("that many such nodes are nowhere side by side in the order of the configuration")]
    SideBySide,
    /// A node required by name may not be used, or is too small.
    #[error("a node that is required by name (number {node}) may not be used or is too small")]
    RequiredNode {
        /// Number of the node.
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
    /// Each component would fit by itself, but not each on nodes of its own.
    #[error("its {components} parts do not fit side by side: each needs nodes of its own")]
    Components {
        /// How many there are.
        components: u32,
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

fn no_switches(most: u32) -> String {
    match most {
        1 => "no switch has".to_owned(),
        most => format!("no {most} switches together have"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_its_own() {
        let check = |all: &PerComponent<char>, want: &str| {
            assert_eq!(all.iter().collect::<String>(), want);
            assert_eq!(all.count(), want.len());
            assert_eq!(Some(*all.first()), want.chars().next());
            assert_eq!(all.only().is_some(), want.len() == 1);
            for number in 0..=want.len() {
                assert_eq!(all.get(number as u16).copied(), want.chars().nth(number));
            }
        };
        let mut three = PerComponent::new('a', vec!['b', 'c']);
        check(&'a'.into(), "a");
        check(&three, "abc");
        check(&three.map(char::to_ascii_uppercase), "ABC");
        three.iter_mut().for_each(|own| *own = 'x');
        check(&three, "xxx");
    }

    /// What most jobs ask for is as large as one component and an empty list.
    #[test]
    fn a_job_of_one_component_stays_small() {
        let list = size_of::<Box<[Component]>>();
        assert_eq!(size_of::<Demand>(), size_of::<Component>() + list);
        let one = Demand::from(Component::default());
        assert_eq!(size_of_val(&*one.further), 0);
    }
}
