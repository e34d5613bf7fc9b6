//! What always holds of the policy.

use super::Policy;
use crate::jobs::job::Phase;
use crate::jobs::limits::wholes::wholes;
use crate::jobs::limits::{held, party_of};
use crate::policy::limits::tally::WHOLE_PPM;
use crate::rooms::Rooms;
use cosy_model::WaitReason;
use cosy_model::policy::{NORMAL, ROOT, Tres};

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    it.policy.check()?;
    limits_count_their_jobs(it)?;
    who_waits_for_a_limit_waits(it)
}

/// What is counted for limits is what jobs are and hold, counted anew.
fn limits_count_their_jobs(it: &Rooms) -> Result<(), String> {
    let counts = it.policy.counts();
    if counts.is_on() != it.config.enforce.limits {
        return Err("limits are counted though they are not enforced, or the other way".to_owned());
    }
    if *it.policy.wholes() != wholes(&it.config, &it.machine, &it.queues) {
        return Err("limits are shares of what there was before".to_owned());
    }
    let live = it.jobs.ids().filter(|_| counts.is_on());
    if !live.eq(counts.jobs()) {
        return Err("jobs that are counted for limits are not those that live".to_owned());
    }
    let limited = |tres: &Tres| counts.is_limited(tres);
    for job in it.jobs.all().filter(|_| counts.is_on()) {
        let of = counts.of(job.id());
        let party = party_of(&it.queues, job.submitted());
        if of.is_none_or(|of| of.party != party || of.rules != it.policy.rules(&party)) {
            return Err(format!("job {} is counted with others, or by old limits", job.id()));
        }
        let limited_age = of.is_some_and(|of| of.rules.limits_age);
        if counts.is_accruing(job.id()) != job.is_counted_as_ageing(limited_age) {
            return Err(format!("job {} is counted as one that gathers age, or is not", job.id()));
        }
        let run = job.run();
        let want = run.map(|run| {
            let planned = of.map_or(WHOLE_PPM, |of| of.rules.planned_ppm);
            held(&it.config, &it.machine, &limited, (job, run), planned)
        });
        if counts.held_by(job.id()) != want.as_ref() {
            return Err(format!(
                "job {} is counted with {:?}, it holds {want:?}",
                job.id(),
                counts.held_by(job.id())
            ));
        }
    }
    match *counts.tallies() == counts.recounted() {
        true => Ok(()),
        false => Err(format!(
            "limits count {:?}, counted anew it is {:?}",
            counts.tallies(),
            counts.recounted()
        )),
    }
}

fn who_waits_for_a_limit_waits(it: &Rooms) -> Result<(), String> {
    for id in it.jobs.parked().ids() {
        let job = it.jobs.get(&id);
        let waits = job
            .is_some_and(|job| matches!(job.phase(), Phase::Waiting(Some(WaitReason::Limit(_)))));
        if !waits {
            return Err(format!("job {id} is kept among those that wait for limits"));
        }
    }
    Ok(())
}

impl Policy {
    fn check(&self) -> Result<(), String> {
        if self.without_places != self.count_without_places() {
            return Err("records that deny guaranteed starts are not counted right".to_owned());
        }
        self.tree_is_one()?;
        self.names_are_known()?;
        let mut again = Self::default();
        again.accounts.clone_from(&self.accounts);
        again.associations.clone_from(&self.associations);
        again.index();
        if again.children != self.children || again.of_user != self.of_user {
            return Err("the policy's lists are not those of its records".to_owned());
        }
        Ok(())
    }

    fn tree_is_one(&self) -> Result<(), String> {
        for (name, account) in &self.accounts {
            let top = self.upward(name).last().map(|row| row.name.as_str());
            if top != Some(ROOT) || *name != account.name {
                return Err(format!("account {name} is not below the root"));
            }
        }
        Ok(())
    }

    fn names_are_known(&self) -> Result<(), String> {
        if !self.qos.contains_key(NORMAL) {
            return Err("there is no normal quality of service".to_owned());
        }
        let own = self.associations.values().map(|row| &row.settings);
        let all = self.accounts.values().map(|row| &row.settings).chain(own);
        let named = all.flat_map(|set| set.qos.iter().flatten().chain(&set.default_qos));
        if let Some(name) = named.into_iter().find(|name| !self.qos.contains_key(*name)) {
            return Err(format!("there is no quality of service {name}, which a list names"));
        }
        for key in self.associations.keys() {
            if !self.accounts.contains_key(&key.account) || key.user.is_none() {
                return Err(format!("{key:?} is in no account, or is no user's"));
            }
        }
        let mut ids: Vec<u32> = self.accounts.values().map(|row| row.id).collect();
        ids.extend(self.associations.values().map(|row| row.id));
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        match ids.len() == count && ids.last().is_none_or(|id| *id < self.next.association) {
            true => Ok(()),
            false => Err("a number of an association was given twice".to_owned()),
        }
    }
}
