//! One pass over the waiting jobs of a pool: what starts now.
//!
//! [`easy`] is the loop and the plain path; [`guarantee`] finds places where numbers of nodes
//! do not tell them; [`fresh`] is a shortcut where jobs have only come. Here is what a pass
//! remembers and what all of them ask.
//!
//! What always holds: after a pass no guaranteed place is left in the machine.

pub(crate) mod easy;
mod fresh;
mod guarantee;
mod holds;

use crate::group::{BITS, Feasible};
use crate::hopeless::Hopeless;
use crate::lacks::Lacks;
use crate::machine::Owner;
use crate::node_pool::ReservedWithin;
use crate::nodeset::NodeSet;
use crate::profile::Profile;
use crate::resource_pool::holder::Promise;
use crate::scheduler::Scheduler;
use crate::shadow::Shadow;
use crate::timeline::Timeline;
use crate::waiting_line::{GroupId, QueueKey};
use crate::whole_nodes::{Masks, Vacated};
use crate::{NodeMask, OrderKey};
use cosy_model::{JobId, NodeId, Span, Time, WaitReason};

/// A limit beyond which an end is treated as never (146 million years).
const ENDLESS: Span = Span(i64::MAX / 2);

/// With fewer jobs for each group, it is quicker to look at the jobs.
const JOBS_OF_A_GROUP: usize = 16;

/// What one pass has found so far.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub pool: usize,
    pub now: Time,
    /// Reservations that start from then on are out of reach of every waiting job, and
    /// nodes are chosen as if they were not there.
    pub far: Time,
    /// Guarantees given, found or still to find.
    given: usize,
    /// Those among them of jobs that others make room for: the policy does not count them.
    ahead: usize,
    /// Those whose places are still to find.
    pending: Vec<(JobId, QueueKey)>,
    /// What places hold of resource pools; first those of other pools of nodes, so many.
    pub promised: Vec<Promise>,
    foreign: usize,
    /// Jobs whose own pools are full.
    parked: Vec<(OrderKey, QueueKey)>,
    /// Places of whole-node jobs.
    pub places: Timeline,
    /// Nodes of all places.
    placed: NodeMask,
    /// The reservations within reach, once they have been asked for.
    reserved: Option<ReservedWithin>,
    /// Those that are not booked node by node yet.
    unbooked: Vec<(NodeSet, Time, Time)>,
    /// Nodes on which a place is booked.
    booked: Vec<NodeId>,
    /// Latest start of a place.
    last_start: Time,
    /// A job may have no place at all, because something has no end.
    endless: bool,
    /// What the head leaves to others, as long as its place is still to find.
    shadow: Option<Shadow>,
    /// The head: the last job that was given a guarantee.
    head: Option<(OrderKey, QueueKey)>,
    heads: Vec<(JobId, WaitReason)>,
    pub started: Vec<OrderKey>,
    /// Bits of groups of which a job might start, and for each bit how many cannot.
    groups: u64,
    hopeless: [u32; BITS],
    gave_up: bool,
    /// There are few groups for so many jobs.
    few_groups: bool,
    /// Which jobs that share nodes cannot start.
    hopeless_sharing: Hopeless,
    pub masks: Masks,
    pub vacated: Vacated,
    /// The idle nodes that the head's place needs, as long as numbers tell it.
    pub kept: NodeMask,
    /// The set of a job that has ended.
    pub spare_set: Option<NodeSet>,
    /// What is free at most, once it is asked for.
    pub profile: Profile,
    /// What is known to be lacking of shared pools.
    pub lacks: Lacks,
}

