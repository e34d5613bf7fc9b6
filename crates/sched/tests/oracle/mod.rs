//! The rules of the planner decided by brute force, in plain lines: every job is looked at
//! in every pass, every set of nodes is tried. It shares no code with the planner but the
//! types that jobs come in.

use cosy_model::{Amounts, JobId, NodeId, NodeShare, ReservationId};
use cosy_sched::{Component, Depth, Hold, HoldAmount, NodeMask, Policy, PoolId, WaitingJob};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Part of a node that is taken for some time.
#[derive(Clone, Debug)]
pub struct Occupancy {
    pub node: usize,
    pub start: i64,
    pub end: i64,
    pub amounts: Amounts,
    pub whole: bool,
    pub job: Option<JobId>,
    pub reservation: Option<ReservationId>,
}

/// A resource pool.
#[derive(Clone, Debug)]
pub struct Resource {
    pub own: bool,
    pub capacity: u64,
    /// Capacities from later times on.
    pub later: Vec<(i64, u64)>,
}

/// What somebody holds of a pool for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    pub pool: PoolId,
    pub start: i64,
    pub end: i64,
    pub amount: u64,
    pub job: Option<JobId>,
    pub reservation: Option<ReservationId>,
    /// It runs already, and only these nodes count.
    pub running: bool,
    pub nodes: Option<Vec<NodeId>>,
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pub resources: BTreeMap<PoolId, Resource>,
    pub held: Vec<Holding>,
    /// What the places of the last pass hold of shared pools, by the first queue of the pass.
    pub promised: BTreeMap<usize, Vec<Holding>>,
    pub policy: Policy,
    pub nodes: Vec<Amounts>,
    /// Leaf switches, of which the first half are under one switch and the rest under another.
    pub leaves: Vec<NodeMask>,
    pub open: Vec<bool>,
    pub queues: Vec<NodeMask>,
    pub starts: Vec<bool>,
    pub waiting: Vec<WaitingJob>,
    pub taken: Vec<Occupancy>,
    /// The time of the pass, and from when on reservations are out of reach of its jobs.
    pub now: i64,
    pub far: i64,
}

pub type Decision = (JobId, Vec<NodeShare>);

/// A node with room for some tasks of a job; of two, the one with the lesser rank comes first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Room {
    /// Tier, free since when (the later the better), free until when, free amounts.
    rank: (usize, Reverse<i64>, i64, [u64; 3]),
    node: NodeId,
    tasks: u32,
}

impl World {
    /// Queues that share nodes with `queue`, directly or not.
    pub fn pool(&self, queue: usize) -> Vec<usize> {
        let mut nodes = self.queues[queue].clone();
        for _ in &self.queues {
            let near = self.queues.iter().filter(|q| q.intersects(&nodes));
            nodes = near.fold(nodes.clone(), |all, q| all.or(q));
        }
        let inside = |q: &usize| *q == queue || self.queues[*q].intersects(&nodes);
        (0..self.queues.len()).filter(inside).collect()
    }

