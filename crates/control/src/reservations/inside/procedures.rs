//! Jobs go into a reservation's planner and come out of it.

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::{Job, Run, Submitted};
use crate::reservations::inside::asked_core_ms;
use crate::reservations::{Reservation, Reservations};
use cosy_model::reservation::ReservationState;
use cosy_model::{
    Amounts, JobId, JobSpec, NodeId, NodeShare, QueueId, Refusal, RefusalCode, ReservationId, Span,
    Time, User, WaitReason,
};
use cosy_sched::{Block, NodeMask, Scheduler};

impl Controller {
    /// The planner that has a job, or would get it now.
    pub(crate) fn planner_of(&mut self, id: JobId) -> &mut Scheduler {
        let inside = self.planning.inside(id);
        let reservation = inside.and_then(|r| self.reservations.all.get_mut(&r));
        match reservation.and_then(|r| r.planner.as_deref_mut()) {
            Some(planner) => planner,
            None => self.planning.cluster_mut(),
        }
    }

    /// The same, to look at.
    pub(crate) fn planner_for(&self, id: JobId) -> &Scheduler {
        let inside = self.planning.inside(id);
        let reservation = inside.and_then(|r| self.reservations.get(r));
        match reservation.and_then(|r| r.planner.as_deref()) {
            Some(planner) => planner,
            None => self.planning.cluster(),
        }
    }

    /// True when a planner has the job in its queue.
    pub(crate) fn is_queued(&self, id: JobId) -> bool {
        self.planner_for(id).is_waiting(id)
    }

    /// The jobs that a reservation's planner has, waiting or running.
    pub(crate) fn jobs_inside(&self, id: ReservationId) -> impl Iterator<Item = JobId> {
        let inside = self.planning.all_inside();
        inside
            .iter()
            .filter(move |(_, r)| **r == id)
            .map(|(job, _)| *job)
    }

    /// What all planners start now.
    pub(crate) fn planned_starts(&mut self, now: Time) -> Vec<JobId> {
        let mut starts = self.planning.cluster_mut().schedule(now);
        let Reservations { all, active, .. } = &mut self.reservations;
        for id in active.iter() {
            let planner = all.get_mut(id).and_then(|r| r.planner.as_deref_mut());
            starts.extend(planner.map(|p| p.schedule(now)).unwrap_or_default());
        }
        starts
    }

