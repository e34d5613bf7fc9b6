//! Plans of workflows as commands show them: slots, prices, whom they delay, and what the
//! rules of admission say.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::show::procedures::names_of_shares;
use crate::rooms::Rooms;
use crate::workflows::book::FlowSlot;
use crate::workflows::book::procedures::{can_pay_all, flow_slots, refusals_of};
use crate::workflows::resolve::ResolvedFlow;
use cosy_model::workflow::{FlowPlan, PlannedTask};
use cosy_model::{JobId, Span, Su, Time};
use cosy_sched::workflow::live::{LivePlan, LiveSlot};
use std::collections::BTreeMap;

/// Tasks whose slots are refused that are told.
const REFUSALS: usize = 20;
/// Delayed jobs that are told, the worst.
const DELAYED: usize = 1000;

/// A plan as commands show it.
pub(crate) fn plan_to_show(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    wish: &ResolvedFlow,
    plan: &LivePlan,
) -> FlowPlan {
    let booked = flow_slots(rooms, now, wish, plan.clone());
    let slots = plan.slots.iter().zip(&booked).enumerate();
    let tasks: Vec<PlannedTask> = slots
        .map(|(task, (slot, booked))| {
            slot_to_show(&rooms.machine, wish, plan, (task, slot), booked)
        })
        .collect();
    let refused = refusals_of(rooms, now, caller, wish, false, &booked);
    let refused = refused
        .take(REFUSALS)
        .chain(can_pay_all(&rooms.reservations, wish, &booked).err());
    let refusals = refused.map(|refusal| refusal.message).collect();
    FlowPlan {
        now,
        start: plan.slots.iter().map(|s| s.start).min().unwrap_or(now),
        shortest_end: plan.shortest_end,
        deadline: plan.deadline,
        price: tasks.iter().fold(Su::ZERO, |sum, t| sum.plus(t.price)),
        tasks,
        delayed: delayed_by(&rooms.config, &rooms.jobs, caller, plan),
        refusals,
    }
}

fn slot_to_show(
    machine: &Machine,
    wish: &ResolvedFlow,
    plan: &LivePlan,
    (task, slot): (usize, &LiveSlot),
    booked: &FlowSlot,
) -> PlannedTask {
    let figures = plan.figures.as_ref().and_then(|all| all.slots.get(task));
    let delays = figures.map(|figures| &figures.delays);
    PlannedTask {
        task: task as u32,
        start: slot.start,
        end: slot.end,
        estimate: slot.estimate,
        spare: slot.spare,
        critical: slot.critical,
        set: wish.set_names[slot.set].clone(),
        nodes: names_of_shares(machine, &slot.shares),
        price: booked.price(),
        delayed_jobs: delays.map_or(0, |delays| delays.jobs),
        total_delay: delays.map_or(Span::ZERO, |delays| delays.total),
    }
}

/// Whom all slots together push back, the worst first: others than the user's own jobs
/// only for administrators, as with quotes.
fn delayed_by(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    plan: &LivePlan,
) -> Vec<(JobId, Span, bool)> {
    let slots = plan.figures.iter().flat_map(|all| &all.slots);
    let mut sums: BTreeMap<JobId, Span> = BTreeMap::new();
    for (job, delay) in slots.flat_map(|slot| &slot.delays.listed) {
        let sum = sums.entry(*job).or_insert(Span::ZERO);
        *sum = *sum + *delay;
    }
    let admin = is_administrator(config, caller);
    let own = |id: &JobId| {
        let job = jobs.get(id);
        job.is_some_and(|job| job.submitted().uid == caller.user.uid)
    };
    let told = sums.into_iter().map(|(id, delay)| (id, delay, own(&id)));
    let mut told: Vec<_> = told.filter(|(_, _, own)| admin || *own).collect();
    told.sort_by_key(|(id, delay, _)| (std::cmp::Reverse(*delay), *id));
    told.truncate(DELAYED);
    told
}
