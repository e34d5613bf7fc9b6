//! Starts that plans predict are noted, and looked at when they are due.

use crate::conversations::plans::Starts;
use crate::jobs::job::Job;
use crate::rooms::Rooms;
use crate::turn::Turn;

/// Commands are told these starts.
pub(crate) fn note_told(rooms: &mut Rooms, turn: &Turn, starts: &Starts) {
    let now = turn.now();
    for (id, prediction) in starts {
        let Some(start) = prediction.start.filter(|start| *start > now) else {
            continue;
        };
        if rooms.conversations.predictions().is_noted(*id) {
            continue;
        }
        let waits = |job: &&Job| job.is_waiting() && job.held().is_none();
        if let Some(job) = rooms.jobs.get(id).filter(waits) {
            let predictions = rooms.conversations.predictions_mut();
            predictions.tell(now, *id, &job.submitted().queue, start);
        }
    }
}

/// Jobs that should have started by now, and wait, have missed what they were told.
pub(crate) fn overdue_starts(rooms: &mut Rooms, turn: &Turn) {
    let predictions = &mut rooms.conversations.predictions;
    while let Some(id) = predictions.overdue(turn.now()) {
        match rooms.jobs.get(&id).is_some_and(Job::is_waiting) {
            true => predictions.misses(id),
            false => predictions.forget(id),
        }
    }
}
