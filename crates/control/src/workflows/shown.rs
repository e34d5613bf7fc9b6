//! Plans of workflows as commands show them: slots, prices, whom they delay, and what the
//! rules of admission say.

use super::book::FlowSlot;
use super::resolve::ResolvedFlow;
use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::workflow::{FlowPlan, PlannedTask};
use cosy_model::{JobId, Span, Su, Time};
use cosy_sched::workflow::live::{LivePlan, LiveSlot};
use std::collections::BTreeMap;

/// Tasks whose slots are refused that are told.
const REFUSALS: usize = 20;
/// Delayed jobs that are told, the worst.
const DELAYED: usize = 1000;

impl Controller {
    /// A plan as commands show it.
    pub(crate) fn plan_to_show(
        &self,
        now: Time,
        caller: &Caller,
        wish: &ResolvedFlow,
        plan: &LivePlan,
    ) -> FlowPlan {
        let booked = self.flow_slots(now, wish, plan.clone());
        let slots = plan.slots.iter().zip(&booked).enumerate();
        let tasks: Vec<PlannedTask> = slots
            .map(|(task, (slot, booked))| self.slot_to_show(wish, plan, (task, slot), booked))
            .collect();
        let refused = self.refusals_of(now, caller, wish, false, &booked);
        let refused = refused
            .take(REFUSALS)
            .chain(self.can_pay_all(wish, &booked).err());
        let refusals = refused.map(|refusal| refusal.message).collect();
        FlowPlan {
            now,
            start: plan.slots.iter().map(|s| s.start).min().unwrap_or(now),
            shortest_end: plan.shortest_end,
            deadline: plan.deadline,
            price: tasks.iter().fold(Su::ZERO, |sum, t| sum.plus(t.price)),
            tasks,
            delayed: self.delayed_by(caller, plan),
            refusals,
        }
    }

    fn slot_to_show(
        &self,
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
            nodes: self.names_of_shares(&slot.shares),
            price: booked.price(),
            delayed_jobs: delays.map_or(0, |delays| delays.jobs),
            total_delay: delays.map_or(Span::ZERO, |delays| delays.total),
        }
    }

    /// Whom all slots together push back, the worst first: others than the user's own jobs
    /// only for administrators, as with quotes.
    fn delayed_by(&self, caller: &Caller, plan: &LivePlan) -> Vec<(JobId, Span, bool)> {
        let slots = plan.figures.iter().flat_map(|all| &all.slots);
        let mut sums: BTreeMap<JobId, Span> = BTreeMap::new();
        for (job, delay) in slots.flat_map(|slot| &slot.delays.listed) {
            let sum = sums.entry(*job).or_insert(Span::ZERO);
            *sum = *sum + *delay;
        }
        let admin = self.is_admin(caller);
        let own = |id: &JobId| {
            let job = self.jobs.get(id);
            job.is_some_and(|job| job.submitted.uid == caller.user.uid)
        };
        let told = sums.into_iter().map(|(id, delay)| (id, delay, own(&id)));
        let mut told: Vec<_> = told.filter(|(_, _, own)| admin || *own).collect();
        told.sort_by_key(|(id, delay, _)| (std::cmp::Reverse(*delay), *id));
        told.truncate(DELAYED);
        told
    }
}
