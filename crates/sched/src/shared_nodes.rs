//! Jobs that share nodes with others: their tasks go where cores, memory and the rest are
//! free.

use crate::components;
use crate::group::Group;
use crate::machine::{Machine, ReservationHorizon, left};
use crate::near::{pick, select};
use crate::pass::{Pass, at_least_one};
use crate::running::{Holding, Running};
use crate::scheduler::Scheduler;
use crate::select::{Candidate, NodeTasks, capacity};
use crate::shape::Shape;
use crate::table::Table;
use crate::waiting_line::{GroupId, QueueKey};
use crate::{Component, Demand, NodeMask};
use cosy_model::{Amounts, NodeId, NodeShare, Time};

impl Scheduler {
    /// True when the nodes have no room for all tasks at this moment.
    pub(crate) fn lacks_amounts(&mut self, id: GroupId) -> bool {
        self.groups.refresh_shapes(id, &self.machine);
        let group = self.groups.get(id);
        let shapes = self.groups.known_shapes(id);
        let lacks = |(one, shape): (&Component, &Shape)| {
            shape.tasks < one.tasks.into() || shape.nodes < one.nodes.unwrap_or(1)
        };
        group.demand.iter().zip(shapes).any(lacks)
    }

    /// The nodes on which a job that shares nodes can start now, given the places booked.
    ///
    /// # Errors
    /// How many of its tasks, or of those of a larger job of its shape, there is room for; of jobs of
    /// several components as many as there may be.
    pub(crate) fn picks_now(
        &mut self,
        pass: &Pass,
        queue_key: &QueueKey,
    ) -> Result<Vec<NodeTasks>, u64> {
        self.groups.refresh_shapes(queue_key.group, &self.machine);
        let shape = self.groups.known_shape(queue_key.group);
        let group = self.groups.get(queue_key.group);
        let window = (pass.now, pass.now + at_least_one(queue_key.limit));
        let Some(demand) = group.demand.only() else {
            let sight = (pass.now, ReservationHorizon::Until(pass.far));
            return self.components_for(group, window, sight).ok_or(u64::MAX);
        };
        let candidate = |node| {
            if self.machine.ahead.contains(node) {
                let part = self.machine.window(
                    node,
                    demand,
                    window,
                    pass.now,
                    ReservationHorizon::Until(pass.far),
                )?;
                return Candidate::new(demand, node, &part.free, (part.since, part.until));
            }
            now_candidate(demand, shape, &self.machine, node, pass.now)
        };
        let candidates: Vec<Candidate> = shape.fits.iter().filter_map(candidate).collect();
        let room = capacity(&candidates);
        match room < demand.tasks.into() {
            true => Err(room),
            false => select(demand, candidates).ok_or(room),
        }
    }

    /// Whether a job that does not lack room could start now if there were no reservations.
    pub(crate) fn fits_blindly(&self, pass: &Pass, queue_key: &QueueKey) -> bool {
        let group = self.groups.get(queue_key.group);
        if queue_key.whole > 0 && group.alike.is_some() {
            return true; // there are enough idle nodes, and any of them do
        }
        let window = (pass.now, pass.now + at_least_one(queue_key.limit));
        let blindly = (pass.now, ReservationHorizon::Ignored);
        let Some(demand) = group.demand.only() else {
            return self.components_for(group, window, blindly).is_some();
        };
        let picks = self.picks_for(demand, group.eligible(), window, blindly);
        picks.is_some()
    }

