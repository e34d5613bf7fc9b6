//! Jobs take licences when they start and give them back when they are over.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use cosy_model::{About, CountedResources, JobId, Refusal, RefusalCode};

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
    /// The job holds its licences from now on.
    pub(crate) fn take_licenses(&mut self, id: JobId) {
        self.change_licenses(id, u32::saturating_add);
    }

    /// The job has given its licences back.
    pub(crate) fn give_licenses(&mut self, id: JobId) {
        self.change_licenses(id, u32::saturating_sub);
    }

    fn change_licenses(&mut self, id: JobId, change: fn(u32, u32) -> u32) {
        let Some(job) = self.live.get(&id) else {
            return;
        };
        let used = &mut self.licenses.used;
        for (name, count) in job.spec().licenses.iter() {
            used.set(name, change(used.get(name), count));
        }
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
