//! What quotas and the rule against splitting look at: the user's and the account's other
//! reservations, and how large a part of each node class they take.

use super::Reservation;
use super::ask::Wish;
use crate::admission::notice::Together;
use crate::admission::quota::{QuotaFacts, check_quotas, quotas_of};
use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::{Amounts, NodeId, NodeShare, Refusal, ReservationId, Span, Time};
use cosy_sched::appraise::Estimate;
use cosy_sched::{Demand, WaitingJob};
use std::collections::{BTreeMap, BTreeSet};

/// What makes nodes alike in every respect that placement can see.
type Class = (Vec<u64>, Vec<(String, u32)>, Vec<String>, Vec<usize>);

impl Controller {
    pub(crate) fn check_quotas(
        &self,
        now: Time,
        caller: &Caller,
        wish: &Wish,
        estimate: &Estimate,
    ) -> Result<(), Refusal> {
        let shares = estimate.shares.as_deref().unwrap_or_default();
        let slot = (estimate.start, estimate.end);
        self.check_quotas_of(now, caller, wish, slot, shares, 0)
    }

    /// The quotas of a reservation that is to be longer: it counts already, and its nodes
    /// do.
    pub(crate) fn check_quotas_longer(
        &self,
        now: Time,
        caller: &Caller,
        wish: &Wish,
        slot: (Time, Time),
    ) -> Result<(), Refusal> {
        self.check_quotas_of(now, caller, wish, slot, &[], 1)
    }

    fn check_quotas_of(
        &self,
        now: Time,
        caller: &Caller,
        wish: &Wish,
        slot: (Time, Time),
        shares: &[NodeShare],
        known: u32,
    ) -> Result<(), Refusal> {
        if self.is_admin(caller) {
            return Ok(());
        }
        let policy = self.policy_of(wish);
        let user = &caller.user.name;
        let (per_user, per_account) = quotas_of(policy, user, wish.account.as_deref());
        let facts = |mine: &dyn Fn(&Reservation) -> bool| QuotaFacts {
            open: self.open_count(mine).saturating_sub(known),
            class_share_ppm: self.class_shares(mine, slot, shares),
            start: slot.0,
            length: slot.1.since(slot.0),
        };
        let uid = caller.user.uid;
        let of_user = facts(&|r| r.row.uid == uid);
        check_quotas(per_user, &format!("user {user}"), now, &of_user)?;
        let (Some(quotas), Some(account)) = (per_account, &wish.account) else {
            return Ok(());
        };
        let of_account = facts(&|r| r.row.account.as_ref() == Some(account));
        check_quotas(quotas, &format!("account {account}"), now, &of_account)
    }

    /// Live reservations; a series counts once.
    fn open_count(&self, mine: &dyn Fn(&Reservation) -> bool) -> u32 {
        let live = self.reservations.live().filter(|r| mine(r));
        let series: BTreeSet<ReservationId> = live.map(Reservation::series).collect();
        series.len() as u32
    }

    /// The part of each node class that would be reserved at once, in millionths of its
    /// cores, by the names of its nodes.
    fn class_shares(
        &self,
        mine: &dyn Fn(&Reservation) -> bool,
        slot: (Time, Time),
        shares: &[NodeShare],
    ) -> Vec<(String, u32)> {
        if shares.is_empty() {
            return Vec::new();
        }
        let classes = self.node_classes();
        let mut reserved: BTreeMap<usize, u64> = BTreeMap::new();
        let overlapping = self
            .reservations
            .live()
            .filter(|r| mine(r) && r.overlaps(slot.0, slot.1));
        let all = overlapping.flat_map(|r| &r.shares).chain(shares);
        for share in all {
            let class = classes.of[share.node.index()];
            *reserved.entry(class).or_default() += u64::from(share.amounts.cores);
        }
        let touched: BTreeSet<usize> = shares.iter().map(|s| classes.of[s.node.index()]).collect();
        let part = |class: &usize| {
            let (names, cores) = &classes.all[*class];
            let part = reserved.get(class).copied().unwrap_or(0) * 1_000_000 / (*cores).max(1);
            (
                cosy_model::fold(names),
                part.min(u64::from(u32::MAX)) as u32,
            )
        };
        touched.iter().map(part).collect()
    }

    fn node_classes(&self) -> Classes {
        let mut known: BTreeMap<Class, usize> = BTreeMap::new();
        let mut classes = Classes::default();
        for (at, node) in self.nodes.iter().enumerate() {
            let queues = self.queues.iter().enumerate();
            let queues = queues.filter(|(_, q)| q.nodes.contains(NodeId(at as u32)));
            let key: Class = (
                plain(&node.amounts),
                node.amounts
                    .other
                    .iter()
                    .map(|(n, a)| (n.to_owned(), a))
                    .collect(),
                node.features.iter().cloned().collect(),
                queues.map(|(q, _)| q).collect(),
            );
            let next = known.len();
            let class = *known.entry(key).or_insert(next);
            if class == classes.all.len() {
                classes.all.push((Vec::new(), 0));
            }
            classes.all[class].0.push(node.spec.name.clone());
            classes.all[class].1 += u64::from(node.amounts.cores);
            classes.of.push(class);
        }
        classes
    }

