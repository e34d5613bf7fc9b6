//! How many tasks of one kind fit on each node at this moment, kept up to date by a look at
//! the nodes that have changed. Jobs that differ only in the number of their tasks, in
//! their time limit or in their wishes for nodes are of one shape.
//!
//! What always holds: after [`Shape::refresh`], `room` of every eligible node is what its
//! free amounts hold, and `tasks` and `fits` sum that up. What is booked ahead is not
//! looked at.

use crate::changes::Mark;
use crate::machine::Machine;
use crate::{Component, NodeMask};
use cosy_model::{Amounts, NodeId};

/// Tasks of one kind on the nodes that they may use.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// For any number of tasks.
    one: Component,
    eligible: NodeMask,
    epoch: u64,
    mark: Mark,
    /// By node index.
    room: Vec<u32>,
    /// Nodes with room for a task.
    pub fits: NodeMask,
    /// Room for so many tasks on all nodes.
    pub tasks: u64,
    /// Nodes with room for a task.
    pub nodes: u32,
}

impl Shape {
    pub fn new(demand: &Component) -> Self {
        Self {
            one: Component {
                tasks: u32::MAX,
                tasks_per_node: demand.tasks_per_node,
                per_task: demand.per_task.clone(),
                per_node: demand.per_node.clone(),
                ..Component::default()
            },
            eligible: NodeMask::default(),
            epoch: 0,
            mark: Mark::default(),
            room: Vec::new(),
            fits: NodeMask::default(),
            tasks: 0,
            nodes: 0,
        }
    }

    /// True when jobs with `demand` are of this shape.
    pub fn is_of(&self, demand: &Component) -> bool {
        let one = &self.one;
        (one.tasks_per_node, &one.per_task, &one.per_node)
            == (demand.tasks_per_node, &demand.per_task, &demand.per_node)
    }

    /// Gives the memory back while no job of the shape waits.
    pub fn rest(&mut self) {
        *self = Self::new(&self.one);
    }

    /// Brings everything up to date. `eligible` belongs to `epoch`.
    pub fn refresh(&mut self, epoch: u64, eligible: &NodeMask, machine: &Machine) {
        let (changed, mark) = machine.changed_since(self.mark);
        match changed.filter(|_| self.epoch == epoch) {
            Some(nodes) => nodes.iter().for_each(|id| self.look_at(*id, machine)),
            None => {
                *self = Self::new(&self.one);
                self.room.resize(machine.len(), 0);
                self.eligible = eligible.clone();
                eligible.iter().for_each(|id| self.look_at(id, machine));
            }
        }
        (self.epoch, self.mark) = (epoch, mark);
    }

    /// Room for tasks on a node.
    pub fn room(&self, id: NodeId) -> u32 {
        self.room.get(id.index()).copied().unwrap_or(0)
    }

    /// Room for tasks on a node with `free`.
    pub fn room_in(&self, free: &Amounts) -> u32 {
        self.one.capacity(free)
    }

    fn look_at(&mut self, id: NodeId, machine: &Machine) {
        if !self.eligible.contains(id) || id.index() >= self.room.len() {
            return;
        }
        let room = machine.free(id).map_or(0, |free| self.one.capacity(free));
        let old = std::mem::replace(&mut self.room[id.index()], room);
        self.tasks = self.tasks - u64::from(old) + u64::from(room);
        match (old, room) {
            (0, 1..) => {
                self.fits.insert(id);
                self.nodes += 1;
            }
            (1.., 0) => {
                self.fits.remove(id);
                self.nodes -= 1;
            }
            _ => {}
        }
    }
}