    /// Why a job that is to run in a reservation cannot yet, or never.
    pub(crate) fn reservation_blocks(&self, id: ReservationId) -> Option<WaitReason> {
        match self.reservations.get(id).map(|r| r.row.state) {
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
        let within = job
            .spec()
            .reservation
            .and_then(|id| self.reservations.get(id));
        let attached = within.is_some_and(|r| r.row.job == Some(job.id));
        job.spec().time_limit.is_some() && !attached
    }

    /// True of the job that starts with the reservation that it names.
    pub(crate) fn is_attached(&self, id: JobId, spec: &JobSpec) -> bool {
        let within = spec.reservation.and_then(|id| self.reservations.get(id));
        within.is_some_and(|r| r.row.job == Some(id))
    }

    /// Whether a job that comes back may still be in the reservation that it names: it was
    /// let in when it was submitted, and with each attempt it is asked again. `None` while
    /// the groups of its user are not known.
    pub(crate) fn may_come_back(&self, job: &Job, id: ReservationId) -> Option<bool> {
        let Some(found) = self.reservations.get(id) else {
            return Some(true); // that it is gone is said elsewhere
        };
        if job.attempt.0 == 0 || job.submitted.uid == found.row.uid {
            return Some(true);
        }
        let known = self.conversations.user(&job.submitted.uid);
        let known = known.filter(|known| !known.user.name.is_empty())?;
        let rights = Caller::known(known.user.clone());
        Some(self.may_use(&known.user, found) || self.is_admin(&rights))
    }

    /// When the jobs inside get their SIGTERM: so early that even with force they are over
    /// by the reservation's end.
    pub(crate) fn last_call(&self, reservation: &Reservation) -> Time {
        self.last_call_of(reservation.row.end, reservation.length())
    }

    /// The same of one with that end and length.
    pub(crate) fn last_call_of(&self, end: Time, length: Span) -> Time {
        let grace = self.config.policy.grace.ms();
        end - Span(grace.min(length.ms() / 10))
    }

    /// The limit of an attempt that begins now.
    pub(crate) fn limit_from(&self, now: Time, id: JobId) -> Span {
        let Some(job) = self.jobs.get(&id) else {
            return Span::UNLIMITED;
        };
        let limit = job.submitted.place.limit();
        let left = job
            .spec()
            .deadline
            .map(|deadline| deadline.since(now).max(Span(1)));
        let limit = limit.min(left.unwrap_or(limit));
        let within = self.planning.inside(id);
        match within.and_then(|r| self.reservations.get(r)) {
            Some(reservation) => {
                let left = self.last_call(reservation).since(now).max(Span(1));
                limit.min(left)
            }
            None => limit,
        }
    }

    /// How long the planner counts on a job of that limit to hold its nodes.
    pub(crate) fn with_clearance(&self, limit: Span) -> Span {
        limit + self.config.policy.clearance
    }

    /// Until when the planner that has a running job counts on it to hold its nodes: the
    /// force that may be needed at the end is in it. Inside of a reservation that comes
    /// before the reservation's own end, and is kept free there.
    pub(crate) fn holds_until(&self, id: JobId, run: &Run) -> Time {
        match self.planning.is_inside(id) {
            true => run.planned_end(),
            false => self.with_clearance_after(run.planned_end()),
        }
    }

    /// When even force has ended a job whose time is over then.
    pub(crate) fn with_clearance_after(&self, end: Time) -> Time {
        end + self.config.policy.clearance
    }

    /// A planner for the jobs inside, with the reservation's share of each node.
    pub(crate) fn planner_inside(&self, reservation: &Reservation) -> Box<Scheduler> {
        let mut amounts = vec![Amounts::default(); self.machine.node_count()];
        let mut nodes = NodeMask::new(self.machine.node_count());
        for share in &reservation.shares {
            let node = self.machine.node(share.node);
            amounts[share.node.index()] = node.inside(&share.amounts);
            nodes.insert(share.node);
        }
        let policy = crate::procedures::restore::policy(&self.config);
        let mut planner = Scheduler::new(policy, amounts, vec![nodes]);
        for share in &reservation.shares {
            planner.set_available(share.node, self.is_clear(reservation, share));
        }
        planner.add_block(self.closing(reservation));
        Box::new(planner)
    }

    /// What keeps jobs that name their limit from starting too late.
    pub(crate) fn closing(&self, reservation: &Reservation) -> Block {
        Block {
            start: self.last_call(reservation),
            end: Time::FAR,
            ..reservation.block()
        }
    }

    /// True when a node takes jobs and nobody from outside holds the reserved share.
    pub(crate) fn is_clear(&self, reservation: &Reservation, share: &NodeShare) -> bool {
        let node = self.machine.node(share.node);
        if !node.takes_jobs() {
            return false;
        }
        let mut outside = Amounts::default();
        for job in node.jobs.iter().filter_map(|id| self.jobs.get(id)) {
            let own = self.planning.inside(job.id) == Some(reservation.row.id);
            let part = job.run().and_then(|run| run.part(share.node));
            if let Some(part) = part.filter(|_| !own) {
                outside.give(part.held());
            }
        }
        outside.give(&share.amounts);
        outside.fits(&node.amounts)
    }

    /// The reservation's own planner takes over its share.
    pub(crate) fn open_inside(&mut self, id: ReservationId) {
        if self.reservations.closed.remove(&id) {
            self.leave_inside(id); // those that were not looked at since
        }
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let planner = self.planner_inside(reservation);
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            reservation.planner = Some(planner);
            self.reservations.active.insert(id);
        }
    }

    /// The reservation has become longer or shorter: so has its planner's time.
    pub(crate) fn keep_open(&mut self, id: ReservationId) {
        let closing = self.reservations.get(id).map(|r| self.closing(r));
        let reservation = self.reservations.all.get_mut(&id);
        let planner = reservation.and_then(|r| r.planner.as_deref_mut());
        if let (Some(closing), Some(planner)) = (closing, planner) {
            planner.add_block(closing);
        }
    }

