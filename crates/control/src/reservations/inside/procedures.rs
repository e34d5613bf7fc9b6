//! Jobs go into a reservation's planner and come out of it.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::planning::pools::procedures::{
    tell_holders, tell_holders_of, tell_promises, tell_what_is_left,
};
use crate::queues::Queues;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::ask::procedures::reservation_policy;
use crate::reservations::inside::asked_core_ms;
use crate::reservations::inside::clearance::{closing, holds_until, is_clear, last_call};
use crate::reservations::procedures::touch_reservation;
use crate::reservations::{Reservation, Reservations};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::ReservationState;
use cosy_model::{
    Amounts, JobId, JobSpec, NodeId, NodeShare, QueueId, Refusal, RefusalCode, ReservationId, Span,
    Time, User, WaitReason,
};
use cosy_sched::{NodeMask, Scheduler};

/// The planner that has a job, or would get it now.
pub(crate) fn planner_of<'a>(
    planning: &'a mut Planning,
    reservations: &'a mut Reservations,
    id: JobId,
) -> &'a mut Scheduler {
    let inside = planning.inside(id);
    let reservation = inside.and_then(|r| reservations.all.get_mut(&r));
    match reservation.and_then(|r| r.planner.as_deref_mut()) {
        Some(planner) => planner,
        None => planning.cluster_mut(),
    }
}

/// The same, to look at.
pub(crate) fn planner_for<'a>(
    planning: &'a Planning,
    reservations: &'a Reservations,
    id: JobId,
) -> &'a Scheduler {
    let inside = planning.inside(id);
    let reservation = inside.and_then(|r| reservations.get(r));
    match reservation.and_then(|r| r.planner.as_deref()) {
        Some(planner) => planner,
        None => planning.cluster(),
    }
}

/// True when a planner has the job in its queue.
pub(crate) fn is_queued(planning: &Planning, reservations: &Reservations, id: JobId) -> bool {
    planner_for(planning, reservations, id).is_waiting(id)
}

/// The jobs that a reservation's planner has, waiting or running.
pub(crate) fn jobs_inside(planning: &Planning, id: ReservationId) -> impl Iterator<Item = JobId> {
    let inside = planning.all_inside();
    inside
        .iter()
        .filter(move |(_, r)| **r == id)
        .map(|(job, _)| *job)
}

/// What all planners start now.
pub(crate) fn planned_starts(
    planning: &mut Planning,
    reservations: &mut Reservations,
    now: Time,
) -> Vec<JobId> {
    tell_holders(planning, reservations);
    let mut starts = planning.cluster_mut().schedule(now);
    for id in reservations.active.iter().copied().collect::<Vec<_>>() {
        starts.extend(starts_inside(planning, reservations, now, id));
    }
    tell_promises(planning, reservations, now);
    starts
}

/// What the planner of a reservation starts now.
fn starts_inside(
    planning: &mut Planning,
    reservations: &mut Reservations,
    now: Time,
    id: ReservationId,
) -> Vec<JobId> {
    let Some(planner) = reservations.get_mut(id).and_then(Reservation::planner_mut) else {
        return Vec::new();
    };
    tell_what_is_left(planning, planner, id, now);
    let starts = planner.schedule(now);
    if !starts.is_empty() {
        tell_holders_of(planning, reservations, id);
    }
    starts
}

/// What the planner that has a job starts now.
pub(crate) fn starts_beside(
    planning: &mut Planning,
    reservations: &mut Reservations,
    now: Time,
    id: JobId,
) -> Vec<JobId> {
    let inside = planning.inside(id);
    match inside.filter(|id| reservations.is_active(*id)) {
        Some(id) => starts_inside(planning, reservations, now, id),
        None => planning.cluster_mut().schedule(now),
    }
}

impl Reservations {
    /// Why a job that is to run in a reservation cannot yet, or never.
    pub(crate) fn reservation_blocks(&self, id: ReservationId) -> Option<WaitReason> {
        match self.get(id).map(|r| r.row.state) {
            Some(ReservationState::Active) => None,
            Some(ReservationState::Held | ReservationState::Confirmed) => {
                Some(WaitReason::ReservationStart)
            }
            Some(
                ReservationState::Ended
                | ReservationState::Cancelled
                | ReservationState::Expired
                | ReservationState::Unused
                | ReservationState::Failed,
            )
            | None => Some(WaitReason::ReservationGone),
        }
    }

