//! Jobs with equal demand in the same queue, so that what holds for one is found out once.
//!
//! What always holds: a group that waits is found by its queue and demand; groups without
//! jobs are dropped in bulk once there are many.

use crate::components;
use crate::hopeless;
use crate::machine::Machine;
use crate::near::might_fit;
use crate::resource_pool::classes::ClassId;
use crate::select::{Candidate, count_alike};
use crate::shape::Shape;
use crate::table::Table;
use crate::waiting_line::{GroupId, QueueKey};
use crate::{Component, Demand, NodeMask, PerComponent};
use cosy_model::{QueueId, Span, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const UNUSED: usize = 1024;

/// Bits of the set of groups that runs of the line keep.
pub(crate) const BITS: usize = 64;

/// Whether the nodes could hold a job of the group if nothing else ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feasible {
    /// With the nodes that are up.
    Now,
    /// Only with nodes that are down or drained.
    Later,
    /// Not even then.
    Never,
}

/// The place of a shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShapeId(u32);

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub demand: Arc<Demand>,
    /// Open nodes that may be chosen.
    eligible: PerComponent<NodeMask>,
    /// These, for the first component, are all nodes of the pool, and all of them are open.
    pub everywhere: bool,
    pub feasible: Feasible,
    /// How many tasks an empty node takes, when all that may be chosen are alike and the
    /// demand does not tell nodes apart.
    pub alike: Option<u32>,
    shapes: PerComponent<ShapeId>,
    queue: QueueId,
    jobs: usize,
    /// Whole nodes, any of the pool.
    plain: bool,
    /// The class of its cores, if it shares nodes.
    class_of_cores: Option<u8>,
    /// Of the machine that `eligible` and `feasible` were found for.
    epoch: u64,
}

impl Group {
    /// What a search needs to know of a job of the group.
    pub fn queue_key(&self, id: GroupId, limit: Span) -> QueueKey {
        let (demand, first) = (&self.demand, self.demand.first());
        let nodes = first.nodes.unwrap_or(1).max(first.fewest_nodes());
        let whole = demand.holds_whole_nodes();
        QueueKey {
            group: id,
            limit,
            whole: if whole { nodes } else { 0 },
            cores: if whole { 0 } else { cores(demand) },
            class: ClassId::NONE,
            needs: 0,
        }
    }

    /// The components of its jobs, and for each the open nodes that may be chosen.
    pub fn components(&self) -> impl Iterator<Item = (&Component, &NodeMask)> {
        self.demand.iter().zip(self.eligible.iter())
    }

    /// Open nodes that may be chosen for the first component.
    pub fn eligible(&self) -> &NodeMask {
        self.eligible.first()
    }

    /// The queue of its jobs.
    pub fn queue(&self) -> QueueId {
        self.queue
    }

    /// Brings `eligible` and `feasible` up to date. `nodes` are those of the queue and of
    /// its pool.
    pub fn refresh(&mut self, epoch: u64, machine: &Machine, nodes: (&NodeMask, &NodeMask)) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        let open = |one: &Component| one.allowed.and(nodes.0).and(&machine.open);
        self.eligible = self.demand.map(open);
        self.everywhere = self.eligible() == nodes.1;
        let only = self.demand.only();
        self.alike = only.and_then(|only| alike(machine, only, self.eligible()));
        self.feasible = self.feasible_on(machine, nodes.0);
    }

    /// Whether `nodes`, those of its queue, could hold a job of the group.
    pub fn feasible_on(&self, machine: &Machine, nodes: &NodeMask) -> Feasible {
        let up = match nodes.is_subset(&machine.open) {
            true => Cow::Borrowed(nodes),
            false => Cow::Owned(nodes.and(&machine.open)),
        };
        if fits_empty(machine, &self.demand, &up) {
            Feasible::Now
        } else if fits_empty(machine, &self.demand, nodes) {
            Feasible::Later
        } else {
            Feasible::Never
        }
    }

    /// True when `eligible` and `feasible` are up to date.
    pub fn is_current(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }
}