    /// Nodes that were not clear may be now.
    pub(crate) fn update_inside(&mut self, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let clear: Vec<(NodeId, bool)> = reservation
            .shares
            .iter()
            .map(|share| (share.node, self.is_clear(reservation, share)))
            .collect();
        let reservation = self.reservations.all.get_mut(&id);
        if let Some(planner) = reservation.and_then(|r| r.planner.as_deref_mut()) {
            for (node, clear) in clear {
                planner.set_available(node, clear);
            }
        }
    }

    pub(crate) fn update_available_inside(&mut self, node: NodeId, available: bool) {
        for id in self.active_on(node) {
            let reservation = self.reservations.all.get_mut(&id);
            match reservation.and_then(|r| r.planner.as_deref_mut()) {
                Some(planner) if !available => planner.set_available(node, false),
                Some(_) => self.update_inside(id),
                None => {}
            }
        }
    }

    fn active_on(&self, node: NodeId) -> Vec<ReservationId> {
        let active = self.reservations.active.iter().copied();
        let on = |id: &ReservationId| self.reservations.get(*id).is_some_and(|r| r.has_node(node));
        active.filter(on).collect()
    }

    /// The machine has changed: planners inside are made anew, running jobs stay.
    pub(crate) fn rebuild_insides(&mut self) {
        let active: Vec<ReservationId> = self.reservations.active.iter().copied().collect();
        for id in active {
            self.open_inside(id);
            self.enter_running(id);
        }
    }

    /// Enters the jobs that run inside into a new planner.
    fn enter_running(&mut self, id: ReservationId) {
        let running: Vec<(JobId, Vec<NodeShare>, Time, bool)> = self
            .jobs_inside(id)
            .filter_map(|job| {
                let job = self.jobs.get(&job)?;
                let run = job.run()?;
                let end = self.holds_until(job.id, run);
                Some((job.id, run.planned_shares(), end, job.holds_whole_nodes()))
            })
            .collect();
        for (job, shares, end, whole) in running {
            self.planner_of(job).start_running(job, shares, end, whole);
        }
    }

    /// Enters a running job out of the store into the planner that it belongs to.
    pub(crate) fn run_again(&mut self, id: JobId, shares: Vec<NodeShare>, whole: bool) {
        let within = self.jobs.get(&id).and_then(|job| job.spec().reservation);
        if let Some(reservation) = within
            && self
                .reservations
                .get(reservation)
                .is_some_and(|r| r.planner.is_some())
        {
            self.planning.goes_inside(id, reservation);
        }
        let run = self.jobs.get(&id).and_then(Job::run);
        let end = run.map_or(Time::FAR, |run| self.holds_until(id, run));
        self.planner_of(id).start_running(id, shares, end, whole);
    }

    /// The time of a reservation is over: what still runs inside is handed to the cluster's
    /// planner until its nodes are clean, what waits inside has nothing to wait for. There may be
    /// any number of these: they leave the planner, which starts nothing any more, as they are
    /// looked at again.
    pub(crate) fn close_inside(&mut self, now: Time, id: ReservationId) {
        let reservation = self.reservations.all.get_mut(&id);
        let planner = reservation.and_then(|r| r.planner.as_deref_mut());
        let mut running = Vec::new();
        if let Some(planner) = planner {
            let jobs: Vec<JobId> = planner.running_jobs().map(|(job, _)| job).collect();
            for job in jobs {
                running.push((job, planner.held_by(job)));
                planner.end(job);
            }
        }
        self.reservations.active.remove(&id);
        self.reservations.closed.insert(id);
        for (job, shares) in running {
            self.planning.left_inside(job);
            let whole = self.jobs.get(&job).is_some_and(Job::holds_whole_nodes);
            self.planning
                .cluster_mut()
                .start_running(job, shares, now, whole);
        }
        self.review_within_at_once(now, id);
    }

    /// Planners in which nobody waits any more, of reservations that are over.
    pub(crate) fn drop_closed_planners(&mut self) {
        let Reservations { all, closed, .. } = &mut self.reservations;
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

    /// Takes the waiting jobs out of a reservation's planner.
    pub(crate) fn leave_inside(&mut self, id: ReservationId) {
        let within: Vec<JobId> = self.jobs_inside(id).collect();
        for job in within {
            if self.planner_of(job).dequeue(job) {
                self.planning.left_inside(job);
                let base = self.base_of(job);
                self.count_queued(base, false);
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.phase =
                        crate::jobs::job::Phase::Waiting(Some(WaitReason::ReservationStart));
                }
            }
        }
    }

