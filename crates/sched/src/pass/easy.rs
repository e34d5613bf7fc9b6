//! EASY, or aggressive backfill: the plain path of the planner, and the loop that all others
//! are detours of.
//!
//! Jobs are taken in the order of service, and start as long as there are nodes. The first one
//! that cannot start is the *head* of the line. It gets a guaranteed place as soon as enough
//! running jobs are over by their time limits: that is the *shadow time*. Nodes that the place
//! does not need then are *extra nodes*. A job behind the head starts now if idle nodes are
//! enough for it and it does not delay the head: either it is over by the shadow time, or extra
//! nodes are enough for it, however long it takes.
//!
//! ```text
//!   node
//!     6 |== b ===========================================
//!     5 |== a =============|############################|
//!     4 |== a =============|########## head ############|
//!     3 |   idle: extra, whatever the limit
//!     2 |   idle until then|############################|
//!     1 |   idle until then|############################|
//!     0 |   idle until then|############################|
//!       +------------------+-----------------------------> time
//!      now            shadow time
//! ```
//!
//! The head wants five nodes and four are idle. The place takes what comes free last (4 and 5),
//! and of the nodes that are idle now the lowest: `kept` are 0 to 2, so 3 is extra.
//!
//! Sources: Lifka, "The ANL/IBM SP scheduling system" (1995); for shadow time and extra nodes
//! Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates
//! in scheduling the IBM SP2 with backfilling" (2001), whose algorithm for EASY has the two
//! steps of this file: find them, then find jobs to backfill. COSY paper, section 3.1: first
//! come, first served with aggressive backfill.
//!
//! Elsewhere: numbers tell the place only where nodes are alike and jobs hold them as a whole,
//! with one guarantee and no reservation within reach. For everything else the place is found
//! on the nodes themselves ([`super::guarantee`]): more guarantees than one, jobs that share
//! nodes, nodes that are not alike, reservations. Which nodes a job gets is said in
//! [`crate::whole`] and [`crate::shared`], what a search passes over in [`crate::line`].

use super::{ENDLESS, Pass, at_least_one};
use crate::OrderKey;
use crate::group::Feasible;
use crate::scheduler::Scheduler;
use crate::select::count_alike;
use crate::shadow::Shadow;
use crate::summary::Available;
use crate::waiting_line::{Cursor, QueueKey};
use cosy_model::{JobId, Span, Time};

impl Scheduler {
    /// Runs a pass over one pool and appends what it starts.
    pub(crate) fn pass(&mut self, pool: usize, now: Time, starts: &mut Vec<JobId>) {
        let mut pass = self.begin_pass();
        self.drop_past_blocks(pool, now);
        let watched = self.reach().is_some();
        let known = &mut self.node_pools[pool];
        let far = match known.bounds.is_empty() && !watched {
            true => Time::FAR,
            false => now + at_least_one(known.line.longest().max(known.parked_longest())),
        };
        pass.begin(pool, now, far, known.has_endless());
        self.note_reserved(pool, now, far);
        self.reaches(far);
        self.note_promises(&mut pass);
        if !self.serve_fresh(&mut pass, starts) {
            self.serve_line(&mut pass, starts);
        }
        self.finish(&mut pass);
        self.end_pass(pass);
    }

    /// Looks at each job that might start, in the order of service.
    fn serve_line(&mut self, pass: &mut Pass, starts: &mut Vec<JobId>) {
        self.give_up_without_room(pass);
        let mut cursor = Cursor::default();
        while let Some((key, queue_key)) = self.next_in_line(pass, &mut cursor) {
            if !self.consider(pass, key, &queue_key, starts) {
                break;
            }
        }
        let told = pass.pending.len() == 1 && self.is_plain();
        pass.head = pass.head.filter(|_| told);
    }

    /// The next job that might start in what is free, or that is to be given a guarantee.
    fn next_in_line(
        &mut self,
        pass: &mut Pass,
        cursor: &mut Cursor,
    ) -> Option<(OrderKey, QueueKey)> {
        let every = !self.policy().backfill || self.gives_places(pass);
        if !every && let Some(next) = self.next_ahead(pass.pool, cursor) {
            return Some(next);
        }
        let room = (!every).then(|| self.room(pass));
        if room.is_some_and(|room| room.idle == 0 && !self.groups.share_nodes()) {
            return None; // there are only whole-node jobs
        }
        let lacks = (!pass.lacks.is_empty()).then_some(&pass.lacks);
        let hopeless = Some(&pass.hopeless_sharing).filter(|all| all.is_any());
        let room = room.map(|room| Available {
            lacks,
            hopeless,
            ..room
        });
        let passes = self.pass_number();
        let (line, groups) = (&mut self.node_pools[pass.pool].line, &self.groups);
        line.next(cursor, room.as_ref(), |group, limit| groups.has_failed(group, passes, limit))
    }

    /// The next job, if others make room for it: it gets a place however few the policy gives.
    fn next_ahead(&mut self, pool: usize, cursor: &mut Cursor) -> Option<(OrderKey, QueueKey)> {
        let line = &mut self.node_pools.get_mut(pool)?.line;
        line.first().filter(|key| key.ahead.is_some())?;
        let mut there = *cursor;
        let next = line.next(&mut there, None, |_, _| false);
        let next = next.filter(|(key, _)| key.ahead.is_some())?;
        *cursor = there;
        Some(next)
    }

