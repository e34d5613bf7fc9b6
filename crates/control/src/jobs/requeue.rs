//! Jobs that go back into the queue: running ones, and ended ones that are still remembered.
//! Source: scontrol(1), `requeue` and `requeuehold`.

use crate::conversations::Conversations;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::bodies::procedures::join_body;
use crate::jobs::check::procedures::count_in_queue;
use crate::jobs::ended::Ended;
use crate::jobs::job::{Group, Job, Member, Place, Submitted, TaskOutcome};
use crate::jobs::limits::procedures::comes;
use crate::jobs::small_map::SmallMap;
use crate::jobs::steer::procedures::owner;
use crate::jobs::submit::procedures::add_group;
use crate::record::{HeldBy, Numbering, Record};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{Dialect, JobId, JobSpec, Span, Time, User};
use std::sync::Arc;

/// Slurm lets a job that was put back wait for a while, so that its nodes are clean in any
/// case; users who look at it at once see that it waits.
const PAUSE: Span = Span::from_secs(5);

impl Jobs {
    /// What a job that waits again has to wait for beside its turn.
    pub(crate) fn pause_before_again(&mut self, now: Time, id: JobId, held: Option<HeldBy>) {
        let Some(job) = self.get_mut(&id) else {
            return;
        };
        job.held = held.map(|by| by.upon(job.held)).or(job.held);
        if job.spec().dialect == Dialect::Slurm && !job.spec().requeue_terms.expedite {
            let until = now + PAUSE;
            job.change_uncommon(|it| it.not_before = Some(until));
            self.begins_at(until, id);
        }
    }
}

/// What an ended job would be again, and whose it is. What it had to wait for before has
/// happened.
pub(crate) fn come_back(
    conversations: &Conversations,
    caller: &Caller,
    old: &Submitted,
) -> (JobSpec, User) {
    let mut spec = JobSpec::clone(&old.spec);
    spec.dependencies.clear();
    spec.losses = None;
    (spec, owner(conversations, caller, old))
}

/// Into memory as a job that waits.
pub(crate) fn put_back(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    ended: &Ended,
    (spec, queue, place): (JobSpec, String, Place),
    hold: Option<HeldBy>,
) {
    let old = &ended.submitted;
    let same = spec == *old.spec && queue == old.queue;
    let group = rooms.jobs.group(&old.base);
    let present = group.and_then(|group| group.body_like(&spec, &queue));
    let spec = Arc::new(spec);
    let submitted = match present {
        Some(present) => present,
        None if same => Arc::new(old.with(old.body, spec, queue, place)),
        None => rooms.jobs.new_body(old, spec, queue, place),
    };
    join_group(rooms, turn, id, ended, &submitted, same);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.attempt = ended.row.attempt;
        job.own = true;
        job.held = hold;
    }
}

/// `stored`: its body is that of its last row.
fn join_group(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    ended: &Ended,
    submitted: &Arc<Submitted>,
    stored: bool,
) {
    let base = submitted.base;
    let Some(group) = rooms.jobs.group_mut(&base) else {
        let mut group = Group {
            submitted: submitted.clone(),
            held: None,
            plain: 1,
            bodies: SmallMap::default(),
            next_body: submitted.body + 1,
            indices: None,
            numbering: Numbering::InOrder,
            at_once: None,
            fates: vec![TaskOutcome::Live],
            live: 1,
            failed: 0,
            last_start: None,
            running: 0,
            queued: 0,
            touched: 1,
            throttled: Default::default(),
        };
        group.touched = u32::from(ended.row.attempt.0 > 0);
        turn.record(Record::SubmissionLives(base));
        add_group(rooms, group);
        return rooms.jobs.is_stored(submitted, stored);
    };
    let at = group.place_of(id);
    group.unsettle(at);
    let index = ended.row.index.unwrap_or_default();
    let member = Member {
        index,
        at: at as u32,
    };
    rooms.jobs.enter(Job {
        own: true,
        has_row: true,
        attempt: ended.row.attempt,
        ..Job::fresh(id, Some(member), submitted.clone())
    });
    count_in_queue(&rooms.config, &mut rooms.queues, &mut rooms.jobs, submitted, 1);
    comes(rooms, id);
    join_body(&mut rooms.jobs, &mut rooms.planning, &rooms.aside, submitted);
    rooms.jobs.is_stored(submitted, stored);
}