    /// One pass over the queues of a pool: what starts at `now`.
    pub fn decide(&mut self, pool: &[usize], now: i64) -> Vec<Decision> {
        let mut jobs = self.waiting.clone();
        jobs.retain(|j| pool.contains(&j.queue.index()) && self.starts[j.queue.index()]);
        jobs.sort_by_key(|job| job.key);
        let longest = jobs.iter().map(|job| job.limit.0.max(1)).max();
        self.now = now;
        self.far = now.saturating_add(longest.unwrap_or(0));
        let mut empty = self.clone();
        empty.taken.clear();
        jobs.retain(|job| empty.choose_among(job, now, false).is_some());
        let mut plan = self.clone(); // in it late jobs still run, and guaranteed places are taken
        let running = plan.taken.iter_mut().filter(|t| t.job.is_some());
        running.for_each(|t| t.end = t.end.max(now + 1));
        let running = plan.held.iter_mut().filter(|h| h.running);
        running.for_each(|h| h.end = h.end.max(now + 1));
        let foreign = self.promised.iter().filter(|(root, _)| **root != pool[0]);
        plan.held.extend(foreign.flat_map(|(_, all)| all.clone()));
        let mut places = Vec::new();
        let (mut guarantees, mut decisions) = (0, Vec::new());
        for job in jobs {
            if plan.own_is_full(&job) {
                continue;
            }
            let chosen = plan.choose(&job, now);
            if let Some(shares) = chosen.filter(|shares| plan.may_hold(&job, shares, now)) {
                plan.hold(&job, &shares, now, true);
                self.hold(&job, &shares, now, true);
                plan.take(&job, &shares, now);
                self.take(&job, &shares, now);
                self.waiting.retain(|other| other.key != job.key);
                decisions.push((job.key.job, shares));
            } else if !self.policy.backfill {
                break;
            } else if self.policy.depth != Depth::Count(guarantees)
                && let Some((at, shares)) = plan.earliest(&job)
            {
                plan.take(&job, &shares, at);
                places.extend(plan.hold(&job, &shares, at, false));
                guarantees += 1;
            }
        }
        places.retain(|place| self.resources.get(&place.pool).is_some_and(|r| !r.own));
        self.promised.insert(pool[0], places);
        decisions
    }

    fn take(&mut self, job: &WaitingJob, shares: &[NodeShare], at: i64) {
        let taken = |share: &NodeShare| Occupancy {
            node: share.node.index(),
            start: at,
            end: at.saturating_add(job.limit.0.max(1)),
            amounts: share.amounts.clone(),
            whole: job.demand.holds_whole_nodes(),
            job: Some(job.key.job),
            reservation: None,
        };
        self.taken.extend(shares.iter().map(taken));
    }

    /// What running jobs hold of a pool now; a node that several have counts once.
    pub fn held_now(&self, pool: PoolId) -> u64 {
        let here = self.held.iter().filter(|h| h.running && h.pool == pool);
        let nodes = here.clone().filter_map(|h| h.nodes.as_ref()).flatten();
        let nodes: BTreeSet<NodeId> = nodes.copied().collect();
        let amounts = here.filter(|h| h.nodes.is_none()).map(|h| h.amount);
        amounts.sum::<u64>() + nodes.len() as u64
    }

    fn capacity(&self, pool: PoolId, at: i64) -> Option<u64> {
        let known = self.resources.get(&pool)?;
        let past = known.later.iter().filter(|(from, _)| *from <= at);
        let last = past.max_by_key(|(from, _)| *from);
        Some(last.map_or(known.capacity, |(_, capacity)| *capacity))
    }

    /// What is held of a pool at a time.
    fn held_at(&self, pool: PoolId, at: i64) -> u64 {
        let here = self.held.iter().filter(|h| h.pool == pool);
        let then = here.filter(|h| h.start <= at && at < h.end);
        let sum = |running: bool| -> u64 {
            let some = then.clone().filter(|h| h.running == running);
            some.map(|h| h.amount).sum()
        };
        let running = match at > self.now {
            true => sum(true).min(self.held_now(pool)),
            false => self.held_now(pool),
        };
        running + sum(false)
    }

    /// A job whose own pool is full now, even for the least that it may hold.
    fn own_is_full(&self, job: &WaitingJob) -> bool {
        job.holds.iter().any(|hold| {
            let own = self.resources.get(&hold.pool).is_some_and(|r| r.own);
            let capacity = self.capacity(hold.pool, self.now).unwrap_or(u64::MAX);
            own && self.held_now(hold.pool) + least(hold, job) > capacity && (least(hold, job) > 0)
        })
    }