/// The cores that all components take at least: each has nodes of its own.
fn cores(demand: &Demand) -> u64 {
    let cores = |one: &Component| {
        let nodes = one.nodes.unwrap_or(1).max(one.fewest_nodes());
        let tasks = u64::from(one.per_task.cores) * u64::from(one.tasks);
        tasks + u64::from(one.per_node.cores) * u64::from(nodes)
    };
    demand.iter().map(cores).sum()
}

fn class_of_cores(demand: &Demand) -> Option<u8> {
    (!demand.holds_whole_nodes()).then(|| hopeless::class(cores(demand)) as u8)
}

fn is_plain(demand: &Demand, (queue, pool): (&NodeMask, &NodeMask)) -> bool {
    demand.only().is_some_and(|only| {
        only.exclusive
            && only.required.is_empty()
            && !only.tells_apart()
            && only.tiers.is_empty()
            && only.topology.is_none()
            && queue == pool
            && pool.is_subset(&only.allowed)
    })
}

fn alike(machine: &Machine, demand: &Component, nodes: &NodeMask) -> Option<u32> {
    let any = demand.required.is_empty() && !demand.tells_apart();
    if !any || !demand.tiers.is_empty() {
        return None;
    }
    let total = machine.common_total(nodes);
    total.map(|total| demand.capacity(total))
}

/// True when a job with `demand` fits on `nodes`, where it may use them, when they are empty.
pub(crate) fn fits_empty(machine: &Machine, demand: &Demand, nodes: &NodeMask) -> bool {
    if let Some(only) = demand.only() {
        return component_fits_empty(machine, only, nodes);
    }
    let candidates = |one: &Component| empty(machine, one, &one.allowed.and(nodes));
    let all = demand.iter().map(candidates).collect();
    components::fit(demand, all)
}

/// The same for one component, as if the job had no other.
pub(crate) fn component_fits_empty(
    machine: &Machine,
    demand: &Component,
    nodes: &NodeMask,
) -> bool {
    let nodes = demand.allowed.and(nodes);
    match alike(machine, demand, &nodes) {
        Some(room) => count_alike(demand, room).is_some_and(|count| count <= nodes.count()),
        None => might_fit(demand, empty(machine, demand, &nodes)),
    }
}

/// All of `nodes` that could take a task when they are empty.
pub(crate) fn empty(machine: &Machine, demand: &Component, nodes: &NodeMask) -> Vec<Candidate> {
    let known = nodes.iter().filter(|id| machine.knows(*id));
    let gap = (Time::EPOCH, Time::FAR);
    let candidate = |id| Candidate::new(demand, id, machine.total(id), gap);
    known.filter_map(candidate).collect()
}

/// Groups of jobs that ask for the same.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    groups: Vec<Option<Group>>,
    /// For each group: in that pass a job with that limit could not start. Apart, because
    /// searches look at it for job after job.
    failed: Vec<(u64, Span)>,
    vacant: Vec<GroupId>,
    /// Of groups, by queue and demand.
    by_hash: BTreeMap<u64, Vec<GroupId>>,
    /// By the place in memory of a group's own demand.
    by_place: Table<(QueueId, usize), GroupId>,
    unused: usize,
    /// How many groups with waiting jobs are not plain.
    unlike: u32,
    /// How many groups with waiting jobs share nodes, and by the class of their cores.
    shared: u32,
    shared_classes: [u32; hopeless::CLASSES],
    /// With how many waiting groups each bit stands for.
    waiting: [u32; BITS],
    shapes: Vec<Shape>,
    /// Of shapes, by queue, nodes that may be chosen and what a task takes.
    shape_by_hash: BTreeMap<u64, Vec<ShapeOf>>,
    /// For each shape how many of its groups have waiting jobs.
    shape_groups: Vec<u32>,
}

/// A shape and the jobs that it is for, beside what it knows itself.
#[derive(Clone, Debug)]
struct ShapeOf {
    id: ShapeId,
    queue: QueueId,
    allowed: Arc<NodeMask>,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            failed: Vec::new(),
            vacant: Vec::new(),
            by_hash: BTreeMap::new(),
            by_place: Table::default(),
            unused: 0,
            unlike: 0,
            shared: 0,
            shared_classes: [0; hopeless::CLASSES],
            waiting: [0; BITS],
            shapes: Vec::new(),
            shape_by_hash: BTreeMap::new(),
            shape_groups: Vec::new(),
        }
    }
}

