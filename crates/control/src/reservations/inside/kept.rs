//! What reservations keep of licences now, and how much of that jobs inside have taken.

use crate::planning::Planning;
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::planner_for;
use cosy_model::ReservationId;
use cosy_sched::Holder;
use std::collections::BTreeMap;

/// How many of a licence reservations keep whose time is now, and how many of those jobs inside
/// hold; one reservation may be left out.
pub(crate) fn license_kept(
    planning: &Planning,
    reservations: &Reservations,
    name: &str,
    without: Option<ReservationId>,
) -> (u32, u32) {
    let (mut kept, mut in_use) = (0u32, 0u32);
    let Some(pool) = planning.pools().license(name) else {
        return (kept, in_use);
    };
    let active = reservations.active().filter(|id| Some(*id) != without);
    for reservation in active.filter_map(|id| reservations.get(id)) {
        kept = kept.saturating_add(reservation.row().ask.licenses.get(name));
    }
    if kept == 0 {
        return (kept, in_use);
    }
    let told: BTreeMap<_, _> = planning.cluster().holders_elsewhere().collect();
    let of_pool = |holder: &Holder| -> u64 {
        let held = holder.held().filter(|(id, _)| *id == pool);
        held.map(|(_, amount)| amount).sum()
    };
    let inside = planning.all_inside().iter();
    for (job, _) in inside.filter(|(_, within)| Some(**within) != without) {
        let inside = planner_for(planning, reservations, *job).holder(*job);
        let all = inside.as_ref().map_or(0, of_pool);
        let beyond = told.get(job).copied().map_or(0, of_pool);
        let drawn = u32::try_from(all.saturating_sub(beyond)).unwrap_or(u32::MAX);
        in_use = in_use.saturating_add(drawn);
    }
    (kept, in_use)
}
