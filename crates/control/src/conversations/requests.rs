//! Requests of commands: who may, what of it, and answers that come later.

pub(crate) mod procedures;

use cosy_model::api::JobRef;
use cosy_model::{Refusal, RefusalCode, Time, User};

/// A user as last looked up.
#[derive(Debug, Clone)]
pub(crate) struct KnownUser {
    pub(in crate::conversations) user: User,
    pub(in crate::conversations) at: Time,
    /// A look-up is under way.
    pub(in crate::conversations) asked: bool,
}

/// What is known of it.
impl KnownUser {
    pub fn user(&self) -> &User {
        &self.user
    }
}

/// Up to so many waiting jobs, a list with predicted starts waits for a plan of its own;
/// with more of them it shows the last one.
pub(crate) const PLAN_AT_ONCE: usize = 1000;
/// A plan is made for at most so many jobs, the first in line.
pub(crate) const PLAN_MOST: usize = 10_000;

pub(crate) fn no_job(job: JobRef) -> Refusal {
    Refusal::new(RefusalCode::NotFound, format!("there is no job {job}"))
}
