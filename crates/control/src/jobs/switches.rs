//! Jobs that wait for few switches of the network wait no longer than they say, or the site: then
//! any number of switches will do. Source: sbatch(1), `--switches`; slurm.conf(5), `max_switch_wait`.

pub(crate) mod procedures;

use cosy_model::job::ResourceRequest;
use cosy_model::{JobSpec, Span, Time};

/// Until when a job that could start since `eligible`, but for others, is kept to its number of
/// switches. `None` where it is kept to none.
pub(crate) fn until(request: &ResourceRequest, eligible: Time, max_wait: Span) -> Option<Time> {
    let switches = request.switches.filter(|switches| !switches.waited)?;
    Some(eligible + switches.waits(max_wait))
}

/// The first such time of its components.
pub(crate) fn first_until(spec: &JobSpec, eligible: Time, max_wait: Span) -> Option<Time> {
    let all = spec.components().map(|component| component.request);
    all.filter_map(|request| until(request, eligible, max_wait))
        .min()
}
