//! One pass over the waiting jobs of a component: what starts now.
//!
//! Jobs are taken in the order of service. A job that can start without moving a
//! guaranteed place starts. Of those that cannot, the first `depth` get a guaranteed place:
//! the earliest time, with concrete nodes, that running jobs (by their expected ends),
//! reservations and earlier guaranteed places allow.
//!
//! Guaranteed places are found only when a later job could start without them: a place
//! takes room and never gives any, so what fails without it fails with it.
//!
//! What always holds: after a pass no guaranteed place is left in the machine.

use crate::group::{BITS, Feasible};
use crate::line::{Cursor, GroupId, QueueKey};
use crate::machine::{Booking, Owner};
use crate::nodeset::NodeSet;
use crate::profile::Profile;
use crate::scheduler::Scheduler;
use crate::select::Pick;
use crate::summary::Room;
use crate::timeline::Timeline;
use crate::whole::Masks;
use crate::{NodeMask, OrderKey, Policy};
use cosy_model::{JobId, NodeId, NodeShare, Span, Time, WaitReason};

/// A limit beyond which an end is treated as never (146 million years).
const ENDLESS: Span = Span(i64::MAX / 2);

/// What one pass has found so far.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub component: usize,
    pub now: Time,
    /// Reservations that start from then on are out of reach of every waiting job, and
    /// nodes are chosen as if they were not there.
    pub far: Time,
    /// Guarantees given, found or still to find.
    given: usize,
    /// Those whose places are still to find.
    pending: Vec<QueueKey>,
    /// Places of whole-node jobs.
    pub places: Timeline,
    /// Their nodes.
    placed: NodeMask,
    /// Those that are not booked node by node yet.
    unbooked: Vec<(NodeSet, Time, Time)>,
    /// Nodes on which a place is booked.
    booked: Vec<NodeId>,
    /// Latest start of a place.
    last_start: Time,
    /// A job may have no place at all, because something has no end.
    endless: bool,
    /// What the head leaves to others, as long as its place is still to find.
    pub bound: Option<Leftover>,
    /// The job that the bound is for, and its key.
    head: Option<(OrderKey, QueueKey)>,
    heads: Vec<(JobId, WaitReason)>,
    started: Vec<OrderKey>,
    /// Bits of groups of which a job might start, and for each bit how many cannot.
    groups: u64,
    hopeless: [u32; BITS],
    gave_up: bool,
    pub masks: Masks,
    /// The idle nodes that the head's place needs, as long as numbers tell it.
    pub kept: NodeMask,
    /// The set of a job that has ended.
    pub spare_set: Option<NodeSet>,
    /// What is free at most, once it is asked for.
    pub profile: Profile,
}

/// What the head's place leaves to other jobs, told by numbers of nodes alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftover {
    /// Idle nodes that the place needs: the lowest ones.
    pub kept: u32,
    /// Time until it starts.
    pub slack: Span,
}

impl Default for Pass {
    fn default() -> Self {
        Self {
            component: 0,
            now: Time::EPOCH,
            far: Time::FAR,
            given: 0,
            pending: Vec::new(),
            places: Timeline::default(),
            placed: NodeMask::default(),
            unbooked: Vec::new(),
            booked: Vec::new(),
            last_start: Time::EPOCH,
            endless: false,
            bound: None,
            head: None,
            heads: Vec::new(),
            started: Vec::new(),
            groups: u64::MAX,
            hopeless: [0; BITS],
            gave_up: false,
            masks: Masks::default(),
            kept: NodeMask::default(),
            spare_set: None,
            profile: Profile::default(),
        }
    }
}

impl Pass {
    /// Begins anew in the memory of an earlier pass.
    pub fn begin(&mut self, component: usize, now: Time, far: Time, endless: bool) {
        (self.component, self.now, self.last_start) = (component, now, now);
        self.far = far;
        (self.given, self.endless, self.bound) = (0, endless, None);
        self.head = None;
        if self.gave_up {
            self.groups = u64::MAX;
            self.hopeless = [0; BITS];
            self.gave_up = false;
        }
        self.pending.clear();
        self.places.clear();
        self.placed.clear();
        self.unbooked.clear();
        self.booked.clear();
        self.heads.clear();
        self.started.clear();
        self.kept.clear();
        self.profile.clear();
    }
}

