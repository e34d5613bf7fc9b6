//! A waiting job that has waited long enough for few switches takes any number of them.

use crate::jobs::losses::procedures::asks_for;
use crate::jobs::save::save_job;
use crate::jobs::switches::{first_until, until};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobId;

/// Where the job has waited long enough, it takes any number of switches.
pub(crate) fn settle_for_more(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let (now, max_wait) = (turn.now(), rooms.config.policy.max_switch_wait);
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let Some(eligible) = job.eligible() else {
        return;
    };
    if first_until(job, eligible, max_wait).is_none_or(|(first, _)| now < first) {
        return;
    }
    let mut spec = job.spec().clone();
    let further = spec.further_components.iter_mut();
    let further = further.map(|component| &mut component.request);
    for request in std::iter::once(&mut spec.request).chain(further) {
        let waited = until(request, eligible, max_wait).is_some_and(|until| until <= now);
        if let Some(switches) = request.switches.as_mut().filter(|_| waited) {
            switches.waited = true;
        }
    }
    asks_for(rooms, turn, id, spec);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
}

/// A job waits once more, or for another number of switches: it does so from now on.
pub(crate) fn waits_anew(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    let mut spec = job.spec().clone();
    let further = spec.further_components.iter_mut();
    let further = further.map(|component| &mut component.request);
    let all = std::iter::once(&mut spec.request).chain(further);
    let switches = all.filter_map(|request| request.switches.as_mut());
    let waited: Vec<bool> = switches
        .map(|switches| std::mem::take(&mut switches.waited))
        .collect();
    if waited.is_empty() {
        return;
    }
    job.eligible = None.into();
    if waited.contains(&true) {
        asks_for(rooms, turn, id, spec);
    }
}
