//! Licences: counted over the whole cluster, held by a job from its start until its nodes
//! are clean.
//!
//! Who gets them when is the planners' matter: a licence is a resource pool there
//! ([`crate::planning::pools`]), so a head that waits for one has a guaranteed start. Here is
//! counted what jobs hold. Always holds: that is what the planners say, too.
//! Source: sbatch(1), `--licenses`.

pub(crate) mod procedures;

use cosy_model::CountedResources;

/// Licences that jobs hold.
#[derive(Debug, Default)]
pub(crate) struct Licenses {
    used: CountedResources,
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
}
