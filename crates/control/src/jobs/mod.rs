//! Jobs that live and that lived a moment ago.
//!
//! What always holds: each live job is in one group, that of its submission; what is in a row of
//! the store and has changed since is written at the end of the turn.

pub(crate) mod ages;
pub(crate) mod allocations;
pub(crate) mod arrays;
pub(crate) mod blocker;
pub(crate) mod bodies;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod components;
pub(crate) mod dependencies;
pub(crate) mod end;
pub(crate) mod ended;
pub(crate) mod file_names;
pub(crate) mod held_amounts;
pub(crate) mod invariants;
pub(crate) mod job;
pub(crate) mod licenses;
pub(crate) mod limits;
pub(crate) mod live;
pub(crate) mod losses;
pub(crate) mod requeue;
pub(crate) mod resize;
pub(crate) mod restore;
pub(crate) mod reviews;
pub(crate) mod room;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod save;
pub(crate) mod shared;
pub(crate) mod small_map;
pub(crate) mod steer;
pub(crate) mod steps;
pub(crate) mod submit;
pub(crate) mod switches;
pub(crate) mod task_set;
pub(crate) mod uncommon;
pub(crate) mod variables;

use crate::jobs::dependencies::{Dependencies, Waiter};
use crate::jobs::ended::{Ended, EndedJobs};
use crate::jobs::job::{Group, Job, Phase, Submitted};
use crate::jobs::licenses::Licenses;
use crate::jobs::limits::parked::Parked;
use crate::jobs::live::LiveJobs;
use crate::jobs::reviews::{Again, Reviews};
use crate::jobs::rows::UnsavedRows;
use crate::jobs::shared::{InCommon, SharedSpecs};
use cosy_model::{ClockStep, JobId, JobSpec, Span, Time, Uid, WaitReason};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

/// Jobs that wait or run, and what ended lately.
#[derive(Debug)]
pub(crate) struct Jobs {
    live: LiveJobs,
    /// Submissions with live jobs, by their first ids.
    groups: BTreeMap<JobId, Box<Group>>,
    /// First ids of live submissions by user and job name.
    names: BTreeMap<(Uid, String), BTreeSet<JobId>>,
    /// Live jobs by user, each component of a job counted.
    jobs_of: BTreeMap<Uid, u32>,
    /// When jobs that wait for a time are to be looked at.
    begins: BTreeSet<(Time, JobId)>,
    /// Ends of jobs in which nothing is launched: the controller itself ends those.
    held_ends: BTreeSet<(Time, JobId)>,
    next_job: u64,
    /// Jobs before this one are of earlier controllers.
    first_own: JobId,
    /// Jobs that ended lately.
    ended: EndedJobs,
    /// Which jobs others wait for.
    dependencies: Dependencies,
    /// Waiting jobs that are to be looked at again.
    reviews: Reviews,
    /// Jobs whose rows are behind.
    rows: UnsavedRows,
    /// Licences that jobs hold.
    licenses: Licenses,
    /// Jobs that wait for limits.
    parked: Parked,
    /// What they ask for, each once.
    specs: SharedSpecs,
}

impl Jobs {
    /// No job yet; the first one will have the id `next`.
    pub fn new(next: u64, dependencies: Dependencies) -> Self {
        Self {
            live: LiveJobs::default(),
            groups: BTreeMap::new(),
            names: BTreeMap::new(),
            jobs_of: BTreeMap::new(),
            begins: BTreeSet::new(),
            held_ends: BTreeSet::new(),
            next_job: next,
            first_own: JobId(next),
            ended: EndedJobs::default(),
            dependencies,
            reviews: Reviews::default(),
            rows: UnsavedRows::default(),
            licenses: Licenses::default(),
            parked: Parked::default(),
            specs: SharedSpecs::default(),
        }
    }

    /// That request; the one of another job if it is equal.
    pub fn share(&mut self, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        self.specs.share(spec)
    }

    /// The same of a row that is taken up.
    pub fn share_of_row(&mut self, known: &mut InCommon, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        known.share(&mut self.specs, spec)
    }

    // ---- live jobs

    /// The job, if it waits or runs.
    pub fn get(&self, id: &JobId) -> Option<&Job> {
        self.live.get(id)
    }

