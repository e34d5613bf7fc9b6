//! Plans are handed out, a few at a time, and taken back.

use crate::controller::Controller;
use crate::event::{Caller, ClientId, Effect};
use crate::workflows::plan::{FlowPending, OF_ONE_USER, Planned, WAITING, flow_refusal};
use cosy_model::api::Reply;
use cosy_model::workflow::FlowSpec;
use cosy_model::{Refusal, RefusalCode, Time};
use cosy_sched::workflow::live::LiveFlow;

impl Controller {
    pub(crate) fn plan_flow(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        spec: FlowSpec,
    ) -> Result<Option<Reply>, Refusal> {
        if spec.deadline.is_none() {
            return Err(Refusal::invalid(
                "a workflow without a deadline has no plan: give it one with --finish-by or --slack",
            ));
        }
        crate::workflows::check::check(now, &spec)?;
        let wish = self.flow_wish(caller, spec)?;
        let flow = self.live_flow(now, &wish)?;
        let pending = FlowPending::Plan {
            client,
            caller: Box::new(caller.clone()),
            wish: Box::new(wish),
        };
        self.have_planned(now, pending, flow)?;
        Ok(None)
    }

    /// Has a workflow planned; `pending` goes on with the plan.
    ///
    /// # Errors
    /// Too much waits already.
    pub(crate) fn have_planned(
        &mut self,
        now: Time,
        pending: FlowPending,
        flow: LiveFlow,
    ) -> Result<(), Refusal> {
        let plans = &mut self.workflows.plans;
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
        self.next_flow_plan(now);
        Ok(())
    }

    fn next_flow_plan(&mut self, now: Time) {
        let Some((plan, mut flow)) = self.workflows.plans.next_one() else {
            return;
        };
        flow.earliest = flow.earliest.max(now);
        let mut scheduler = Box::new(self.planning.cluster().clone());
        if let Some(FlowPending::Replan(replan)) = self.workflows.plans.under_way.get(&plan)
            && let Some(grown) = self.grown_block(replan)
        {
            for id in &flow.replaces {
                scheduler.remove_block(*id);
            }
            scheduler.add_block(grown);
        }
        self.effect(Effect::PlanFlow {
            plan,
            now,
            scheduler,
            flow,
        });
    }

    pub(crate) fn flow_planned(&mut self, now: Time, plan: u64, result: Planned) {
        let Some(pending) = self.workflows.plans.under_way.remove(&plan) else {
            return;
        };
        self.next_flow_plan(now);
        match pending {
            FlowPending::Plan {
                client,
                caller,
                wish,
            } => {
                let plan = result.map_err(|error| flow_refusal(&wish.spec, &error));
                let reply = match plan {
                    Ok(plan) => {
                        Reply::FlowPlan(Box::new(self.plan_to_show(now, &caller, &wish, &plan)))
                    }
                    Err(refusal) => Reply::Refused(refusal),
                };
                self.reply(client, reply);
            }
            FlowPending::Submit(booking) => self.planned_to_book(now, *booking, result),
            FlowPending::Replan(replan) => self.replanned(now, *replan, result),
        }
    }
}
