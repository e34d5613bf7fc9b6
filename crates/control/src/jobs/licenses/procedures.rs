//! Jobs take licences when they start and stand in line for those that are held.

use crate::controller::Controller;
use crate::jobs::job::{Job, Phase};
use crate::jobs::licenses::{AHEAD, LOOKS};
use cosy_model::{About, Counted, JobId, JobSpec, Refusal, RefusalCode, Time, WaitReason};

impl Controller {
    /// Refuses what there never is.
    pub(crate) fn check_licenses(&self, wanted: &Counted) -> Result<(), Refusal> {
        for (name, count) in wanted.iter() {
            let have = self.config.licenses.get(name);
            if count <= have {
                continue;
            }
            let why = match have {
                0 => format!("there is no licence '{name}'"),
                _ => format!("{count} licences '{name}' are more than the {have} there are"),
            };
            return Err(Refusal::new(RefusalCode::NeverFits, why).about(About::License));
        }
        Ok(())
    }

    /// True when licences that it wants are in use.
    pub(crate) fn lacks_licenses(&self, spec: &JobSpec) -> bool {
        self.missing_license(spec, None).is_some()
    }

    /// The first licence for which a job cannot be in a planner's queue: it is in use, or
    /// `ahead` jobs more than could start are there for it.
    fn missing_license<'a>(&self, spec: &'a JobSpec, ahead: Option<u64>) -> Option<&'a str> {
        let short = |(name, count): &(&str, u32)| {
            let used = u64::from(self.jobs.licenses.used(name));
            let most = u64::from(self.config.licenses.get(name));
            let wants = used + u64::from(*count);
            let queued = |ahead| wants + self.jobs.licenses.wanted(name) > most + ahead;
            wants > most || ahead.is_some_and(queued)
        };
        spec.licenses.iter().find(short).map(|(name, _)| name)
    }

    /// Whether a job that is in no planner's queue has to wait for a licence.
    pub(crate) fn awaits_licenses(&self, job: &Job) -> bool {
        let spec = job.spec();
        !spec.licenses.is_empty()
            && !self.is_queued(job.id)
            && self
                .missing_license(spec, Some(self.jobs.licenses.ahead))
                .is_some()
    }

    /// A job has been looked at and waits for that, or for nothing but its turn.
    pub(crate) fn stand_in_line(&mut self, id: JobId, reason: Option<&WaitReason>) {
        let Some(job) = self.jobs.live.get(&id) else {
            return;
        };
        if job.spec().licenses.is_empty() {
            return self.jobs.licenses.leave_line(id);
        }
        let missing = match reason {
            Some(WaitReason::Licenses) => {
                self.missing_license(job.spec(), Some(self.jobs.licenses.ahead))
            }
            Some(_) | None => None,
        };
        match missing.zip(self.planner_job(job)) {
            Some((name, waiting)) => {
                let name = name.to_owned();
                self.jobs.licenses.wait(&name, waiting.key);
            }
            None => self.jobs.licenses.leave_line(id),
        }
    }

    /// The job holds its licences from now on.
    pub(crate) fn take_licenses(&mut self, id: JobId) {
        self.change_licenses(id, u32::saturating_add);
    }

    /// The job has given its licences back: others may have them, at the end of the turn.
    pub(crate) fn give_licenses(&mut self, id: JobId) {
        if !self.change_licenses(id, u32::saturating_sub) {
            return;
        }
        let names = self.jobs.live[&id].spec().licenses.iter();
        let names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.jobs.licenses.due.entry(name).or_default();
        }
    }

    /// Enters those who could start with the licences that have come back.
    pub(crate) fn licenses_due(&mut self, now: Time) {
        let mut looks = LOOKS;
        for name in self.jobs.licenses.due.keys().cloned().collect::<Vec<_>>() {
            self.look_along(now, &name, 0, &mut looks);
        }
    }

    /// Once a second: where licences are free although some wait for them, a few more are
    /// entered than could start, because those who were entered wait for something else.
    pub(crate) fn licenses_left(&mut self, now: Time) {
        let entered = self.jobs.licenses.entered.keys().copied();
        let gone: Vec<JobId> = entered.filter(|id| !self.is_queued(*id)).collect();
        gone.into_iter().for_each(|id| self.jobs.licenses.leave(id));
        let mut looks = LOOKS;
        for name in self.jobs.licenses.lines.keys().cloned().collect::<Vec<_>>() {
            if self.jobs.licenses.due.contains_key(&name) {
                continue; // first those who could start
            }
            let ahead = self.jobs.licenses.wanted(&name) + AHEAD;
            self.jobs.licenses.ahead = ahead;
            self.jobs.licenses.due.insert(name.clone(), None);
            self.look_along(now, &name, ahead, &mut looks);
            self.jobs.licenses.due.remove(&name);
            self.jobs.licenses.ahead = AHEAD;
        }
    }

    /// Looks along a line as long as there are licences for it.
    fn look_along(&mut self, now: Time, name: &str, ahead: u64, looks: &mut usize) {
        let Some(after) = self.jobs.licenses.due.get(name) else {
            return;
        };
        let mut after = *after;
        while let Some(next) = self.jobs.licenses.next(name, after) {
            let free = u64::from(self.config.licenses.get(name));
            let used = u64::from(self.jobs.licenses.used(name));
            if used >= free || used + self.jobs.licenses.wanted(name) >= free + ahead {
                break; // nobody more could start
            }
            if *looks == 0 {
                self.jobs.licenses.due.insert(name.to_owned(), after);
                return;
            }
            *looks -= 1;
            after = Some(next);
            let job = self.jobs.live.get(&next.job);
            if job.is_some_and(|job| self.missing_license(job.spec(), Some(ahead)).is_none()) {
                self.review(now, next.job);
            }
        }
        self.jobs.licenses.due.remove(name);
    }

    /// How often jobs that want licences have been entered into planners' queues since the
    /// start: a measure of work.
    pub fn entered_for_licenses(&self) -> u64 {
        self.jobs.licenses.entries
    }

    fn change_licenses(&mut self, id: JobId, change: fn(u32, u32) -> u32) -> bool {
        let Some(job) = self.jobs.live.get(&id) else {
            return false;
        };
        let used = &mut self.jobs.licenses.used;
        for (name, count) in job.spec().licenses.iter() {
            used.set(name, change(used.get(name), count));
        }
        !job.spec().licenses.is_empty()
    }

    /// A job that the planner has started cannot have its licences now. Always false: it
    /// has not started.
    pub(crate) fn wait_for_licenses(&mut self, now: Time, id: JobId) -> bool {
        self.planner_of(id).end(id);
        self.planning.left_inside(id);
        self.jobs.licenses.leave(id);
        if let Some(job) = self.jobs.live.get_mut(&id) {
            job.phase = Phase::Waiting(Some(WaitReason::Licenses));
        }
        self.review(now, id);
        self.refill_interactive(now, id);
        false
    }

    /// What jobs hold, counted anew.
    pub(crate) fn count_licenses(&self) -> Counted {
        let mut used = Counted::default();
        for job in self.jobs.live.values().filter(|job| !Job::is_waiting(job)) {
            for (name, count) in job.spec().licenses.iter() {
                used.set(name, used.get(name).saturating_add(count));
            }
        }
        used
    }
}