    /// What the reservation's planner counts with: a job that names no limit of its own,
    /// like the script that starts with a reservation, takes what is left and so starts
    /// however little that is.
    pub(crate) fn limit_inside(&self, job: &Job, limit: Span) -> Span {
        match self.names_limit(job) {
            true => limit,
            false => Span(1),
        }
    }

    fn names_limit(&self, job: &Job) -> bool {
        let within = job.spec().reservation.and_then(|id| self.get(id));
        let attached = within.is_some_and(|r| r.row.job == Some(job.id()));
        job.spec().time_limit.is_some() && !attached
    }

    /// True of the job that starts with the reservation that it names.
    pub(crate) fn is_attached(&self, id: JobId, spec: &JobSpec) -> bool {
        let within = spec.reservation.and_then(|id| self.get(id));
        within.is_some_and(|r| r.row.job == Some(id))
    }
}

/// Whether a job that comes back may still be in the reservation that it names: it was
/// let in when it was submitted, and with each attempt it is asked again. `None` while
/// the groups of its user are not known.
pub(crate) fn may_come_back(
    config: &ClusterConfig,
    reservations: &Reservations,
    conversations: &Conversations,
    job: &Job,
    id: ReservationId,
) -> Option<bool> {
    let Some(found) = reservations.get(id) else {
        return Some(true); // that it is gone is said elsewhere
    };
    if job.attempt().0 == 0 || job.submitted().uid == found.row.uid {
        return Some(true);
    }
    let known = conversations.user(&job.submitted().uid);
    let known = known.filter(|known| !known.user().name.is_empty())?;
    let rights = Caller::known(known.user().clone());
    Some(may_use(config, reservations, known.user(), found) || is_administrator(config, &rights))
}

/// A planner for the jobs inside, with the reservation's share of each node.
pub(crate) fn planner_inside(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    planning: &Planning,
    reservation: &Reservation,
) -> Box<Scheduler> {
    let mut amounts = vec![Amounts::default(); machine.node_count()];
    let mut nodes = NodeMask::new(machine.node_count());
    for share in &reservation.shares {
        let node = machine.node(share.node);
        amounts[share.node.index()] = node.inside(&share.amounts);
        nodes.insert(share.node);
    }
    let policy = crate::jobs::restore::policy(config);
    let mut planner = Scheduler::new(policy, amounts, vec![nodes]);
    for share in &reservation.shares {
        planner.set_available(share.node, is_clear(machine, jobs, planning, reservation, share));
    }
    planner.add_block(closing(config, reservation));
    planner.watch_holders();
    Box::new(planner)
}

/// The reservation's own planner takes over its share.
pub(crate) fn open_inside(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    if rooms.reservations.closed.remove(&id) {
        leave_inside(&mut rooms.jobs, &mut rooms.planning, &mut rooms.reservations, turn, id); // those that were not looked at since
    }
    // Nobody asks the planner that was there any more who has ended.
    tell_holders_of(&mut rooms.planning, &mut rooms.reservations, id);
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    let planner =
        planner_inside(&rooms.config, &rooms.machine, &rooms.jobs, &rooms.planning, reservation);
    if let Some(reservation) = rooms.reservations.all.get_mut(&id) {
        reservation.planner = Some(planner);
        rooms.reservations.active.insert(id);
    }
}

/// The reservation has become longer or shorter: so has its planner's time.
pub(crate) fn keep_open(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    let closing = reservations.get(id).map(|r| closing(config, r));
    let reservation = reservations.all.get_mut(&id);
    let planner = reservation.and_then(|r| r.planner.as_deref_mut());
    if let (Some(closing), Some(planner)) = (closing, planner) {
        planner.add_block(closing);
    }
}

