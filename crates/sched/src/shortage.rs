//! Whether a demand could ever be met, and if not, what is too much.

use crate::group::{component_fits_empty, empty, fits_empty};
use crate::scheduler::Scheduler;
use crate::{Component, Demand, NodeMask, Shortage};
use cosy_model::device::{self, ANY_GPU};
use cosy_model::{Amounts, NodeId};
use std::cmp::Reverse;

impl Scheduler {
    /// Whether `demand` fits on an empty machine with all nodes up. Only `allowed` of
    /// each component says which nodes count, so the caller puts the nodes of the queue in there.
    ///
    /// # Errors
    /// What is too much, with figures.
    pub fn could_ever_run(&self, demand: &Demand) -> Result<(), Shortage> {
        if let Some(only) = demand.only() {
            return self.component_could_ever_run(only);
        }
        let allowed = demand.iter().map(|one| &one.allowed);
        let usable = allowed.fold(NodeMask::default(), |all, own| all.or(own));
        if fits_empty(&self.machine, demand, &usable) {
            return Ok(());
        }
        let mut alone = demand.iter();
        let short = alone.find_map(|one| self.component_could_ever_run(one).err());
        Err(short.unwrap_or(Shortage::Components {
            components: demand.count() as u32,
        }))
    }

    /// The same for one component, as if the job had no other.
    ///
    /// # Errors
    /// What is too much, with figures.
    pub fn component_could_ever_run(&self, demand: &Component) -> Result<(), Shortage> {
        if component_fits_empty(&self.machine, demand, &demand.allowed) {
            return Ok(());
        }
        Err(self
            .numbers(demand)
            .unwrap_or_else(|| self.shortage(demand)))
    }

    /// What is wrong with the numbers themselves.
    fn numbers(&self, demand: &Component) -> Option<Shortage> {
        let required = demand.required.count();
        if let Some(nodes) = demand.nodes.filter(|nodes| *nodes < required) {
            return Some(Shortage::RequiredNodes { required, nodes });
        }
        let least = demand.fewest_nodes();
        if let Some(nodes) = demand.nodes.filter(|nodes| *nodes < least) {
            return Some(Shortage::CountedNodes {
                counted: least,
                nodes,
            });
        }
        let nodes = demand.nodes.unwrap_or(least);
        let tasks = demand.tasks;
        (tasks < nodes).then_some(Shortage::FewerTasksThanNodes { tasks, nodes })
    }

    fn shortage(&self, demand: &Component) -> Shortage {
        let known = demand
            .allowed
            .iter()
            .filter(|n| n.index() < self.machine.len());
        let usable: NodeMask = known.collect();
        let wanted = demand.nodes.unwrap_or(1);
        let mut rooms = self.rooms(demand, &usable);
        let have = rooms.len() as u32;
        if usable.count() < wanted {
            let have = usable.count();
            return Shortage::Nodes { wanted, have };
        }
        if have == 0 {
            return self.one_node(demand, &usable);
        }
        if let Some(node) = self.missing(demand) {
            return Shortage::RequiredNode { node: node.0 };
        }
        if have < wanted {
            let what = words(&demand.share(1));
            return Shortage::LargeNodes { wanted, have, what };
        }
        if let Some(apart) = self.apart(demand, &usable) {
            return apart;
        }
        let nodes = demand.nodes.or(demand.max_nodes).unwrap_or(have);
        rooms.sort_unstable_by_key(|(required, room)| Reverse((*required, *room)));
        let chosen = rooms.iter().take(nodes as usize);
        Shortage::Tasks {
            wanted: demand.tasks,
            have: chosen.fold(0, |sum: u32, (_, room)| sum.saturating_add(*room)),
            nodes,
        }
    }

    /// What beyond their number is wrong with the nodes.
    fn apart(&self, demand: &Component, usable: &NodeMask) -> Option<Shortage> {
        let fits = |demand: &Component| component_fits_empty(&self.machine, demand, usable);
        let anywhere = Component {
            max_switches: None,
            segment: None,
            contiguous: false,
            ..demand.clone()
        };
        let bare = Component {
            counted: Vec::new(),
            ..anywhere.clone()
        };
        let on_few = Component {
            contiguous: false,
            ..demand.clone()
        };
        let in_segments = Component {
            max_switches: None,
            ..on_few.clone()
        };
        if !fits(&bare) {
            return None;
        }
        if !fits(&anywhere) {
            return Some(Shortage::Counted);
        }
        let segment = demand.segment.filter(|_| !fits(&in_segments));
        let most = demand.max_switches.filter(|_| !fits(&on_few));
        match (segment, most) {
            (Some(segment), _) => Some(Shortage::Segments { segment }),
            (None, Some(most)) => Some(Shortage::Switches { most }),
            (None, None) => demand.contiguous.then_some(Shortage::SideBySide),
        }
    }

    /// For each node with room: whether it is required, and for how many tasks.
    fn rooms(&self, demand: &Component, nodes: &NodeMask) -> Vec<(bool, u32)> {
        let room = |id: NodeId| {
            let room = demand.capacity(self.machine.total(id));
            (room > 0).then_some((demand.required.contains(id), room))
        };
        nodes.iter().filter_map(room).collect()
    }

    /// A required node that cannot take a task.
    fn missing(&self, demand: &Component) -> Option<NodeId> {
        let able: NodeMask = demand.allowed.and(&demand.required);
        let fits = empty(&self.machine, demand, &able);
        let mut required = demand.required.iter();
        required.find(|id| !fits.iter().any(|c| c.node() == *id))
    }

    /// One task does not fit on any node: the first part that is too much everywhere.
    fn one_node(&self, demand: &Component, nodes: &NodeMask) -> Shortage {
        let wanted = parts(&demand.share(1));
        for (what, amount) in &wanted {
            let had = |id: NodeId| {
                let all = parts(self.machine.total(id));
                let part = all.into_iter().find(|(name, _)| name == what);
                part.map_or(0, |(_, have)| have)
            };
            let most = nodes.iter().map(had).max().unwrap_or(0);
            if *amount > most {
                return Shortage::OneNode {
                    what: what.clone(),
                    wanted: *amount,
                    have: most,
                };
            }
        }
        Shortage::LargeNodes {
            wanted: demand.nodes.unwrap_or(1),
            have: 0,
            what: words(&demand.share(1)),
        }
    }
}

fn parts(amounts: &Amounts) -> Vec<(String, u64)> {
    let mut parts = vec![
        ("cores".to_owned(), amounts.cores.into()),
        ("MiB of memory".to_owned(), amounts.memory.0),
        ("MiB of disk".to_owned(), amounts.disk.0),
        ("gpus".to_owned(), amounts.gpus.into()),
    ];
    let other = amounts.other.iter();
    parts.extend(other.map(|(name, amount)| (device::words(name), amount.into())));
    parts
}

/// `4 cores, 2048 MiB of memory`.
fn words(amounts: &Amounts) -> String {
    // That nobody minds the type need not be said.
    let said = |(what, amount): &(String, u64)| *amount > 0 && *what != device::words(ANY_GPU);
    let parts = parts(amounts).into_iter().filter(said);
    let words: Vec<String> = parts
        .map(|(what, amount)| format!("{amount} {what}"))
        .collect();
    words.join(", ")
}