    /// The earliest time after now at which a job that shares nodes finds room for its
    /// whole limit: the end of something on nodes that may be chosen.
    pub(crate) fn earliest_shared(
        &mut self,
        pass: &Pass,
        queue_key: &QueueKey,
    ) -> Option<(Time, Vec<NodeTasks>)> {
        self.groups.refresh_shapes(queue_key.group, &self.machine);
        let pool = &self.node_pools[pass.pool];
        let group = self.groups.get(queue_key.group);
        let soon = Time(pass.now.0.saturating_add(1));
        let mut outlook = Outlook::new(group, self.groups.known_shape(queue_key.group));
        let mut further = self.further_outlooks(group, queue_key);
        let (mut next, mut last) = (crate::ends::Ends::START, pass.now);
        loop {
            let end = pool.ends.get(next).map(|end| end.at.max(soon));
            let booked = pool.next_booked(&pass.places, last);
            let given = self.next_given_back(pass, queue_key, last);
            let at = end.into_iter().chain(booked).chain(given).min()?;
            if at == Time::FAR {
                return None;
            }
            last = at;
            while let Some(end) = pool.ends.get(next).filter(|e| e.at.max(soon) == at) {
                let run = self.running.get(end.run);
                outlook.release(&self.machine, run, at);
                for one in &mut further {
                    one.release(&self.machine, run, at);
                }
                next = pool.ends.after(next);
            }
            if !outlook.is_enough()
                || !further.iter().all(Outlook::is_enough)
                || !self.may_hold_at(pass, queue_key, at)
            {
                continue;
            }
            let window = (at, at + at_least_one(queue_key.limit));
            let picks = match further.is_empty() {
                true => outlook.picks(&self.machine, window, (pass.now, pass.far)),
                false => self.components_for(
                    group,
                    window,
                    (pass.now, ReservationHorizon::Until(pass.far)),
                ),
            };
            let picks = picks.filter(|picks| {
                let shares = || self.shares_picked(queue_key, picks);
                self.may_hold_later(pass, queue_key, at, shares)
            });
            if let Some(picks) = picks {
                return Some((at, picks));
            }
        }
    }

    /// What will be free for the further components of a job.
    fn further_outlooks<'a>(&'a self, group: &'a Group, queue_key: &QueueKey) -> Vec<Outlook<'a>> {
        let shapes = self.groups.known_shapes(queue_key.group).skip(1);
        let components = group.components().skip(1).zip(shapes);
        let outlook = |((demand, eligible), shape)| Outlook::of(demand, eligible, shape);
        components.map(outlook).collect()
    }

    /// The nodes that all components of a job would get for a window.
    fn components_for(
        &self,
        group: &Group,
        window: (Time, Time),
        (now, sight): (Time, ReservationHorizon),
    ) -> Option<Vec<NodeTasks>> {
        let candidates = |(demand, nodes): (&Component, &NodeMask)| {
            let candidate = |node| {
                let free = self.machine.window(node, demand, window, now, sight)?;
                Candidate::new(demand, node, &free.free, (free.since, free.until))
            };
            nodes.iter().filter_map(candidate).collect()
        };
        let all = group.components().map(candidates).collect();
        components::select_all(&group.demand, all)
    }

    /// The nodes of `nodes` that something with `demand` would get for a window.
    pub(crate) fn picks_for(
        &self,
        demand: &Component,
        nodes: &NodeMask,
        window: (Time, Time),
        (now, sight): (Time, ReservationHorizon),
    ) -> Option<Vec<NodeTasks>> {
        pick(demand, nodes, |node| self.machine.window(node, demand, window, now, sight))
    }

    /// What a job with `demand` will hold on the nodes picked for it.
    pub(crate) fn shares_for(&self, demand: &Demand, picks: &[NodeTasks]) -> Vec<NodeShare> {
        let share = |pick: &NodeTasks| {
            let one = demand.get(pick.component);
            self.share(one.unwrap_or(demand.first()), pick)
        };
        picks.iter().map(share).collect()
    }

    /// What one component will hold on the nodes picked for it.
    pub(crate) fn shares_of_component(
        &self,
        one: &Component,
        picks: &[NodeTasks],
    ) -> Vec<NodeShare> {
        picks.iter().map(|pick| self.share(one, pick)).collect()
    }