    /// Whether what a job would hold on these nodes from `at` on is free all the time.
    fn may_hold(&self, job: &WaitingJob, shares: &[NodeShare], at: i64) -> bool {
        let end = at.saturating_add(job.limit.0.max(1));
        job.holds.iter().all(|hold| {
            let own = self.resources.get(&hold.pool).is_some_and(|r| r.own);
            let all = amount(hold, shares);
            let wanted = match hold.amount {
                HoldAmount::Nodes if own && at == self.now => {
                    let here = self
                        .held
                        .iter()
                        .filter(|h| h.running && h.pool == hold.pool);
                    let had = here.filter_map(|h| h.nodes.as_ref()).flatten();
                    let had: BTreeSet<NodeId> = had.copied().collect();
                    shares.iter().filter(|s| !had.contains(&s.node)).count() as u64
                }
                _ => all,
            };
            let starts = self.held.iter().map(|h| h.start);
            let changes = self.resources.get(&hold.pool).map(|r| r.later.clone());
            let changes = changes.into_iter().flatten().map(|(from, _)| from);
            let points = starts.chain(changes).filter(|p| at < *p && *p < end);
            let mut points = points.chain([at]);
            points.all(|p| {
                let capacity = self.capacity(hold.pool, p).unwrap_or(u64::MAX);
                wanted == 0 || self.held_at(hold.pool, p) + wanted <= capacity
            })
        })
    }

    fn hold(
        &mut self,
        job: &WaitingJob,
        shares: &[NodeShare],
        at: i64,
        running: bool,
    ) -> Vec<Holding> {
        let holding = |hold: &Hold| Holding {
            pool: hold.pool,
            start: at,
            end: at.saturating_add(job.limit.0.max(1)),
            amount: amount(hold, shares),
            job: Some(job.key.job),
            reservation: None,
            running,
            nodes: (hold.amount == HoldAmount::Nodes)
                .then(|| shares.iter().map(|share| share.node).collect()),
        };
        let all: Vec<Holding> = job.holds.iter().map(holding).collect();
        self.held.extend(all.clone());
        all
    }

    /// When and where a job that cannot start now can start first.
    fn earliest(&self, job: &WaitingJob) -> Option<(i64, Vec<NodeShare>)> {
        let ends = self.taken.iter().map(|t| t.end);
        let ends = ends.chain(self.held.iter().map(|h| h.end));
        let changes = self.resources.values().flat_map(|r| &r.later);
        let ends = ends.chain(changes.map(|(at, _)| *at));
        let times: BTreeSet<i64> = ends.filter(|at| self.now < *at && *at < i64::MAX).collect();
        let places = times.into_iter().map(|at| (at, self.choose(job, at)));
        let mut places = places.filter_map(|(at, shares)| Some((at, shares?)));
        places.find(|(at, shares)| self.may_hold(job, shares, *at))
    }

    fn choose(&self, job: &WaitingJob, at: i64) -> Option<Vec<NodeShare>> {
        self.choose_among(job, at, true)
    }

    /// The nodes for a job from `at` on; each component gets nodes of its own. The gaps in
    /// which nodes are free matter to several components only if `gaps`.
    fn choose_among(&self, job: &WaitingJob, at: i64, gaps: bool) -> Option<Vec<NodeShare>> {
        let components: Vec<&Component> = job.demand.iter().collect();
        let mut rooms: Vec<Vec<Room>> = (0..components.len())
            .map(|own| self.rooms(job, &components, own, at))
            .collect();
        if let [rooms] = &rooms[..] {
            return self.spread(components[0], rooms);
        }
        let in_turn: Vec<usize> = (0..components.len()).collect();
        let found = self.one_after_another(&components, &rooms, &in_turn);
        if let Some(found) = found.filter(|_| gaps) {
            return Some(found);
        }
        for room in rooms.iter_mut().flatten() {
            (room.rank.1, room.rank.2) = (Reverse(0), 0);
        }
        if let Some(found) = self.one_after_another(&components, &rooms, &in_turn) {
            return Some(found);
        }
        let mut scarce = in_turn;
        scarce.sort_by_key(|own| {
            let named = components[*own].required.count().max(1);
            let nodes = components[*own].nodes.unwrap_or(1).max(named);
            rooms[*own].len().saturating_sub(nodes as usize)
        });
        let all = rooms.clone();
        for room in rooms.iter_mut().flatten().filter(|room| room.rank.0 > 0) {
            let others = all.iter().flatten();
            room.rank.0 = others.filter(|other| other.node == room.node).count();
        }
        let mut orders = scarce.clone().into_iter();
        orders.find_map(|first| {
            let others = scarce.iter().copied().filter(|other| *other != first);
            let order: Vec<usize> = [first].into_iter().chain(others).collect();
            self.one_after_another(&components, &rooms, &order)
        })
    }

