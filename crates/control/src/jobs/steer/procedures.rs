//! Jobs are cancelled, signalled, held, released, requeued and changed.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::bulk::{BulkRequest, Work};
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::bodies::procedures::{join_body, leave_body, stand};
use crate::jobs::change::procedures::{held_by_priority, may_prioritize};
use crate::jobs::check::procedures::{check_result, count_in_queue, leave_queue, rights_of};
use crate::jobs::check::{Judged, Outcome};
use crate::jobs::dependencies::Waiter;
use crate::jobs::job::Submitted;
use crate::jobs::limits::procedures::comes;
use crate::jobs::steer::{Recipients, may_release};
use crate::machine::Machine;
use crate::queues::access::procedures::{is_administrator, may_submit};
use crate::record::HeldBy;
use crate::reservations::inside::procedures::planner_of;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::JobChange;
use cosy_model::node::NodeOrder;
use cosy_model::{About, Dialect, EventObject, JobId, JobSpec, NodeId, Refusal, RefusalCode, User};
use std::sync::Arc;

pub(crate) fn signal_job(
    machine: &Machine,
    jobs: &Jobs,
    turn: &mut Turn,
    id: JobId,
    signal: i32,
    whom: Recipients,
) -> Result<(), Refusal> {
    let running = jobs.get(&id).and_then(|j| {
        // Where nothing was launched, the signal is for all steps.
        let most = if j.submitted.is_held() { usize::MAX } else { 1 };
        let nodes = j.run()?.parts().iter().take(most).map(|p| p.node());
        Some((j.key(), nodes.collect::<Vec<NodeId>>()))
    });
    let Some((key, nodes)) = running else {
        let why =
            format!("job {} does not run: there is nothing to send a signal to", name_of(jobs, id));
        let refusal = Refusal::new(RefusalCode::WrongState, why);
        return Err(match jobs.get(&id).is_some_and(|j| j.is_waiting()) {
            true => refusal.about(About::Waiting),
            false => refusal,
        });
    };
    for node in nodes {
        machine.order(turn, node, |node| NodeOrder::Signal {
            key,
            node,
            signal,
            script_only: whom == Recipients::Script,
            steps_only: whom == Recipients::Steps,
        });
    }
    Ok(())
}

/// Holds all tasks of an array that have no row of their own, lets them go or changes them,
/// by one row. Each has to be looked at afterwards. Where they cannot be treated as one,
/// nothing is done.
pub(crate) fn steer_whole(rooms: &mut Rooms, turn: &mut Turn, bulk: &mut BulkRequest, base: JobId) {
    let now = turn.now();
    let Some(group) = rooms.jobs.group(&base) else {
        return;
    };
    let (old, held, tasks) = (group.submitted.clone(), group.held, group.plain);
    let (new, held) = match &bulk.work() {
        Work::Hold { as_user } => {
            let by = holder(&rooms.config, bulk.caller(), &old, *as_user);
            (old, Some(by.upon(held)))
        }
        Work::Release if may_release(held, is_administrator(&rooms.config, bulk.caller())) => {
            (old, None)
        }
        Work::Change(change) if change.keep_nodes.is_none() => {
            let change = change.clone();
            if may_prioritize(&rooms.config, bulk.caller(), &old, held, &change).is_err() {
                return;
            }
            let Ok(new) = changed_body(rooms, bulk, base, &old, &change) else {
                return;
            };
            if new.queue != old.queue {
                return; // there may be room for some of them only
            }
            let asked = held_by_priority(&rooms.config, bulk.caller(), held, &change);
            (new, asked.unwrap_or(held))
        }
        Work::Release
        | Work::Change(_)
        | Work::Cancel
        | Work::Signal(..)
        | Work::Top
        | Work::Requeue(_)
        | Work::Suspend
        | Work::Resume
        | Work::Notify(_) => return,
    };
    stand(&mut rooms.jobs, &mut rooms.planning, &rooms.aside, turn, &new, held);
    bulk.covers(base);
    let who = bulk.caller().user.name.clone();
    let detail = format!("{tasks} tasks");
    if let Some(kind) = bulk.work().kind() {
        turn.happened(now, kind, &who, EventObject::Job(base), detail);
    }
}

/// As whom somebody holds a job.
pub(crate) fn holder(
    config: &ClusterConfig,
    caller: &Caller,
    job: &Submitted,
    as_user: bool,
) -> HeldBy {
    let slurm = job.spec.dialect == Dialect::Slurm;
    let foreign = slurm || job.uid != caller.user.uid;
    match is_administrator(config, caller) && !as_user && foreign {
        true => HeldBy::Admin,
        false => HeldBy::User,
    }
}