impl Default for Pass {
    fn default() -> Self {
        Self {
            pool: 0,
            now: Time::EPOCH,
            far: Time::FAR,
            given: 0,
            ahead: 0,
            pending: Vec::new(),
            promised: Vec::new(),
            foreign: 0,
            parked: Vec::new(),
            places: Timeline::default(),
            placed: NodeMask::default(),
            reserved: None,
            unbooked: Vec::new(),
            booked: Vec::new(),
            last_start: Time::EPOCH,
            endless: false,
            shadow: None,
            head: None,
            heads: Vec::new(),
            started: Vec::new(),
            groups: u64::MAX,
            hopeless: [0; BITS],
            gave_up: false,
            few_groups: false,
            hopeless_sharing: Hopeless::default(),
            masks: Masks::default(),
            vacated: Vacated::default(),
            kept: NodeMask::default(),
            spare_set: None,
            profile: Profile::default(),
            lacks: Lacks::default(),
        }
    }
}

impl Pass {
    /// Begins anew in the memory of an earlier pass.
    pub fn begin(&mut self, pool: usize, now: Time, far: Time, endless: bool) {
        (self.pool, self.now, self.last_start) = (pool, now, now);
        self.far = far;
        (self.given, self.endless, self.shadow) = (0, endless, None);
        self.ahead = 0;
        self.head = None;
        if self.gave_up {
            self.groups = u64::MAX;
            self.hopeless = [0; BITS];
            self.gave_up = false;
        }
        self.few_groups = false;
        self.hopeless_sharing.clear();
        self.pending.clear();
        self.promised.clear();
        self.foreign = 0;
        self.parked.clear();
        self.places.clear();
        self.placed.clear();
        self.reserved = None;
        self.unbooked.clear();
        self.booked.clear();
        self.heads.clear();
        self.started.clear();
        self.kept.clear();
        self.vacated.clear();
        self.profile.clear();
        self.lacks.clear();
    }
}

impl Scheduler {
    /// The shortest limit that is as hopeless as this one: it would run into the same
    /// bookings.
    fn as_hopeless(&self, pass: &Pass, limit: Span) -> Span {
        let reserved = &self.node_pools[pass.pool].reserved;
        let end = pass.now + at_least_one(limit);
        let starts = [reserved.last_start(end), pass.places.last_start(end)];
        let last = starts.into_iter().flatten().max().unwrap_or(pass.now);
        match last > pass.now {
            true => Span(last.since(pass.now).0 + 1).min(limit),
            false => Span::ZERO,
        }
    }

    /// Gives up the groups of jobs that share nodes for which there is too little room whatever their
    /// limits: the first job of a group may stand far behind in the line, and until it was found no search
    /// could pass over anything. Those of other pools do not stand in this line.
    fn give_up_without_room(&mut self, pass: &mut Pass) {
        let jobs = self.node_pools[pass.pool].line.len();
        pass.few_groups = self.groups.slots() <= jobs / JOBS_OF_A_GROUP;
        if !self.policy().backfill || !self.groups.share_nodes() || !pass.few_groups {
            return;
        }
        for slot in 0..self.groups.slots() {
            let Some(id) = self.groups.sharing_in(slot) else {
                continue;
            };
            let queue = self.queue(self.groups.get(id).queue());
            let is_here = queue.is_some_and(|queue| queue.pool == pass.pool);
            if !is_here || self.feasible(id) != Feasible::Now || self.lacks_amounts(id) {
                self.give_up(pass, id, Span::ZERO);
            }
        }
    }

    /// A job that shares nodes has found room for so many tasks only: jobs of the same shape that have more,
    /// and as long limits, are given up with it.
    fn give_up_larger(&mut self, pass: &mut Pass, queue_key: &QueueKey, room: u64) {
        if !pass.few_groups || room == u64::MAX {
            return;
        }
        let limit = self.as_hopeless(pass, queue_key.limit);
        for slot in 0..self.groups.slots() {
            let larger = self.groups.sharing_in(slot);
            let larger = larger.filter(|id| self.groups.is_larger(*id, queue_key.group, room));
            if let Some(id) = larger {
                self.give_up(pass, id, limit);
            }
        }
    }