impl Scheduler {
    /// Runs a pass over one component and appends what it starts.
    pub(crate) fn pass(&mut self, component: usize, now: Time, starts: &mut Vec<JobId>) {
        self.passes += 1;
        self.drop_past_blocks(component, now);
        let mut pass = std::mem::take(&mut self.spare);
        let known = &mut self.components[component];
        let far = match known.bounds.is_empty() && self.reach.is_none() {
            true => Time::FAR,
            false => now + at_least_one(known.line.longest()),
        };
        pass.begin(component, now, far, known.has_endless());
        self.note_reserved(component, now, far);
        self.reaches(far);
        if !self.serve_fresh(&mut pass, starts) {
            self.serve_line(&mut pass, starts);
        }
        self.finish(&mut pass);
        self.spare = pass;
    }

    fn serve_line(&mut self, pass: &mut Pass, starts: &mut Vec<JobId>) {
        let mut cursor = Cursor::default();
        while let Some((key, brief)) = self.next_in_line(pass, &mut cursor) {
            if !self.consider(pass, key, &brief, starts) {
                break;
            }
        }
        let told = pass.pending.len() == 1 && self.is_plain();
        pass.head = pass.head.filter(|_| told);
    }

    /// True where all that matters is how many nodes a job wants and for how long.
    fn is_plain(&self) -> bool {
        self.policy == Policy::EASY && self.groups.are_plain()
    }

    /// When nothing has happened since the last pass but that jobs have come behind the
    /// head, and numbers of nodes tell what can start, the jobs that could not start then
    /// cannot now: only the new ones are looked at. False when it is not so.
    fn serve_fresh(&mut self, pass: &mut Pass, starts: &mut Vec<JobId>) -> bool {
        let component = &mut self.components[pass.component];
        let Some((key, head)) = component.head.filter(|_| component.only_fresh) else {
            return false;
        };
        let behind = component.fresh.iter().all(|(fresh, _)| *fresh > key);
        if !behind || component.due <= pass.now || pass.endless || !self.is_plain() {
            return false;
        }
        pass.given = 1;
        pass.pending.push(head);
        let room = self.room(pass);
        if room.idle > 0 && pass.bound.is_none() {
            pass.given = 0;
            pass.pending.clear();
            return false;
        }
        let component = &mut self.components[pass.component];
        let mut fresh = std::mem::take(&mut component.fresh);
        fresh.sort_unstable_by_key(|(key, _)| *key);
        for (key, brief) in fresh.drain(..) {
            if self.room(pass).holds(&brief) {
                self.consider(pass, key, &brief, starts);
            }
        }
        let component = &mut self.components[pass.component];
        component.fresh = fresh;
        pass.head = Some((key, head));
        pass.heads.append(&mut component.heads);
        true
    }

    /// The next job that might start, or that is to be given a guarantee.
    fn next_in_line(
        &mut self,
        pass: &mut Pass,
        cursor: &mut Cursor,
    ) -> Option<(OrderKey, QueueKey)> {
        let every = !self.policy.backfill || self.policy.depth.allows(pass.given);
        let room = (!every).then(|| self.room(pass));
        if room.is_some_and(|room| room.idle == 0 && !self.groups.share_nodes()) {
            return None; // there are only whole-node jobs
        }
        let line = &mut self.components[pass.component].line;
        let (groups, passes) = (&self.groups, self.passes);
        line.next(cursor, room.as_ref(), |group, limit| {
            groups.has_failed(group, passes, limit)
        })
    }

