//! The result of a request is judged by the rules of the cluster, the queue and the user.

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::Submitted;
use crate::procedures::check::{Coming, Judged, Outcome, check_spec, count_down};
use crate::queues::order;
use cosy_model::{About, JobSpec, QueueId, Refusal, RefusalCode, User, limits};

impl Controller {
    /// Judges what a request would leave behind.
    ///
    /// # Errors
    /// The first thing that cannot be, with figures.
    pub(crate) fn check_result(
        &self,
        caller: &Caller,
        outcome: &Outcome<'_>,
    ) -> Result<Judged, Refusal> {
        let Outcome { owner, spec, .. } = *outcome;
        check_spec(spec)?;
        self.check_rights(caller, outcome)?;
        let queue = self.queue_of(caller, outcome)?;
        self.check_counts(caller, outcome, queue)?;
        self.check_queues(&spec.queues)?;
        self.check_bundles(spec)?;
        self.check_licenses(&spec.licenses)?;
        let place = self.place_or_wait(spec, queue, owner)?;
        Ok(Judged { queue, place })
    }

    /// What only administrators may give, where the job has not got it already.
    fn check_rights(&self, caller: &Caller, outcome: &Outcome<'_>) -> Result<(), Refusal> {
        let (spec, before) = (outcome.spec, outcome.before);
        let old = before.map(|before| &before.spec);
        if spec.nice < 0 && old.is_none_or(|old| old.nice != spec.nice) {
            self.require_admin(caller, "use a negative nice value")
                .map_err(|e| e.about(About::Priority))?;
        }
        let comment = &spec.admin_comment;
        if !comment.is_empty() && old.is_none_or(|old| old.admin_comment != *comment) {
            self.require_admin(caller, "make an administrator's comment")?;
        }
        let raised = before.is_none_or(|before| {
            let number = |spec| order::priority(spec, before.base);
            before.spec.priority != spec.priority && number(spec) > number(&before.spec)
        });
        if spec.priority.is_some() && raised {
            self.require_admin(caller, "give a job a priority")
                .map_err(|e| e.about(About::Priority))?;
        }
        Ok(())
    }

    /// The queue in which it would be, and whether its user may be in its reservation.
    fn queue_of(&self, caller: &Caller, outcome: &Outcome<'_>) -> Result<QueueId, Refusal> {
        let Outcome { spec, before, .. } = *outcome;
        let stays = before.map(|before| before.queue.as_str());
        let Some(reservation) = spec.reservation else {
            return self.find_queue(outcome.queue.or(stays));
        };
        // Who was let in stays in until it comes anew.
        let same = |before: &Submitted| {
            let old = &before.spec;
            outcome.queue.is_none_or(|queue| queue == before.queue)
                && (old.reservation, old.time_limit) == (spec.reservation, spec.time_limit)
        };
        if !outcome.enters && before.is_some_and(same) {
            return self.find_queue(stays);
        }
        let rights = self.rights_of(caller, outcome.owner);
        let limit = spec.time_limit.filter(|_| !outcome.attached);
        self.check_inside(&rights, reservation, outcome.queue, limit)
    }

    /// Whose rights count for a job: its user's, who may ask over a daemon that lessens them.
    pub(crate) fn rights_of(&self, caller: &Caller, owner: &User) -> Caller {
        if caller.user.uid == owner.uid {
            return caller.clone();
        }
        Caller::known(owner.clone())
    }

    /// Whether there is room for the jobs that come into queues.
    fn check_counts(
        &self,
        caller: &Caller,
        outcome: &Outcome<'_>,
        queue: QueueId,
    ) -> Result<(), Refusal> {
        let Outcome { owner, jobs, .. } = *outcome;
        let mut entering = Coming::new();
        if outcome.enters {
            self.check_total(caller, outcome)?;
            entering = self.entering(outcome.spec, queue);
        } else if outcome.before.map(|before| before.queue.as_str())
            != Some(self.queues.name(queue))
        {
            entering.insert(queue, 1);
        }
        for (id, parts) in entering {
            let before = outcome.coming.get(&id).copied().unwrap_or(0);
            let rights = self.rights_of(caller, owner);
            self.may_submit(&rights, id, parts.saturating_mul(jobs) + before)?;
        }
        Ok(())
    }