    /// Where a component could have tasks: not on nodes that another one must have.
    fn rooms(&self, job: &WaitingJob, components: &[&Component], own: usize, at: i64) -> Vec<Room> {
        let end = at.saturating_add(job.limit.0.max(1));
        let demand = components[own];
        let allowed = demand.allowed.and(&self.queues[job.queue.index()]);
        let nodes = allowed.iter().filter(|node| self.open[node.index()]);
        let wanted = |node: NodeId| {
            let mut others = components.iter().enumerate();
            others.any(|(other, demand)| other != own && demand.required.contains(node))
        };
        let nodes = nodes.filter(|node| !wanted(*node));
        let rooms = nodes.map(|node| self.room(demand, node, at, end));
        rooms.filter(|room| room.tasks > 0).collect()
    }

    /// Each component in this order gets the best of what is left.
    fn one_after_another(
        &self,
        components: &[&Component],
        rooms: &[Vec<Room>],
        order: &[usize],
    ) -> Option<Vec<NodeShare>> {
        let mut all: Vec<NodeShare> = Vec::new();
        for at in order {
            let mut left = rooms[*at].clone();
            left.retain(|room| all.iter().all(|share| share.node != room.node));
            let mut own = self.spread(components[*at], &left)?;
            let component = *at as u16;
            own.iter_mut().for_each(|share| share.component = component);
            all.extend(own);
        }
        all.sort_by_key(|share| (share.component, share.node));
        Some(all)
    }

    /// Tasks come in blocks: as many as fit on the first node, at least one on each.
    fn spread(&self, demand: &Component, rooms: &[Room]) -> Option<Vec<NodeShare>> {
        let mut rooms = rooms.to_vec();
        rooms.sort();
        let mut set = self.nearest(demand, &rooms)?;
        set.sort_by_key(|room| room.node);
        let (mut left, mut others) = (demand.tasks, set.len() as u32);
        let share = |Room { node, tasks, .. }| {
            others -= 1;
            let tasks = (left - others).min(tasks);
            left -= tasks;
            let (mut part, whole) = (demand.per_node.clone(), self.nodes[node.index()].clone());
            (0..tasks).for_each(|_| part.give(&demand.per_task));
            NodeShare {
                node,
                tasks,
                amounts: if demand.exclusive { whole } else { part },
                component: 0,
            }
        };
        Some(set.into_iter().map(share).collect())
    }

    /// The best rooms where it matters on which switches they are, or that they are side by side.
    fn nearest(&self, demand: &Component, rooms: &[Room]) -> Option<Vec<Room>> {
        if demand.contiguous {
            return in_a_row(demand, rooms, |set| self.leaves_of(set) as u32);
        }
        let any = anywhere(demand, rooms)?;
        if demand.topology.is_none() {
            return Some(any);
        }
        let (nodes, most) = (any.len(), demand.max_switches);
        if most.is_none() && nodes < 2 {
            return Some(any);
        }
        let worst = any.iter().map(|room| room.rank.0).max()?;
        let tiers = |set: &[Room]| {
            let mut all: Vec<usize> = set.iter().map(|room| room.rank.0).collect();
            all.sort_unstable();
            all
        };
        let wanted = tiers(&any);
        let mut near = rooms.to_vec();
        near.retain(|room| room.rank.0 <= worst);
        let as_many =
            self.on_leaves(demand, &near, (nodes, worst, false), |set| tiers(set) == wanted);
        as_many.or_else(|| {
            most.and_then(|_| {
                let nodes = demand.nodes.unwrap_or(0) as usize;
                self.on_leaves(demand, rooms, (nodes, 0, true), |_| true)
            })
        })
    }

