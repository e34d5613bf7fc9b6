//! Triggers are set, cleared, listed and written.

use crate::config::Visibility;
use crate::controller::Controller;
use crate::conversations::requests::no_job;
use crate::event::Caller;
use crate::record::Record;
use crate::triggers::check;
use crate::triggers::row::TriggerRow;
use cosy_model::api::{JobRef, Reply};
use cosy_model::{
    About, Attempt, JobId, Refusal, RefusalCode, Time, TriggerId, TriggerSpec, Uid, Watched, limits,
};

impl Controller {
    pub(crate) fn set_trigger(
        &mut self,
        now: Time,
        caller: &Caller,
        mut spec: TriggerSpec,
    ) -> Result<Reply, Refusal> {
        check(&spec)?;
        match &mut spec.on {
            Watched::Job(job) => self.check_watched_job(caller, *job)?,
            Watched::Nodes(names) => {
                self.require_admin(caller, "set triggers for nodes")?;
                self.mask(names)?;
                names.sort();
                names.dedup();
            }
        }
        let uid = caller.user.uid;
        let mine = || self.triggers.all.values().filter(|row| row.uid == uid);
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
        let full = self.triggers.all.len() >= limits::TRIGGERS
            || !self.is_admin(caller) && mine().count() >= limits::TRIGGERS_OF_USER;
        if full {
            let why = format!(
                "there are too many triggers: a user has at most {}, all together have {}",
                limits::TRIGGERS_OF_USER,
                limits::TRIGGERS
            );
            return Err(Refusal::new(RefusalCode::TooMany, why).about(About::Trigger));
        }
        let id = TriggerId(self.triggers.next);
        self.triggers.next += 1;
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
        self.record(Record::Trigger(Box::new(row.clone())));
        self.triggers.take(row, now);
        let who = caller.user.name.clone();
        self.happened(now, "set", &who, format!("trigger {id}"), what);
        Ok(Reply::TriggerSet(id))
    }

    /// The job waits or runs and is the caller's own, or the caller an administrator.
    fn check_watched_job(&self, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        let job = JobRef {
            job: id,
            task: None,
        };
        if let Some(ended) = self.jobs.ended(id)
            && self.may_see(caller, &ended.submitted)
        {
            let why = format!("job {id} has ended");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Ended));
        }
        let known = self.jobs.get(&id);
        let Some(known) = known.filter(|job| self.may_see(caller, &job.submitted)) else {
            return Err(no_job(job));
        };
        if self.may_touch(caller, &known.submitted) {
            return Ok(());
        }
        let why = format!("job {id} is not yours: only administrators set triggers for it");
        Err(Refusal::new(RefusalCode::Forbidden, why))
    }

    pub(crate) fn clear_triggers(
        &mut self,
        now: Time,
        caller: &Caller,
        (id, job, uid): (Option<TriggerId>, Option<JobId>, Option<Uid>),
    ) -> Result<Reply, Refusal> {
        if (id, job, uid) == (None, None, None) {
            return Err(Refusal::invalid("name a trigger, a job or a user"));
        }
        let fits = |row: &&TriggerRow| {
            let on = job.is_none_or(|job| row.spec.on == Watched::Job(job));
            on && id.is_none_or(|id| row.id == id)
                && uid.is_none_or(|uid| row.uid == uid)
                && row.shown().is_some()
        };
        let found: Vec<(TriggerId, Uid)> = (self.triggers.all.values())
            .filter(fits)
            .map(|row| (row.id, row.uid))
            .collect();
        let admin = self.is_admin(caller);
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
            self.happened(now, "cleared", &who, format!("trigger {id}"), String::new());
            self.triggers.unwatch(*id);
            if let Some(row) = self.triggers.all.get_mut(id) {
                row.due.clear(); // a program that runs goes on to its end
            }
        }
        self.save_triggers();
        Ok(Reply::Done {
            changed: ids.len() as u64,
            refused: Vec::new(),
        })
    }

    pub(crate) fn list_triggers(&self, caller: &Caller) -> Reply {
        let all = self.config.policy.visibility == Visibility::Everything || self.is_admin(caller);
        let rows = self.triggers.all.values();
        let seen = rows.filter(|row| all || row.uid == caller.user.uid);
        Reply::Triggers(seen.filter_map(TriggerRow::shown).collect())
    }

    /// Writes what has changed; forgets what is over.
    pub(crate) fn save_triggers(&mut self) {
        for id in std::mem::take(&mut self.triggers.dirty) {
            let Some(row) = self.triggers.all.get(&id) else {
                continue;
            };
            if row.is_over() {
                self.triggers.all.remove(&id);
                self.triggers.idle_told.retain(|(told, _), _| *told != id);
                self.record(Record::TriggerGone(id));
            } else {
                let row = Box::new(row.clone());
                self.record(Record::Trigger(row));
            }
        }
    }
}
