//! Commands that stay with their jobs come and go.

use crate::event::ClientId;
use crate::jobs::end::end_job;
use crate::jobs::job::Phase;
use crate::procedures::steer::kill_job;
use crate::reservations::inside::procedures::uncount_job;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::KillCause;
use cosy_model::{End, EndCause, EventKind, EventObject, JobId};

/// A command has hung up.
pub(crate) fn client_gone(rooms: &mut Rooms, turn: &mut Turn, client: ClientId) {
    rooms.conversations.client_left(client);
    if let Some(left) = rooms.conversations.attendance_mut().leaves(client)
        && left.was_last
    {
        rooms.conversations.attendance_mut().given_up(left.job);
        end_unattended(rooms, turn, left.job);
    }
}

/// Jobs whose command has not come again.
pub(crate) fn lonely_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    while let Some(id) = rooms.conversations.attendance_mut().abandoned(now) {
        end_unattended(rooms, turn, id);
    }
}

pub(crate) fn end_unattended(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get(&id).filter(|j| j.spec().attended) else {
        return;
    };
    let waits = match &job.phase() {
        Phase::Waiting(_) => true,
        Phase::Run(run) if run.is_over() => return,
        Phase::Run(_) => false,
    };
    let why = "its command has gone";
    let object = EventObject::Job(id);
    turn.happened(now, EventKind::Cancelled, "controller", object, why.to_owned());
    if waits {
        let end = End::never_ran(EndCause::Cancelled, now);
        uncount_job(&rooms.config, &rooms.jobs, &mut rooms.reservations, now, id);
        end_job(rooms, turn, id, &end, why);
    } else {
        kill_job(rooms, turn, id, KillCause::Cancelled);
    }
}
