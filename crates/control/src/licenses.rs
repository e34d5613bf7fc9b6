//! Licences: counted over the whole cluster, held by a job from its start until its nodes
//! are clean.
//!
//! The planner knows nothing of them: what it would start and what has no licence then
//! leaves its queue and comes back when there are enough again. So a job that waits for a
//! licence never holds back others. Always holds: what jobs hold is at most what there is,
//! unless the configuration has become smaller under them.
//! Source: sbatch(1), `--licenses`.

use crate::controller::Controller;
use crate::job::{Job, Phase};
use cosy_model::{About, Counted, JobId, JobSpec, Refusal, RefusalCode, Time, WaitReason};

impl Controller {
    /// Refuses what there never is.
    pub(crate) fn check_licenses(&self, wanted: &Counted) -> Result<(), Refusal> {
        for (name, count) in wanted.iter() {
            let have = self.config.licenses.get(name);
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

    /// True when licences that it wants are in use.
    pub(crate) fn lacks_licenses(&self, spec: &JobSpec) -> bool {
        let short = |(name, count): (&str, u32)| {
            let used = self.licenses_used.get(name);
            used.saturating_add(count) > self.config.licenses.get(name)
        };
        spec.licenses.iter().any(short)
    }

    /// The job holds its licences from now on.
    pub(crate) fn take_licenses(&mut self, id: JobId) {
        self.change_licenses(id, u32::saturating_add);
    }

    /// The job has given its licences back: others may have them.
    pub(crate) fn give_licenses(&mut self, now: Time, id: JobId) {
        if !self.change_licenses(id, u32::saturating_sub) {
            return;
        }
        for waiting in self.unlicensed.clone() {
            self.review(now, waiting);
        }
    }

    fn change_licenses(&mut self, id: JobId, change: fn(u32, u32) -> u32) -> bool {
        let Some(job) = self.jobs.get(&id) else {
            return false;
        };
        let used = &mut self.licenses_used;
        for (name, count) in job.spec().licenses.iter() {
            used.set(name, change(used.get(name), count));
        }
        !job.spec().licenses.is_empty()
    }

    /// A job that the planner has started cannot have its licences now. Always false: it
    /// has not started.
    pub(crate) fn wait_for_licenses(&mut self, now: Time, id: JobId) -> bool {
        self.planner_of(id).end(id);
        self.inside.remove(&id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.phase = Phase::Waiting(Some(WaitReason::Licenses));
        }
        self.review(now, id);
        self.refill_interactive(now, id);
        false
    }

    /// What jobs hold, counted anew.
    pub(crate) fn count_licenses(&self) -> Counted {
        let mut used = Counted::default();
        for job in self.jobs.values().filter(|job| !Job::is_waiting(job)) {
            for (name, count) in job.spec().licenses.iter() {
                used.set(name, used.get(name).saturating_add(count));
            }
        }
        used
    }
}
