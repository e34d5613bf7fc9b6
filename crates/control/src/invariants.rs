//! What always holds between two events, room by room. Checked in tests and simulation.

use crate::controller::Controller;
use crate::{
    conversations, jobs, machine, planning, policy, queues, reservations, triggers, workflows,
};

/// Checks every invariant of the controller's state.
///
/// # Errors
/// The first one that does not hold, in words.
pub fn check(controller: &Controller) -> Result<(), String> {
    let it = controller.rooms();
    machine::invariants::check(it)?;
    jobs::invariants::check(it)?;
    queues::invariants::check(it)?;
    conversations::invariants::check(it)?;
    planning::invariants::check(it)?;
    policy::invariants::check(it)?;
    reservations::invariants::check(it)?;
    workflows::invariants::check(it)?;
    triggers::invariants::check(it)
}