    fn room(&mut self, pass: &mut Pass) -> Room {
        let free = self.machine.room(pass.component);
        if let [head] = pass.pending[..]
            && free.idle > 0
            && pass.bound.is_none()
        {
            pass.bound = self.leftover(pass, &head);
            if let Some(bound) = pass.bound {
                self.reaches(pass.now + bound.slack + at_least_one(head.limit));
            }
        }
        if let Some(Leftover { kept, slack }) = pass.bound {
            return Room {
                idle: free.idle,
                lasting: free.idle.saturating_sub(kept),
                slack,
                cores: free.cores,
                groups: pass.groups,
            };
        }
        let component = &self.components[pass.component];
        let (open, idle) = (&self.machine.open, &self.machine.idle);
        // No job reaches a reservation, and no place is booked node by node.
        let lone = component.reserved_from() >= pass.far && !self.groups.share_nodes();
        let ahead = match lone {
            true => [&pass.placed, &pass.placed],
            false => [&self.machine.ahead, &pass.placed],
        };
        let lasting = match ahead.iter().all(|mask| mask.is_empty()) {
            true => free.idle,
            false => component.nodes.count_within([open, idle], ahead),
        };
        let last = match lone {
            true => pass.now,
            false => component.bounds.last().map_or(pass.now, |bound| bound.0),
        };
        Room {
            idle: free.idle,
            lasting,
            slack: last.max(pass.last_start).since(pass.now),
            cores: free.cores,
            groups: pass.groups,
        }
    }

    /// Decides on one job. False when the pass is over.
    fn consider(
        &mut self,
        pass: &mut Pass,
        key: OrderKey,
        brief: &QueueKey,
        starts: &mut Vec<JobId>,
    ) -> bool {
        if self.feasible(brief.group) != Feasible::Now {
            self.give_up(pass, brief.group, Span::ZERO);
            return true;
        }
        if self.start_now(pass, key.job, brief) {
            starts.push(key.job);
            pass.started.push(key);
            pass.endless |= brief.limit >= ENDLESS;
            return true;
        }
        let limit = self.as_hopeless(pass, brief.limit);
        self.give_up(pass, brief.group, limit);
        let guaranteed = self.policy.depth.allows(pass.given);
        if guaranteed || !self.policy.backfill {
            let reason = self.reason_of_head(pass, brief);
            pass.heads.push((key.job, reason));
        }
        if guaranteed && self.policy.backfill {
            self.guarantee(pass, key, brief);
        }
        self.policy.backfill
    }

    /// Gives a job a guaranteed place, found at once only where there may be none.
    fn guarantee(&mut self, pass: &mut Pass, key: OrderKey, brief: &QueueKey) {
        pass.given += 1;
        pass.pending.push(*brief);
        pass.head = Some((key, *brief));
        if pass.endless {
            self.find_places(pass);
        }
        pass.endless |= brief.limit >= ENDLESS;
    }

    /// Gives guaranteed places to these jobs, which wait before all others. False when nobody
    /// may start behind them.
    pub(crate) fn guarantee_all(
        &mut self,
        pass: &mut Pass,
        heads: impl Iterator<Item = (OrderKey, QueueKey)>,
    ) -> bool {
        for (key, brief) in heads {
            if !self.policy.backfill {
                return false;
            }
            let feasible = self.feasible(brief.group) == Feasible::Now;
            if feasible && self.policy.depth.allows(pass.given) {
                self.guarantee(pass, key, &brief);
            }
        }
        true
    }

    /// The shortest limit that is as hopeless as this one: it would run into the same
    /// bookings.
    fn as_hopeless(&self, pass: &Pass, limit: Span) -> Span {
        let reserved = &self.components[pass.component].reserved;
        let end = pass.now + at_least_one(limit);
        let starts = [reserved.last_start(end), pass.places.last_start(end)];
        let last = starts.into_iter().flatten().max().unwrap_or(pass.now);
        match last > pass.now {
            true => Span(last.since(pass.now).0 + 1).min(limit),
            false => Span::ZERO,
        }
    }

    /// Jobs of the group with that limit, or a longer one, cannot start in this pass.
    fn give_up(&mut self, pass: &mut Pass, group: GroupId, limit: Span) {
        let passes = self.passes;
        if self.groups.set_failed(group, passes, limit) {
            let bit = group.bit();
            pass.gave_up = true;
            pass.hopeless[bit] += 1;
            if pass.hopeless[bit] >= self.groups.sharing_bit(group) {
                pass.groups &= !(1 << bit);
            }
        }
    }

