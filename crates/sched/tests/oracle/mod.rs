//! The rules of the planner decided by brute force, in plain lines: every job is looked at
//! in every pass, every set of nodes is tried. It shares no code with the planner but the
//! types that jobs come in.

use cosy_model::{Amounts, JobId, NodeId, NodeShare, ReservationId, Time};
use cosy_sched::{Demand, Depth, NodeMask, Policy, WaitingJob};

/// Part of a node that is taken for some time.
#[derive(Clone, Debug)]
pub struct Taken {
    pub node: usize,
    pub start: i64,
    pub end: i64,
    pub amounts: Amounts,
    pub whole: bool,
    pub job: Option<JobId>,
    pub reservation: Option<ReservationId>,
}

#[derive(Clone, Debug)]
pub struct World {
    pub policy: Policy,
    pub nodes: Vec<Amounts>,
    pub open: Vec<bool>,
    pub queues: Vec<NodeMask>,
    pub starts: Vec<bool>,
    pub waiting: Vec<WaitingJob>,
    pub taken: Vec<Taken>,
    /// Reservations from then on are out of reach of every waiting job.
    pub far: i64,
}

pub type Decision = (JobId, Vec<NodeShare>);
type Rank = (usize, i64, i64, u32, u32, u64, usize);

impl World {
    /// Queues that share nodes with `queue`, directly or not.
    pub fn component(&self, queue: usize) -> Vec<usize> {
        let mut found = vec![queue];
        loop {
            let near = |q: &usize| {
                !found.contains(q)
                    && found
                        .iter()
                        .any(|f| self.queues[*f].intersects(&self.queues[*q]))
            };
            match (0..self.queues.len()).find(near) {
                Some(queue) => found.push(queue),
                None => return found,
            }
        }
    }

    /// One pass over the queues of a component: what starts at `now`.
    pub fn decide(&mut self, component: &[usize], now: i64) -> Vec<Decision> {
        let mut jobs: Vec<WaitingJob> = self.waiting.clone();
        jobs.retain(|j| component.contains(&j.queue.index()) && self.starts[j.queue.index()]);
        jobs.sort_by_key(|job| job.key);
        let longest = jobs.iter().map(|job| job.limit.0.max(1)).max();
        self.far = now.saturating_add(longest.unwrap_or(0));
        let (mut given, mut decisions) = (0, Vec::new());
        let mut places: Vec<Taken> = Vec::new();
        for job in jobs {
            let mut empty = self.clone();
            empty.taken.clear();
            if empty.choose(&job, now, now, &[]).is_none() {
                continue; // the open nodes could not even hold it alone
            }
            if let Some(shares) = self.choose(&job, now, now, &places) {
                self.waiting.retain(|other| other.key.job != job.key.job);
                self.take(&job, &shares, now);
                decisions.push((job.key.job, shares));
                continue;
            }
            if !self.policy.backfill {
                break;
            }
            let depth = match self.policy.depth {
                Depth::Count(n) => n,
                Depth::All => u32::MAX,
            };
            if given == depth {
                continue;
            }
            if let Some((at, shares)) = self.earliest(&job, now, &places) {
                given += 1;
                places.extend(bookings(&job, &shares, at));
            }
        }
        decisions
    }

    pub fn take(&mut self, job: &WaitingJob, shares: &[NodeShare], at: i64) {
        self.taken.extend(bookings(job, shares, at));
    }

    fn earliest(
        &self,
        job: &WaitingJob,
        now: i64,
        places: &[Taken],
    ) -> Option<(i64, Vec<NodeShare>)> {
        let mut times: Vec<i64> = self
            .taken
            .iter()
            .chain(places)
            .map(|t| t.end_at(now))
            .collect();
        times.retain(|at| *at > now && *at < i64::MAX);
        times.sort_unstable();
        times.dedup();
        times
            .into_iter()
            .find_map(|at| Some((at, self.choose(job, at, now, places)?)))
    }

    /// The nodes for a job from `at` on, by trying all sets of nodes.
    fn choose(
        &self,
        job: &WaitingJob,
        at: i64,
        now: i64,
        places: &[Taken],
    ) -> Option<Vec<NodeShare>> {
        let demand = &*job.demand;
        let end = at.saturating_add(job.limit.0.max(1));
        let usable = |node: &usize| {
            let id = NodeId(*node as u32);
            self.open[*node]
                && demand.allowed.contains(id)
                && self.queues[job.queue.index()].contains(id)
        };
        let mut rooms: Vec<(Rank, u32)> = (0..self.nodes.len())
            .filter(usable)
            .filter_map(|node| self.room(demand, node, (at, end), now, places))
            .collect();
        rooms.sort_unstable();
        let required: Vec<usize> = demand.required.iter().map(NodeId::index).collect();
        let last = demand.tiers.len() + 1;
        let total =
            |tier: usize| -> u32 { rooms.iter().filter(|r| r.0.0 <= tier).map(|r| r.1).sum() };
        let worst = (0..=last).find(|tier| total(*tier) >= demand.tasks)?;
        let fits = |set: &Vec<(Rank, u32)>, exact: Option<u32>| {
            let has = |node: &usize| set.iter().any(|r| r.0.6 == *node);
            let best_first = rooms.iter().filter(|r| r.0.0 < worst).all(|r| has(&r.0.6))
                && set.iter().all(|r| r.0.0 <= worst);
            required.iter().all(has)
                && set.len() <= demand.tasks as usize
                && set.iter().map(|r| r.1).sum::<u32>() >= demand.tasks
                && exact.map_or(best_first, |n| set.len() == n as usize)
        };
        let sets: Vec<Vec<(Rank, u32)>> = (1u32..1 << rooms.len())
            .map(|bits| {
                (0..rooms.len())
                    .filter(|n| bits >> n & 1 == 1)
                    .map(|n| rooms[n])
                    .collect()
            })
            .collect();
        let tiers = |set: &[(Rank, u32)]| set.iter().map(|r| r.0.0).collect::<Vec<_>>();
        let order = |set: &Vec<(Rank, u32)>| (set.len(), tiers(set), set.clone());
        let best = |exact| {
            let good = sets.iter().filter(|set| fits(set, exact));
            good.min_by_key(|set| order(set)).cloned()
        };
        let mut set = best(demand.nodes)?;
        let most = demand.max_nodes.filter(|_| demand.nodes.is_none());
        if most.is_some_and(|most| set.len() > most as usize) {
            set = best(most)?;
        }
        Some(self.spread(demand, set))
    }

