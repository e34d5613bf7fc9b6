//! A reservation in memory, and what happens to it.

use crate::planning::pools::Pools;
use crate::record::{MakerRow, ReservationRow};
use cosy_model::reservation::ReservationState;
use cosy_model::{JobId, NodeId, NodeShare, ReservationId, Span, Su, Time};
use cosy_sched::{Block, PoolId, Scheduler};

/// A reservation in memory.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// As it is kept; the shares there are by name.
    pub(in crate::reservations) row: ReservationRow,
    /// What it holds, by number.
    pub(in crate::reservations) shares: Vec<NodeShare>,
    /// Some of its nodes were taken out of the configuration.
    pub(in crate::reservations) short: bool,
    /// While it is active: who plans the jobs inside.
    pub(in crate::reservations) planner: Option<Box<Scheduler>>,
}

/// What is known of it.
impl Reservation {
    /// As it is kept; the shares there are by name.
    pub fn row(&self) -> &ReservationRow {
        &self.row
    }

    /// What it holds, by number.
    pub fn shares(&self) -> &[NodeShare] {
        &self.shares
    }
}

/// What happens to it.
impl Reservation {
    /// It holds these shares, by number, from its start on.
    pub fn new(row: ReservationRow, shares: Vec<NodeShare>) -> Self {
        Self {
            row,
            shares,
            short: false,
            planner: None,
        }
    }

    /// Its time has come.
    pub fn begins(&mut self) {
        self.row.state = ReservationState::Active;
    }

    /// It is over, or will never begin.
    pub fn closes(&mut self, now: Time, state: ReservationState, why: &str) {
        self.row.state = state;
        self.row.closed = Some(now);
        if now > self.row.start {
            self.row.end = self.row.end.min(now);
        }
        self.row.note = why.to_owned();
    }

    /// It was booked and taken back in one turn: it never was a hold.
    pub fn was_no_hold(&mut self) {
        self.row.hold_until = None;
    }

    /// A hold lasts no longer than that: nobody is made to leave for what is not confirmed.
    pub fn is_held_until(&mut self, at: Time) {
        if self.row.state == ReservationState::Held {
            self.row.hold_until = self.row.hold_until.map(|until| until.min(at));
        }
    }

    /// That job starts with it.
    pub fn is_for(&mut self, job: JobId) {
        self.row.job = Some(job);
    }

    /// It has other nodes.
    pub fn takes(&mut self, shares: Vec<NodeShare>) {
        (self.shares, self.short) = (shares, false);
    }

    /// It begins earlier, on nodes that serve.
    pub fn moves_to(&mut self, start: Time) {
        let length = self.length();
        (self.row.start, self.row.end) = (start, start + length);
        self.row.degraded = false;
    }

    /// It goes on for longer.
    pub fn grows(&mut self, by: Span) {
        self.row.end = self.row.end + by;
        self.row.ask.length = self.row.ask.length + by;
    }

    /// A running job makes room for it.
    pub fn counts_on(&mut self, maker: MakerRow) {
        let makers = &mut self.row.makers;
        makers.retain(|other| other.maker.job != maker.maker.job);
        makers.push(maker);
        makers.sort_by_key(|row| row.maker.job);
    }

    /// A running job need not make room for it.
    pub fn counts_on_no_more(&mut self, job: JobId) {
        let makers = &mut self.row.makers;
        makers.retain(|row| row.told || row.maker.job != job);
    }

    /// A running job was told to make room for it.
    pub fn has_told(&mut self, job: JobId) {
        let makers = self.row.makers.iter_mut();
        let told = makers.filter(|row| row.maker.job == job);
        told.for_each(|row| row.told = true);
    }

    /// Those who were to be told by now and were not have gone before.
    pub fn forget_untold(&mut self, now: Time) {
        let makers = &mut self.row.makers;
        makers.retain(|row| row.told || row.maker.told > now);
    }

    /// It is a task's slot somewhere else, with what is paid for it (nothing when it was over).
    /// Tells how much that is.
    pub fn is_planned_again(&mut self, start: Time, end: Time, shares: &[NodeShare]) -> Su {
        let live = self.is_live();
        let row = &mut self.row;
        if !live {
            (row.base, row.extra) = (Su::ZERO, Su::ZERO);
        }
        row.state = ReservationState::Confirmed;
        row.closed = None;
        (row.start, row.end) = (start, end);
        row.ask.length = end.since(start);
        row.delays.clear();
        self.shares = shares.to_vec();
        self.row.base
    }

    /// Its price by the tariff is that, without what it delays others.
    pub fn costs(&mut self, base: Su) {
        self.row.base = base;
    }

    /// While it is active: who plans the jobs inside.
    pub fn planner_mut(&mut self) -> Option<&mut Scheduler> {
        self.planner.as_deref_mut()
    }
}

impl Reservation {
    /// When the next of those who make room for it is told.
    pub fn next_told(&self) -> Option<Time> {
        let untold = self.row.makers.iter().filter(|row| !row.told);
        untold.map(|row| row.maker.told).min()
    }

    pub fn is_live(&self) -> bool {
        self.row.state.is_live()
    }

    /// What it keeps of resource pools.
    pub fn holds(&self, pools: &Pools) -> Vec<(PoolId, u64)> {
        pools.of_licenses(&self.row.ask.licenses).on(&self.shares)
    }

    pub fn block(&self, pools: &Pools) -> Block {
        Block {
            reservation: self.row.id,
            shares: self.shares.clone(),
            start: self.row.start,
            end: self.row.end,
            holds: self.holds(pools),
        }
    }

    pub fn length(&self) -> Span {
        self.row.end.since(self.row.start)
    }

    pub fn cores(&self) -> u64 {
        self.shares.iter().map(|s| u64::from(s.amounts.cores)).sum()
    }

    pub fn gpus(&self) -> u64 {
        self.shares.iter().map(|s| u64::from(s.amounts.gpus)).sum()
    }

    /// Core-milliseconds of the whole slot.
    pub fn core_ms(&self) -> i128 {
        i128::from(self.cores()) * i128::from(self.length().ms())
    }

    pub fn has_node(&self, node: NodeId) -> bool {
        self.shares.iter().any(|s| s.node == node)
    }

    /// True when both have some time in common.
    pub fn overlaps(&self, start: Time, end: Time) -> bool {
        self.row.start < end && start < self.row.end
    }

    /// The id that stands for the whole series.
    pub fn series(&self) -> ReservationId {
        self.row.series.unwrap_or(self.row.id)
    }
}