    fn leaves_of(&self, rooms: &[Room]) -> usize {
        let on = |leaf: &&NodeMask| rooms.iter().any(|room| leaf.contains(room.node));
        self.leaves.iter().filter(on).count()
    }

    /// Sets of leaf switches are numbers whose bits are leaves.
    fn on_leaves(
        &self,
        demand: &Component,
        rooms: &[Room],
        (nodes, taken, search): (usize, usize, bool),
        good: impl Fn(&Vec<Room>) -> bool,
    ) -> Option<Vec<Room>> {
        let leaves = self.leaves.len();
        let on = |bits: u32| -> Vec<Room> {
            let mut here = rooms.to_vec();
            here.retain(|room| {
                (0..leaves).any(|l| bits >> l & 1 == 1 && self.leaves[l].contains(room.node))
            });
            here
        };
        let enough = |bits: u32| anywhere(demand, &on(bits)).is_some_and(|set| good(&set));
        let count = |leaf: &usize| on(1 << leaf).len();
        let equal = rooms
            .iter()
            .all(|room| room.tasks as usize * nodes >= demand.tasks as usize);
        let room = |leaf: &usize| match equal {
            true => count(leaf),
            false => on(1 << leaf).iter().map(|room| room.tasks as usize).sum(),
        };
        let has = |leaf: &usize| {
            let mut here = on(1 << leaf).into_iter();
            here.any(|room| room.rank.0 == 0 || room.rank.0 < taken)
        };
        let must = (0..leaves)
            .filter(has)
            .fold(0, |bits, leaf| bits | 1 << leaf);
        let most = demand.max_switches.unwrap_or(u32::MAX);
        let all = (1_u32 << leaves) - 1;
        let half = (1_u32 << (leaves / 2)) - 1;
        let levels = [
            (0..leaves).map(|l| 1 << l).collect(),
            vec![half, all & !half],
            vec![all],
        ];
        for level in levels {
            let mut under: Vec<u32> = level;
            under.retain(|bits| bits & must == must && enough(*bits));
            under.sort_by_key(|bits| on(*bits).len());
            for bits in under {
                let mut order: Vec<usize> = (0..leaves).collect();
                order.retain(|leaf| (bits & !must) >> leaf & 1 == 1 && count(leaf) > 0);
                order.sort_by_key(|leaf| (Reverse(room(leaf)), *leaf));
                let with = |size: usize| order[..size].iter().fold(must, |b, l| b | 1 << l);
                let size = (0..=order.len()).find(|size| enough(with(*size)))?;
                let mut found = with(size);
                if equal && size > 0 {
                    let mut rest = order[size - 1..].to_vec();
                    rest.sort_by_key(|leaf| (count(leaf), *leaf));
                    let mut last = rest.into_iter().map(|leaf| with(size - 1) | 1 << leaf);
                    found = last.find(|bits| enough(*bits))?;
                }
                if found.count_ones() <= most {
                    return anywhere(demand, &on(found));
                }
            }
        }
        let mut sets: Vec<u32> = (0..=all)
            .filter(|bits| bits & must == must && !equal && search)
            .collect();
        sets.retain(|bits| (0..leaves).all(|l| bits >> l & 1 == 0 || count(&l) > 0));
        sets.retain(|bits| bits.count_ones() <= most.min(8) && enough(*bits));
        let mut order: Vec<usize> = (0..leaves).collect();
        order.sort_by_key(|leaf| (Reverse(room(leaf)), *leaf));
        let list = |bits: &u32| -> Vec<usize> {
            (0..leaves)
                .filter(|at| (bits & !must) >> order[*at] & 1 == 1)
                .collect()
        };
        let first = sets
            .into_iter()
            .min_by_key(|bits| (bits.count_ones(), list(bits)))?;
        anywhere(demand, &on(first))
    }

