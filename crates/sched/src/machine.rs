//! The nodes and everything booked on them: running jobs, accepted reservations, and,
//! during a pass, the places guaranteed to waiting jobs.
//!
//! What always holds: intervals are half open, `[start, end)`; a running job counts until
//! its expected end, and past that until one millisecond after now; `used` is the sum of
//! what running jobs hold; `idle`, `open`, `full` and `ahead` follow the nodes at once.

use crate::{Demand, NodeMask};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, ReservationId, Time};

/// Whose booking it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Job(JobId),
    Reservation(ReservationId),
    /// A place guaranteed to a waiting job, for the length of one pass.
    Place,
}

/// Part of a node, taken for some time.
#[derive(Clone, Debug)]
pub(crate) struct Booking {
    pub owner: Owner,
    pub start: Time,
    pub end: Time,
    pub amounts: Amounts,
    /// Nobody else may use the node meanwhile, whatever is left of it.
    pub whole: bool,
}

impl Booking {
    fn overlaps(&self, start: Time, end: Time) -> bool {
        self.start < end && start < self.end && self.start < self.end
    }
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub total: Amounts,
    /// Held by running jobs.
    pub used: Amounts,
    /// `total` without `used`.
    pub free: Amounts,
    running: Vec<Booking>,
    /// How many of them let nobody else on the node.
    wholes: u32,
    ahead: Vec<Booking>,
    region: Option<usize>,
    /// What the region's room counts of it.
    counted: RegionRoom,
}

/// What is free now on the open nodes of a region (a component of queues).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegionRoom {
    /// Free cores.
    pub cores: u64,
    /// Nodes without running jobs.
    pub idle: u32,
    /// Open nodes.
    pub open: u32,
}

impl Node {
    fn refresh(&mut self) {
        self.free = left(&self.total, &self.used);
    }
}

/// What of a node is free during a window, and how tightly the window is enclosed.
pub(crate) struct Window {
    /// Free all the time.
    pub free: Amounts,
    /// Last end of a booking before the window, now when there is none.
    pub since: Time,
    /// First start of a booking after it.
    pub until: Time,
}

/// All nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    nodes: Vec<Node>,
    /// New work may start there.
    pub open: NodeMask,
    /// No running job.
    pub idle: NodeMask,
    /// No free core.
    pub full: NodeMask,
    /// A reservation or a guaranteed place is booked.
    pub ahead: NodeMask,
    regions: Vec<RegionRoom>,
    /// For each region how many open nodes have 0, 1, 2, ... free cores.
    by_cores: Vec<Vec<u32>>,
}

impl Machine {
    pub fn new(nodes: Vec<Amounts>) -> Self {
        let mut machine = Self::default();
        machine.resize(nodes);
        machine
    }

