//! Triggers are set, cleared, listed and written.

use crate::config::{ClusterConfig, Visibility};
use crate::conversations::requests::no_job;
use crate::conversations::visible::may_see;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::queues::access::procedures::{is_administrator, may_touch, require_admin};
use crate::queues::demand::procedures::mask;
use crate::record::Record;
use crate::triggers::row::TriggerRow;
use crate::triggers::{Triggers, check};
use crate::turn::Turn;
use cosy_model::api::{JobRef, Reply};
use cosy_model::{
    About, Attempt, EventKind, EventObject, JobId, Refusal, RefusalCode, TriggerId, TriggerSpec,
    TriggerTarget, Uid, limits,
};

pub(crate) fn set_trigger(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    triggers: &mut Triggers,
    turn: &mut Turn,
    caller: &Caller,
    mut spec: TriggerSpec,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    check(&spec)?;
    match &mut spec.on {
        TriggerTarget::Job(job) => check_watched_job(config, jobs, caller, *job)?,
        TriggerTarget::Nodes(names) => {
            require_admin(config, caller, "set triggers for nodes")?;
            mask(machine, names)?;
            names.sort();
            names.dedup();
        }
    }
    let uid = caller.user.uid;
    let mine = || triggers.all.values().filter(|row| row.uid == uid);
    let same = |row: &TriggerRow| {
        let environment = spec.environment.clone();
        let known = TriggerSpec {
            environment,
            ..row.spec.clone()
        };
        !row.spent && known == spec
    };
    if mine().any(same) {
        let why = "you have set this trigger already, and it waits still";
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Trigger));
    }
    let full = triggers.all.len() >= limits::TRIGGERS
        || !is_administrator(config, caller) && mine().count() >= limits::TRIGGERS_OF_USER;
    if full {
        let why = format!(
            "there are too many triggers: a user has at most {}, all together have {}",
            limits::TRIGGERS_OF_USER,
            limits::TRIGGERS
        );
        return Err(Refusal::new(RefusalCode::TooMany, why).about(About::Trigger));
    }
    let id = TriggerId(triggers.next);
    triggers.next += 1;
    let row = TriggerRow {
        id,
        uid,
        gid: caller.group(),
        user: caller.user.name.clone(),
        made: now,
        spec,
        spent: false,
        due: Vec::new(),
        attempt: Attempt(0),
        run: None,
        limit_of: Attempt(0),
    };
    let what = row.spec.program.lossy();
    turn.record(Record::Trigger(Box::new(row.clone())));
    triggers.take(row, now);
    let who = caller.user.name.clone();
    turn.happened(now, EventKind::Set, &who, EventObject::Trigger(id), what);
    Ok(Reply::TriggerSet(id))
}

/// The job waits or runs and is the caller's own, or the caller an administrator.
fn check_watched_job(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    id: JobId,
) -> Result<(), Refusal> {
    let job = JobRef {
        job: id,
        task: None,
    };
    if let Some(ended) = jobs.ended(id)
        && may_see(config, caller, &ended.submitted)
    {
        let why = format!("job {id} has ended");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Ended));
    }
    let known = jobs.get(&id);
    let Some(known) = known.filter(|job| may_see(config, caller, job.submitted())) else {
        return Err(no_job(job));
    };
    if may_touch(config, caller, known.submitted()) {
        return Ok(());
    }
    let why = format!("job {id} is not yours: only administrators set triggers for it");
    Err(Refusal::new(RefusalCode::Forbidden, why))
}

pub(crate) fn clear_triggers(
    config: &ClusterConfig,
    triggers: &mut Triggers,
    turn: &mut Turn,
    caller: &Caller,
    (id, job, uid): (Option<TriggerId>, Option<JobId>, Option<Uid>),
) -> Result<Reply, Refusal> {
    let now = turn.now();
    if (id, job, uid) == (None, None, None) {
        return Err(Refusal::invalid("name a trigger, a job or a user"));
    }
    let fits = |row: &&TriggerRow| {
        let on = job.is_none_or(|job| row.spec.on == TriggerTarget::Job(job));
        on && id.is_none_or(|id| row.id == id)
            && uid.is_none_or(|uid| row.uid == uid)
            && row.shown().is_some()
    };
    let found: Vec<(TriggerId, Uid)> = (triggers.all.values())
        .filter(fits)
        .map(|row| (row.id, row.uid))
        .collect();
    let admin = is_administrator(config, caller);
    let mine = |(_, uid): &&(TriggerId, Uid)| admin || *uid == caller.user.uid;
    let ids: Vec<TriggerId> = found.iter().filter(mine).map(|(id, _)| *id).collect();
    if ids.is_empty() {
        return Err(match found.is_empty() {
            true => Refusal::new(RefusalCode::NotFound, "there is no such trigger"),
            false => Refusal::new(RefusalCode::Forbidden, "the trigger is somebody else's"),
        });
    }
    let who = caller.user.name.clone();
    for id in &ids {
        turn.happened(now, EventKind::Cleared, &who, EventObject::Trigger(*id), String::new());
        triggers.unwatch(*id);
        if let Some(row) = triggers.all.get_mut(id) {
            row.due.clear(); // a program that runs goes on to its end
        }
    }
    triggers.save_triggers(turn);
    Ok(Reply::Done {
        changed: ids.len() as u64,
        refused: Vec::new(),
    })
}

pub(crate) fn list_triggers(config: &ClusterConfig, triggers: &Triggers, caller: &Caller) -> Reply {
    let all =
        config.policy.visibility == Visibility::Everything || is_administrator(config, caller);
    let rows = triggers.all.values();
    let seen = rows.filter(|row| all || row.uid == caller.user.uid);
    Reply::Triggers(seen.filter_map(TriggerRow::shown).collect())
}

impl Triggers {
    /// Writes what has changed; forgets what is over.
    pub(crate) fn save_triggers(&mut self, turn: &mut Turn) {
        for id in std::mem::take(&mut self.dirty) {
            let Some(row) = self.all.get(&id) else {
                continue;
            };
            if row.is_over() {
                self.all.remove(&id);
                self.idle_told.retain(|(told, _), _| *told != id);
                turn.record(Record::TriggerGone(id));
            } else {
                let row = Box::new(row.clone());
                turn.record(Record::Trigger(row));
            }
        }
    }
}