    /// What a component will hold on one node.
    fn share(&self, one: &Component, pick: &NodeTasks) -> NodeShare {
        NodeShare {
            node: pick.node,
            tasks: pick.tasks,
            amounts: match one.exclusive {
                true => self.machine.total(pick.node).clone(),
                false => one.share(pick.tasks),
            },
            component: pick.component,
        }
    }
}

/// What will be free as running jobs end, if nothing booked ahead is counted.
struct Outlook<'a> {
    demand: &'a Component,
    eligible: &'a NodeMask,
    shape: &'a Shape,
    /// Nodes on which something has ended.
    freed: Table<NodeId, Freed>,
    /// Nodes with room for a task.
    fits: NodeMask,
    tasks: u64,
}

/// A node on which something has ended.
struct Freed {
    used: Amounts,
    free: Amounts,
    room: u32,
    /// Time from which it is free.
    since: Time,
}

impl<'a> Outlook<'a> {
    fn new(group: &'a Group, shape: &'a Shape) -> Self {
        Self::of(group.demand.first(), group.eligible(), shape)
    }

    fn of(demand: &'a Component, eligible: &'a NodeMask, shape: &'a Shape) -> Self {
        Self {
            demand,
            eligible,
            shape,
            freed: Table::default(),
            fits: shape.fits.clone(),
            tasks: shape.tasks,
        }
    }

    /// A running job ends at `at`.
    fn release(&mut self, machine: &Machine, running: &Running, at: Time) {
        match &running.holding {
            Holding::Whole(_) | Holding::WholeListed(_) => {
                for node in running.nodes.iter() {
                    self.free(machine, node, machine.total(node), at);
                }
            }
            Holding::Listed(shares) => {
                for share in shares {
                    self.free(machine, share.node, &share.amounts, at);
                }
            }
        }
    }

    fn free(&mut self, machine: &Machine, node: NodeId, amounts: &Amounts, at: Time) {
        if !self.eligible.contains(node) {
            return;
        }
        let known = self.freed.remove(node);
        let old = known
            .as_ref()
            .map_or(self.shape.room(node), |freed| freed.room);
        let mut used = known.map_or_else(|| machine.used_and_free(node).0, |freed| freed.used);
        used.take(amounts);
        let free = left(machine.total(node), &used);
        let room = self.shape.room_in(&free);
        self.tasks = self.tasks.saturating_sub(old.into()) + u64::from(room);
        if room > 0 {
            self.fits.insert(node);
        }
        let freed = Freed {
            used,
            free,
            room,
            since: at,
        };
        self.freed.insert(node, freed);
    }

    fn is_enough(&self) -> bool {
        self.tasks >= self.demand.tasks.into()
    }

    /// The nodes that the job would get for a window that starts when the last job ended.
    fn picks(
        &self,
        machine: &Machine,
        window: (Time, Time),
        (now, far): (Time, Time),
    ) -> Option<Vec<NodeTasks>> {
        let demand = self.demand;
        let candidate = |node| {
            if machine.ahead.contains(node) || machine.is_taken(node) {
                let part =
                    machine.window(node, demand, window, now, ReservationHorizon::Until(far))?;
                return Candidate::new(demand, node, &part.free, (part.since, part.until));
            }
            match self.freed.get(node) {
                Some(freed) => {
                    let gap = (freed.since, Time::FAR);
                    let room = freed.room.min(demand.tasks);
                    Candidate::with_room(demand, node, &freed.free, gap, room)
                }
                None => now_candidate(demand, self.shape, machine, node, now),
            }
        };
        select(demand, self.fits.iter().filter_map(candidate).collect())
    }
}

/// The candidate that a node is now, if nothing is booked ahead on it.
fn now_candidate(
    demand: &Component,
    shape: &Shape,
    machine: &Machine,
    node: NodeId,
    now: Time,
) -> Option<Candidate> {
    let room = shape.room(node).min(demand.tasks);
    Candidate::with_room(demand, node, machine.free(node)?, (now, Time::FAR), room)
}