    /// Takes over new totals; nodes beyond the old ones are open, what is booked stays.
    pub fn resize(&mut self, totals: Vec<Amounts>) {
        let known = self.nodes.len();
        self.nodes.iter_mut().for_each(|node| node.region = None);
        self.nodes
            .resize_with(totals.len().max(known), Node::default);
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.total = totals.get(at).cloned().unwrap_or_default();
            if at >= known {
                self.open.insert(NodeId(at as u32));
            }
        }
        (0..self.nodes.len() as u32).for_each(|at| self.note(NodeId(at)));
    }

    /// Divides the nodes into regions, whose room is counted from now on.
    pub fn divide(&mut self, regions: &[&NodeMask]) {
        self.regions = vec![RegionRoom::default(); regions.len()];
        let most = self.nodes.iter().map(|node| node.total.cores).max();
        self.by_cores = vec![vec![0; most.unwrap_or(0) as usize + 1]; regions.len()];
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let id = NodeId(at as u32);
            node.region = regions.iter().position(|region| region.contains(id));
            node.counted = RegionRoom::default();
        }
        (0..self.nodes.len() as u32).for_each(|at| self.note(NodeId(at)));
    }

    /// The region of a node.
    pub fn region(&self, id: NodeId) -> Option<usize> {
        self.get(id).and_then(|node| node.region)
    }

    /// What is free in a region.
    pub fn room(&self, region: usize) -> RegionRoom {
        self.regions[region]
    }

    /// For numbers of free cores how many open nodes of a region have them, most first.
    pub fn nodes_by_cores(&self, region: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let all = self.by_cores[region].iter().enumerate().rev();
        all.filter(|(_, nodes)| **nodes > 0)
            .map(|(cores, nodes)| (cores as u32, *nodes))
    }

    /// Says whether new work may start on `id`.
    pub fn set_open(&mut self, id: NodeId, open: bool) {
        if id.index() < self.nodes.len() {
            set(&mut self.open, id, open);
            self.note(id);
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// Books a share of a running job.
    pub fn run(&mut self, job: JobId, share: &NodeShare, end: Time, whole: bool) {
        let Some(node) = self.nodes.get_mut(share.node.index()) else {
            return;
        };
        node.running.push(Booking {
            owner: Owner::Job(job),
            start: Time(i64::MIN),
            end,
            amounts: share.amounts.clone(),
            whole,
        });
        node.wholes += u32::from(whole);
        node.used.give(&share.amounts);
        self.note(share.node);
    }

    /// Frees what `job` holds of `id`.
    pub fn release(&mut self, job: JobId, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id.index()) else {
            return;
        };
        while let Some(at) = position(&node.running, Owner::Job(job)) {
            let booking = node.running.swap_remove(at);
            node.wholes -= u32::from(booking.whole);
            node.used.take(&booking.amounts);
        }
        self.note(id);
    }

    /// Moves the expected end of `job` on `id`.
    pub fn set_end(&mut self, job: JobId, id: NodeId, end: Time) {
        let running = self.nodes.get_mut(id.index()).map(|n| &mut n.running);
        for booking in running.into_iter().flatten() {
            if booking.owner == Owner::Job(job) {
                booking.end = end;
            }
        }
    }

    /// Books something ahead.
    pub fn book(&mut self, id: NodeId, booking: Booking) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.ahead.push(booking);
            self.ahead.insert(id);
        }
    }

    /// Removes what `owner` has booked ahead on `id`.
    pub fn unbook(&mut self, id: NodeId, owner: Owner) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.ahead.retain(|booking| booking.owner != owner);
            if node.ahead.is_empty() {
                self.ahead.remove(id);
            }
        }
    }

    /// Ends of bookings ahead on `id`.
    pub fn ahead_ends(&self, id: NodeId) -> impl Iterator<Item = Time> + '_ {
        self.node(id).ahead.iter().map(|booking| booking.end)
    }

    /// When all jobs that run on `id` are expected to have ended, `now` if none runs.
    pub fn cleared(&self, id: NodeId, now: Time) -> Time {
        let running = self.node(id).running.iter();
        running.map(|b| expected(b, now)).fold(now, Time::max)
    }

    /// The last end of a booking ahead on `id` by `start`, and the first start from `end` on.
    pub fn gap(&self, id: NodeId, (start, end): (Time, Time), now: Time) -> (Time, Time) {
        let (mut since, mut until) = (now, Time::FAR);
        for booking in &self.node(id).ahead {
            if booking.end <= start {
                since = since.max(booking.end);
            }
            if booking.start >= end {
                until = until.min(booking.start);
            }
        }
        (since, until)
    }

    /// What of `id` a job with `demand` could use during the whole of `[start, end)`, if
    /// anything. `blind` leaves reservations out of account.
    pub fn window(
        &self,
        id: NodeId,
        demand: &Demand,
        (start, end): (Time, Time),
        now: Time,
        blind: bool,
    ) -> Option<Window> {
        let node = self.node(id);
        if start <= now && node.ahead.is_empty() && !demand.exclusive {
            return (node.wholes == 0).then(|| Window {
                free: node.free.clone(),
                since: now,
                until: Time::FAR,
            });
        }
        let ahead = || {
            let all = node.ahead.iter();
            all.filter(|b| !(blind && matches!(b.owner, Owner::Reservation(_))))
        };
        let runs = |b: &&Booking| expected(b, now) > start;
        let running = || node.running.iter().filter(runs);
        let hinders = |b: &Booking| b.whole || demand.exclusive;
        if running().any(hinders) || ahead().any(|b| hinders(b) && b.overlaps(start, end)) {
            return None;
        }
        let points = ahead()
            .map(|b| b.start)
            .filter(|at| start < *at && *at < end);
        let mut most = match start > now {
            true => sum(running()),
            false => node.used.clone(),
        };
        let covers_start = |b: &&Booking| b.start <= start && start < b.end;
        most.give(&sum(ahead().filter(covers_start)));
        for at in points {
            let then = running().filter(|b| expected(b, now) > at);
            raise(
                &mut most,
                &sum(then.chain(ahead().filter(|b| b.start <= at && at < b.end))),
            );
        }
        let mut since = now;
        for end in node.running.iter().map(|b| expected(b, now)) {
            since = if end <= start { since.max(end) } else { since };
        }
        let mut until = Time::FAR;
        if !node.ahead.is_empty() {
            for booking in ahead() {
                since = since.max(if booking.end <= start {
                    booking.end
                } else {
                    now
                });
                until = until.min(if booking.start >= end {
                    booking.start
                } else {
                    Time::FAR
                });
            }
        }
        Some(Window {
            free: left(&node.total, &most),
            since,
            until,
        })
    }

    fn note(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        node.refresh();
        set(&mut self.idle, id, node.running.is_empty());
        set(&mut self.full, id, node.free.cores == 0);
        let open = self.open.contains(id);
        let counts = RegionRoom {
            cores: if open { node.free.cores.into() } else { 0 },
            idle: u32::from(open && node.running.is_empty()),
            open: open.into(),
        };
        let Some(at) = node.region else {
            return;
        };
        let by_cores = &mut self.by_cores[at];
        by_cores[node.counted.cores as usize] -= node.counted.open;
        by_cores[counts.cores as usize] += counts.open;
        let region = &mut self.regions[at];
        region.cores = region.cores + counts.cores - node.counted.cores;
        region.idle = region.idle + counts.idle - node.counted.idle;
        node.counted = counts;
    }
}

