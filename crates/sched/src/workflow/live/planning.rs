//! The plan, step by step: kinds and lanes, the schedule on lanes, tasks on nodes, spare
//! time.

use super::free_profile::{FreeProfile, Kinds, NEVER, since};
use super::kinds::AllKinds;
use super::lanes::{AllLanes, mib};
use super::placement::Placement;
use super::{LiveError, LiveFlow, LivePlan, LiveSlot, StartedSlot};
use crate::workflow::critical::critical_path;
use crate::workflow::dag::{Dag, DagError, Machines};
use crate::workflow::schedule::Schedule;
use crate::workflow::{schedule, share_out};
use crate::{PoolId, Scheduler};
use cosy_model::workflow::FlowDeadline;
use cosy_model::{NodeShare, Span, Time};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A plan.
///
/// # Errors
/// [`LiveError`].
pub(super) fn plan(
    scheduler: &Scheduler,
    now: Time,
    flow: &LiveFlow,
) -> Result<LivePlan, LiveError> {
    check(flow)?;
    let scheduler = without(scheduler, flow);
    let begin = flow.earliest.max(now);
    let rows = Kinds::of(flow.tasks.iter().map(|task| &*task.demand));
    let holds = flow.tasks.iter().flat_map(|task| task.holds.iter());
    let pools: BTreeSet<PoolId> = holds.map(|hold| hold.pool).collect();
    let profile = FreeProfile::new(&scheduler, &rows, &pools, (now, begin));
    let kinds = AllKinds::of(&scheduler, flow, &rows, &profile)?;
    let tasks: Vec<usize> = (0..flow.tasks.len())
        .filter(|task| flow.tasks[*task].fixed.is_none())
        .collect();
    let mut out = PlanDraft {
        scheduler: &scheduler,
        flow,
        begin,
        slots: flow.tasks.iter().map(|task| task.fixed.map(kept)).collect(),
    };
    if tasks.is_empty() {
        return out.finished(begin, begin);
    }
    let lanes = AllLanes::new(flow, &tasks, &kinds, &profile).ok_or(LiveError::Failed)?;
    let on_lanes = lanes
        .dag(flow, begin, &tasks, &kinds)
        .map_err(|e| named(e, &tasks))?;
    let first = schedule(flow.scheduler, &on_lanes, &lanes.machines);
    let dag = by_set(flow, begin, &tasks, &kinds).map_err(|e| named(e, &tasks))?;
    let parts = (&tasks[..], &kinds, &rows, &profile);
    let (placed, first) = Placement::put(flow, parts, (&dag, &lanes, &first))?;
    let deadline_ms = deadline_ms(flow, begin, first.end_ms());
    if deadline_ms < first.end_ms() {
        return Err(LiveError::TooEarly {
            shortest_end: begin + Span(first.end_ms()),
            deadline: begin + Span(deadline_ms),
        });
    }
    let threshold = share(first.end_ms(), flow.threshold_permille);
    let grown = share_out(flow.policy, &dag, &placed, &first, deadline_ms, threshold);
    let sound = |plan: &Schedule| plan.end_ms() <= deadline_ms && placed.is_free(plan);
    let plan = if sound(&grown) { grown } else { first.clone() };
    // Cut short by others' work: what each has behind it without pushing anyone.
    let cut = deadline_ms - plan.end_ms() > threshold.max(tasks.len() as i64);
    let plan = match cut && !profile.is_idle() {
        true => Some(in_place(&dag, &placed, &plan, deadline_ms))
            .filter(sound)
            .unwrap_or(plan),
        false => plan,
    };
    let critical = critical_path(&dag, &placed, &first);
    out.fill(&tasks, &dag, &placed, &plan);
    for at in critical {
        out.mark(tasks[at]);
    }
    out.finished(begin + Span(first.end_ms()), begin + Span(deadline_ms))
}

/// Slots that grow into the gaps behind them, by no more than their part of the time until
/// the deadline.
fn in_place(dag: &Dag, placed: &Placement<'_>, plan: &Schedule, deadline_ms: i64) -> Schedule {
    let end = plan.end_ms().max(1);
    let ends = plan.slots().iter().enumerate().map(|(task, slot)| {
        let part = i128::from(slot.length_ms()) * i128::from(deadline_ms - end) / i128::from(end);
        let part = i64::try_from(part).unwrap_or(NEVER);
        slot.end_ms + plan.gap_ms(dag, placed, task).clamp(0, part.max(0))
    });
    plan.with_ends(&ends.collect::<Vec<_>>())
}

fn check(flow: &LiveFlow) -> Result<(), LiveError> {
    if flow.tasks.is_empty() {
        return Err(DagError::Empty.into());
    }
    let (tasks, sets) = (flow.tasks.len(), flow.sets.len());
    for edge in &flow.edges {
        if edge.from >= tasks || edge.to >= tasks || edge.from == edge.to {
            return Err(DagError::Edge(edge.from, edge.to).into());
        }
    }
    let square = flow.mib_us.len() == sets && flow.mib_us.iter().all(|row| row.len() == sets);
    if !square || sets == 0 {
        return Err(LiveError::Failed);
    }
    for (task, live) in flow.tasks.iter().enumerate() {
        let fixed = live.fixed.is_none_or(|fixed| fixed.set < sets);
        if live.estimates.len() != sets || !fixed {
            return Err(DagError::Estimate(task).into());
        }
    }
    Ok(())
}

