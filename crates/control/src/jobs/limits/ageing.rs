//! How many waiting jobs gather age: `GrpJobsAccrue` and `MaxJobsAccrue` with its kinds.
//!
//! A job that may not has no age, and begins to gather it when another one of those that are counted
//! with it starts, ends or is held: the first that was submitted comes first. Since when it does is in
//! its row. A limit that is lowered takes nobody's age away. Source: sacctmgr(1), `MaxJobsAccrue`.

use crate::jobs::ages::Ages;
use crate::jobs::job::Job;
use crate::jobs::save::save_job;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{JobId, Time};

/// Jobs of one limit that are looked at when it has room again, at most: so many more could wait for
/// another limit, too.
const LOOKS: usize = 64;

impl Job {
    /// Whether limits say since when it gathers age.
    pub fn ages(&self) -> Ages {
        self.uncommon().ages
    }

    /// Limits say that of it from now on.
    pub fn gathers_age(&mut self, ages: Ages) {
        self.change_uncommon(|it| it.ages = ages);
    }

    /// Since when it gathers age, if it does.
    pub fn ages_since(&self) -> Option<Time> {
        match self.ages() {
            Ages::WhenEligible => self.eligible(),
            Ages::Limited(since) => since.filter(|_| self.eligible().is_some()),
        }
    }

    /// Whether it counts as one that gathers age; `limited`: limits say how many may.
    pub fn is_counted_as_ageing(&self, limited: bool) -> bool {
        let ages = match limited {
            true => matches!(self.ages(), Ages::Limited(Some(_))),
            false => self.ages_since().is_some(),
        };
        ages && self.is_waiting()
    }
}

/// A waiting job was looked at: it gathers age from now on if limits say that it may, or does not any
/// more.
pub(crate) fn look_at_age(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let (before, eligible) = (job.ages(), job.eligible());
    let counts = rooms.policy.counts();
    let of = counts.of(id).filter(|of| of.rules.limits_age);
    let ages = match (of, before, eligible) {
        (None, ..) => Ages::WhenEligible,
        (Some(_), _, None) => Ages::Limited(None),
        (Some(_), Ages::Limited(Some(since)), Some(_)) => Ages::Limited(Some(since)),
        (Some(_), _, Some(_)) if !counts.may_accrue(id) => Ages::Limited(None),
        // No limit was there before: it keeps its age.
        (Some(_), Ages::WhenEligible, Some(eligible)) => Ages::Limited(Some(eligible)),
        (Some(_), Ages::Limited(None), Some(_)) => Ages::Limited(Some(turn.now())),
    };
    if of.is_some() {
        let counts = rooms.policy.counts_mut();
        counts.accrues(id, matches!(ages, Ages::Limited(Some(_))));
        match ages == Ages::Limited(None) && eligible.is_some() {
            true => counts.waits_to_age(id),
            false => counts.waits_to_age_no_more(id),
        }
    }
    if ages != before
        && let Some(job) = rooms.jobs.get_mut(&id)
    {
        job.gathers_age(ages);
        rooms.queues.scores_mut().is_another(id);
        save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    }
    goes_on_ageing(rooms, id);
}

/// A job that gathers age is counted as such, with whomever it is counted now. Where limits say how many
/// do, only they let it begin.
pub(crate) fn goes_on_ageing(rooms: &mut Rooms, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let counts = rooms.policy.counts_mut();
    let limited = counts.of(id).is_some_and(|of| of.rules.limits_age);
    counts.accrues(id, job.is_counted_as_ageing(limited));
}

/// Who may gather age now that others do not.
pub(crate) fn ages_due(rooms: &mut Rooms, turn: &mut Turn) {
    while let Some(waiting) = rooms.policy.counts_mut().next_age_freed(LOOKS) {
        for id in waiting {
            turn.looked(1);
            if rooms.policy.counts().may_accrue(id) {
                look_at_age(rooms, turn, id);
            }
        }
    }
}

/// What a waiting job is told of it.
pub(crate) fn line(rooms: &Rooms, id: JobId) -> Option<String> {
    let job = rooms.jobs.get(&id).filter(|job| job.is_waiting())?;
    let of = rooms.policy.counts().of(id)?;
    let waits = job.ages() == Ages::Limited(None) && job.eligible().is_some();
    let rule = of.rules.all.iter().filter(|_| waits);
    let counts = rooms.policy.counts();
    let mut full = rule.filter(|rule| rule.limits_age()).filter(|rule| {
        let tally = counts.tally(rule.meter);
        u64::from(tally.map_or(0, |tally| tally.accruing)) >= rule.value
    });
    let rule = full.next()?;
    Some(format!(
        "its age does not count yet: {}: {}={}, so many others gather age",
        rule.of,
        rule.key.kind.word(),
        rule.value
    ))
}
