//! Commands that the controller talks with: what they were answered, who stays with which job,
//! what they wait for, and what of their requests is under way.

pub(crate) mod answers;
pub(crate) mod attendance;
pub(crate) mod attending;
pub(crate) mod bulk;
pub(crate) mod choosing;
pub(crate) mod described;
pub(crate) mod explain;
pub(crate) mod explained;
pub(crate) mod history;
pub(crate) mod interactive;
pub(crate) mod invariants;
pub(crate) mod job_facts;
pub(crate) mod listing;
pub(crate) mod mail;
pub(crate) mod messages;
pub(crate) mod passes;
pub(crate) mod plans;
pub(crate) mod predictions;
pub(crate) mod replies;
pub(crate) mod requests;
pub(crate) mod visible;
pub(crate) mod waits;

use crate::conversations::answers::Answers;
use crate::conversations::attendance::Attendance;
use crate::conversations::bulk::BulkRequests;
use crate::conversations::interactive::Interactive;
use crate::conversations::listing::Lists;
use crate::conversations::mail::Mailing;
use crate::conversations::plans::{Plans, Starts};
use crate::conversations::predictions::Predictions;
use crate::conversations::requests::KnownUser;
use crate::conversations::waits::Waits;
use crate::event::ClientId;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{ClockStep, JobId, MonotonicTime, Time, Uid, User};
use std::collections::BTreeMap;

/// What commands are owed.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    answers: Answers,
    /// Commands that wait for jobs to end.
    waits: Waits,
    /// Requests that concern many jobs.
    bulk: BulkRequests,
    /// Lists that are being made.
    lists: Lists,
    /// Plans that answers wait for.
    plans: Plans,
    /// Starts that were told, and how often they came true.
    predictions: Predictions,
    /// Live interactive jobs, and who is told of their allocations.
    interactive: Interactive,
    /// Who stays with which job.
    attendance: Attendance,
    /// Running jobs with mail at shares of their limits.
    mailing: Mailing,
    /// What the directory service has told of users.
    users: BTreeMap<Uid, KnownUser>,
}

impl Conversations {
    /// What is known of a user.
    pub fn user(&self, uid: &Uid) -> Option<&KnownUser> {
        self.users.get(uid)
    }

    /// Keeps an answer for a repeat of its request; those that there is no room for any more.
    pub fn keep_answer(
        &mut self,
        at: Time,
        uid: Uid,
        key: [u8; 16],
        reply: Reply,
    ) -> Vec<(Uid, [u8; 16])> {
        self.answers.keep(at, uid, key, reply)
    }

    /// Answers that are kept too long are forgotten.
    pub fn forget_answers(&mut self, turn: &mut Turn, now: Time, steady: MonotonicTime) {
        self.answers.forget_old(turn, now, steady);
    }

    /// The predicted starts of the last plan.
    pub fn last_plan(&self) -> &Starts {
        self.plans.last()
    }

    /// Starts that were told, and how often they came true.
    pub fn predictions(&self) -> &Predictions {
        &self.predictions
    }

    /// The same, to be told something.
    pub fn predictions_mut(&mut self) -> &mut Predictions {
        &mut self.predictions
    }

    /// How many waits there are for that job.
    pub fn count_waits_for(&self, job: JobId) -> usize {
        self.waits.count(job)
    }

    /// Takes away a piece of what waits that are over have left.
    pub fn clear_left_waits(&mut self) {
        self.waits.clear();
    }

    /// Interactive jobs of a user are entered.
    pub fn enter_interactive(&mut self, uid: Uid, ids: impl Iterator<Item = JobId>) {
        self.interactive.enter(uid, ids);
    }

    /// A change of that submission goes on in later turns.
    pub fn changes_under_way(&self, base: JobId) -> bool {
        self.bulk.concern(base)
    }

    /// Something is left of long work.
    pub fn is_unfinished(&self) -> bool {
        !self.bulk.is_empty() || !self.waits.are_cleared()
    }

    /// The clock on the wall was set.
    pub fn clock_set(&mut self, step: ClockStep, steady: MonotonicTime) {
        self.answers.clock_set(step, steady);
        self.attendance.clock_set(step);
        self.plans.clock_set();
        self.predictions.clock_set();
        for user in self.users.values_mut() {
            user.at = user.at.set_by(step);
        }
    }

    /// When there is something to do next.
    pub fn next_due(&self) -> Option<Time> {
        self.attendance.next_due()
    }

    /// Requests that concern many jobs.
    pub fn bulk(&self) -> &BulkRequests {
        &self.bulk
    }

    pub fn bulk_mut(&mut self) -> &mut BulkRequests {
        &mut self.bulk
    }

    /// The command is gone: it waits for nothing, and no list is made for it.
    pub fn client_left(&mut self, client: ClientId) {
        self.waits.leave(client);
        self.lists.leave(client);
    }

    /// Lists are being made.
    pub fn is_listing(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Who stays with which job.
    pub fn attendance_mut(&mut self) -> &mut Attendance {
        &mut self.attendance
    }

    /// The answer that was given to that user under that key.
    pub fn answer_to(&self, uid: Uid, key: [u8; 16]) -> Option<&Reply> {
        self.answers.get(uid, key)
    }

    /// The directory service has told of a user, or could not; false when nobody asked for them.
    pub fn user_looked_up(&mut self, uid: Uid, now: Time, user: Option<&User>) -> bool {
        let Some(known) = self.users.get_mut(&uid) else {
            return false;
        };
        known.asked = false;
        if let Some(user) = user {
            known.user = user.clone();
            known.at = now;
        }
        true
    }

    /// Live interactive jobs of that user.
    pub fn interactive_jobs_of(&self, uid: Uid) -> impl Iterator<Item = JobId> {
        self.interactive.of(uid)
    }
}