/// When a running job counts as ended: never in the past.
fn expected(booking: &Booking, now: Time) -> Time {
    booking.end.max(Time(now.0.saturating_add(1)))
}

fn position(bookings: &[Booking], owner: Owner) -> Option<usize> {
    bookings.iter().position(|booking| booking.owner == owner)
}

fn set(mask: &mut NodeMask, id: NodeId, inside: bool) {
    match inside {
        true => mask.insert(id),
        false => mask.remove(id),
    }
}

fn sum<'a>(bookings: impl Iterator<Item = &'a Booking>) -> Amounts {
    let mut sum = Amounts::default();
    bookings.for_each(|booking| sum.give(&booking.amounts));
    sum
}

/// Raises each part of `most` to that of `other`.
fn raise(most: &mut Amounts, other: &Amounts) {
    most.cores = most.cores.max(other.cores);
    most.memory = most.memory.max(other.memory);
    most.disk = most.disk.max(other.disk);
    most.gpus = most.gpus.max(other.gpus);
    for (name, amount) in other.other.iter() {
        let both = most.other.get(name).max(amount);
        most.other.set(name, both);
    }
}

/// `total` without `used`, never below zero.
fn left(total: &Amounts, used: &Amounts) -> Amounts {
    let mut free = Amounts {
        cores: total.cores.saturating_sub(used.cores),
        memory: cosy_model::MiB(total.memory.0.saturating_sub(used.memory.0)),
        disk: cosy_model::MiB(total.disk.0.saturating_sub(used.disk.0)),
        gpus: total.gpus.saturating_sub(used.gpus),
        other: total.other.clone(),
    };
    for (name, amount) in used.other.iter() {
        let rest = total.other.get(name).saturating_sub(amount);
        free.other.set(name, rest);
    }
    free
}