    /// The job, if it waits or runs.
    pub fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.live.get_mut(id)
    }

    /// Whether the job waits or runs.
    pub fn contains_key(&self, id: &JobId) -> bool {
        self.live.contains_key(id)
    }

    /// Those that wait or run, in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &Job> {
        self.live.values()
    }

    /// Ids of those that wait or run, in their order.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        self.live.values().map(Job::id)
    }

    /// Those that wait or run with ids in that range.
    pub fn range(
        &self,
        ids: impl RangeBounds<JobId>,
    ) -> impl DoubleEndedIterator<Item = (&JobId, &Job)> {
        self.live.range(ids).map(|job| (&job.id, job))
    }

    /// How many wait or run.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// A job waits from now on.
    pub fn enter(&mut self, job: Job) {
        self.live.insert(job);
    }

    /// A job that held nodes waits; false when it does not live.
    pub fn waits_again(&mut self, id: JobId) -> bool {
        let Some(job) = self.live.get_mut(&id) else {
            return false;
        };
        job.phase = Phase::Waiting(Some(WaitReason::Fresh));
        let group = self.groups.get(&job.submitted.base);
        // The others may have been changed while it ran.
        job.own |= group.is_some_and(|group| group.submitted.body != job.submitted.body);
        true
    }

    /// A job is over.
    pub fn remove(&mut self, id: &JobId) -> Option<Job> {
        self.live.remove(id)
    }

    // ---- submissions

    /// The submission whose first id that is, if a job of it lives.
    pub fn group(&self, base: &JobId) -> Option<&Group> {
        self.groups.get(base).map(AsRef::as_ref)
    }

    /// The submission whose first id that is, if a job of it lives.
    pub fn group_mut(&mut self, base: &JobId) -> Option<&mut Group> {
        self.groups.get_mut(base).map(AsMut::as_mut)
    }

    /// Whether a job of that submission lives.
    pub fn has_group(&self, base: &JobId) -> bool {
        self.groups.contains_key(base)
    }

    /// Submissions with live jobs, with their first ids and in the order of those.
    pub fn groups(&self) -> impl Iterator<Item = (&JobId, &Group)> {
        self.groups.iter().map(|(base, group)| (base, &**group))
    }

    /// A submission's jobs live.
    pub fn enter_group(&mut self, base: JobId, group: Group) {
        self.groups.insert(base, Box::new(group));
    }

    /// The last job of a submission is over.
    pub fn remove_group(&mut self, base: &JobId) -> Option<Group> {
        self.groups.remove(base).map(|group| *group)
    }

    /// What live jobs ask for: every body of every submission.
    pub fn bodies(&self) -> Vec<std::sync::Arc<Submitted>> {
        let bodies = self.groups.values().flat_map(|group| group.bodies.values());
        bodies.map(|body| body.submitted.clone()).collect()
    }

    /// The next body after that one, in the order of submissions and numbers.
    pub fn next_body(&self, after: Option<Waiter>) -> Option<&Submitted> {
        let first = after.map_or(JobId(0), |after| after.base);
        let mut groups = self.groups.range(first..);
        groups.find_map(|(base, group)| {
            let from = match after.filter(|after| after.base == *base) {
                Some(after) => after.body.saturating_add(1),
                None => 0,
            };
            let mut bodies = group.bodies.range_from(from);
            bodies.next().map(|(_, body)| &*body.submitted)
        })
    }

    /// Jobs that have this body may not have their account or quality of service, or may; tells
    /// whether they might have before.
    pub fn bars(&mut self, jobs: Waiter, barred: bool) -> bool {
        let group = self.groups.get_mut(&jobs.base);
        let body = group.and_then(|group| group.bodies.get_mut(&jobs.body));
        body.is_some_and(|body| std::mem::replace(&mut body.barred, barred))
    }

    // ---- ids and numbers

    /// The id of the next submission's first job.
    pub fn next_id(&self) -> JobId {
        JobId(self.next_job)
    }

    /// So many ids are given out.
    pub fn take_ids(&mut self, count: u64) {
        self.next_job += count;
    }

    /// No job to come has a lesser id.
    pub fn go_on_at(&mut self, least: u64) {
        self.next_job = self.next_job.max(least);
    }

    /// The first id that this controller itself may have given out.
    pub fn first_own(&self) -> JobId {
        self.first_own
    }

    /// How many live jobs a user has, each component of a job counted.
    pub fn count_of(&self, uid: Uid) -> u32 {
        self.jobs_of.get(&uid).copied().unwrap_or(0)
    }

    /// A user has so many more; the number of all by user.
    pub fn counts(&self) -> &BTreeMap<Uid, u32> {
        &self.jobs_of
    }

    /// A user has so many live jobs more.
    pub fn count_up(&mut self, uid: Uid, jobs: u32) {
        *self.jobs_of.entry(uid).or_default() += jobs;
    }

    /// A user has so many live jobs less.
    pub fn count_down(&mut self, uid: Uid, jobs: u32) {
        crate::jobs::check::count_down(&mut self.jobs_of, uid, jobs);
    }

    /// All live jobs are counted anew.
    pub fn count_anew(&mut self) {
        self.jobs_of.clear();
    }

    // ---- dates

    /// The job is to be looked at then.
    pub fn begins_at(&mut self, at: Time, id: JobId) {
        self.begins.insert((at, id));
    }

    /// The job is not to be looked at then.
    pub fn begins_no_more(&mut self, at: Time, id: JobId) {
        self.begins.remove(&(at, id));
    }

    /// The controller ends that job then, or not at all.
    pub fn end_held_at(&mut self, at: Option<Time>, id: JobId) {
        self.held_ends.retain(|(_, held)| *held != id);
        self.held_ends.extend(at.map(|at| (at, id)));
    }

    /// The job was to be ended then and is not any more.
    pub fn end_held_no_more(&mut self, at: Time, id: JobId) {
        self.held_ends.remove(&(at, id));
    }

    /// A job that the controller has to end by now; it is told once.
    pub fn next_held_end(&mut self, now: Time) -> Option<JobId> {
        let (at, _) = self.held_ends.first()?;
        if *at > now {
            return None;
        }
        self.held_ends.pop_first().map(|(_, id)| id)
    }

    /// Jobs that the controller is to end, with the dates.
    pub fn held_ends(&self) -> &BTreeSet<(Time, JobId)> {
        &self.held_ends
    }

    /// The next date at which there is something to do.
    pub fn next_due(&self) -> Option<Time> {
        let begin = self.begins.first().map(|(begin, _)| *begin);
        let held = self.held_ends.first().map(|(end, _)| *end);
        let limits = self.parked.next_due();
        begin.into_iter().chain(held).chain(limits).min()
    }

    /// The clock on the wall was set: dates that the controller has made are other ones now.
    /// A begin time that a user named stays.
    pub fn clock_set(&mut self, step: ClockStep) {
        let held = std::mem::take(&mut self.held_ends);
        let held = held.into_iter().map(|(at, id)| (at.set_by(step), id));
        self.held_ends = held.collect();
        for group in self.groups.values_mut() {
            group.last_start = group.last_start.map(|at| at.set_by(step));
        }
        self.dependencies.clock_set(step);
        for job in self.live.values_mut() {
            let Some(old) = job.not_before() else {
                continue;
            };
            let new = old.set_by(step);
            job.change_uncommon(|it| it.not_before = Some(new));
            if job.spec().begin != Some(old) {
                self.begins.remove(&(old, job.id));
            }
            self.begins.insert((new, job.id));
        }
        // What they wait for a while after may have another date now.
        for (_, id) in &self.begins {
            self.reviews.push(Again::Job(*id));
        }
    }

    // ---- what is to be looked at again

    /// These are to be looked at again, in this turn or a later one.
    pub fn review_later(&mut self, again: Again) {
        self.reviews.push(again);
    }

    /// Interactive jobs of that user may go on.
    pub fn review_interactive(&mut self, uid: Uid) {
        self.reviews.push_interactive(uid);
    }

    /// Nobody is to be looked at again.
    pub fn are_reviewed(&self) -> bool {
        self.reviews.is_empty()
    }

    // ---- those that ended lately

    /// The job, if it ended lately.
    pub fn ended(&self, id: JobId) -> Option<&Ended> {
        self.ended.get(id)
    }

    /// Whether the job ended lately.
    pub fn has_ended(&self, id: JobId) -> bool {
        self.ended.has(id)
    }

    /// Those that ended lately with ids in that range, in the order of their ids.
    pub fn ended_between(
        &self,
        ids: impl RangeBounds<JobId>,
    ) -> impl DoubleEndedIterator<Item = (JobId, &Ended)> {
        self.ended.range(ids)
    }

    /// A job has ended.
    pub fn remember(&mut self, id: JobId, ended: Ended) {
        self.ended.remember(id, ended);
    }

    /// A job that ended lately lives again.
    pub fn lives_again(&mut self, id: JobId) -> Option<Ended> {
        self.ended.lives_again(id)
    }

    /// What ended longer ago than `keep` is forgotten, and what is one too many.
    pub fn forget_ended(&mut self, now: Time, keep: Span) {
        while let Some(id) = self.ended.forget_one(now, keep) {
            self.dependencies.forgotten(id);
        }
    }

    /// No job of that submission lives: others that name it are told by what ended.
    pub fn submission_over(&mut self, base: JobId) {
        self.dependencies.over(base);
    }

    // ---- rows

    /// Something of the job's row is another: it is written at the end of this turn.
    pub fn changed(&mut self, id: JobId) {
        self.rows.changed(id);
    }

    /// The job's program has started, which is written with the next tick.
    pub fn start_unsaved(&mut self, id: JobId) {
        self.rows.started(id);
    }

    /// The whole row is written anyway, with the start.
    pub fn start_saved(&mut self, id: JobId) {
        self.rows.written(id);
    }

    /// Jobs whose rows are to be written at the end of the turn.
    pub fn take_changed(&mut self) -> BTreeSet<JobId> {
        self.rows.take_changed()
    }

    /// Jobs whose start is to be written.
    pub fn take_started(&mut self) -> BTreeSet<JobId> {
        self.rows.take_started()
    }

    // ---- licences

    /// Licences: what jobs hold, and what others have.
    pub const fn licenses(&self) -> &Licenses {
        &self.licenses
    }

    /// Waiting jobs that are to be looked at again.
    pub fn reviews_mut(&mut self) -> &mut Reviews {
        &mut self.reviews
    }

    /// Jobs that wait for limits.
    pub const fn parked(&self) -> &Parked {
        &self.parked
    }

    /// The same, for those who come and go.
    pub const fn parked_mut(&mut self) -> &mut Parked {
        &mut self.parked
    }
}

impl std::ops::Index<&JobId> for Jobs {
    type Output = Job;

    /// The job, which is known to live.
    fn index(&self, id: &JobId) -> &Job {
        self.live.get(id).expect("it lives")
    }
}
