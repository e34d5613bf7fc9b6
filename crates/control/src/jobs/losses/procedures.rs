//! Losses of jobs are noted, and forgiven after a while.

use crate::jobs::job::{Job, Place};
use crate::jobs::losses::{LostRun, after, forgiven};
use crate::jobs::restore::procedures::placed_again;
use crate::jobs::save::save_job;
use crate::jobs::steer::procedures::take_body;
use crate::record::HeldBy;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{JobId, JobSpec};
use std::sync::Arc;

/// A job waits that was lost with nodes. Tells who holds it now, if it was lost too often.
pub(crate) fn note_loss(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    lost: &LostRun,
) -> Option<HeldBy> {
    let (avoids, most) = (rooms.config.policy.requeue_avoids, rooms.config.policy.max_requeues);
    let spec = after(rooms.jobs.get(&id)?.spec(), lost, turn.now(), avoids);
    let often = most > 0 && spec.times_lost() > most && lost.had_begun;
    asks_for(rooms, turn, id, spec);
    often.then_some(HeldBy::Losses)
}

/// A waiting job may go to nodes again with which it was lost a while ago.
pub(crate) fn forgive(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let avoids = rooms.config.policy.requeue_avoids;
    let waits = rooms.jobs.get(&id).filter(|job| job.is_waiting());
    let spec = waits.and_then(|job| forgiven(job.spec(), turn.now(), avoids));
    if let Some(spec) = spec {
        asks_for(rooms, turn, id, spec);
        save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    }
}

/// A waiting job asks for that in the same queue, alone of those that were like it.
pub(crate) fn asks_for(rooms: &mut Rooms, turn: &mut Turn, id: JobId, spec: JobSpec) {
    let Some(old) = rooms.jobs.get(&id).map(Job::submitted).cloned() else {
        return;
    };
    let group = rooms.jobs.group(&old.base);
    let like = group.and_then(|group| group.body_like(&spec, &old.queue));
    let new = like.unwrap_or_else(|| {
        let (queue, place) = (old.queue.clone(), Place::Lost);
        let new = rooms.jobs.new_body(&old, Arc::new(spec), queue, place);
        Arc::new(placed_again(rooms, &new))
    });
    take_body(rooms, turn, id, &new);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.differs(true);
    }
}
