//! The order in which waiting jobs are served: the only place where keys of it are made
//! ([`OrderKey`]), and the numbers that users see and set for it. And by which dates jobs stand in
//! line: as they came, whatever the clock was set to.
//!
//! Who was submitted first is served first, and ids say who that was. The date of a submission
//! says the same until somebody sets the clock back: then jobs that come later have earlier
//! dates. For the order of the line such a job has the latest date that was given before it, and
//! its id decides.
//!
//! What always holds: of two jobs the one with the lesser base never has the later date in line.

use crate::jobs::job::{Job, Submitted};
use crate::queues::scores::Scores;
use cosy_model::{AccessLevel, JobId, JobSpec, Time};
use cosy_model::{QueueOrder, QueueSpec};
use cosy_policy::weights::Ageing;
use cosy_sched::OrderKey;
use cosy_sched::appraise::Inquiry;
use std::collections::BTreeMap;

/// The priority of the very first job in Slurm's counting.
const FIRST_PRIORITY: i64 = 4_294_901_760;

/// So many steps back are remembered; of jobs before the first of them the dates count.
const STEPS: usize = 64;

/// The key of a job that waits: queue and level, what the queue orders by ([`QueueOrder`]), nice, then who
/// came first. `submit`: its date in line ([`Came::in_line`]). `no_place`: it gets no guaranteed start.
pub(crate) fn of_job(
    scores: &Scores,
    queue: &QueueSpec,
    level: AccessLevel,
    (job, no_place): (&Job, bool),
    submit: Time,
) -> OrderKey {
    let ageing = job.ages_since().map_or(Ageing::Not, Ageing::Since);
    let (score, nice) = score_and_nice(scores, queue, job.submitted(), ageing);
    OrderKey {
        ahead: job.room_is_made(),
        no_place,
        queue_priority: queue.priority,
        level,
        score,
        nice,
        submit,
        rank: job.rank(),
        job: job.id(),
    }
}

/// The key of the same job after the rank of its user has changed.
pub(crate) const fn with_score(key: OrderKey, score: i64) -> OrderKey {
    OrderKey { score, ..key }
}

/// What the queue orders by, and nice where it counts after that.
fn score_and_nice(
    scores: &Scores,
    queue: &QueueSpec,
    submitted: &Submitted,
    ageing: Ageing,
) -> (i64, i64) {
    let spec = &submitted.spec;
    let nice = nice(spec, submitted.base);
    match queue.order {
        QueueOrder::Fcfs => (0, nice),
        QueueOrder::FairShare => {
            let ahead = spec.nice.saturating_sub(nice);
            (scores.fair_share(submitted, ahead), spec.nice)
        }
        // nice is a part of the score
        QueueOrder::Weights => (scores.weighted(queue, submitted, ageing), 0),
    }
}

/// The key that a job would get which is submitted now: in a queue that orders by dates behind all that
/// wait there at that level, else where use and weights of its user put it. Its id is the one that the
/// next job gets, so nobody has it yet.
pub(crate) fn of_newcomer(
    scores: &Scores,
    queue: &QueueSpec,
    level: AccessLevel,
    newcomer: &Submitted,
) -> OrderKey {
    let (now, next) = (newcomer.submit, newcomer.base);
    let (score, nice) = score_and_nice(scores, queue, newcomer, Ageing::Since(now));
    OrderKey {
        ahead: None,
        no_place: false,
        queue_priority: queue.priority,
        level,
        score,
        nice,
        submit: now,
        rank: next,
        job: next,
    }
}

/// The plain jobs of an inquiry that waited take the id that is next now: the one that they had may be
/// that of a job that came meanwhile.
pub(crate) fn number_anew(inquiry: &mut Inquiry, next: JobId) {
    let joint = inquiry.joint.as_mut().map(|joint| &mut joint.job);
    for job in [Some(&mut inquiry.job), joint].into_iter().flatten() {
        (job.key.rank, job.key.job) = (next, next);
    }
}

/// The key of what comes behind everybody: what `job` takes when nobody else can use it.
pub(crate) const fn behind_all(job: JobId) -> OrderKey {
    OrderKey {
        ahead: None,
        no_place: false,
        queue_priority: i32::MIN,
        level: AccessLevel::Defer,
        score: i64::MIN,
        nice: i64::MAX,
        submit: Time::FAR,
        rank: job,
        job,
    }
}

/// The number that stands for the job's place in the order: the first submission has the
/// highest, an administrator's own number counts more.
pub(crate) fn priority(spec: &JobSpec, base: JobId) -> i64 {
    let own = i64::try_from(base.0).map_or(1, |id| FIRST_PRIORITY.saturating_sub(id));
    let number = spec.priority.map_or(own, i64::from);
    number
        .saturating_sub(spec.nice)
        .clamp(1, i64::from(u32::MAX))
}

/// How much earlier than by its own number a job goes, in the measure of nice.
pub(crate) fn nice(spec: &JobSpec, base: JobId) -> i64 {
    let own = FIRST_PRIORITY.saturating_sub(i64::try_from(base.0).unwrap_or(i64::MAX));
    let ahead = spec
        .priority
        .map_or(0, |p| i64::from(p).saturating_sub(own));
    spec.nice.saturating_sub(ahead)
}

/// Dates of jobs in line.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// The latest submission so far.
    last: (JobId, Time),
    /// From each of these jobs on nobody stands before that date.
    floors: BTreeMap<JobId, Time>,
}

impl Came {
    /// A submission has come, or was loaded; in the order of their ids.
    pub fn note(&mut self, submitted: &Submitted) {
        let (base, submit) = (submitted.base, submitted.submit);
        let (before, latest) = self.last;
        if base <= before {
            return; // an ended one that waits again
        }
        self.last = (base, submit.max(latest));
        let known = self.floors.last_key_value();
        if submit < latest && known.is_none_or(|(_, floor)| *floor < latest) {
            self.floors.insert(base, latest);
            if self.floors.len() > STEPS {
                self.floors.pop_first();
            }
        }
    }

    /// The date by which a job stands in line.
    pub fn in_line(&self, submitted: &Submitted) -> Time {
        let floor = self.floors.range(..=submitted.base).next_back();
        let floor = floor.map_or(Time(i64::MIN), |(_, floor)| *floor);
        submitted.submit.max(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{OsText, Program};

    #[test]
    fn priorities() {
        let check = |change: &dyn Fn(&mut JobSpec), want: (i64, i64)| {
            let mut spec = JobSpec::plain("x", Program::Allocation, OsText::from("/"));
            change(&mut spec);
            assert_eq!((priority(&spec, JobId(90)), nice(&spec, JobId(90))), want);
        };
        check(&|_| {}, (4_294_901_670, 0));
        check(&|s| s.nice = 10, (4_294_901_660, 10));
        check(&|s| s.priority = Some(100), (100, 4_294_901_570));
        check(&|s| s.priority = Some(u32::MAX), (4_294_967_295, -65_625));
        check(&|s| s.nice = i64::MAX, (1, i64::MAX));
    }
}