    /// The room on a node from `at` to `end`.
    fn room(&self, demand: &Component, node: NodeId, at: i64, end: i64) -> Room {
        let here = self.taken.iter().filter(|t| t.node == node.index());
        let mut over = here.clone().filter(|t| t.start < end && at < t.end);
        let barred = over.any(|t| t.whole || demand.exclusive);
        let then = |p: i64| here.clone().filter(move |t| t.start <= p && p < t.end);
        let used = |p: i64, n: usize| then(p).map(|t| parts(&t.amounts)[n]).sum::<u64>();
        let points = here.clone().map(|t| t.start.max(at)).filter(|p| *p < end);
        let most_used = |n: usize| points.clone().map(|p| used(p, n)).max().unwrap_or(0);
        let free = |n: usize| parts(&self.nodes[node.index()])[n].saturating_sub(most_used(n));
        let (once, each) = (parts(&demand.per_node), parts(&demand.per_task));
        let need = |tasks: u32, n: usize| once[n] + u64::from(tasks) * each[n];
        let fits = |tasks: &u32| !barred && (0..5).all(|n| need(*tasks, n) <= free(n));
        let most = demand.tasks_per_node.unwrap_or(u32::MAX) as usize;
        let tasks = (1..=demand.tasks).take(most).take_while(fits).count() as u32;
        let tiers = [&demand.required].into_iter().chain(&demand.tiers);
        let tier = tiers.take_while(|tier| !tier.contains(node)).count();
        let before = here.clone().map(|t| t.end).filter(|end| *end <= at);
        let since = Reverse(before.max().unwrap_or(0).max(self.now));
        let free = [free(0), free(1), free(2)];
        let near = here.filter(|t| t.reservation.is_none() || t.start < self.far);
        let after = near.map(|t| t.start).filter(|start| *start >= end);
        let rank = (tier, since, after.min().unwrap_or(i64::MAX), free);
        Room { rank, node, tasks }
    }
}

/// The best rooms, wherever they are.
fn anywhere(demand: &Component, rooms: &[Room]) -> Option<Vec<Room>> {
    let set = best(demand, rooms, demand.nodes)?;
    match demand.nodes.or(demand.max_nodes) {
        Some(most) if set.len() > most as usize => best(demand, rooms, Some(most)),
        _ => Some(set),
    }
}

/// The fewest rooms with numbers one after the other that are enough; of those the ones in the
/// shortest such row, of those the first.
fn in_a_row(
    demand: &Component,
    rooms: &[Room],
    switches: impl Fn(&[Room]) -> u32,
) -> Option<Vec<Room>> {
    let mut rooms = rooms.to_vec();
    rooms.sort_by_key(|room| room.node);
    let whole = |set: &[Room]| set.windows(2).all(|two| two[0].node.0 + 1 == two[1].node.0);
    let row = |set: &[Room]| {
        let all = (0..rooms.len()).flat_map(|a| (a..rooms.len()).map(move |b| (a, b)));
        let all = all.map(|(a, b)| &rooms[a..=b]).filter(|all| whole(all));
        let around = all.filter(|all| set.iter().all(|one| all.contains(one)));
        around.map(<[Room]>::len).max()
    };
    let fits = |set: &&[Room]| {
        let most = demand.nodes.or(demand.max_nodes).unwrap_or(u32::MAX);
        let nodes = set.len() as u32;
        let required = set.iter().filter(|room| room.rank.0 == 0).count();
        whole(set)
            && set.iter().map(|room| room.tasks).sum::<u32>() >= demand.tasks
            && nodes <= most.min(demand.tasks)
            && demand.nodes.is_none_or(|asked| asked == nodes)
            && required == demand.required.count() as usize
            && demand.max_switches.is_none_or(|most| switches(set) <= most)
    };
    let sets = (0..rooms.len()).flat_map(|a| (a..rooms.len()).map(move |b| (a, b)));
    let sets = sets.map(|(a, b)| &rooms[a..=b]).filter(fits);
    let found = sets.min_by_key(|set| (set.len(), row(set), set[0].node))?;
    Some(found.to_vec())
}

