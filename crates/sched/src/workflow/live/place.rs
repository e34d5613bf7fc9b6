//! Each task, after its parents, where it ends first.

use super::{Fixed, LiveError, LiveFlow, LivePlan, LiveSlot};
use crate::workflow::dag::{Dag, Machines};
use crate::{Block, Demand, Scheduler};
use cosy_model::workflow::FlowDeadline;
use cosy_model::{NodeShare, ReservationId, Span, Time};
use std::collections::BTreeSet;

struct Floor<'a> {
    ground: Scheduler,
    now: Time,
    flow: &'a LiveFlow,
    slots: Vec<Option<LiveSlot>>,
}

/// The plan.
pub(super) fn plan(
    scheduler: &Scheduler,
    now: Time,
    flow: &LiveFlow,
) -> Result<LivePlan, LiveError> {
    let mut ground = scheduler.clone();
    for id in &flow.replaces {
        ground.remove_block(*id);
    }
    let mut floor = Floor {
        ground,
        now,
        flow,
        slots: vec![None; flow.tasks.len()],
    };
    for &task in graph(flow)?.order() {
        let slot = match flow.tasks[task].fixed {
            Some(fixed) => kept(fixed),
            None => floor.best(task).ok_or(LiveError::Nowhere { task })?,
        };
        if flow.tasks[task].fixed.is_none() {
            let reservation = ReservationId(u64::MAX - task as u64);
            floor.ground.add_block(Block {
                reservation,
                shares: slot.shares.clone(),
                start: slot.start,
                end: slot.end,
            });
        }
        floor.slots[task] = Some(slot);
    }
    finished(now, flow, floor.slots.into_iter().flatten().collect())
}

fn finished(now: Time, flow: &LiveFlow, slots: Vec<LiveSlot>) -> Result<LivePlan, LiveError> {
    let shortest_end = slots.iter().map(|slot| slot.end).max().unwrap_or(now);
    let begin = flow.earliest.max(now);
    let deadline = match flow.deadline {
        FlowDeadline::By(at) => at,
        FlowDeadline::Slack(permille) => {
            let length = i128::from(shortest_end.since(begin).0) * i128::from(permille) / 1000;
            shortest_end + Span(i64::try_from(length).unwrap_or(i64::MAX))
        }
    };
    if deadline < shortest_end {
        return Err(LiveError::TooEarly {
            shortest_end,
            deadline,
        });
    }
    Ok(LivePlan {
        shortest_end,
        deadline,
        slots,
    })
}

fn kept(fixed: Fixed) -> LiveSlot {
    LiveSlot {
        start: fixed.start,
        end: fixed.end,
        set: fixed.set,
        shares: Vec::new(),
        estimate: fixed.end.since(fixed.start),
        spare: Span::ZERO,
        critical: false,
    }
}

fn graph(flow: &LiveFlow) -> Result<Dag, LiveError> {
    let count = flow.sets.len();
    let machines = Machines::new(vec![vec![0; count]; count], vec![Vec::new(); count]);
    let rows = flow.tasks.iter().map(|task| {
        let each = task.estimates.iter().map(|span| Some(span.0));
        each.collect()
    });
    let edges: Vec<_> = flow.edges.iter().map(|e| (e.from, e.to, 0)).collect();
    let machines = machines.ok_or(LiveError::Failed)?;
    Ok(Dag::new(rows.collect(), &edges, &machines)?)
}

impl Floor<'_> {
    fn best(&self, task: usize) -> Option<LiveSlot> {
        let sets = (0..self.flow.sets.len()).filter_map(|set| self.in_set(task, set));
        sets.min_by_key(|slot| (slot.end, slot.set))
    }

    fn in_set(&self, task: usize, set: usize) -> Option<LiveSlot> {
        let known = &self.flow.tasks[task];
        let allowed = known.demand.allowed.and(&self.flow.sets[set]);
        let demand = Demand {
            allowed,
            ..Demand::clone(&known.demand)
        };
        let estimate = known.estimates[set];
        let ready = self.ready(task, set);
        let (start, shares) = self.earliest(&demand, ready, estimate + self.flow.margin)?;
        Some(LiveSlot {
            start,
            end: start + estimate + self.flow.margin,
            set,
            shares,
            estimate,
            spare: Span::ZERO,
            critical: false,
        })
    }

    fn ready(&self, task: usize, set: usize) -> Time {
        let edges = self.flow.edges.iter().filter(|edge| edge.to == task);
        let data = edges.filter_map(|edge| {
            let from = self.slots[edge.from].as_ref()?;
            let ps = u128::from(edge.data_bytes) * u128::from(self.flow.byte_ps[from.set][set]);
            let ms = i64::try_from(ps.div_ceil(1_000_000_000)).unwrap_or(i64::MAX);
            Some(from.end + Span(ms))
        });
        data.fold(self.now.max(self.flow.earliest), Time::max)
    }

    fn earliest(
        &self,
        demand: &Demand,
        ready: Time,
        length: Span,
    ) -> Option<(Time, Vec<NodeShare>)> {
        let ends = self.ground.running_jobs().map(|(_, end)| end);
        let bounds = self.ground.blocks.iter().map(|(_, block)| block.end);
        let soon = Time(self.now.0.saturating_add(1));
        let starts: BTreeSet<Time> = ends
            .map(|end| end.max(soon))
            .chain(bounds)
            .filter(|at| *at > ready)
            .collect();
        let place = |at| Some((at, self.ground.place(self.now, demand, at, length)?));
        std::iter::once(ready).chain(starts).find_map(place)
    }
}