impl Groups {
    pub fn get(&self, id: GroupId) -> &Group {
        let group = self.groups[id.0 as usize].as_ref();
        group.expect("a group with jobs is kept")
    }

    pub fn get_mut(&mut self, id: GroupId) -> &mut Group {
        let group = self.groups[id.0 as usize].as_mut();
        group.expect("a group with jobs is kept")
    }

    /// True when a job of the group with a limit no longer than this has failed in this pass.
    pub fn has_failed(&self, id: GroupId, pass: u64, limit: Span) -> bool {
        let (failed, least) = self.failed[id.0 as usize];
        failed == pass && least <= limit
    }

    /// How many groups with waiting jobs share nodes and want so many cores as this one, by class.
    pub fn sharing_class(&self, class: usize) -> u32 {
        self.shared_classes.get(class).copied().unwrap_or(0)
    }

    /// The class of the cores of a group that shares nodes.
    pub fn class_of_cores(&self, id: GroupId) -> Option<usize> {
        self.get(id).class_of_cores.map(usize::from)
    }

    /// Groups and the room for more.
    pub fn slots(&self) -> usize {
        self.groups.len()
    }

    /// The group there, if it shares nodes and has waiting jobs.
    pub fn sharing_in(&self, slot: usize) -> Option<GroupId> {
        let group = self.groups.get(slot)?.as_ref()?;
        let shares = group.class_of_cores.is_some() && group.jobs > 0;
        shares.then_some(GroupId(slot as u32))
    }

    /// Whether jobs of the group have one component of the shape of another group, and more than `room`
    /// tasks.
    pub fn is_larger(&self, id: GroupId, than: GroupId, room: u64) -> bool {
        let (group, than) = (self.get(id), self.get(than));
        let only = group.demand.only();
        group.shapes.first() == than.shapes.first()
            && only.is_some_and(|only| u64::from(only.tasks) > room)
    }

    fn count_sharing(&mut self, class: usize, more: i32) {
        if let Some(count) = self.shared_classes.get_mut(class) {
            *count = count.saturating_add_signed(more);
        }
    }

    /// Whether a job of the group has failed in that pass.
    pub fn any_failed(&self, id: GroupId, pass: u64) -> bool {
        self.failed
            .get(id.0 as usize)
            .is_some_and(|(failed, _)| *failed == pass)
    }

    /// Notes that a job has failed. True when from now on every job of the group does.
    pub fn set_failed(&mut self, id: GroupId, pass: u64, limit: Span) -> bool {
        if self.has_failed(id, pass, limit) {
            return false;
        }
        self.failed[id.0 as usize] = (pass, limit);
        limit <= Span::ZERO
    }

    /// Brings the shapes of a group up to date with the machine. The group must be.
    pub fn refresh_shapes(&mut self, id: GroupId, machine: &Machine) {
        let group = self.groups[id.0 as usize].as_ref();
        let group = group.expect("a group with jobs is kept");
        for (shape, eligible) in group.shapes.iter().zip(group.eligible.iter()) {
            let shape = &mut self.shapes[shape.0 as usize];
            shape.refresh(group.epoch, eligible, machine);
        }
    }

    /// The shape of a group's first component as it was when it was last looked at.
    pub fn known_shape(&self, id: GroupId) -> &Shape {
        &self.shapes[self.get(id).shapes.first().0 as usize]
    }

    /// The shapes of all components, as they were when they were last looked at.
    pub fn known_shapes(&self, id: GroupId) -> impl Iterator<Item = &Shape> {
        let shapes = self.get(id).shapes.iter();
        shapes.map(|shape| &self.shapes[shape.0 as usize])
    }

    /// How many groups with waiting jobs have the bit of this one.
    pub fn sharing_bit(&self, id: GroupId) -> u32 {
        self.waiting[id.bit()]
    }