    /// Jobs of the group with that limit, or a longer one, cannot start in this pass.
    fn give_up(&mut self, pass: &mut Pass, group: GroupId, limit: Span) {
        let passes = self.pass_number();
        if let Some(class) = self.groups.class_of_cores(group)
            && !self.groups.has_failed(group, passes, limit)
        {
            let again = self.groups.any_failed(group, passes);
            let groups = self.groups.sharing_class(class);
            pass.hopeless_sharing.note(class, limit, again, groups);
        }
        if self.groups.set_failed(group, passes, limit) {
            let bit = group.bit();
            pass.gave_up = true;
            pass.hopeless[bit] += 1;
            if pass.hopeless[bit] >= self.groups.sharing_bit(group) {
                pass.groups &= !(1 << bit);
            }
        }
    }

    /// True when what is free at this moment is too little, so that no shorter limit helps.
    pub(crate) fn lacks_room(&mut self, pass: &Pass, queue_key: &QueueKey) -> bool {
        if queue_key.whole == 0 {
            return self.lacks_amounts(queue_key.group);
        }
        let group = self.groups.get(queue_key.group);
        let idle = match group.everywhere {
            true => self.machine.room(pass.pool).idle,
            false => group.eligible().count_and(&self.machine.idle),
        };
        idle < queue_key.whole
    }

    /// True when one more job gets a guaranteed place.
    fn gives_places(&self, pass: &Pass) -> bool {
        self.policy()
            .depth
            .allows(pass.given.saturating_sub(pass.ahead))
    }

    /// True when a job that stands there and cannot start gets a guaranteed place.
    fn gets_place(&self, pass: &Pass, key: OrderKey) -> bool {
        key.ahead.is_some() || !key.no_place && self.gives_places(pass)
    }

    /// Why a job that cannot start waits, when nobody else is before it.
    fn reason_of_head(&mut self, pass: &Pass, queue_key: &QueueKey) -> WaitReason {
        let reserved = self.node_pools[pass.pool].reserved_from() < pass.far;
        if reserved && !self.lacks_room(pass, queue_key) && self.fits_blindly(pass, queue_key) {
            return match self.only_absences(pass.pool, pass.far) {
                true => WaitReason::NodesOff,
                false => WaitReason::Reservation,
            };
        }
        WaitReason::Resources
    }

    fn finish(&mut self, pass: &mut Pass) {
        for node in pass.booked.drain(..) {
            self.machine.unbook(node, Owner::Place);
        }
        self.finish_holders(pass);
        let pools_due = match self.classes().any() {
            true => self.resource_pools().next_due(pass.now),
            false => None,
        };
        let pools_due = pools_due.unwrap_or(Time::FAR);
        let pool = &mut self.node_pools[pass.pool];
        for key in &pass.started {
            pool.line.remove(key);
        }
        pass.heads.sort_unstable_by_key(|(job, _)| *job);
        std::mem::swap(&mut pool.heads, &mut pass.heads);
        pool.dirty = false;
        pool.only_fresh = true;
        pool.fresh.clear();
        pool.head = pass.head;
        pool.due = pool.next_due(pass.now);
        pool.due = pool.due.min(pools_due);
    }

    /// Jobs whose own pools are full are parked beside them, and others are told what the places
    /// found hold of pools.
    fn finish_holders(&mut self, pass: &mut Pass) {
        for (key, queue_key) in pass.parked.drain(..) {
            let full = self.full_own_pool(queue_key.class);
            if let Some(need) = full
                && let Some(pool) = self.node_pools.get_mut(pass.pool)
                && pool.line.remove(&key)
            {
                pool.park(need, key, queue_key);
            }
        }
        if self.keep_promises(pass) {
            self.touch_holders();
        }
    }
}

/// Jobs without any time limit worth the name still take a millisecond.
pub(crate) fn at_least_one(limit: Span) -> Span {
    limit.max(Span(1))
}
