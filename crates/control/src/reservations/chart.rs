//! The plan as a Gantt chart: running jobs, waiting jobs in their planned places, and
//! reservations.

use crate::config::ClusterConfig;
use crate::conversations::plans::PendingPlan;
use crate::conversations::plans::procedures::{ask_plan, must_plan};
use crate::conversations::visible::may_see;
use crate::event::{Caller, ClientId};
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::ref_of;
use crate::reservations::Reservation;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart, ReservationState};
use cosy_model::{JobId, Time};
use cosy_sched::Prediction;
use std::collections::BTreeMap;

/// Most waiting jobs in a chart.
const MOST: u32 = 1000;

/// The chart, or `None` when a plan has to be made first.
pub(crate) fn plan_chart(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    until: Option<Time>,
    most: u32,
) -> Option<Reply> {
    let now = turn.now();
    let most = most.min(MOST);
    if must_plan(rooms, turn) {
        let pending = PendingPlan::Chart {
            client,
            caller: Box::new(caller.clone()),
            until,
            most,
        };
        ask_plan(rooms, turn, pending, None);
        return None;
    }
    let starts = rooms.conversations.last_plan();
    Some(charted(rooms, now, caller, until, most, starts))
}

pub(crate) fn charted(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    until: Option<Time>,
    most: u32,
    starts: &BTreeMap<JobId, Prediction>,
) -> Reply {
    let mut bars = running_bars(&rooms.config, &rooms.jobs, now, caller);
    let planned = planned_bars(&rooms.config, &rooms.jobs, caller, starts, most as usize);
    let waiting = rooms.planning.cluster().waiting_count();
    let beyond = waiting.saturating_sub(planned.len()) as u32;
    bars.extend(planned);
    let live = rooms.reservations.live();
    bars.extend(live.map(reservation_bar));
    bars.retain(|bar| until.is_none_or(|until| bar.start < until));
    bars.sort_by(|a, b| (a.start, a.kind, &a.label).cmp(&(b.start, b.kind, &b.label)));
    Reply::PlanChart(Box::new(PlanChart {
        now,
        nodes: rooms
            .machine
            .nodes()
            .iter()
            .map(|n| n.spec().name.clone())
            .collect(),
        bars,
        beyond,
    }))
}

fn label(config: &ClusterConfig, jobs: &Jobs, caller: &Caller, id: JobId) -> String {
    let job = jobs
        .get(&id)
        .filter(|j| may_see(config, caller, j.submitted()));
    job.map_or(String::new(), |job| ref_of(job).to_string())
}

fn running_bars(config: &ClusterConfig, jobs: &Jobs, now: Time, caller: &Caller) -> Vec<PlanBar> {
    let bar = |job: &crate::jobs::job::Job| {
        let run = job.run()?;
        let start = run.started().unwrap_or(run.allocated());
        Some(PlanBar {
            kind: BarKind::Running,
            label: label(config, jobs, caller, job.id()),
            start,
            end: run.end_if_it_goes_on().max(now),
            nodes: run.parts().iter().map(|p| p.node().0).collect(),
        })
    };
    jobs.all().filter_map(bar).collect()
}

/// Of the first `most` to start.
fn planned_bars(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    starts: &BTreeMap<JobId, Prediction>,
    most: usize,
) -> Vec<PlanBar> {
    // Reservations have bars of their own.
    let outside =
        |job: &crate::jobs::job::Job| job.is_waiting() && job.spec().reservation.is_none();
    let waits = |id: &JobId| jobs.get(id).is_some_and(outside);
    let planned = starts.values().filter(|p| waits(&p.job));
    let mut order: Vec<_> = planned.filter_map(|p| Some((p.start?, p.job))).collect();
    order.sort_unstable();
    order.truncate(most);
    let bar = |(start, id): (Time, JobId)| {
        let (job, prediction) = (jobs.get(&id)?, starts.get(&id)?);
        Some(PlanBar {
            kind: BarKind::Planned,
            label: label(config, jobs, caller, job.id()),
            start,
            end: start + job.submitted().place.limit(),
            nodes: prediction.nodes.iter().map(|n| n.0).collect(),
        })
    };
    order.into_iter().filter_map(bar).collect()
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