/// Nodes that were not clear may be now.
pub(crate) fn update_inside(
    machine: &Machine,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    let Some(reservation) = reservations.get(id) else {
        return;
    };
    let clear: Vec<(NodeId, bool)> = reservation
        .shares
        .iter()
        .map(|share| (share.node, is_clear(machine, jobs, planning, reservation, share)))
        .collect();
    let reservation = reservations.all.get_mut(&id);
    if let Some(planner) = reservation.and_then(|r| r.planner.as_deref_mut()) {
        for (node, clear) in clear {
            planner.set_available(node, clear);
        }
    }
}

pub(crate) fn update_available_inside(
    machine: &Machine,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &mut Reservations,
    node: NodeId,
    available: bool,
) {
    for id in reservations.active_on(node) {
        let reservation = reservations.all.get_mut(&id);
        match reservation.and_then(|r| r.planner.as_deref_mut()) {
            Some(planner) if !available => planner.set_available(node, false),
            Some(_) => update_inside(machine, jobs, planning, reservations, id),
            None => {}
        }
    }
}

impl Reservations {
    fn active_on(&self, node: NodeId) -> Vec<ReservationId> {
        let active = self.active.iter().copied();
        let on = |id: &ReservationId| self.get(*id).is_some_and(|r| r.has_node(node));
        active.filter(on).collect()
    }
}

/// The machine has changed: planners inside are made anew, running jobs stay.
pub(crate) fn rebuild_insides(rooms: &mut Rooms, turn: &mut Turn) {
    let active: Vec<ReservationId> = rooms.reservations.active.iter().copied().collect();
    for id in active {
        open_inside(rooms, turn, id);
        enter_running(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, id);
    }
}

/// Enters the jobs that run inside into a new planner.
fn enter_running(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    let running: Vec<JobId> = jobs_inside(planning, id).collect();
    for job in running.iter().filter_map(|job| jobs.get(job)) {
        let Some(run) = job.run() else { continue };
        let (shares, whole) = (run.planned_shares(), job.holds_whole_nodes());
        run_again(config, jobs, planning, reservations, job.id(), shares, whole);
    }
}

/// Enters a running job out of the store into the planner that it belongs to.
pub(crate) fn run_again(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: JobId,
    shares: Vec<NodeShare>,
    whole: bool,
) {
    let within = jobs.get(&id).and_then(|job| job.spec().reservation);
    if let Some(reservation) = within
        && reservations
            .get(reservation)
            .is_some_and(|r| r.planner.is_some())
    {
        planning.goes_inside(id, reservation);
    }
    let run = jobs.get(&id).and_then(Job::run);
    let end = run.map_or(Time::FAR, |run| holds_until(config, planning, id, run));
    let holds = jobs
        .get(&id)
        .map(|job| planning.pools().holds_of(job.spec()));
    let holds = holds.unwrap_or_default();
    planner_of(planning, reservations, id).start_running_holding(id, shares, end, whole, &holds);
}

impl Reservations {
    /// Planners in which nobody waits any more, of reservations that are over.
    pub(crate) fn drop_closed_planners(&mut self) {
        let Reservations { all, closed, .. } = self;
        closed.retain(|id| {
            let Some(reservation) = all.get_mut(id) else {
                return false;
            };
            let waits = reservation
                .planner
                .as_deref()
                .is_some_and(|p| p.waiting_count() > 0);
            if !waits {
                reservation.planner = None;
            }
            waits
        });
    }
}

/// Takes the waiting jobs out of a reservation's planner.
pub(crate) fn leave_inside(
    jobs: &mut Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
) {
    let within: Vec<JobId> = jobs_inside(planning, id).collect();
    for job in within {
        if planner_of(planning, reservations, job).dequeue(job) {
            planning.left_inside(job);
            let base = jobs.base_of(job);
            jobs.count_queued(turn, base, false);
            if let Some(job) = jobs.get_mut(&job) {
                job.waits_for(Some(WaitReason::ReservationStart));
            }
        }
    }
}