    /// The queues that one job is counted in, and how often: each part of it counts.
    pub(crate) fn entering(&self, spec: &JobSpec, queue: QueueId) -> Coming {
        let mut all = Coming::from([(queue, 1)]);
        let parts = spec.bundles.iter();
        let parts = parts.filter_map(|part| self.find_queue(part.queue.as_deref()).ok());
        parts.for_each(|id| *all.entry(id).or_default() += 1);
        all
    }

    /// How many jobs there may be, of one user and in all. Administrators have a reserve.
    fn check_total(&self, caller: &Caller, outcome: &Outcome<'_>) -> Result<(), Refusal> {
        let owner = outcome.owner;
        let parts = outcome.spec.bundles.len() + 1;
        let before: usize = outcome.coming.values().sum();
        let come = outcome.jobs.saturating_mul(parts).saturating_add(before);
        let admin = self.is_admin(&self.rights_of(caller, owner));
        let too_many = |why: String| Err(Refusal::new(RefusalCode::TooMany, why));
        let most = self.config.policy.max_jobs_per_user as usize;
        let mine = self.jobs.count_of(owner.uid) as usize;
        if !admin && most > 0 && mine + come > most {
            return too_many(format!(
                "user {} has {mine} jobs that wait or run and {come} would come: one user has at most {most} here; wait until some have ended, or make arrays smaller",
                owner.name
            ));
        }
        let reserve = if admin { 0 } else { limits::JOBS_RESERVE };
        let all = limits::JOBS - reserve;
        if self.jobs.len() + come > all {
            return too_many(format!(
                "{} jobs wait or run already, {all} can: try again when some have ended",
                self.jobs.len()
            ));
        }
        Ok(())
    }

    /// Whether somebody may be in a queue, and has room there for so many jobs more.
    pub(crate) fn may_submit(
        &self,
        rights: &Caller,
        id: QueueId,
        jobs: usize,
    ) -> Result<(), Refusal> {
        let queue = self.queues.get(id);
        let name = &queue.spec.name;
        let mine = queue.by_user.get(&rights.user.uid).copied().unwrap_or(0);
        self.may_enter(rights, &queue.spec)?;
        if !queue.state.takes_jobs() {
            let word = queue.state.word();
            return Err(Refusal::new(
                RefusalCode::QueueClosed,
                format!("queue {name} is {word}: it takes no jobs now"),
            ));
        }
        let limits = [
            (queue.spec.max_jobs, queue.jobs, "jobs at once"),
            (
                queue.spec.max_jobs_per_user,
                mine,
                "jobs of one user at once",
            ),
        ];
        for (max, have, what) in limits {
            if let Some(max) = max
                && u64::from(have) + jobs as u64 > u64::from(max)
            {
                return Err(Refusal::new(
                    RefusalCode::QueueLimit,
                    format!(
                        "queue {name} allows {max} {what}; there are {have} and {jobs} would come"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Counts jobs in their queues and with their user, whatever they wait for.
    pub(crate) fn count_in_queue(&mut self, submitted: &Submitted, jobs: u32) {
        let parts = submitted.spec.bundles.len() as u32 + 1;
        self.jobs.count_up(submitted.uid, jobs * parts);
        let Some(queue) = self.queue_id(&submitted.queue) else {
            return;
        };
        for (id, parts) in self.entering(&submitted.spec, queue) {
            let queue = self.queues.get_mut(id);
            queue.jobs += jobs * parts as u32;
            *queue.by_user.entry(submitted.uid).or_default() += jobs * parts as u32;
        }
    }

    /// A job is counted no longer.
    pub(crate) fn leave_queue(&mut self, submitted: &Submitted) {
        let parts = submitted.spec.bundles.len() as u32 + 1;
        self.jobs.count_down(submitted.uid, parts);
        let Some(queue) = self.queue_id(&submitted.queue) else {
            return;
        };
        for (id, parts) in self.entering(&submitted.spec, queue) {
            let queue = self.queues.get_mut(id);
            queue.jobs = queue.jobs.saturating_sub(parts as u32);
            count_down(&mut queue.by_user, submitted.uid, parts as u32);
        }
    }
}