    /// Whether a user may run jobs in a reservation.
    pub(crate) fn may_use(&self, user: &User, reservation: &Reservation) -> bool {
        let row = &reservation.row;
        let sharing = &row.ask.sharing;
        let books = &self.reservations.books;
        let member = |account: &String| books.is_member(account, user);
        row.uid == user.uid
            || !self.reservation_policy(&row.queue).closed
            || row.account.as_ref().is_some_and(member)
            || sharing.users.contains(&user.name)
            || sharing.groups.iter().any(|group| user.in_group(group))
            || sharing.accounts.iter().any(member)
    }

    /// Checks a job that names a reservation; answers with the queue that it goes to.
    pub(crate) fn check_inside(
        &self,
        caller: &Caller,
        id: ReservationId,
        queue: Option<&str>,
        limit: Option<Span>,
    ) -> Result<QueueId, Refusal> {
        let found = self.reservation(id)?;
        if !self.may_use(&caller.user, found) && !self.is_admin(caller) {
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
                format!(
                    "reservation {id} is {}: nothing can start in it",
                    found.row.state
                ),
            ));
        }
        let longest = self.last_call(found).since(found.row.start);
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
        self.find_queue(Some(&found.row.queue))
    }

    /// Takes note of the first use of a reservation and of the wait of queued jobs.
    pub(crate) fn note_start(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        match self.planning.inside(id) {
            Some(within) => {
                let end = job.run().map_or(now, |run| self.holds_until(id, run));
                self.planner_of(id).set_expected_end(id, end);
                if let Some(reservation) = self.reservations.all.get_mut(&within)
                    && reservation.row.first_use.is_none()
                {
                    reservation.row.first_use = Some(now);
                    self.touch_reservation(within);
                }
            }
            None if job.attempt.0 == 1 => {
                let wait = now.since(job.eligible.unwrap_or(job.submitted.submit));
                let core_ms = asked_core_ms(&job.submitted);
                let policy = &self.config.reservations.notice;
                self.reservations
                    .figures
                    .job_started(now, policy, wait, core_ms);
            }
            None => {}
        }
    }

    /// A job that is cancelled before it ever ran is counted no longer by the notice rule.
    pub(crate) fn uncount_job(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if job.attempt.0 > 0 || job.spec().reservation.is_some() {
            return;
        }
        let (submit, core_ms) = (job.submitted.submit, asked_core_ms(&job.submitted));
        let policy = &self.config.reservations.notice;
        let figures = &mut self.reservations.figures;
        figures.job_withdrawn(now, policy, submit, core_ms);
    }

    /// Takes note of what an attempt inside a reservation has used.
    pub(crate) fn note_use(&mut self, now: Time, id: JobId) {
        let Some(within) = self.jobs.get(&id).and_then(|job| job.spec().reservation) else {
            return;
        };
        self.planning.left_inside(id);
        let Some(run) = self.jobs.get(&id).and_then(|job| job.run()) else {
            return;
        };
        let used = i64::try_from(run.core_ms(now)).unwrap_or(i64::MAX);
        if let Some(reservation) = self.reservations.all.get_mut(&within) {
            let sum = &mut reservation.row.used_core_ms;
            *sum = sum.saturating_add(used);
            self.touch_reservation(within);
        }
    }

    /// With its script a reservation is over, as soon as nothing else runs in it.
    pub(crate) fn inside_job_ended(&mut self, now: Time, id: JobId, submitted: &Submitted) {
        let Some(within) = submitted.spec.reservation else {
            return;
        };
        let state = self
            .reservations
            .get(within)
            .map(|r| (r.row.job, r.row.state));
        match state {
            Some((Some(job), ReservationState::Active)) => {
                let over = !self.jobs.contains_key(&job);
                if over && !self.runs_inside(within) {
                    self.end_reservation(now, within, "its job has ended");
                }
            }
            // Its job was cancelled before it began: there is nothing to keep nodes for.
            Some((job, ReservationState::Held | ReservationState::Confirmed))
                if job == Some(id) =>
            {
                let who = submitted.user.clone();
                self.give_up_reservation(now, within, &who);
            }
            Some(_) | None => {}
        }
    }

    fn runs_inside(&self, id: ReservationId) -> bool {
        self.jobs_inside(id)
            .any(|job| self.planner_for(job).is_running(job))
    }
}