    /// The live bookings of the same payer that overlap or adjoin a slot, as one; `wait` is
    /// what all of them and the new one together are predicted in the queue.
    pub(crate) fn together(
        &self,
        caller: &Caller,
        wish: &Wish,
        slot: (Time, Time),
        wait: Option<Span>,
    ) -> Option<Together> {
        if !self.policy_of(wish).notice.together {
            return None;
        }
        let near = self.touching(caller, wish, slot);
        let first = near.iter().min_by_key(|r| r.row.start)?;
        Some(Together {
            from: first.row.start,
            until: near.iter().map(|r| r.row.end).max()?,
            made: first.row.made,
            wait,
        })
    }

    /// The live bookings of the same payer that overlap or adjoin a slot, and those that
    /// overlap or adjoin them.
    fn touching(&self, caller: &Caller, wish: &Wish, slot: (Time, Time)) -> Vec<&Reservation> {
        let uid = caller.user.uid;
        let same = |r: &&Reservation| match (&r.row.account, &wish.account) {
            (Some(a), Some(b)) => a == b,
            (None, None) => r.row.uid == uid,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let mut others: Vec<&Reservation> = self.reservations.live().filter(same).collect();
        let (mut from, mut until) = slot;
        let mut near = Vec::new();
        loop {
            let touches = |r: &&Reservation| r.row.start <= until && from <= r.row.end;
            let (more, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(touches);
            if more.is_empty() {
                return near;
            }
            from = more.iter().map(|r| r.row.start).fold(from, Time::min);
            until = more.iter().map(|r| r.row.end).fold(until, Time::max);
            near.extend(more);
            others = rest;
        }
    }

    /// The request together with the payer's bookings that touch it, as one plain job: as
    /// wide as all that lie side by side, as long as from the first start to the last end.
    pub(crate) fn joint(
        &self,
        caller: &Caller,
        wish: &Wish,
        slot: (Time, Time),
    ) -> Option<(Demand, Span)> {
        if !self.policy_of(wish).notice.together {
            return None;
        }
        let near = self.touching(caller, wish, slot);
        let from = near.iter().map(|r| r.row.start).min()?.min(slot.0);
        let until = near.iter().map(|r| r.row.end).max()?.max(slot.1);
        let beside: u64 = near
            .iter()
            .filter(|r| r.overlaps(slot.0, slot.1))
            .map(|r| r.cores())
            .sum();
        let own = self.asked_cores(&wish.demand).max(1);
        let wider = widened(&wish.demand, own, own + beside);
        let demand = match self.sched.could_ever_run(&wider) {
            Ok(()) => wider,
            Err(_) => (*wish.demand).clone(),
        };
        Some((demand, until.since(from)))
    }

    /// The same as a plain job in the place of `alone`.
    pub(crate) fn joint_job(
        &self,
        caller: &Caller,
        wish: &Wish,
        slot: (Time, Time),
        alone: &WaitingJob,
    ) -> Option<WaitingJob> {
        let (demand, limit) = self.joint(caller, wish, slot)?;
        Some(WaitingJob {
            demand: std::sync::Arc::new(demand),
            limit,
            ..alone.clone()
        })
    }

    /// Cores that a demand comes to.
    pub(crate) fn asked_cores(&self, demand: &Demand) -> u64 {
        if !demand.exclusive {
            return u64::from(demand.tasks) * u64::from(demand.per_task.cores);
        }
        let first = demand.allowed.iter().next();
        let each = first.map_or(1, |n| self.nodes[n.index()].amounts.cores);
        u64::from(demand.nodes.unwrap_or(1)) * u64::from(each)
    }
}

/// The demand for `all` cores in place of `own`.
fn widened(demand: &Demand, own: u64, all: u64) -> Demand {
    let scale = |count: u32| {
        let wide = (u128::from(count) * u128::from(all)).div_ceil(u128::from(own.max(1)));
        u32::try_from(wide).unwrap_or(u32::MAX)
    };
    Demand {
        nodes: demand.nodes.map(scale),
        tasks: scale(demand.tasks),
        ..demand.clone()
    }
}

#[derive(Default)]
struct Classes {
    /// The class of each node.
    of: Vec<usize>,
    /// Names and cores of each class.
    all: Vec<(Vec<String>, u64)>,
}

fn plain(amounts: &Amounts) -> Vec<u64> {
    vec![
        u64::from(amounts.cores),
        amounts.memory.0,
        amounts.disk.0,
        u64::from(amounts.gpus),
    ]
}