/// What a change makes of a body, checked. It is made once for all jobs that have it.
pub(crate) fn changed_body(
    rooms: &mut Rooms,
    bulk: &mut BulkRequest,
    id: JobId,
    old: &Arc<Submitted>,
    change: &JobChange,
) -> Result<Arc<Submitted>, Refusal> {
    let owner = owner(&rooms.conversations, bulk.caller(), old);
    if let Some(made) = rooms.jobs.made_before(bulk, old) {
        let new = made?;
        if new.queue != old.queue {
            let queue = rooms.queues.find_queue(&rooms.config, Some(&new.queue))?;
            let rights = rights_of(bulk.caller(), &owner);
            may_submit(&rooms.config, &rooms.queues, &rights, queue, 1)?;
        }
        return Ok(new);
    }
    let mut spec = JobSpec::clone(&old.spec);
    crate::jobs::change::apply(&mut spec, change);
    let outcome = Outcome {
        queue: change.queue.as_deref(),
        attached: rooms.reservations.is_attached(id, &spec),
        ..Outcome::of_change(&owner, old, &spec)
    };
    let judged = check_result(rooms, bulk.caller(), &outcome);
    let new = judged.map(|judged| {
        let Judged {
            queue,
            place,
            standing,
            time_limit,
        } = judged;
        (spec.account, spec.qos) = (standing.account, standing.qos);
        spec.time_limit = time_limit;
        let queue = rooms.queues.name(queue).to_owned();
        match queue == old.queue && spec == *old.spec {
            true => old.clone(),
            false => rooms.jobs.new_body(old, Arc::new(spec), queue, place),
        }
    });
    rooms.jobs.note_made(bulk, old, &new);
    new
}

impl Jobs {
    /// What the request has made of that body before.
    pub(crate) fn made_before(
        &self,
        bulk: &BulkRequest,
        old: &Submitted,
    ) -> Option<Result<Arc<Submitted>, Refusal>> {
        match bulk.made().get(&(old.base, old.body))? {
            Err(refusal) => Some(Err(refusal.clone())),
            Ok(number) => {
                let body = self.group(&old.base)?.bodies.get(number)?;
                Some(Ok(body.submitted.clone()))
            }
        }
    }

    /// Only arrays have others that are alike.
    pub(crate) fn note_made(
        &self,
        bulk: &mut BulkRequest,
        old: &Submitted,
        new: &Result<Arc<Submitted>, Refusal>,
    ) {
        let group = self.group(&old.base);
        if group.is_some_and(|group| group.indices.is_some()) {
            let made = new.as_ref().map(|new| new.body).map_err(Clone::clone);
            bulk.has_made((old.base, old.body), made);
        }
    }
}

/// The job's user as far as known.
pub(crate) fn owner(conversations: &Conversations, caller: &Caller, job: &Submitted) -> User {
    if caller.user.uid == job.uid {
        return caller.user.clone();
    }
    match conversations.user(&job.uid) {
        Some(known) if !known.user().name.is_empty() => known.user().clone(),
        Some(_) | None => User {
            uid: job.uid,
            gid: job.gid,
            name: job.user.clone(),
            ..User::default()
        },
    }
}

/// A waiting job asks for something else from now on. It has to be looked at afterwards.
pub(crate) fn take_body(rooms: &mut Rooms, turn: &mut Turn, id: JobId, new: &Arc<Submitted>) {
    let Some(old) = rooms.jobs.get(&id).map(|job| job.submitted.clone()) else {
        return;
    };
    if Arc::ptr_eq(&old, new) {
        return;
    }
    if planner_of(&mut rooms.planning, &mut rooms.reservations, id).dequeue(id) {
        rooms.jobs.count_queued(turn, old.base, false);
    }
    rooms.planning.left_inside(id);
    leave_queue(&rooms.config, &mut rooms.queues, &mut rooms.jobs, &old);
    if let Some(begin) = old.spec.begin {
        rooms.jobs.begins_no_more(begin, id);
    }
    join_body(&mut rooms.jobs, &mut rooms.planning, &rooms.aside, new);
    if let Some(begin) = new.spec.begin {
        rooms.jobs.begins_at(begin, id);
    }
    if !new.spec.request.same_features.is_empty() {
        rooms.planning.choose_again_for(Waiter::of(new));
    }
    if !new.spec.queues.is_empty() {
        rooms.planning.has_choice_of_queues(id);
    }
    count_in_queue(&rooms.config, &mut rooms.queues, &mut rooms.jobs, new, 1);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.submitted = new.clone();
    }
    rooms.jobs.parked_mut().goes(id);
    comes(rooms, id);
    leave_body(&mut rooms.jobs, &mut rooms.planning, turn, &old, false);
}