/// The best of all sets of so many rooms, or of as few as the tasks need; then a worse tier
/// is used only after all of the better ones. Required nodes are tier 0.
fn best(demand: &Component, rooms: &[Room], nodes: Option<u32>) -> Option<Vec<Room>> {
    let enough = |set: &[Room]| set.iter().map(|r| r.tasks).sum::<u32>() >= demand.tasks;
    let tiers = |set: &[Room]| set.iter().map(|r| r.rank.0).collect::<Vec<_>>();
    let below = |set: &[Room], tier| set.iter().filter(|r| r.rank.0 < tier).count();
    let last = (0..rooms.len()).find(|last| enough(&rooms[..=*last]))?;
    let worst = rooms[last].rank.0;
    let fits = |set: &Vec<Room>| {
        let better = below(set, worst) == below(rooms, worst);
        let in_turn = better && below(set, worst + 1) == set.len();
        enough(set)
            && set.len() <= demand.tasks as usize
            && below(set, 1) == demand.required.count() as usize
            && nodes.map_or(in_turn, |n| set.len() == n as usize)
    };
    let set = |bits: u32| -> Vec<Room> {
        let chosen = (0..rooms.len()).filter(|n| bits >> n & 1 == 1);
        chosen.map(|n| rooms[n].clone()).collect()
    };
    let good = (1..1 << rooms.len()).map(set).filter(fits);
    good.min_by_key(|set| (set.len(), tiers(set), set.clone()))
}

/// Amounts as numbers, those that count in ranks first. No test has others than licences.
fn parts(a: &Amounts) -> [u64; 5] {
    let [gpus, cores, licences] = [a.gpus, a.cores, a.other.get("licence")].map(u64::from);
    [gpus, cores, a.memory.0, a.disk.0, licences]
}

/// What a hold comes to on these nodes.
pub fn amount(hold: &Hold, shares: &[NodeShare]) -> u64 {
    match hold.amount {
        HoldAmount::Fixed(amount) => amount,
        HoldAmount::Nodes => shares.len() as u64,
        HoldAmount::Cores => shares.iter().map(|s| u64::from(s.amounts.cores)).sum(),
        HoldAmount::Memory => shares.iter().map(|s| s.amounts.memory.0).sum(),
        HoldAmount::Gpus => shares.iter().map(|s| u64::from(s.amounts.gpus)).sum(),
    }
}

/// What a hold comes to at least.
fn least(hold: &Hold, job: &WaitingJob) -> u64 {
    let nodes = |one: &Component| {
        let named = one.required.count().max(1);
        u64::from(one.nodes.unwrap_or(1).max(named))
    };
    let each = |one: &Component| match hold.amount {
        HoldAmount::Fixed(_) => 0,
        HoldAmount::Nodes => nodes(one) * u64::from(one.exclusive),
        HoldAmount::Cores => u64::from(one.per_task.cores * one.tasks),
        HoldAmount::Memory => {
            one.per_task.memory.0 * u64::from(one.tasks) + one.per_node.memory.0 * nodes(one)
        }
        HoldAmount::Gpus => u64::from(one.per_node.gpus) * nodes(one),
    };
    match hold.amount {
        HoldAmount::Fixed(amount) => amount,
        _ => job.demand.iter().map(each).sum(),
    }
}
