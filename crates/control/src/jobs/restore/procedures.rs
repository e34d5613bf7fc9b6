//! Rows become jobs, nodes, queues and reservations, and a new configuration takes the place of
//! the old one.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::answers::to_keep;
use crate::conversations::mail::procedures::note_mailing;
use crate::conversations::requests::procedures::forget_answers;
use crate::jobs::Jobs;
use crate::jobs::ages::Ages;
use crate::jobs::bodies::procedures::place_body;
use crate::jobs::bodies::procedures::{know_body, leave_body};
use crate::jobs::check::procedures::{count_in_queue, leave_queue};
use crate::jobs::dependencies::Waiter;
use crate::jobs::dependencies::procedures::wait_for_others;
use crate::jobs::job::{Group, Job, Phase, Place, Submitted};
use crate::jobs::limits::ageing::goes_on_ageing;
use crate::jobs::limits::procedures::{leaves, runs};
use crate::jobs::restore::{RowsOfSubmission, of_row, queue_nodes, unplaced};
use crate::jobs::run::rows::RestoredParts;
use crate::jobs::run::{Part, Run};
use crate::jobs::steer::procedures::take_body;
use crate::jobs::submit::procedures::add_group;
use crate::machine::Machine;
use crate::planning::launch::procedures::count_running;
use crate::planning::suspension::run_as_it_is;
use crate::queues::Queues;
use crate::queues::over_limit::place_or_wait;
use crate::queues::scores::procedures::measure_machine;
use crate::record::{JobRow, PartRow, Record, RunRow, StepUse, SubmissionRow};
use crate::rooms::Rooms;
use crate::set_aside::Aside;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::node::AttemptKey;
use cosy_model::{JobId, QueueState, Time, Uid, User, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was answered, as far as that is kept now; the store forgets the rest, too.
pub(crate) fn load_answers(
    conversations: &mut Conversations,
    turn: &mut Turn,
    mut answers: Vec<(Uid, [u8; 16], Time, Reply)>,
) {
    answers.sort_by_key(|(uid, key, at, _)| (*at, *uid, *key));
    for (uid, key, at, reply) in answers {
        let kept = match reply {
            // Of one that was too long.
            Reply::Refused(_) => Some(reply),
            reply => to_keep(&reply),
        };
        match kept {
            Some(reply) => {
                let gone = conversations.keep_answer(at, uid, key, reply);
                forget_answers(turn, gone);
            }
            None => forget_answers(turn, vec![(uid, key)]),
        }
    }
}

pub(crate) fn build_queues(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &mut Queues,
    states: &BTreeMap<String, QueueState>,
    now: Time,
) {
    let nodes = |spec: &cosy_model::QueueSpec| queue_nodes(machine, spec.nodes.as_deref());
    queues.build(&config.queues, states, nodes);
    queues.scores_mut().configure(
        &config.priority,
        config.enforce.limits || config.enforce.safe,
        &config.queues,
        now,
    );
    measure_machine(config, machine, queues);
}

pub(crate) fn load_submission(
    rooms: &mut Rooms,
    turn: &mut Turn,
    row: &SubmissionRow,
    rows: RowsOfSubmission,
) {
    let RowsOfSubmission {
        jobs,
        bodies,
        standing,
    } = rows;
    let common = standing.map_or(0, |standing| standing.body);
    let submitted = load_body(rooms, row, &bodies, common);
    let mut group = Group::of_row(row, submitted.clone());
    let numbers = bodies.keys().next_back().copied().unwrap_or(0);
    group.next_body = numbers.max(common) + 1;
    if let Some(standing) = standing {
        (group.held, group.at_once) = (standing.held, standing.at_once);
    }
    add_group(rooms, group);
    rooms.jobs.is_written(&submitted);
    let ended = jobs.iter().filter(|job| job.end.is_some());
    let named: BTreeSet<u32> = ended.map(|job| job.body).collect();
    for job in jobs {
        load_job(rooms, turn, row, &bodies, job);
    }
    for number in bodies.into_keys() {
        rooms
            .jobs
            .load_use(turn, row.base, number, named.contains(&number));
    }
}

/// A body out of the store; the submission's own where there is none of that number.
fn load_body(
    rooms: &Rooms,
    row: &SubmissionRow,
    bodies: &BTreeMap<u32, SubmissionRow>,
    number: u32,
) -> Arc<Submitted> {
    let (number, of) = match bodies.get(&number) {
        Some(body) => (number, body),
        None => (0, row),
    };
    let mut submitted = unplaced(row, of.spec.clone(), of.queue.clone());
    submitted.body = number;
    submitted.place = place_again(rooms, &submitted);
    Arc::new(submitted)
}

impl Jobs {
    /// A body was found in the store: rows of ended jobs name it, or it goes when nobody has it.
    fn load_use(&mut self, turn: &mut Turn, base: JobId, number: u32, named: bool) {
        let group = self.group_mut(&base);
        match group.and_then(|group| group.bodies.get_mut(&number)) {
            Some(body) => body.named |= named,
            None if named => {}
            None => turn.record(Record::BodyGone { base, number }),
        }
    }
}

/// The body that a job's row means.
fn body_of_row(
    rooms: &mut Rooms,
    submission: &SubmissionRow,
    bodies: &BTreeMap<u32, SubmissionRow>,
    row: &JobRow,
) -> Option<Arc<Submitted>> {
    let group = rooms.jobs.group(&row.base)?;
    if let Some(spec) = &row.changed {
        let queue = row.queue.as_ref().unwrap_or(&submission.queue);
        let latest = group
            .bodies
            .values()
            .next_back()
            .map(|body| &body.submitted);
        let same = latest.filter(|s| *s.spec == **spec && s.queue == *queue);
        if let Some(same) = same {
            return Some(same.clone());
        }
        let (old, mut own) = (group.submitted.clone(), of_row(submission, row));
        own.place = place_again(rooms, &own);
        return Some(rooms.jobs.new_body(&old, own.spec, own.queue, own.place));
    }
    let known = group.bodies.get(&row.body);
    if let Some(body) = known {
        return Some(body.submitted.clone());
    }
    let body = load_body(rooms, submission, bodies, row.body);
    know_body(&mut rooms.jobs, &mut rooms.planning, &body, true);
    Some(body)
}

/// To be called when all jobs are there.
pub(crate) fn wait_again_for_others(jobs: &mut Jobs, aside: &Aside) {
    for submitted in jobs.bodies() {
        wait_for_others(jobs, aside, Waiter::of(&submitted), &submitted);
    }
}

impl Jobs {
    pub(crate) fn load_steps(&mut self, steps: &[(AttemptKey, StepUse)]) {
        for (key, used) in steps {
            let job = self.get_mut(&key.job);
            let present = job.filter(|j| j.attempt == key.attempt);
            if let Some(run) = present.and_then(Job::run_mut) {
                run.steps_used(*used);
            }
        }
    }
}

fn load_job(
    rooms: &mut Rooms,
    turn: &mut Turn,
    submission: &SubmissionRow,
    bodies: &BTreeMap<u32, SubmissionRow>,
    row: JobRow,
) {
    let at = submission.place_of(row.id);
    rooms.jobs.has_row(row.id);
    if row.end.is_some() {
        return load_ended(rooms, turn, &row, at);
    }
    if let Some(body) = body_of_row(rooms, submission, bodies, &row) {
        let group = rooms.jobs.group(&row.base);
        let own = group.is_some_and(|group| group.submitted.body != body.body);
        take_body(rooms, turn, row.id, &body);
        if let Some(job) = rooms.jobs.get_mut(&row.id) {
            job.own = own;
        }
    }
    if let Some(job) = rooms.jobs.get_mut(&row.id) {
        job.held = row.held;
        job.attempt = row.attempt;
        job.eligible = row.eligible.into();
        job.change_uncommon(|it| {
            if row.ages_from.is_some() {
                it.ages = Ages::Limited(row.ages_from);
            }
            it.moved = row.moved;
            it.room_is_made = row.ahead.filter(|_| row.run.is_none());
        });
    }
    if let Some(group) = rooms.jobs.group_mut(&row.base) {
        group.touched += u32::from(row.attempt.0 > 0);
    }
    goes_on_ageing(rooms, row.id);
    if let Some(run) = row.run {
        load_run(rooms, row.id, run);
    }
}

fn load_ended(rooms: &mut Rooms, turn: &mut Turn, row: &JobRow, at: usize) {
    leaves(rooms, row.id);
    if let Some(job) = rooms.jobs.remove(&row.id) {
        leave_queue(&rooms.config, &mut rooms.queues, &mut rooms.jobs, &job.submitted);
        leave_body(&mut rooms.jobs, &mut rooms.planning, turn, &job.submitted, false);
        rooms
            .conversations
            .leave_interactive(row.id, &job.submitted);
        if let Some(begin) = job.spec().begin {
            rooms.jobs.begins_no_more(begin, row.id);
        }
    }
    if let Some(group) = rooms.jobs.group_mut(&row.base)
        && at < group.fates.len()
    {
        group.settle(at, row.state == cosy_model::JobState::Completed);
        group.touched += 1;
        if let Some(start) = row.end.as_ref().and_then(|end| end.start) {
            group.note_start(start);
        }
    }
}

/// The shares of nodes out of a row; what is not given back is held again.
fn load_parts(machine: &mut Machine, id: JobId, rows: Vec<PartRow>) -> Vec<Part> {
    let mut parts = Vec::new();
    for part in rows {
        let Some(node) = machine.id_of(&part.node) else {
            continue; // the node was taken out of the configuration
        };
        if !part.released {
            let on = machine.node_mut(node);
            if part.kept.is_none() {
                on.holds_cores(&part.cores);
            }
            on.holds_devices(id, &part.gpus, &part.devices);
        }
        parts.push(Part::of_row(node, part));
    }
    parts
}

fn load_run(rooms: &mut Rooms, id: JobId, mut row: RunRow) {
    let lost = row.lost.iter();
    let lost = lost.filter_map(|name| rooms.machine.id_of(name)).collect();
    let restored = RestoredParts {
        parts: load_parts(&mut rooms.machine, id, std::mem::take(&mut row.parts)),
        leaving: load_parts(&mut rooms.machine, id, std::mem::take(&mut row.leaving)),
        lost,
    };
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    if restored.are_released() {
        job.phase = Phase::Waiting(Some(WaitReason::Fresh));
        return;
    }
    let base = job.submitted.base;
    let held = job.submitted.is_held() && row.after.is_none();
    let start = row.started.unwrap_or(row.allocated);
    let run = Run::of_row(row, job.submitted.place.limit(), restored);
    job.phase = Phase::Run(Box::new(run));
    let ends_at = job.run().and_then(Run::ends_at).filter(|_| held);
    rooms.jobs.end_held_at(ends_at, id);
    rooms.jobs.take_licenses(id);
    run_as_it_is(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, id);
    count_running(&rooms.config, &rooms.machine, &mut rooms.queues, &rooms.jobs, id, true);
    runs(rooms, id);
    note_mailing(&rooms.jobs, &mut rooms.conversations, id);
    if let Some(group) = rooms.jobs.group_mut(&base) {
        group.running += 1;
        group.note_start(start);
    }
}

/// What the present configuration makes of a job that was accepted earlier.
pub(crate) fn place_again(rooms: &Rooms, job: &Submitted) -> Place {
    let Some(queue) = rooms.queues.queue_id(&job.queue) else {
        return Place::Lost;
    };
    let user = match rooms.conversations.user(&job.uid) {
        Some(known) if !known.user().name.is_empty() => known.user().clone(),
        Some(_) | None => User {
            uid: job.uid,
            gid: job.gid,
            name: job.user.clone(),
            ..User::default()
        },
    };
    let place = place_or_wait(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.planning,
        &job.spec,
        (queue, rooms.policy.lifted(job.spec.qos.as_deref())),
        &user,
    );
    place.unwrap_or(Place::Lost)
}

pub(crate) fn place_all_again(rooms: &mut Rooms) {
    rooms.queues.count_anew();
    rooms.jobs.count_anew();
    for old in rooms.jobs.bodies() {
        let new = Arc::new(placed_again(rooms, &old));
        place_body(&mut rooms.jobs, Waiter::of(&old), &new);
    }
    let ids: Vec<JobId> = rooms.jobs.ids().collect();
    for id in ids {
        let job = &rooms.jobs[&id];
        let (submitted, waits) = (job.submitted.clone(), job.is_waiting());
        count_in_queue(&rooms.config, &mut rooms.queues, &mut rooms.jobs, &submitted, 1);
        if !waits {
            count_running(&rooms.config, &rooms.machine, &mut rooms.queues, &rooms.jobs, id, true);
        }
    }
}

pub(crate) fn placed_again(rooms: &Rooms, old: &Submitted) -> Submitted {
    let place = place_again(rooms, old);
    old.with(old.body, old.spec.clone(), old.queue.clone(), place)
}