    /// Counts one more job with `demand` in `queue`, which becomes that of the group: equal
    /// demands are kept once.
    ///
    /// `nodes` are those of the queue and of its pool.
    pub fn join(
        &mut self,
        queue: QueueId,
        demand: &mut Arc<Demand>,
        nodes: Option<(&NodeMask, &NodeMask)>,
    ) -> GroupId {
        let place = (queue, Arc::as_ptr(demand) as usize);
        let id = match self.by_place.get(place) {
            Some(id) => *id,
            None => self.find(queue, demand),
        };
        let group = self.get_mut(id);
        group.jobs += 1;
        if !Arc::ptr_eq(&group.demand, demand) {
            *demand = Arc::clone(&group.demand);
        }
        if group.jobs == 1 {
            self.unused -= 1;
            self.waiting[id.bit()] += 1;
            let group = self.groups[id.0 as usize].as_ref();
            for shape in group.into_iter().flat_map(|group| group.shapes.iter()) {
                self.shape_groups[shape.0 as usize] += 1;
            }
            let plain = nodes.is_some_and(|nodes| is_plain(demand, nodes));
            self.get_mut(id).plain = plain;
            self.unlike += u32::from(!plain);
            if let Some(class) = self.class_of_cores(id) {
                self.shared += 1;
                self.count_sharing(class, 1);
            }
        }
        id
    }

    /// True when every waiting job asks for whole nodes and may have any of its pool.
    pub fn are_plain(&self) -> bool {
        self.unlike == 0
    }

    /// True when a waiting job shares nodes.
    pub fn share_nodes(&self) -> bool {
        self.shared > 0
    }

    /// Nodes and queues have changed: nothing is known to be plain.
    pub fn forget_plain(&mut self) {
        let waiting = self.groups.iter_mut().flatten().filter(|g| g.jobs > 0);
        for group in waiting {
            self.unlike += u32::from(group.plain);
            group.plain = false;
        }
    }

    /// Counts one job less.
    pub fn leave(&mut self, id: GroupId) {
        let group = self.get_mut(id);
        group.jobs -= 1;
        if group.jobs > 0 {
            return;
        }
        let plain = group.plain;
        self.unlike -= u32::from(!plain);
        if let Some(class) = self.class_of_cores(id) {
            self.shared -= 1;
            self.count_sharing(class, -1);
        }
        self.unused += 1;
        self.waiting[id.bit()] -= 1;
        let group = self.groups[id.0 as usize].as_ref();
        for shape in group.into_iter().flat_map(|group| group.shapes.iter()) {
            let shape = shape.0 as usize;
            self.shape_groups[shape] -= 1;
            if self.shape_groups[shape] == 0 {
                self.shapes[shape].rest();
            }
        }
        if self.unused > UNUSED {
            self.sweep();
        }
    }

    fn find(&mut self, queue: QueueId, demand: &Arc<Demand>) -> GroupId {
        let hash = hash(&(queue, demand));
        let known = self.known(hash, queue, demand);
        known.unwrap_or_else(|| self.found(hash, queue, demand))
    }

    fn known(&self, hash: u64, queue: QueueId, demand: &Demand) -> Option<GroupId> {
        let alike = self.by_hash.get(&hash).into_iter().flatten();
        let mut alike = alike.copied();
        alike.find(|id| {
            let group = self.get(*id);
            group.queue == queue && *group.demand == *demand
        })
    }

    /// That demand; the one of a group of the queue if it is equal.
    pub fn shared(&self, queue: QueueId, demand: Arc<Demand>) -> Arc<Demand> {
        let known = self.known(hash(&(queue, &demand)), queue, &demand);
        known.map_or(demand, |id| Arc::clone(&self.get(id).demand))
    }