    fn spread(&self, demand: &Demand, mut set: Vec<(Rank, u32)>) -> Vec<NodeShare> {
        set.sort_unstable_by_key(|r| r.0.6);
        let (count, mut left, mut shares) = (set.len(), demand.tasks, Vec::new());
        for (at, (rank, room)) in set.into_iter().enumerate() {
            let tasks = room.min(left - (count - at - 1) as u32);
            left -= tasks;
            let mut amounts = demand.per_node.clone();
            (0..tasks).for_each(|_| amounts.give(&demand.per_task));
            let amounts = if demand.exclusive {
                self.nodes[rank.6].clone()
            } else {
                amounts
            };
            shares.push(NodeShare {
                node: NodeId(rank.6 as u32),
                tasks,
                amounts,
            });
        }
        shares
    }

    /// How many tasks fit on a node during all of a window, and the node's rank.
    fn room(
        &self,
        demand: &Demand,
        node: usize,
        (at, end): (i64, i64),
        now: i64,
        places: &[Taken],
    ) -> Option<(Rank, u32)> {
        let here: Vec<&Taken> = self
            .taken
            .iter()
            .chain(places)
            .filter(|t| t.node == node)
            .collect();
        let over = |t: &&&Taken| t.start < end && at < t.end_at(now) && t.start < t.end_at(now);
        if here
            .iter()
            .filter(over)
            .any(|t| t.whole || demand.exclusive)
        {
            return None;
        }
        let mut free = self.nodes[node].clone();
        let points = here.iter().map(|t| t.start).filter(|p| at < *p && *p < end);
        for point in std::iter::once(at).chain(points) {
            let mut used = Amounts::default();
            here.iter()
                .filter(|t| t.start <= point && point < t.end_at(now))
                .for_each(|t| used.give(&t.amounts));
            let total = &self.nodes[node];
            free.cores = free.cores.min(total.cores.saturating_sub(used.cores));
            free.memory.0 = free
                .memory
                .0
                .min(total.memory.0.saturating_sub(used.memory.0));
            free.disk.0 = free.disk.0.min(total.disk.0.saturating_sub(used.disk.0));
            free.gpus = free.gpus.min(total.gpus.saturating_sub(used.gpus));
            for (name, amount) in total.other.iter() {
                let rest = amount.saturating_sub(used.other.get(name));
                free.other.set(name, rest.min(free.other.get(name)));
            }
        }
        let most = demand.tasks_per_node.unwrap_or(u32::MAX).min(demand.tasks);
        let mut need = demand.per_node.clone();
        let mut tasks = 0;
        while tasks < most {
            need.give(&demand.per_task);
            if !need.fits(&free) {
                break;
            }
            tasks += 1;
        }
        let id = NodeId(node as u32);
        let tier = demand
            .tiers
            .iter()
            .position(|t| t.contains(id))
            .unwrap_or(demand.tiers.len())
            + 1;
        let tier = if demand.required.contains(id) {
            0
        } else {
            tier
        };
        let since = here
            .iter()
            .map(|t| t.end_at(now))
            .filter(|e| *e <= at)
            .fold(now, i64::max);
        let until = here
            .iter()
            .filter(|t| t.reservation.is_none() || t.start < self.far)
            .map(|t| t.start)
            .filter(|s| *s >= end)
            .fold(i64::MAX, i64::min);
        let rank = (
            tier,
            -since,
            until,
            free.gpus,
            free.cores,
            free.memory.0,
            node,
        );
        (tasks > 0).then_some((rank, tasks))
    }
}

impl Taken {
    /// A running job has not ended yet, whatever was expected.
    fn end_at(&self, now: i64) -> i64 {
        if self.job.is_some() {
            self.end.max(now + 1)
        } else {
            self.end
        }
    }
}

fn bookings(job: &WaitingJob, shares: &[NodeShare], at: i64) -> Vec<Taken> {
    let end = Time(at) + cosy_model::Span(job.limit.0.max(1));
    let taken = |share: &NodeShare| Taken {
        node: share.node.index(),
        start: at,
        end: end.0,
        amounts: share.amounts.clone(),
        whole: job.demand.exclusive,
        job: Some(job.key.job),
        reservation: None,
    };
    shares.iter().map(taken).collect()
}
