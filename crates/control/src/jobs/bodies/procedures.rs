//! Bodies are made, written, and given to jobs.

use crate::jobs::Jobs;
use crate::jobs::bodies::Body;
use crate::jobs::dependencies::Waiter;
use crate::jobs::dependencies::procedures::wait_for_others;
use crate::jobs::job::{Group, Place, Submitted};
use crate::planning::Planning;
use crate::planning::pools::procedures::know_licenses;
use crate::queues::Queues;
use crate::record::{HeldBy, Record, StandingRow};
use crate::set_aside::Aside;
use crate::turn::Turn;
use cosy_model::{JobId, JobSpec, QueueId, Uid};
use std::sync::Arc;

impl Jobs {
    /// A new body for jobs that had the old one.
    pub(crate) fn new_body(
        &mut self,
        old: &Submitted,
        spec: Arc<JobSpec>,
        queue: String,
        place: Place,
    ) -> Arc<Submitted> {
        let group = self.group_mut(&old.base);
        let number = group.map_or(old.body + 1, Group::new_number);
        let spec = self.share(spec);
        Arc::new(old.with(number, spec, queue, place))
    }
}

/// The body of a job that goes to another queue, one for all that do.
pub(crate) fn body_in(
    queues: &Queues,
    jobs: &mut Jobs,
    old: &Submitted,
    queue: QueueId,
    place: Place,
) -> Arc<Submitted> {
    let name = queues.name(queue).to_owned();
    let group = jobs.group(&old.base);
    let moved = group.and_then(|group| group.body_like(&old.spec, &name));
    moved.unwrap_or_else(|| jobs.new_body(old, old.spec.clone(), name, place))
}

/// That body is there, also while no job has it.
pub(crate) fn know_body(
    jobs: &mut Jobs,
    planning: &mut Planning,
    submitted: &Arc<Submitted>,
    stored: bool,
) {
    let Some(group) = jobs.group_mut(&submitted.base) else {
        return;
    };
    if group.bodies.contains_key(&submitted.body) {
        return;
    }
    let body = Body {
        submitted: submitted.clone(),
        jobs: 0,
        stored,
        named: false,
        barred: false,
    };
    group.bodies.insert(submitted.body, body);
    jobs.enter_name(submitted);
    know_licenses(planning, &submitted.spec.licenses);
    enter_within(planning, submitted);
}

impl Jobs {
    /// A body out of the store.
    pub(crate) fn is_written(&mut self, submitted: &Submitted) {
        let group = self.group_mut(&submitted.base);
        if let Some(body) = group.and_then(|group| group.bodies.get_mut(&submitted.body)) {
            body.stored = true;
        }
    }

    /// A job whose row was loaded, or is about to be written.
    pub(crate) fn has_row(&mut self, id: JobId) {
        let Some(job) = self.get_mut(&id) else {
            return;
        };
        let base = job.submitted.base;
        if !std::mem::replace(&mut job.has_row, true)
            && let Some(group) = self.group_mut(&base)
        {
            group.plain = group.plain.saturating_sub(1);
        }
    }

    /// That body is the one of an ended job's row.
    pub(crate) fn is_stored(&mut self, submitted: &Submitted, stored: bool) {
        let group = self.group_mut(&submitted.base);
        if let Some(body) = group.and_then(|group| group.bodies.get_mut(&submitted.body)) {
            body.stored |= stored;
            body.named |= stored;
        }
    }
}

/// A job more has that body.
pub(crate) fn join_body(
    jobs: &mut Jobs,
    planning: &mut Planning,
    aside: &Aside,
    submitted: &Arc<Submitted>,
) {
    let group = jobs.group(&submitted.base);
    if group.is_some_and(|group| !group.bodies.contains_key(&submitted.body)) {
        know_body(jobs, planning, submitted, submitted.body == 0);
        wait_for_others(jobs, aside, Waiter::of(submitted), submitted);
    }
    let group = jobs.group_mut(&submitted.base);
    if let Some(body) = group.and_then(|group| group.bodies.get_mut(&submitted.body)) {
        body.jobs += 1;
    }
}

/// A job has that body no longer; `named`: its row goes on naming it.
pub(crate) fn leave_body(
    jobs: &mut Jobs,
    planning: &mut Planning,
    turn: &mut Turn,
    submitted: &Submitted,
    named: bool,
) {
    let Some(group) = jobs.group_mut(&submitted.base) else {
        return;
    };
    let common = group.submitted.body;
    let Some(body) = group.bodies.get_mut(&submitted.body) else {
        return;
    };
    body.jobs = body.jobs.saturating_sub(1);
    body.named |= named;
    if body.jobs > 0 || submitted.body == common {
        return;
    }
    let gone = body.stored && !body.named && submitted.body > 0;
    group.bodies.remove(&submitted.body);
    let name = &submitted.spec.name;
    let same = |body: &Body| body.submitted.spec.name == *name;
    let kept = group.bodies.values().any(same);
    if !kept {
        jobs.leave_name(submitted.uid, name, submitted.base);
    }
    leave_within(planning, submitted);
    jobs.wait_no_longer(Waiter::of(submitted), submitted);
    if gone {
        turn.record(Record::BodyGone {
            base: submitted.base,
            number: submitted.body,
        });
    }
}