/// The machine without the reservations that the plan takes the place of.
pub(super) fn without<'a>(scheduler: &'a Scheduler, flow: &LiveFlow) -> Cow<'a, Scheduler> {
    let mut resources = Cow::Borrowed(scheduler);
    for id in &flow.replaces {
        resources.to_mut().remove_block(*id);
    }
    resources
}

/// The graph with sets as machines.
fn by_set(
    flow: &LiveFlow,
    begin: Time,
    tasks: &[usize],
    kinds: &AllKinds,
) -> Result<Dag, DagError> {
    let count = flow.sets.len();
    let idle = vec![Vec::new(); count];
    let machines = Machines::new(vec![vec![0; count]; count], idle).ok_or(DagError::Empty)?;
    let lanes = AllLanes {
        machines,
        set_of: (0..count).collect(),
    };
    lanes.dag(flow, begin, tasks, kinds)
}

fn named(error: DagError, tasks: &[usize]) -> LiveError {
    LiveError::Graph(match error {
        DagError::Empty => DagError::Empty,
        DagError::Estimate(task) => DagError::Estimate(tasks[task]),
        DagError::Nowhere(task) => DagError::Nowhere(tasks[task]),
        DagError::Edge(from, to) => DagError::Edge(tasks[from], tasks[to]),
        DagError::Cycle(all) => DagError::Cycle(all.into_iter().map(|t| tasks[t]).collect()),
    })
}

fn deadline_ms(flow: &LiveFlow, begin: Time, shortest_ms: i64) -> i64 {
    match flow.deadline {
        FlowDeadline::By(at) => since(begin, at),
        FlowDeadline::Slack(permille) => shortest_ms
            .saturating_add(share(shortest_ms, permille))
            .min(NEVER),
    }
}

fn share(length_ms: i64, permille: u32) -> i64 {
    let share = i128::from(length_ms) * i128::from(permille) / 1000;
    i64::try_from(share).unwrap_or(NEVER)
}

fn kept(fixed: StartedSlot) -> LiveSlot {
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

impl LiveFlow {
    /// When tasks can start on each set because of parents that have their slots already;
    /// `place` says which tasks are planned, and as which.
    pub(super) fn releases(&self, begin: Time, place: &[Option<usize>]) -> Vec<Option<Vec<i64>>> {
        let mut releases: Vec<Option<Vec<i64>>> = vec![None; place.iter().flatten().count()];
        for edge in &self.edges {
            let (Some(to), Some(fixed)) = (place[edge.to], self.tasks[edge.from].fixed) else {
                continue;
            };
            let by_set = releases[to].get_or_insert_with(|| vec![0; self.sets.len()]);
            for (set, release) in by_set.iter_mut().enumerate() {
                let carried = self.carry_ms(mib(edge.data_bytes), fixed.set, set);
                let at = since(begin, fixed.end).saturating_add(carried);
                *release = (*release).max(at);
            }
        }
        releases
    }
}

/// The plan while it is put together.
struct PlanDraft<'a> {
    scheduler: &'a Scheduler,
    flow: &'a LiveFlow,
    begin: Time,
    slots: Vec<Option<LiveSlot>>,
}

impl PlanDraft<'_> {
    fn fill(&mut self, tasks: &[usize], dag: &Dag, placed: &Placement<'_>, plan: &Schedule) {
        for (at, &task) in tasks.iter().enumerate() {
            let slot = &plan.slots()[at];
            let demand = &self.flow.tasks[task].demand;
            let on_nodes = placed.parts[at].iter().filter(|part| !part.is_pool);
            let picks: Vec<_> = on_nodes.map(|part| part.pick).collect();
            let shares: Vec<NodeShare> = self.scheduler.shares_of_component(demand, &picks);
            self.slots[task] = Some(LiveSlot {
                start: self.begin + Span(slot.start_ms),
                end: self.begin + Span(slot.end_ms),
                set: slot.machine,
                shares,
                estimate: self.flow.tasks[task].estimates[slot.machine],
                spare: Span(plan.spare_ms(dag, placed, at)),
                critical: false,
            });
        }
    }

    fn mark(&mut self, task: usize) {
        if let Some(slot) = &mut self.slots[task] {
            slot.critical = true;
        }
    }

    fn finished(self, shortest_end: Time, deadline: Time) -> Result<LivePlan, LiveError> {
        let count = self.slots.len();
        let slots: Vec<LiveSlot> = self.slots.into_iter().flatten().collect();
        if slots.len() < count {
            return Err(LiveError::Failed);
        }
        Ok(LivePlan {
            shortest_end,
            deadline,
            slots,
            figures: None,
        })
    }
}