    fn found(&mut self, hash: u64, queue: QueueId, demand: &Arc<Demand>) -> GroupId {
        let group = Some(Group {
            demand: Arc::clone(demand),
            eligible: PerComponent::default(),
            everywhere: false,
            feasible: Feasible::Never,
            alike: None,
            shapes: demand.map(|one| self.find_shape(queue, one)),
            queue,
            jobs: 0,
            plain: false,
            class_of_cores: class_of_cores(demand),
            epoch: 0,
        });
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.failed.push((0, Span::ZERO));
            GroupId(self.groups.len() as u32 - 1)
        });
        self.groups[id.0 as usize] = group;
        self.failed[id.0 as usize] = (0, Span::ZERO);
        let place = (queue, Arc::as_ptr(demand) as usize);
        self.by_place.insert(place, id);
        self.by_hash.entry(hash).or_default().push(id);
        self.unused += 1;
        id
    }

    fn find_shape(&mut self, queue: QueueId, demand: &Component) -> ShapeId {
        let task = (demand.tasks_per_node, &demand.per_task, &demand.per_node);
        let hash = hash(&(queue, &demand.allowed, task));
        let known = self.shape_by_hash.entry(hash).or_default();
        let found = known.iter().find(|shape| {
            (shape.queue, &shape.allowed) == (queue, &demand.allowed)
                && self.shapes[shape.id.0 as usize].is_of(demand)
        });
        if let Some(shape) = found {
            return shape.id;
        }
        let id = ShapeId(self.shapes.len() as u32);
        self.shapes.push(Shape::new(demand));
        self.shape_groups.push(0);
        known.push(ShapeOf {
            id,
            queue,
            allowed: demand.allowed.clone(),
        });
        id
    }

    /// Forgets groups without jobs; shapes, which are few, go when no group is left.
    fn sweep(&mut self) {
        for (at, slot) in self.groups.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|group| group.jobs == 0) {
                *slot = None;
                self.vacant.push(GroupId(at as u32));
            }
        }
        let groups = &self.groups;
        self.by_hash.retain(|_, ids| {
            ids.retain(|id| groups[id.0 as usize].is_some());
            !ids.is_empty()
        });
        self.unused = 0;
        self.by_place.clear();
        for (at, group) in self.groups.iter().enumerate() {
            if let Some(group) = group {
                let place = (group.queue, Arc::as_ptr(&group.demand) as usize);
                self.by_place.insert(place, GroupId(at as u32));
            }
        }
        self.sweep_shapes();
    }

    /// Forgets shapes without groups and numbers the others anew.
    fn sweep_shapes(&mut self) {
        let mut used = vec![None; self.shapes.len()];
        let (mut shapes, mut counts) = (Vec::new(), Vec::new());
        for group in self.groups.iter_mut().flatten() {
            for shape in group.shapes.iter_mut() {
                let old = shape.0 as usize;
                *shape = *used[old].get_or_insert_with(|| {
                    shapes.push(self.shapes[old].clone());
                    counts.push(self.shape_groups[old]);
                    ShapeId(shapes.len() as u32 - 1)
                });
            }
        }
        self.shape_by_hash.retain(|_, known| {
            known.retain(|shape| used[shape.id.0 as usize].is_some());
            let known_as = |shape: &mut ShapeOf| {
                shape.id = used[shape.id.0 as usize].unwrap_or(shape.id);
            };
            known.iter_mut().for_each(known_as);
            !known.is_empty()
        });
        (self.shapes, self.shape_groups) = (shapes, counts);
    }
}

/// The standard hasher without a random key: the same in every run.
fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(tasks: u32) -> Arc<Demand> {
        Arc::new(Demand::from(Component {
            tasks,
            ..Component::default()
        }))
    }

    #[test]
    fn equal_demands_are_one_group_and_unused_ones_go() {
        let mut groups = Groups::default();
        let kept = groups.join(QueueId(0), &mut demand(7), None);
        assert_eq!(groups.join(QueueId(0), &mut demand(7), None), kept);
        assert_ne!(groups.join(QueueId(1), &mut demand(7), None), kept);
        for tasks in 100..100 + 3 * UNUSED as u32 {
            let id = groups.join(QueueId(0), &mut demand(tasks), None);
            groups.leave(id);
        }
        assert!(groups.groups.len() < 2 * UNUSED, "{}", groups.groups.len());
        assert_eq!(groups.join(QueueId(0), &mut demand(7), None), kept);
        groups.leave(kept);
        groups.leave(kept);
        assert_eq!(groups.get(kept).demand.first().tasks, 7);
    }
}
