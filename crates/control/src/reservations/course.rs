//! The course of a reservation in time: a hold that lapses, nodes that are cleared, the
//! begin, the end, and one that nobody uses.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::reservations::ask::procedures::reservation_policy;
use crate::reservations::inside::procedures::jobs_inside;
use crate::reservations::procedures::tell_holder;
use crate::reservations::{Reservation, Reservations};
use crate::turn::Turn;
use cosy_model::{EventKind, ReservationId, Time};

/// What the hour costs is learned when a reservation begins: one that was cancelled for
/// nothing teaches nothing. Where f was the floor itself, the mean stays as it is.
pub(crate) fn note_hour_price(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    let Some(reservation) = reservations.get(id) else {
        return;
    };
    let row = &reservation.row;
    if reservation_policy(config, &row.queue).price_floor {
        let (start, core_ms, extra) = (row.start, reservation.core_ms(), row.extra);
        reservations.hours.record(start, core_ms, extra);
    }
}

pub(crate) fn used_so_far(
    jobs: &Jobs,
    planning: &Planning,
    now: Time,
    reservation: &Reservation,
) -> i128 {
    let inside = jobs_inside(planning, reservation.row.id);
    let running = inside.filter_map(|job| jobs.get(&job)?.run());
    let used = running.map(|run| run.core_ms(now));
    i128::from(reservation.row.used_core_ms) + used.sum::<i128>()
}

/// True when less of it was used than what is reported.
pub(crate) fn is_hardly_used(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    now: Time,
    reservation: &Reservation,
) -> bool {
    let least = reservation_policy(config, &reservation.row.queue).low_use_ppm;
    let used = used_so_far(jobs, planning, now, reservation);
    is_below(used, reservation.core_ms(), least.unwrap_or(0))
}

/// A reservation that was hardly used is told to its owner and the administrators.
pub(crate) fn report_low_use(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
    used: i128,
    whole: i128,
) {
    let Some(reservation) = reservations.get(id) else {
        return;
    };
    let Some(least) = reservation_policy(config, &reservation.row.queue).low_use_ppm else {
        return;
    };
    let attached = reservation.row.job.is_some();
    if attached || !is_below(used, whole, least) {
        return;
    }
    let permille = used.saturating_mul(1000) / whole.max(1);
    let note = format!(
        "only {}.{} % of it was used, less than {} %",
        permille / 10,
        permille % 10,
        least / 10_000
    );
    tell_holder(config, reservations, turn, id, EventKind::LowUse, &note);
    let subject = format!("{} reservation {id}: {note}", config.name);
    let admins = config.admins.iter().filter(|a| !a.starts_with('@'));
    let admins: Vec<String> = admins.cloned().collect();
    for to in admins {
        let subject = subject.clone();
        turn.effect(crate::event::Effect::Mail {
            to,
            subject,
            body: String::new(),
        });
    }
}

/// True when `used` is less than `least_ppm` millionths of `whole`.
fn is_below(used: i128, whole: i128, least_ppm: u32) -> bool {
    used.saturating_mul(1_000_000) < whole.saturating_mul(i128::from(least_ppm))
}
