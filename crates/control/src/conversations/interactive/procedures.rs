//! Allocations are asked for, answered at the end of the turn, and counted by user.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::attendance::Awaits;
use crate::conversations::interactive::{Allocating, gone};
use crate::conversations::replies::reply_to;
use crate::conversations::visible::not_theirs;
use crate::event::{Caller, ClientId};
use crate::jobs::Jobs;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::variables::variables;
use crate::machine::Machine;
use crate::machine::names::serving_list;
use crate::planning::Planning;
use crate::queues::access::procedures::may_touch;
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::is_queued;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::{JobRef, Reply};
use cosy_model::step::AllocationEndpoint;
use cosy_model::{Gid, JobId, Refusal, RefusalCode};

/// The same request came again: the command stays with the job that it got.
pub(crate) fn answer_at_end_of_turn(
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    client: ClientId,
    waits: Reply,
) {
    let Reply::Submitted { job, .. } = waits else {
        return reply_to(turn, client, waits);
    };
    if jobs.contains_key(&job) {
        conversations.attendance.stays(client, job, Awaits::Nothing);
    }
    conversations
        .interactive
        .allocating
        .push(Allocating { client, job, waits });
}

/// Answers everyone who asked for an allocation in this turn.
pub(crate) fn answer_allocations(rooms: &mut Rooms, turn: &mut Turn) {
    for Allocating { client, job, waits } in
        std::mem::take(&mut rooms.conversations.interactive.allocating)
    {
        let reply = allocated(rooms, job).unwrap_or(waits);
        reply_to(turn, client, reply);
    }
}

/// What the command of a job that has nodes is told.
pub(crate) fn allocated(rooms: &Rooms, id: JobId) -> Option<Reply> {
    let job = rooms.jobs.get(&id)?;
    let run = job.run().filter(|run| !run.is_over())?;
    Some(Reply::Allocated {
        entry: entry_of(&rooms.machine, job)?,
        until: (!run.limit().is_unlimited()).then(|| run.end_if_it_goes_on()),
        variables: variables(rooms, job, run, rooms.conversations.group_of(job)),
    })
}

impl Conversations {
    /// The primary group that the job has with its nodes.
    fn group_of(&self, job: &Job) -> Gid {
        let wanted = job.submitted().gid;
        let known = self.users.get(&job.submitted().uid);
        let known = known.filter(|known| !known.user.name.is_empty());
        known.map_or(wanted, |known| known.user.granted(wanted))
    }
}

fn entry_of(machine: &Machine, job: &Job) -> Option<AllocationEndpoint> {
    let run = job.run().filter(|run| !run.is_over())?;
    let part = run.parts().first()?;
    let first = machine.node(part.node());
    Some(AllocationEndpoint {
        key: job.key(),
        nodes: serving_list(machine, run),
        socket: Some(first.step_socket().to_owned()).filter(|socket| !socket.is_empty()),
        boot_id: part.boot_id().to_owned(),
    })
}

/// How the first node of a running job is reached.
pub(crate) fn entry(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    caller: &Caller,
    id: JobId,
) -> Result<Reply, Refusal> {
    let job = jobs.get(&id).ok_or_else(|| gone(id))?;
    if !may_touch(config, caller, job.submitted()) {
        let name = JobRef {
            job: id,
            task: None,
        };
        return Err(not_theirs(config, caller, job.submitted().uid, name));
    }
    let entry = entry_of(machine, job).ok_or_else(|| {
        Refusal::new(
            RefusalCode::WrongState,
            format!("job {id} is {}: steps can be started only while it runs", job.state()),
        )
    })?;
    Ok(Reply::Entry(entry))
}

/// True when as many other interactive jobs of the job's user run, or are about to, as
/// may.
pub(crate) fn interactive_is_full(rooms: &Rooms, job: &Job) -> bool {
    let most = rooms.config.policy.interactive_per_user;
    let counts = job.submitted().counts_as_interactive();
    if most == 0 || !counts || is_queued(&rooms.planning, &rooms.reservations, job.id()) {
        return false;
    }
    let mine = rooms
        .conversations
        .interactive
        .live
        .get(&job.submitted().uid);
    let others = mine.into_iter().flatten().filter(|id| **id != job.id());
    let counts = |id: &&JobId| {
        counts_as_interactive(&rooms.jobs, &rooms.planning, &rooms.reservations, **id)
    };
    others.filter(counts).count() >= most as usize
}

/// A job whose end is settled no longer counts: the next one need not wait until its
/// nodes are clean.
pub(crate) fn counts_as_interactive(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    id: JobId,
) -> bool {
    let runs = jobs
        .get(&id)
        .and_then(Job::run)
        .is_some_and(|run| !run.is_over());
    runs || is_queued(planning, reservations, id)
}

impl Conversations {
    pub(crate) fn leave_interactive(&mut self, id: JobId, submitted: &Submitted) {
        if let Some(mine) = self.interactive.live.get_mut(&submitted.uid) {
            mine.remove(&id);
            if mine.is_empty() {
                self.interactive.live.remove(&submitted.uid);
            }
        }
    }
}
