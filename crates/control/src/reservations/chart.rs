//! The plan as a Gantt chart: running jobs, waiting jobs in their planned places, and
//! reservations.

use super::Reservation;
use crate::controller::Controller;
use crate::conversations::plans::PendingPlan;
use crate::event::{Caller, ClientId};
use cosy_model::api::Reply;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart, ReservationState};
use cosy_model::{JobId, Time};
use cosy_sched::Prediction;
use std::collections::BTreeMap;

/// Most waiting jobs in a chart.
const MOST: u32 = 1000;

impl Controller {
    /// The chart, or `None` when a plan has to be made first.
    pub(crate) fn plan_chart(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        until: Option<Time>,
        most: u32,
    ) -> Option<Reply> {
        let most = most.min(MOST);
        if self.must_plan(now) {
            let pending = PendingPlan::Chart {
                client,
                caller: Box::new(caller.clone()),
                until,
                most,
            };
            self.ask_plan(now, pending, None);
            return None;
        }
        let starts = self.conversations.last_plan();
        Some(self.charted(now, caller, until, most, starts))
    }

    pub(crate) fn charted(
        &self,
        now: Time,
        caller: &Caller,
        until: Option<Time>,
        most: u32,
        starts: &BTreeMap<JobId, Prediction>,
    ) -> Reply {
        let mut bars = self.running_bars(now, caller);
        let planned = self.planned_bars(caller, starts, most as usize);
        let waiting = self.planning.cluster().waiting_count();
        let beyond = waiting.saturating_sub(planned.len()) as u32;
        bars.extend(planned);
        let live = self.reservations.live();
        bars.extend(live.map(reservation_bar));
        bars.retain(|bar| until.is_none_or(|until| bar.start < until));
        bars.sort_by(|a, b| (a.start, a.kind, &a.label).cmp(&(b.start, b.kind, &b.label)));
        Reply::PlanChart(Box::new(PlanChart {
            now,
            nodes: self
                .machine
                .nodes()
                .iter()
                .map(|n| n.spec.name.clone())
                .collect(),
            bars,
            beyond,
        }))
    }

    fn label(&self, caller: &Caller, id: JobId) -> String {
        let job = self
            .jobs
            .get(&id)
            .filter(|j| self.may_see(caller, &j.submitted));
        job.map_or(String::new(), |job| self.ref_of(job).to_string())
    }

    fn running_bars(&self, now: Time, caller: &Caller) -> Vec<PlanBar> {
        let bar = |job: &crate::jobs::job::Job| {
            let run = job.run()?;
            let start = run.started.unwrap_or(run.allocated);
            Some(PlanBar {
                kind: BarKind::Running,
                label: self.label(caller, job.id),
                start,
                end: run.end_if_it_goes_on().max(now),
                nodes: run.parts.iter().map(|p| p.node.0).collect(),
            })
        };
        self.jobs.all().filter_map(bar).collect()
    }

    /// Of the first `most` to start.
    fn planned_bars(
        &self,
        caller: &Caller,
        starts: &BTreeMap<JobId, Prediction>,
        most: usize,
    ) -> Vec<PlanBar> {
        // Reservations have bars of their own.
        let outside =
            |job: &crate::jobs::job::Job| job.is_waiting() && job.spec().reservation.is_none();
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(outside);
        let planned = starts.values().filter(|p| waits(&p.job));
        let mut order: Vec<_> = planned.filter_map(|p| Some((p.start?, p.job))).collect();
        order.sort_unstable();
        order.truncate(most);
        let bar = |(start, id): (Time, JobId)| {
            let (job, prediction) = (self.jobs.get(&id)?, starts.get(&id)?);
            Some(PlanBar {
                kind: BarKind::Planned,
                label: self.label(caller, job.id),
                start,
                end: start + job.submitted.place.limit(),
                nodes: prediction.nodes.iter().map(|n| n.0).collect(),
            })
        };
        order.into_iter().filter_map(bar).collect()
    }
}

fn reservation_bar(reservation: &Reservation) -> PlanBar {
    let row = &reservation.row;
    PlanBar {
        kind: match row.state {
            ReservationState::Held => BarKind::Held,
            ReservationState::Confirmed
            | ReservationState::Active
            | ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed => BarKind::Reserved,
        },
        label: format!("r{}", row.id),
        start: row.start,
        end: row.end,
        nodes: reservation.shares.iter().map(|s| s.node.0).collect(),
    }
}
