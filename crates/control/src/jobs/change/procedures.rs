//! Changes of running jobs, and what a change leaves of a waiting one.

use crate::config::ClusterConfig;
use crate::conversations::bulk::BulkRequest;
use crate::conversations::replies::steered;
use crate::event::{AdminField, Caller};
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::bodies::procedures::{join_body, leave_body};
use crate::jobs::change::apply;
use crate::jobs::check::check_spec;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::resize::{leave_nodes, nodes_left};
use crate::jobs::run::Run;
use crate::jobs::save::save_job;
use crate::jobs::steer::runs_already;
use crate::machine::Machine;
use crate::planning::suspension::{expect_held_end, plan_end_again};
use crate::queues::access::procedures::{is_administrator, require_admin};
use crate::queues::order;
use crate::record::HeldBy;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::JobChange;
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, JobSpec, Refusal, RefusalCode, Span};
use std::sync::Arc;

/// Of a job that holds nodes only what does not concern them can be changed.
pub(crate) fn change_running(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
    change: &JobChange,
) -> Result<(), Refusal> {
    let caller = &bulk.caller().clone();
    let Some(job) = rooms.jobs.get(&id) else {
        return Ok(());
    };
    // To hold what runs changes nothing.
    let change = &JobChange {
        priority: change.priority.filter(|priority| *priority > 0),
        ..change.clone()
    };
    may_prioritize(&rooms.config, caller, &job.submitted, None, change)?;
    let fine = JobChange {
        name: change.name.clone(),
        account: change.account.clone(),
        comment: change.comment.clone(),
        admin_comment: change.admin_comment.clone(),
        qos: change.qos.clone(),
        wckey: change.wckey.clone(),
        priority: change.priority,
        nice: change.nice,
        site_factor: change.site_factor,
        requeue: change.requeue,
        mail: change.mail.clone(),
        time_limit: change.time_limit,
        at_once: change.at_once,
        nodes: change.nodes,
        keep_nodes: change.keep_nodes.clone(),
        ..JobChange::default()
    };
    let left = match *change == fine {
        true => nodes_left(&rooms.machine, &rooms.jobs, id, change)?,
        false => None,
    };
    let over = job.run().is_none_or(|run| run.is_over());
    if *change != fine || over && change.time_limit.is_some() {
        return Err(runs_already(&name_of(&rooms.jobs, id)));
    }
    let plain = JobChange {
        at_once: change.at_once,
        ..JobChange::default()
    };
    if *change == plain {
        return Ok(()); // nothing is left, or what belongs to the array, which is done
    }
    let old = job.submitted.clone();
    let new = rooms.jobs.rewritten(bulk, &old, change)?;
    if let Some(limit) = change.time_limit {
        limit_running(rooms, turn, caller, id, limit)?;
    }
    if let Some(left) = left {
        leave_nodes(rooms, turn, caller, id, &left);
    }
    join_body(&mut rooms.jobs, &mut rooms.planning, &rooms.aside, &new);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.own |= !Arc::ptr_eq(&old, &new);
        job.submitted = new;
    }
    leave_body(&mut rooms.jobs, &mut rooms.planning, turn, &old, false);
    steered(&rooms.machine, &mut rooms.jobs, turn, bulk, id);
    Ok(())
}

/// Safe points of a job are taken at most so often.
const SAFE_POINTS: Span = Span::from_secs(10);

/// What a running job has done so far is safe.
pub(crate) fn checkpointed(
    machine: &Machine,
    jobs: &mut Jobs,
    turn: &mut Turn,
    id: JobId,
) -> Result<(), Refusal> {
    let now = turn.now();
    let name = name_of(jobs, id);
    let run = jobs.get_mut(&id).and_then(Job::run_mut);
    let runs = |run: &&mut Run| run.started().is_some() && !run.is_over();
    let Some(run) = run.filter(runs) else {
        let why = format!("job {name} does not run: there is no work of it to be safe");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
    };
    let soon = run.checkpoint().filter(|last| now < *last + SAFE_POINTS);
    if let Some(last) = soon {
        let why = format!(
            "job {name} has told a safe point {} ago: one in {SAFE_POINTS} is enough",
            now.since(last)
        );
        return Err(Refusal::new(RefusalCode::WrongState, why));
    }
    run.is_safe_until(now);
    save_job(machine, jobs, turn, id);
    Ok(())
}

