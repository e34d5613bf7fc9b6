//! A waiting job that has waited long enough for few switches takes any number of them.

use crate::jobs::losses::procedures::asks_for;
use crate::jobs::save::save_job;
use crate::jobs::switches::{first_until, until};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobId;
use cosy_model::job::SwitchRequest;

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
    for request in spec.requests_mut() {
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
    let asked = job.spec().components().map(|own| own.request.switches);
    let asked: Vec<SwitchRequest> = asked.flatten().collect();
    if asked.is_empty() {
        return;
    }
    job.eligible = None.into();
    if asked.iter().any(|switches| switches.waited) {
        let mut spec = job.spec().clone();
        let switches = spec
            .requests_mut()
            .filter_map(|request| request.switches.as_mut());
        switches.for_each(|switches| switches.waited = false);
        asks_for(rooms, turn, id, spec);
    }
}
