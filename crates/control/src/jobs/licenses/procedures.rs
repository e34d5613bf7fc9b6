//! Jobs take licences when they start and give them back when they are over; what others have is
//! told.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::record::Record;
use crate::turn::Turn;
use cosy_model::near::nearest;
use cosy_model::{About, CountedResources, JobId, LicenseUse, Refusal, RefusalCode};

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
            0 => no_license(config, name),
            _ => format!("{count} licences '{name}' are more than the {have} there are"),
        };
        return Err(Refusal::new(RefusalCode::NeverFits, why).about(About::License));
    }
    Ok(())
}

/// There is no such licence, and which there are.
pub(crate) fn no_license(config: &ClusterConfig, name: &str) -> String {
    let all = || config.licenses.iter().map(|(name, _)| name);
    let hint = match nearest(name, all()) {
        Some(near) => format!("'{near}' is one"),
        None if all().next().is_none() => "[licenses] of cosy.toml names none".to_owned(),
        None => "'cadm license list' lists those of [licenses] in cosy.toml".to_owned(),
    };
    format!("there is no licence '{name}': {hint}")
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

    /// What was told of its use before the controller was restarted.
    pub(crate) fn restore_license_use(&mut self, all: Vec<(String, LicenseUse)>) {
        for (name, told) in all {
            self.licenses.is_told(&name, told);
        }
    }

    /// So many of a licence are in use in all. Those that jobs do not hold others have, until it is
    /// told anew: what jobs take or give back in the meantime does not change that.
    pub(crate) fn license_is_told(
        &mut self,
        turn: &mut Turn,
        by: &str,
        license: &str,
        in_use: u32,
    ) -> LicenseUse {
        let row = LicenseUse {
            in_use,
            outside: in_use.saturating_sub(self.licenses.used(license)),
            at: turn.now(),
            by: by.to_owned(),
        };
        self.licenses.is_told(license, row.clone());
        turn.record(Record::LicenseUse {
            license: license.to_owned(),
            row: row.clone(),
        });
        row
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
