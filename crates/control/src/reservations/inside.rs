//! Jobs inside a reservation: planned by the reservation's own planner, on its share of the
//! machine, and not beyond its end.
//!
//! What always holds: a job is in `Planning::inside` while a reservation's planner has it,
//! waiting or running; else the cluster's planner has it.

pub(crate) mod clearance;
pub(crate) mod kept;
pub(crate) mod procedures;

use crate::jobs::job::Submitted;
use cosy_model::Span;

/// Core-milliseconds that a job asks for; a job without limit counts as a day.
pub(crate) fn asked_core_ms(submitted: &Submitted) -> i128 {
    let limit = submitted.place.limit();
    let limit = if limit.is_unlimited() {
        Span::from_secs(86_400)
    } else {
        limit
    };
    let cores = submitted
        .requests()
        .map(|request| i128::from(request.task_count()) * i128::from(request.cores_per_task));
    cores.sum::<i128>() * i128::from(limit.ms())
}