/// Whether a user may run jobs in a reservation.
pub(crate) fn may_use(
    config: &ClusterConfig,
    reservations: &Reservations,
    user: &User,
    reservation: &Reservation,
) -> bool {
    let row = &reservation.row;
    let sharing = &row.ask.sharing;
    let books = &reservations.books;
    let member = |account: &String| books.is_member(account, user);
    row.uid == user.uid
        || !reservation_policy(config, &row.queue).closed
        || row.account.as_ref().is_some_and(member)
        || sharing.users.contains(&user.name)
        || sharing.groups.iter().any(|group| user.in_group(group))
        || sharing.accounts.iter().any(member)
}

/// Checks a job that names a reservation; answers with the queue that it goes to.
pub(crate) fn check_inside(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    caller: &Caller,
    id: ReservationId,
    queue: Option<&str>,
    limit: Option<Span>,
) -> Result<QueueId, Refusal> {
    let found = reservations.reservation(id)?;
    if !may_use(config, reservations, &caller.user, found) && !is_administrator(config, caller) {
        return Err(Refusal::new(
            RefusalCode::AccessDenied,
            format!(
                "reservation {id} is not for user {}: its owner {} can share it with --share-users",
                caller.user.name, found.row.user
            ),
        ));
    }
    if !found.is_live() {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("reservation {id} is {}: nothing can start in it", found.row.state),
        ));
    }
    let longest = last_call(config, found).since(found.row.start);
    if let Some(limit) = limit.filter(|limit| *limit > longest) {
        return Err(Refusal::new(
            RefusalCode::QueueLimit,
            format!(
                "a time limit of {limit} does not fit into reservation {id}: give at most {longest}, or none to take what is left"
            ),
        ));
    }
    if queue.is_some_and(|queue| queue != found.row.queue) {
        return Err(Refusal::invalid(format!(
            "reservation {id} is in queue {}: leave out --queue or name that one",
            found.row.queue
        )));
    }
    queues.find_queue(config, Some(&found.row.queue))
}

/// Takes note of the first use of a reservation and of the wait of queued jobs.
pub(crate) fn note_start(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    now: Time,
    id: JobId,
) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    match planning.inside(id) {
        Some(within) => {
            let end = job
                .run()
                .map_or(now, |run| holds_until(config, planning, id, run));
            planner_of(planning, reservations, id).set_expected_end(id, end);
            if let Some(reservation) = reservations.all.get_mut(&within)
                && reservation.row.first_use.is_none()
            {
                reservation.row.first_use = Some(now);
                touch_reservation(config, reservations, within);
            }
        }
        None if job.attempt().0 == 1 => {
            let wait = now.since(job.eligible().unwrap_or(job.submitted().submit));
            let core_ms = asked_core_ms(job.submitted());
            let policy = &config.reservations.notice;
            reservations.figures.job_started(now, policy, wait, core_ms);
        }
        None => {}
    }
}

/// A job that is cancelled before it ever ran is counted no longer by the notice rule.
pub(crate) fn uncount_job(
    config: &ClusterConfig,
    jobs: &Jobs,
    reservations: &mut Reservations,
    now: Time,
    id: JobId,
) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    if job.attempt().0 > 0 || job.spec().reservation.is_some() {
        return;
    }
    let (submit, core_ms) = (job.submitted().submit, asked_core_ms(job.submitted()));
    let policy = &config.reservations.notice;
    let figures = &mut reservations.figures;
    figures.job_withdrawn(now, policy, submit, core_ms);
}

/// Takes note of what an attempt inside a reservation has used.
pub(crate) fn note_use(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    now: Time,
    id: JobId,
) {
    let Some(within) = jobs.get(&id).and_then(|job| job.spec().reservation) else {
        return;
    };
    planning.left_inside(id);
    let Some(run) = jobs.get(&id).and_then(|job| job.run()) else {
        return;
    };
    let used = i64::try_from(run.core_ms(now)).unwrap_or(i64::MAX);
    if let Some(reservation) = reservations.all.get_mut(&within) {
        let sum = &mut reservation.row.used_core_ms;
        *sum = sum.saturating_add(used);
        touch_reservation(config, reservations, within);
    }
}

pub(crate) fn runs_inside(
    planning: &Planning,
    reservations: &Reservations,
    id: ReservationId,
) -> bool {
    jobs_inside(planning, id).any(|job| planner_for(planning, reservations, job).is_running(job))
}