impl Jobs {
    /// What is asked for becomes another one, and nothing else: it stays where it is. Made once
    /// for all jobs that ask for the same.
    fn rewritten(
        &mut self,
        bulk: &mut BulkRequest,
        old: &Arc<Submitted>,
        change: &JobChange,
    ) -> Result<Arc<Submitted>, Refusal> {
        let key = (old.base, old.body);
        if let Some(number) = bulk.rewritten().get(&key)
            && let Some(group) = self.group(&old.base)
            && let Some(body) = group.bodies.get(number)
        {
            return Ok(body.submitted.clone());
        }
        let mut spec = JobSpec::clone(&old.spec);
        let change = JobChange {
            at_once: None,
            nodes: None, // should it run again, then as at first
            ..change.clone()
        };
        apply(&mut spec, &change);
        check_spec(&spec)?;
        if spec == *old.spec {
            return Ok(old.clone());
        }
        let new = self.new_body(old, Arc::new(spec), old.queue.clone(), old.place.clone());
        bulk.has_rewritten(key, new.body);
        Ok(new)
    }
}

/// Another limit for a running job: a shorter one, or any from an administrator.
fn limit_running(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: JobId,
    limit: Span,
) -> Result<(), Refusal> {
    let old = rooms
        .jobs
        .get(&id)
        .and_then(Job::run)
        .map(|run| run.limit());
    if old.is_some_and(|old| limit > old) {
        require_admin(&rooms.config, caller, "make the time limit of a running job longer")
            .map_err(|refusal| refusal.about(About::TimeLimit))?;
    }
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return Ok(());
    };
    let key = job.key();
    let Some(run) = job.run_mut() else {
        return Ok(());
    };
    run.set_limit(limit);
    let nodes = run.shares();
    expect_held_end(&mut rooms.jobs, id);
    plan_end_again(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, id);
    for share in nodes {
        rooms
            .machine
            .order(turn, share.node, |node| NodeOrder::Limit { key, node, limit });
    }
    Ok(())
}

/// A job that is held has none until it is released. A user may only give one that is lower
/// than the present one.
pub(crate) fn may_prioritize(
    config: &ClusterConfig,
    caller: &Caller,
    job: &Submitted,
    held: Option<HeldBy>,
    change: &JobChange,
) -> Result<(), Refusal> {
    let Some(priority) = change.priority.map(i64::from) else {
        return Ok(());
    };
    if priority == 0 {
        return Ok(());
    }
    if held.is_some() {
        let why = format!("job {} is held: release it, then it can have a priority", job.base);
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Held));
    }
    let given = caller.given.contains(&AdminField::Priority);
    if given || priority <= order::priority(&job.spec, job.base) {
        return Ok(());
    }
    require_admin(config, caller, "raise the priority of a job")
        .map_err(|refusal| refusal.about(About::Priority))
}

/// Priority 0 holds a job, another one lets it go. `None`: it stays as it is.
pub(crate) fn held_by_priority(
    config: &ClusterConfig,
    caller: &Caller,
    held: Option<HeldBy>,
    change: &JobChange,
) -> Option<Option<HeldBy>> {
    let by = match is_administrator(config, caller) {
        true => HeldBy::Admin,
        false => HeldBy::User,
    };
    let priority = change.priority?;
    Some((priority == 0).then(|| by.upon(held)))
}

impl Jobs {
    /// A priority above those of the other waiting jobs of the same user.
    pub(crate) fn above_others(&self, job: &Job) -> Option<u32> {
        let uid = job.submitted.uid;
        let others = self.all();
        let others = others.filter(|j| j.is_waiting() && j.submitted.uid == uid && j.id != job.id);
        let best = others.map(|j| order::priority(j.spec(), j.submitted.base));
        let above = best.max().unwrap_or(0).saturating_add(1);
        let own = order::priority(job.spec(), job.submitted.base).max(above);
        let priority = own.saturating_add(job.spec().nice);
        u32::try_from(priority.clamp(1, i64::from(u32::MAX))).ok()
    }
}