    /// Starts a job if that moves no guaranteed place.
    fn start_now(&mut self, pass: &mut Pass, job: JobId, brief: &QueueKey) -> bool {
        if self
            .groups
            .has_failed(brief.group, self.passes, brief.limit)
        {
            return false;
        }
        if self.lacks_room(pass, brief) {
            self.give_up(pass, brief.group, Span::ZERO);
            return false;
        }
        match brief.whole {
            0 => self.start_shared(pass, job, brief),
            _ => self.start_whole(pass, job, brief),
        }
    }

    /// True when what is free at this moment is too little, so that no shorter limit helps.
    pub(crate) fn lacks_room(&mut self, pass: &Pass, brief: &QueueKey) -> bool {
        if brief.whole == 0 {
            return self.lacks_amounts(brief);
        }
        let group = self.groups.get(brief.group);
        let idle = match group.everywhere {
            true => self.machine.room(pass.component).idle,
            false => group.eligible.count_and(&self.machine.idle),
        };
        idle < brief.whole
    }

    fn start_whole(&mut self, pass: &mut Pass, job: JobId, brief: &QueueKey) -> bool {
        if let Some(bound) = pass.bound.filter(|_| self.groups.are_plain()) {
            return self.start_beside(pass, job, brief, bound);
        }
        let nodes = self.nodes_beside_places(pass, brief);
        nodes.is_some_and(|nodes| {
            self.start_on(job, nodes, pass.now);
            true
        })
    }

    /// The nodes on which a whole-node job can start now without moving a guaranteed place.
    pub(crate) fn nodes_beside_places(
        &mut self,
        pass: &mut Pass,
        brief: &QueueKey,
    ) -> Option<NodeSet> {
        let booked = self.components[pass.component].reserved_from() < pass.far;
        if !pass.pending.is_empty() {
            if booked {
                self.nodes_now(pass, brief)?;
            }
            self.find_places(pass);
        }
        self.nodes_now(pass, brief)
    }

    fn start_shared(&mut self, pass: &mut Pass, job: JobId, brief: &QueueKey) -> bool {
        let picks = self.picks_beside_places(pass, brief);
        picks.is_some_and(|picks| {
            self.start_picked(job, &picks, pass.now);
            true
        })
    }

    /// Where a job that shares nodes can start now without moving a guaranteed place.
    pub(crate) fn picks_beside_places(
        &mut self,
        pass: &mut Pass,
        brief: &QueueKey,
    ) -> Option<Vec<Pick>> {
        self.book_places(pass);
        let picks = self.picks_now(pass, brief)?;
        if pass.pending.is_empty() {
            return Some(picks);
        }
        self.find_places(pass);
        self.book_places(pass);
        self.picks_now(pass, brief)
    }

    /// Finds the places of all pending guarantees and books them. A guarantee for which no
    /// time can be told, because something never ends, is none and is given to another job.
    fn find_places(&mut self, pass: &mut Pass) {
        let mut pending = std::mem::take(&mut pass.pending);
        pass.bound = None;
        for brief in pending.drain(..) {
            let found = match brief.whole {
                0 => self.place_shared(pass, &brief),
                _ => self.place_whole(pass, &brief),
            };
            match found {
                Some(start) => {
                    pass.last_start = pass.last_start.max(start);
                    self.reaches(start + at_least_one(brief.limit));
                }
                None => pass.given -= 1,
            }
        }
        pass.pending = pending;
    }

    fn place_whole(&mut self, pass: &mut Pass, brief: &QueueKey) -> Option<Time> {
        let found = self.looking_far_enough(pass, brief, |scheduler, pass| {
            scheduler.earliest_whole(pass, brief)
        });
        let (start, nodes) = found?;
        let end = start + at_least_one(brief.limit);
        pass.placed.add_set(&nodes);
        if !pass.profile.is_empty() {
            pass.profile.take(start, end, nodes.count());
        }
        if self.groups.share_nodes() {
            pass.unbooked.push((nodes.clone(), start, end));
        }
        pass.places.book(nodes, start, end);
        Some(start)
    }

