//! Plans that answers wait for are asked for.

use crate::conversations::plans::PendingPlan;
use crate::conversations::requests::{PLAN_AT_ONCE, PLAN_MOST};
use crate::event::Effect;
use crate::jobs::limits::in_plans::{anybody_waits, tell_limits};
use crate::reservations::planned::{any_awaits_turn_inside, insides_to_plan};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobId;

// --- plans

pub(crate) fn ask_plan(
    rooms: &mut Rooms,
    turn: &mut Turn,
    pending: PendingPlan,
    only: Option<JobId>,
) {
    let now = turn.now();
    let plan = rooms.conversations.plans.ask(pending);
    let mut scheduler = Box::new(rooms.planning.cluster().clone());
    tell_limits(rooms, &mut scheduler, only);
    let inside = insides_to_plan(rooms, now, only);
    turn.effect(Effect::Plan {
        plan,
        scheduler,
        inside,
        only,
        most: PLAN_MOST,
    });
}

/// Whether a list with predicted starts has to wait for a plan. No request of a deep
/// queue ever does: it gets the last plan, and a newer one is asked for.
pub(crate) fn must_plan(rooms: &mut Rooms, turn: &mut Turn) -> bool {
    let now = turn.now();
    let waiting = rooms.planning.cluster().waiting_count();
    if waiting <= PLAN_AT_ONCE {
        return (waiting > 0
            || anybody_waits(rooms)
            || any_awaits_turn_inside(&rooms.jobs, &rooms.planning, &rooms.reservations))
            && rooms.conversations.plans.have_room();
    }
    if rooms.conversations.plans.begin_refresh(now) {
        ask_plan(rooms, turn, PendingPlan::Refresh, None);
    }
    false
}
