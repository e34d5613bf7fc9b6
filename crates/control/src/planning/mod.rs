//! The planners' side: what is where, orders to start, sizes and queues to choose among.
//!
//! What always holds: a job is inside a reservation while that reservation's planner has it,
//! waiting or running; else the cluster's planner has it.

pub(crate) mod alternative_queues;
pub(crate) mod choosers;
pub(crate) mod flexible_size;
pub(crate) mod invariants;
pub(crate) mod late_starts;
pub(crate) mod launch;
pub(crate) mod making_room;
pub(crate) mod pools;
pub(crate) mod rebuild;
pub(crate) mod room_making;
pub(crate) mod suspension;
pub(crate) mod task_layout;

use crate::jobs::dependencies::Waiter;
use crate::planning::alternative_queues::Undecided;
use crate::planning::choosers::Choosers;
use crate::planning::pools::{PoolOf, Pools};
use crate::planning::room_making::RoomMaking;
use cosy_model::{JobId, ReservationId, Span, Time};
use cosy_sched::{PoolSpec, Scheduler};
use std::collections::{BTreeMap, BTreeSet};

/// The cluster's planner, and which jobs others have or may go elsewhere.
#[derive(Debug)]
pub(crate) struct Planning {
    cluster: Scheduler,
    /// What the resource pools of the planners are.
    pools: Pools,
    /// Jobs that have a choice between groups of nodes.
    choosers: Choosers,
    /// Jobs that wait and may go to one of several queues.
    undecided: Undecided,
    /// Jobs that name a reservation, by it.
    within: BTreeMap<ReservationId, BTreeSet<Waiter>>,
    /// Jobs that a reservation's own planner has, not the cluster's.
    inside: BTreeMap<JobId, ReservationId>,
    /// Jobs whose cores others may have.
    lending: BTreeSet<JobId>,
    /// Who makes room for whom.
    room: RoomMaking,
    /// How often every waiting job was entered anew.
    placings: u64,
    /// When it was told last what there is of licences whose number depends on the time of day.
    license_times: Option<Time>,
}

/// So often.
const LICENSE_TIMES_APART: Span = Span::from_secs(60);

impl Planning {
    /// Nothing waits and nothing runs.
    pub fn new(cluster: Scheduler) -> Self {
        Self {
            cluster,
            pools: Pools::default(),
            choosers: Choosers::default(),
            undecided: Undecided::default(),
            within: BTreeMap::new(),
            inside: BTreeMap::new(),
            lending: BTreeSet::new(),
            license_times: None,
            room: RoomMaking::default(),
            placings: 0,
        }
    }

    /// The cluster's planner.
    pub fn cluster(&self) -> &Scheduler {
        &self.cluster
    }

    /// Who makes room for whom.
    pub fn room(&self) -> &RoomMaking {
        &self.room
    }

    /// Who makes room for whom, to be told something.
    pub fn room_mut(&mut self) -> &mut RoomMaking {
        &mut self.room
    }

    /// The cluster's planner, to be told something.
    pub fn cluster_mut(&mut self) -> &mut Scheduler {
        &mut self.cluster
    }

    /// What the resource pools of the planners are.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// So much there is of a pool from now on; one that is new gets a number.
    pub fn set_pool(&mut self, of: &PoolOf, spec: PoolSpec) {
        let id = self.pools.number(of);
        self.cluster.set_pool(id, spec);
    }

    /// There is no such pool any more. No job names it.
    pub fn forget_pool(&mut self, of: &PoolOf) {
        if let Some(id) = self.pools.forget(of) {
            self.cluster.remove_pool(id);
        }
    }

    /// The reservation whose planner has the job.
    pub fn inside(&self, job: JobId) -> Option<ReservationId> {
        self.inside.get(&job).copied()
    }

    /// Whether a reservation's planner has the job.
    pub fn is_inside(&self, job: JobId) -> bool {
        self.inside.contains_key(&job)
    }

    /// All jobs that planners of reservations have.
    pub fn all_inside(&self) -> &BTreeMap<JobId, ReservationId> {
        &self.inside
    }

    /// The planner of that reservation has the job.
    pub fn goes_inside(&mut self, job: JobId, reservation: ReservationId) {
        self.inside.insert(job, reservation);
    }

    /// No reservation's planner has the job any more; the reservation that had it.
    pub fn left_inside(&mut self, job: JobId) -> Option<ReservationId> {
        self.inside.remove(&job)
    }

    /// Jobs that name that reservation.
    pub fn naming(&self, reservation: ReservationId) -> Option<&BTreeSet<Waiter>> {
        self.within.get(&reservation)
    }

    /// These jobs name that reservation.
    pub fn names(&mut self, reservation: ReservationId, jobs: Waiter) {
        self.within.entry(reservation).or_default().insert(jobs);
    }

    /// These jobs do not name that reservation any more.
    pub fn names_no_more(&mut self, reservation: ReservationId, jobs: Waiter) {
        if let Some(all) = self.within.get_mut(&reservation) {
            all.remove(&jobs);
            if all.is_empty() {
                self.within.remove(&reservation);
            }
        }
    }

    /// Others may have the cores of that job.
    pub fn lends(&self, job: &JobId) -> bool {
        self.lending.contains(job)
    }

    /// The job has its cores for itself again, or is over.
    pub fn lends_no_more(&mut self, job: JobId) {
        self.lending.remove(&job);
    }

    /// These jobs have a choice between groups of nodes.
    pub fn choose_again_for(&mut self, jobs: Waiter) {
        self.choosers.insert(jobs);
    }

    /// Those jobs with a choice between groups of nodes whose turn it is.
    pub fn next_choosers(&mut self) -> Vec<Waiter> {
        self.choosers.next()
    }

    /// These jobs wait no longer, or have no choice any more.
    pub fn chooses_no_more(&mut self, jobs: Waiter) {
        self.choosers.remove(jobs);
    }

    /// The job may go to one of several queues.
    pub fn has_choice_of_queues(&mut self, job: JobId) {
        self.undecided.insert(job);
    }

    /// Another second is over.
    pub fn tick(&mut self) {
        self.undecided.tick();
    }

    /// Whether it has to be told again what there is of licences at which time. True once.
    pub fn license_times_are_due(&mut self, now: Time) -> bool {
        let good = |at: Time| at <= now && now < at + LICENSE_TIMES_APART;
        let due = !self.license_times.is_some_and(good);
        if due {
            self.license_times = Some(now);
        }
        due
    }

    /// Every waiting job is entered anew.
    pub fn note_placing(&mut self) {
        self.placings += 1;
    }

    /// How often every waiting job was entered anew: a measure of work.
    pub const fn placings(&self) -> u64 {
        self.placings
    }

    /// The next jobs that may have a better queue.
    pub fn next_undecided(&mut self) -> Vec<JobId> {
        self.undecided.next()
    }

    /// The job has no choice of queues any more.
    pub fn is_decided(&mut self, job: JobId) {
        self.undecided.remove(job);
    }
}
