//! Jobs take licences when they start and stand in line for those that are held.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::dependencies::procedures::planner_job;
use crate::jobs::job::Job;
use crate::planning::Planning;
use crate::queues::Queues;
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::is_queued;
use cosy_model::{About, CountedResources, JobId, JobSpec, Refusal, RefusalCode, WaitReason};

/// Refuses what there never is.
pub(crate) fn check_licenses(
    config: &ClusterConfig,
    wanted: &CountedResources,
) -> Result<(), Refusal> {
    for (name, count) in wanted.iter() {
        let have = config.licenses.get(name);
        if count <= have {
            continue;
        }
        let why = match have {
            0 => format!("there is no licence '{name}'"),
            _ => format!("{count} licences '{name}' are more than the {have} there are"),
        };
        return Err(Refusal::new(RefusalCode::NeverFits, why).about(About::License));
    }
    Ok(())
}

impl Jobs {
    /// True when licences that it wants are in use.
    pub(crate) fn lacks_licenses(&self, config: &ClusterConfig, spec: &JobSpec) -> bool {
        self.missing_license(config, spec, None).is_some()
    }

    /// The first licence for which a job cannot be in a planner's queue: it is in use, or
    /// `ahead` jobs more than could start are there for it.
    pub(crate) fn missing_license<'a>(
        &self,
        config: &ClusterConfig,
        spec: &'a JobSpec,
        ahead: Option<u64>,
    ) -> Option<&'a str> {
        let short = |(name, count): &(&str, u32)| {
            let used = u64::from(self.licenses.used(name));
            let most = u64::from(config.licenses.get(name));
            let wants = used + u64::from(*count);
            let queued = |ahead| wants + self.licenses.wanted(name) > most + ahead;
            wants > most || ahead.is_some_and(queued)
        };
        spec.licenses.iter().find(short).map(|(name, _)| name)
    }
}

/// Whether a job that is in no planner's queue has to wait for a licence.
pub(crate) fn awaits_licenses(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    job: &Job,
) -> bool {
    let spec = job.spec();
    !spec.licenses.is_empty()
        && !is_queued(planning, reservations, job.id)
        && jobs
            .missing_license(config, spec, Some(jobs.licenses.ahead))
            .is_some()
}

/// A job has been looked at and waits for that, or for nothing but its turn.
pub(crate) fn stand_in_line(
    config: &ClusterConfig,
    queues: &Queues,
    jobs: &mut Jobs,
    reservations: &Reservations,
    id: JobId,
    reason: Option<&WaitReason>,
) {
    let Some(job) = jobs.live.get(&id) else {
        return;
    };
    if job.spec().licenses.is_empty() {
        return jobs.licenses.leave_line(id);
    }
    let missing = match reason {
        Some(WaitReason::Licenses) => {
            jobs.missing_license(config, job.spec(), Some(jobs.licenses.ahead))
        }
        Some(_) | None => None,
    };
    match missing.zip(planner_job(config, queues, reservations, job)) {
        Some((name, waiting)) => {
            let name = name.to_owned();
            jobs.licenses.wait(&name, waiting.key);
        }
        None => jobs.licenses.leave_line(id),
    }
}

impl Jobs {
    /// The job holds its licences from now on.
    pub(crate) fn take_licenses(&mut self, id: JobId) {
        self.change_licenses(id, u32::saturating_add);
    }

    /// The job has given its licences back: others may have them, at the end of the turn.
    pub(crate) fn give_licenses(&mut self, id: JobId) {
        if !self.change_licenses(id, u32::saturating_sub) {
            return;
        }
        let names = self.live[&id].spec().licenses.iter();
        let names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.licenses.due.entry(name).or_default();
        }
    }

    fn change_licenses(&mut self, id: JobId, change: fn(u32, u32) -> u32) -> bool {
        let Some(job) = self.live.get(&id) else {
            return false;
        };
        let used = &mut self.licenses.used;
        for (name, count) in job.spec().licenses.iter() {
            used.set(name, change(used.get(name), count));
        }
        !job.spec().licenses.is_empty()
    }

    /// What jobs hold, counted anew.
    pub(crate) fn count_licenses(&self) -> CountedResources {
        let mut used = CountedResources::default();
        for job in self.live.values().filter(|job| !Job::is_waiting(job)) {
            for (name, count) in job.spec().licenses.iter() {
                used.set(name, used.get(name).saturating_add(count));
            }
        }
        used
    }
}