    /// What `find` finds when all reservations are looked at that begin before the place
    /// ends.
    fn looking_far_enough<T>(
        &mut self,
        pass: &mut Pass,
        brief: &QueueKey,
        find: impl Fn(&mut Self, &mut Pass) -> Option<(Time, T)>,
    ) -> Option<(Time, T)> {
        loop {
            let found = find(self, pass);
            let end = found
                .as_ref()
                .map(|(start, _)| *start + at_least_one(brief.limit));
            let end = end.unwrap_or(Time::FAR);
            let known = self.components[pass.component].reserved_until;
            if end <= known || !self.look_farther(pass.component, pass.now, end) {
                return found;
            }
            pass.profile.clear();
        }
    }

    fn place_shared(&mut self, pass: &mut Pass, brief: &QueueKey) -> Option<Time> {
        self.book_places(pass);
        let found = self.looking_far_enough(pass, brief, |scheduler, pass| {
            scheduler.earliest_shared(pass, brief)
        });
        let (start, picks) = found?;
        let end = start + at_least_one(brief.limit);
        let nodes = picks.iter().map(|pick| pick.node).collect();
        pass.places.book(nodes, start, end);
        let demand = std::sync::Arc::clone(&self.groups.get(brief.group).demand);
        for share in self.shares_for(&demand, &picks) {
            let NodeShare { node, amounts, .. } = share;
            pass.booked.push(node);
            let booking = Booking::place(start, end, amounts, false);
            self.machine.book(node, booking);
        }
        Some(start)
    }

    /// Books places of whole-node jobs node by node, for jobs that share nodes.
    fn book_places(&mut self, pass: &mut Pass) {
        for (nodes, start, end) in pass.unbooked.drain(..) {
            for node in nodes.iter() {
                pass.booked.push(node);
                let all = self.machine.total(node).clone();
                let booking = Booking::place(start, end, all, true);
                self.machine.book(node, booking);
            }
        }
    }

    /// Why a job that cannot start waits, when nobody else is before it.
    fn reason_of_head(&mut self, pass: &Pass, brief: &QueueKey) -> WaitReason {
        let reserved = self.components[pass.component].reserved_from() < pass.far;
        if reserved && !self.lacks_room(pass, brief) && self.fits_blindly(pass, brief) {
            return WaitReason::Reservation;
        }
        WaitReason::Resources
    }

    /// Whether the group could run, found out once for each state of nodes and queues.
    pub(crate) fn feasible(&mut self, group: GroupId) -> Feasible {
        let group = self.groups.get_mut(group);
        let queue = &self.queues[group.queue().index()];
        let all = &self.components[queue.component].nodes;
        group.refresh(self.epoch, &self.machine, (&queue.nodes, all));
        group.feasible
    }

    /// Whether the group could run, without keeping the answer.
    pub(crate) fn known_feasible(&self, group: GroupId) -> Feasible {
        let known = self.groups.get(group);
        if known.is_current(self.epoch) {
            return known.feasible;
        }
        let mut known = known.clone();
        let queue = &self.queues[known.queue().index()];
        let all = &self.components[queue.component].nodes;
        known.refresh(self.epoch, &self.machine, (&queue.nodes, all));
        known.feasible
    }

    /// Notes that a decision looks at what is booked until then.
    fn reaches(&mut self, end: Time) {
        self.reach = self.reach.map(|reach| reach.max(end));
    }

    fn finish(&mut self, pass: &mut Pass) {
        for node in pass.booked.drain(..) {
            self.machine.unbook(node, Owner::Place);
        }
        let component = &mut self.components[pass.component];
        for key in &pass.started {
            component.line.remove(key);
        }
        pass.heads.sort_unstable_by_key(|(job, _)| *job);
        std::mem::swap(&mut component.heads, &mut pass.heads);
        component.dirty = false;
        component.only_fresh = true;
        component.fresh.clear();
        component.head = pass.head;
        component.due = component.next_due(pass.now);
    }
}

/// Jobs without any time limit worth the name still take a millisecond.
pub(crate) fn at_least_one(limit: Span) -> Span {
    limit.max(Span(1))
}