impl Jobs {
    /// Writes a body that a row is about to name.
    pub(crate) fn store_body(&mut self, turn: &mut Turn, submitted: &Submitted) {
        let group = self.group_mut(&submitted.base);
        let body = group.and_then(|group| group.bodies.get_mut(&submitted.body));
        if body.is_some_and(|body| !std::mem::replace(&mut body.stored, true)) {
            turn.record(Record::Body {
                number: submitted.body,
                row: Box::new(submitted.row()),
            });
        }
    }
}

/// From now on the tasks of an array that have no row of their own stand like that.
pub(crate) fn stand(
    jobs: &mut Jobs,
    planning: &mut Planning,
    aside: &Aside,
    turn: &mut Turn,
    submitted: &Arc<Submitted>,
    held: Option<HeldBy>,
) {
    let base = submitted.base;
    let Some(group) = jobs.group_mut(&base) else {
        return;
    };
    let before = group.held;
    let other = !Arc::ptr_eq(&group.submitted, submitted);
    group.held = held;
    if other {
        join_body(jobs, planning, aside, submitted);
        jobs.store_body(turn, submitted);
        if let Some(group) = jobs.group_mut(&base) {
            group.submitted = submitted.clone();
        }
        leave_body(jobs, planning, turn, submitted, false); // it is kept as the common one
    }
    if other || before != held {
        jobs.save_standing(turn, base);
    }
}

impl Jobs {
    pub(crate) fn save_standing(&self, turn: &mut Turn, base: JobId) {
        if let Some(group) = self.group(&base) {
            turn.record(Record::Standing(StandingRow {
                base,
                body: group.submitted.body,
                held: group.held,
                at_once: group.at_once,
            }));
        }
    }

    /// A job is about to have a row of its own.
    pub(crate) fn stands_apart(&mut self, turn: &mut Turn, id: JobId) {
        self.has_row(id);
        if let Some(submitted) = self.get(&id).map(|job| job.submitted.clone()) {
            self.store_body(turn, &submitted);
        }
    }
}

/// Jobs with that body are to run in a reservation, if it says so.
fn enter_within(planning: &mut Planning, submitted: &Submitted) {
    if let Some(id) = submitted.spec.reservation {
        planning.names(id, Waiter::of(submitted));
    }
}

/// No job has that body any more.
pub(crate) fn leave_within(planning: &mut Planning, submitted: &Submitted) {
    if let Some(id) = submitted.spec.reservation {
        planning.names_no_more(id, Waiter::of(submitted));
    }
}

impl Jobs {
    pub(crate) fn enter_name(&mut self, submitted: &Submitted) {
        let key = (submitted.uid, submitted.spec.name.clone());
        self.names.entry(key).or_default().insert(submitted.base);
    }

    /// A submission has no job of that name any more: singletons of that name may go.
    pub(crate) fn leave_name(&mut self, uid: Uid, name: &str, base: JobId) {
        let key = (uid, name.to_owned());
        let Some(bases) = self.names.get_mut(&key) else {
            return;
        };
        let was_first = bases.first() == Some(&base);
        bases.remove(&base);
        match bases.first().copied() {
            None => drop(self.names.remove(&key)),
            Some(next) if was_first => self.review_all_of(next),
            Some(_) => {}
        }
    }
}

/// Jobs that ask for the same stand elsewhere. Tells which wait.
pub(crate) fn place_body(jobs: &mut Jobs, waiter: Waiter, new: &Arc<Submitted>) -> Vec<JobId> {
    lay_body(jobs, new);
    let Some(group) = jobs.group(&waiter.base) else {
        return Vec::new();
    };
    let mut waiting = Vec::new();
    for id in group.ids() {
        let job = jobs.get_mut(&id);
        if let Some(job) = job.filter(|job| job.submitted.body == waiter.body) {
            job.submitted = new.clone();
            waiting.extend(job.is_waiting().then_some(id));
        }
    }
    waiting
}

/// That is what jobs with its number ask for, and where they stand.
pub(crate) fn lay_body(jobs: &mut Jobs, new: &Arc<Submitted>) {
    let Some(group) = jobs.group_mut(&new.base) else {
        return;
    };
    if let Some(body) = group.bodies.get_mut(&new.body) {
        body.submitted = new.clone();
    }
    if group.submitted.body == new.body {
        group.submitted = new.clone();
    }
}