    /// Decides on one job: it starts, or it is given a guaranteed place, or it waits without
    /// one. False when the pass is over.
    pub(super) fn consider(
        &mut self,
        pass: &mut Pass,
        key: OrderKey,
        queue_key: &QueueKey,
        starts: &mut Vec<JobId>,
    ) -> bool {
        if self.feasible(queue_key.group) != Feasible::Now {
            self.give_up(pass, queue_key.group, Span::ZERO);
            return true;
        }
        if queue_key.class.holds() && self.full_own_pool(queue_key.class).is_some() {
            pass.parked.push((key, *queue_key));
            return true;
        }
        match self.start_now(pass, key.job, queue_key) {
            Attempt::Started => {
                starts.push(key.job);
                pass.started.push(key);
                pass.endless |= queue_key.limit >= ENDLESS;
                return true;
            }
            Attempt::NodesLack => {
                let limit = self.as_hopeless(pass, queue_key.limit);
                self.give_up(pass, queue_key.group, limit);
            }
            Attempt::PoolsLack => self.note_lacks(pass, queue_key),
        }
        let guaranteed = self.gets_place(pass, key);
        if guaranteed || !self.policy().backfill {
            let reason = self.reason_of_head(pass, queue_key);
            pass.heads.push((key.job, reason));
        }
        if guaranteed && self.policy().backfill {
            self.guarantee(pass, key, queue_key);
        }
        self.policy().backfill
    }

    /// Starts a job if that moves no guaranteed place.
    fn start_now(&mut self, pass: &mut Pass, job: JobId, queue_key: &QueueKey) -> Attempt {
        if self
            .groups
            .has_failed(queue_key.group, self.pass_number(), queue_key.limit)
        {
            return Attempt::NodesLack;
        }
        if self.lacks_room(pass, queue_key) {
            self.give_up(pass, queue_key.group, Span::ZERO);
            return Attempt::NodesLack;
        }
        if !self.may_hold_now(pass, queue_key) {
            return Attempt::PoolsLack;
        }
        match queue_key.whole {
            0 => self.start_shared(pass, job, queue_key),
            _ => self.start_whole(pass, job, queue_key),
        }
    }

    fn start_whole(&mut self, pass: &mut Pass, job: JobId, queue_key: &QueueKey) -> Attempt {
        if let Some(shadow) = pass.shadow.filter(|_| self.groups.are_plain()) {
            return self.backfill(pass, job, queue_key, shadow);
        }
        let Some(nodes) = self.nodes_beside_places(pass, queue_key) else {
            return Attempt::NodesLack;
        };
        if !self.may_hold_on(pass, queue_key, || self.whole_shares_of(queue_key, &nodes)) {
            return Attempt::PoolsLack;
        }
        self.start_on(job, nodes, pass.now);
        Attempt::Started
    }

    /// What jobs may still take: everything until the shadow time, extra nodes beyond it.
    pub(super) fn room(&mut self, pass: &mut Pass) -> Available<'static> {
        let free = self.machine.room(pass.pool);
        if let [(_, head)] = pass.pending[..]
            && free.idle > 0
            && pass.shadow.is_none()
        {
            pass.shadow = self.shadow(pass, &head);
            if let Some(shadow) = pass.shadow {
                self.reaches(shadow.time + at_least_one(head.limit));
            }
        }
        let Some(shadow) = pass.shadow else {
            return self.room_beside_places(pass, free);
        };
        Available {
            idle: free.idle,
            extra: shadow.extra(free.idle),
            until_shadow: shadow.time.since(pass.now),
            cores: free.cores,
            groups: pass.groups,
            lacks: None,
            hopeless: None,
        }
    }

    /// Step 1: shadow time and extra nodes. The head has its place when as many nodes have come
    /// free as are missing now; of those that are idle now it keeps what these do not make up.
    /// `None` where numbers do not tell the place.
    fn shadow(&self, pass: &Pass, head: &QueueKey) -> Option<Shadow> {
        let pool = &self.node_pools[pass.pool];
        let group = self.groups.get(head.group);
        if head.class.holds() || !self.is_counted(pool, pass, group) {
            return None;
        }
        let count = count_alike(group.demand.first(), group.alike?)?;
        let idle = self.machine.room(pass.pool).idle;
        let missing = count.checked_sub(idle).filter(|missing| *missing > 0)?;
        let soon = Time(pass.now.0.saturating_add(1));
        let (time, _, freed) = pool.ends.freed(missing.into(), soon)?;
        let end = time + at_least_one(head.limit);
        (end <= pool.reserved_from()).then(|| Shadow {
            time,
            kept: u64::from(count).saturating_sub(freed) as u32,
        })
    }

    /// Step 2: starts a job behind the head. One that is over by the shadow time may use any
    /// idle node, and uses those first that are kept for the head, which are the lowest; any
    /// other one is left the extra nodes.
    fn backfill(
        &mut self,
        pass: &mut Pass,
        job: JobId,
        queue_key: &QueueKey,
        shadow: Shadow,
    ) -> Attempt {
        self.keep_for_head(pass, queue_key, shadow.kept);
        let over_by_then = queue_key.limit <= shadow.time.since(pass.now);
        let nodes = match over_by_then {
            true => self.lowest_idle(pass, queue_key),
            false => self.lowest_extra(pass, queue_key),
        };
        let Some(nodes) = nodes else {
            return Attempt::NodesLack;
        };
        if !self.may_hold_on(pass, queue_key, || self.whole_shares_of(queue_key, &nodes)) {
            return Attempt::PoolsLack;
        }
        if over_by_then && shadow.kept > 0 {
            // They are free again by the shadow time.
            pass.kept.take_set(&nodes);
            let kept = pass.kept.count();
            pass.shadow = Some(Shadow { kept, ..shadow });
        }
        self.start_on(job, nodes, pass.now);
        Attempt::Started
    }
}

/// Whether a job has started, and if not, what it lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    Started,
    /// There are no nodes for it, nor for others of its group that run as long.
    NodesLack,
    /// There are nodes, but what it holds of resource pools is not free.
    PoolsLack,
}
