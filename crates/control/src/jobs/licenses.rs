//! Licences: counted over the whole cluster, held by a job from its start until its nodes
//! are clean.
//!
//! Who gets them when is the planners' matter: a licence is a resource pool there
//! ([`crate::planning::pools`]), so a head that waits for one has a guaranteed start. Here is
//! counted what jobs hold, and kept what was told of use outside of the cluster. Always holds: what
//! jobs hold is what the planners say, too.
//! Source: sbatch(1), `--licenses`.

pub(crate) mod procedures;

use cosy_model::{CountedResources, LicenseUse};
use std::collections::BTreeMap;

/// Licences that jobs hold.
#[derive(Debug, Default)]
pub(crate) struct Licenses {
    used: CountedResources,
    /// How many are in use in all, by name; also of licences that the configuration names no
    /// longer, which may come back.
    told: BTreeMap<String, LicenseUse>,
}

impl Licenses {
    /// How many of that licence jobs hold.
    pub fn used(&self, name: &str) -> u32 {
        self.used.get(name)
    }

    /// All that jobs hold.
    pub fn all_used(&self) -> &CountedResources {
        &self.used
    }

    /// How many are in use in all, if anybody has told it.
    pub fn told(&self, name: &str) -> Option<&LicenseUse> {
        self.told.get(name)
    }

    /// Number of licences that others have who are not of the cluster.
    pub fn outside(&self, name: &str) -> u32 {
        self.told(name).map_or(0, |told| told.outside)
    }

    /// So many are in use in all.
    pub fn is_told(&mut self, name: &str, told: LicenseUse) {
        self.told.insert(name.to_owned(), told);
    }
}
