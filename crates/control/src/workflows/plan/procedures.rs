//! Plans are handed out, a few at a time, and taken back.

use crate::event::{Caller, ClientId, Effect};
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::queues::order;
use crate::reservations::Reservations;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::Workflows;
use crate::workflows::plan::{FlowPending, OF_ONE_USER, WAITING};
use crate::workflows::replan::Replan;
use crate::workflows::resolve::procedures::{flow_wish, live_flow};
use cosy_model::api::Reply;
use cosy_model::workflow::FlowSpec;
use cosy_model::{Refusal, RefusalCode};
use cosy_sched::Block;
use cosy_sched::workflow::live::LiveFlow;

pub(crate) fn plan_flow(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    spec: FlowSpec,
) -> Result<Option<Reply>, Refusal> {
    let now = turn.now();
    if spec.deadline.is_none() {
        return Err(Refusal::invalid(
            "a workflow without a deadline has no plan: give it one with --finish-by or --slack",
        ));
    }
    crate::workflows::check::check(now, &spec)?;
    let wish = flow_wish(rooms, caller, spec)?;
    let flow = live_flow(rooms, now, &wish)?;
    let pending = FlowPending::Plan {
        client,
        caller: Box::new(caller.clone()),
        wish: Box::new(wish),
    };
    have_planned(
        &rooms.jobs,
        &rooms.planning,
        &rooms.reservations,
        &mut rooms.workflows,
        turn,
        pending,
        flow,
    )?;
    Ok(None)
}

/// Has a workflow planned; `pending` goes on with the plan.
///
/// # Errors
/// Too much waits already.
pub(crate) fn have_planned(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    workflows: &mut Workflows,
    turn: &mut Turn,
    pending: FlowPending,
    flow: LiveFlow,
) -> Result<(), Refusal> {
    let plans = &mut workflows.plans;
    if plans.waiting.len() >= WAITING {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("{WAITING} workflows wait for their plan already: try again later"),
        ));
    }
    let uid = pending.uid();
    let own = plans.all().filter(|p| uid.is_some() && p.uid() == uid);
    if own.count() >= OF_ONE_USER {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "{OF_ONE_USER} workflows of yours wait for their plan already: try again when one is answered"
            ),
        ));
    }
    plans.waiting.push_back((pending, Box::new(flow)));
    next_flow_plan(jobs, planning, reservations, workflows, turn);
    Ok(())
}

pub(crate) fn next_flow_plan(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    workflows: &mut Workflows,
    turn: &mut Turn,
) {
    let now = turn.now();
    let Some((plan, mut flow)) = workflows.plans.next_one() else {
        return;
    };
    flow.earliest = flow.earliest.max(now);
    if let Some(pricing) = &mut flow.pricing {
        order::number_anew(&mut pricing.inquiry, jobs.next_id());
    }
    let mut scheduler = Box::new(planning.cluster().clone());
    if let Some(FlowPending::Replan(replan)) = workflows.plans.under_way.get(&plan)
        && let Some(grown) = grown_block(planning, reservations, workflows, replan)
    {
        for id in &flow.replaces {
            scheduler.remove_block(*id);
        }
        scheduler.add_block(grown);
    }
    turn.effect(Effect::PlanFlow {
        plan,
        now,
        scheduler,
        flow,
    });
}

/// The block of a slot that grows, as it is going to be.
pub(crate) fn grown_block(
    planning: &Planning,
    reservations: &Reservations,
    workflows: &Workflows,
    replan: &Replan,
) -> Option<Block> {
    let (of, by) = replan.grows?;
    let slot = workflows.task(of)?.reservation?;
    let mut block = reservations.get(slot)?.block(planning.pools());
    block.end = block.end + by;
    Some(block)
}
