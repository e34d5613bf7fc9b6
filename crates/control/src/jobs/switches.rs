//! Jobs that wait for few switches of the network wait no longer than they say, or the site: then
//! any number of switches will do. Source: sbatch(1), `--switches`; slurm.conf(5), `max_switch_wait`.

pub(crate) mod procedures;

use crate::jobs::job::{Job, Place};
use cosy_model::job::ResourceRequest;
use cosy_model::{Span, Time};

/// Until when a job that could start since `eligible`, but for others, is kept to its number of
/// switches. `None` where it is kept to none.
pub(crate) fn until(request: &ResourceRequest, eligible: Time, max_wait: Span) -> Option<Time> {
    let switches = request.kept_to_switches()?;
    Some(eligible + switches.waits(max_wait))
}

/// The first such time of its components, and the number of switches of that one. `None` where its
/// place is on any switches: there are none, or it has one node.
pub(crate) fn first_until(job: &Job, eligible: Time, max_wait: Span) -> Option<(Time, u32)> {
    let Place::Good { demand, .. } = &job.submitted().place else {
        return None;
    };
    let requests = job.spec().components().map(|component| component.request);
    let kept = requests.zip(demand.iter()).filter_map(|(request, placed)| {
        Some((until(request, eligible, max_wait)?, placed.max_switches?))
    });
    kept.min()
}
