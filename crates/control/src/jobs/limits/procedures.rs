//! Limits of accounts and qualities of service as jobs meet them: where they are counted, at submission
//! and in the line.

use crate::jobs::check::Outcome;
use crate::jobs::job::{Job, Place};
use crate::jobs::limits::ageing::goes_on_ageing;
use crate::jobs::limits::parked::Waits;
use crate::jobs::limits::wholes::wholes;
use crate::jobs::limits::{held, party_of, wanted, wanted_on};
use crate::jobs::reviews::Again;
use crate::policy::limits::counts::Counted;
use crate::policy::limits::judge::{Hit, Past, Present, Wanted};
use crate::policy::limits::party::{Meter, Party};
use crate::policy::limits::rules::{Owner, Rule};
use crate::policy::limits::tally::{Tally, WHOLE_PPM};
use crate::policy::standing::Standing;
use crate::queues::scores::Level;
use crate::queues::scores::shares::Shares;
use crate::rooms::Rooms;
use cosy_model::policy::{AssociationUsage, LimitKind, Measure, Tres};
use cosy_model::{
    JobId, JobSpec, NodeShare, QueueId, Refusal, RefusalCode, Span, Time, WaitReason,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// So many jobs of those that count together for a limit on what runs are let into planners' queues
/// although they could not all run: the first of them may wait for nodes while the next can start.
const AHEAD: u64 = 64;
/// A job that waits for minutes is looked at so often.
const LOOK_AGAIN: Span = Span::from_secs(60);
/// No job is looked at more often for the sake of time that passes.
const LOOK_SOON: Span = Span::from_secs(1);

// ---- jobs are counted

/// A job waits from now on, or belongs to somebody else than before.
pub(crate) fn comes(rooms: &mut Rooms, id: JobId) {
    if !rooms.policy.counts().is_on() {
        return;
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let party = party_of(&rooms.queues, job.submitted());
    rooms.policy.comes(id, party);
    goes_on_ageing(rooms, id);
}

/// All jobs of a new submission wait from now on.
pub(crate) fn all_come(rooms: &mut Rooms, base: JobId) {
    if !rooms.policy.counts().is_on() {
        return;
    }
    let ids: Vec<JobId> = rooms
        .jobs
        .group(&base)
        .into_iter()
        .flat_map(|g| g.ids())
        .collect();
    let Some(first) = ids.first().and_then(|id| rooms.jobs.get(id)) else {
        return;
    };
    let party = party_of(&rooms.queues, first.submitted());
    let of = rooms.policy.join_party(party);
    ids.into_iter()
        .for_each(|id| rooms.policy.counts_mut().comes(id, of.clone()));
}

/// A job holds what it holds now, or something else than before.
pub(crate) fn runs(rooms: &mut Rooms, id: JobId) {
    if !rooms.policy.counts().is_on() {
        return;
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let party = party_of(&rooms.queues, job.submitted());
    let counts = rooms.policy.counts();
    if counts.of(id).is_none_or(|of| of.party != party) {
        rooms.policy.comes(id, party);
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let Some(run) = job.run() else {
        return;
    };
    let counts = rooms.policy.counts();
    let limited = |tres: &Tres| counts.is_limited(tres);
    let planned = counts.of(id).map_or(WHOLE_PPM, |of| of.rules.planned_ppm);
    let held = held(&rooms.config, &rooms.machine, &limited, (job, run), planned);
    let before = rooms.policy.counts_mut().runs(id, held);
    if before.is_none() {
        others_leave(rooms, id);
        freed(rooms, id); // there is room in the line for others
    }
}

/// A job has given its nodes back: who waits for a limit that it was under may go.
pub(crate) fn stops(rooms: &mut Rooms, id: JobId) {
    if rooms.policy.counts_mut().stops(id).is_some() {
        freed(rooms, id);
    }
}

/// A job is over.
pub(crate) fn leaves(rooms: &mut Rooms, id: JobId) {
    rooms.jobs.parked_mut().goes(id);
    if rooms.policy.counts().is_on() {
        freed(rooms, id);
        rooms.policy.counts_mut().leaves(id);
    }
}

fn freed(rooms: &mut Rooms, id: JobId) {
    if let Some(of) = rooms.policy.counts().of(id).cloned() {
        rooms.jobs.parked_mut().freed(&of.rules.meters);
    }
}

/// All jobs are counted anew: limits are enforced from now on, or no more, or queues are others.
pub(crate) fn count_anew(rooms: &mut Rooms) {
    let on = rooms.config.enforce.limits;
    let has = wholes(&rooms.config, &rooms.machine, &rooms.queues);
    rooms.policy.is_measured(has);
    rooms.policy.enforces_limits(false);
    rooms.policy.enforces_limits(on);
    let ids: Vec<JobId> = rooms.jobs.ids().filter(|_| on).collect();
    for id in ids {
        comes(rooms, id);
        runs(rooms, id);
    }
    rooms.jobs.parked_mut().all_freed();
}

// ---- what limits say

/// What has been used of limits on minutes.
struct Used<'a> {
    shares: &'a Shares,
    now: Time,
}

impl Past for Used<'_> {
    fn minutes(&self, of: &Owner, tres: Option<&Tres>) -> u64 {
        let level = match of {
            Owner::Association(key) => Level::of_key(key),
            Owner::Qos(name) => Level::Qos(name),
        };
        match tres {
            Some(tres) => self.shares.minutes_used(level, tres, self.now),
            None => self.shares.wall_minutes_used(level, self.now),
        }
    }
}

const fn used(rooms: &Rooms, now: Time) -> Used<'_> {
    Used {
        shares: rooms.queues.scores().shares(),
        now,
    }
}

fn hit_now<'a>(
    rooms: &'a Rooms,
    now: Time,
    of: &'a Counted,
    wanted: &Wanted,
    looked_at: impl Fn(LimitKind) -> bool,
) -> Option<Hit<'a>> {
    let tallies = |meter: Meter| rooms.policy.counts().tally(meter);
    let past = used(rooms, now);
    let present = Present {
        tallies: &tallies,
        past: &past,
        now,
        safe: rooms.config.enforce.safe,
    };
    of.rules.holds_back(wanted, &present, looked_at)
}

/// The time limit that counts for limits: of a job that names none no more than they allow.
fn limit_of(spec: &JobSpec, of: &Counted, limit: Span) -> Span {
    match spec.time_limit {
        Some(_) => limit,
        None => of.rules.longest().map_or(limit, |most| limit.min(most)),
    }
}

/// What a job wants at least, as limits measure it.
pub(crate) fn wanted_by(
    rooms: &Rooms,
    of: &Counted,
    queue: &str,
    spec: &JobSpec,
    place: &Place,
) -> Wanted {
    let counts = rooms.policy.counts();
    let limited = |tres: &Tres| counts.is_limited(tres);
    let mut wanted = wanted(&rooms.config, &rooms.machine, &limited, queue, (spec, place));
    wanted.limit = limit_of(spec, of, wanted.limit);
    wanted
}

/// Limits that are looked at while a job waits.
const fn looked_at_in_line(kind: LimitKind) -> bool {
    !matches!(kind.measure(), Measure::SubmitJobs | Measure::JobsAccrue | Measure::Priority)
}

/// The limit for which a waiting job may not be in a planner's queue now.
pub(crate) fn waits_for(rooms: &Rooms, now: Time, job: &Job) -> Option<Waits> {
    if let Some(waits) = rooms
        .jobs
        .parked()
        .get(job.id())
        .filter(|waits| waits.by_nodes.is_some())
    {
        return Some(waits.clone());
    }
    let of = rooms.policy.counts().of(job.id())?;
    if of.rules.all.is_empty() {
        return None;
    }
    let submitted = job.submitted();
    let wanted = wanted_by(rooms, of, &submitted.queue, &submitted.spec, &submitted.place);
    let hit = hit_now(rooms, now, of, &wanted, looked_at_in_line);
    let hit = hit.or_else(|| crowded(rooms, now, (of, job.id()), &wanted))?;
    Some(waits(&hit, &wanted, (rooms, now), None))
}

/// Whether a job would wait for a limit in another queue, where it would stand so.
pub(crate) fn would_wait_in(
    rooms: &Rooms,
    now: Time,
    job: &Job,
    (queue, place): (QueueId, &Place),
) -> bool {
    if !rooms.policy.counts().is_on() {
        return false;
    }
    let (submitted, queue) = (job.submitted(), rooms.queues.get(queue).spec());
    let of = rooms.policy.counted(Party {
        queue: queue.name.clone(),
        queue_qos: queue.admits.qos.clone(),
        ..party_of(&rooms.queues, submitted)
    });
    let wanted = wanted_by(rooms, &of, &queue.name, &submitted.spec, place);
    let pends = |of: &Counted| of.rules.never_fits(&wanted).is_some();
    pends(&of) || hit_now(rooms, now, &of, &wanted, looked_at_in_line).is_some()
}

/// The limit for which others that count with a job are in planners' queues, as many as could start and
/// more: so how many jobs wait for a limit of their own costs planners nothing.
fn crowded<'a>(
    rooms: &Rooms,
    now: Time,
    (of, id): (&'a Counted, JobId),
    wanted: &Wanted,
) -> Option<Hit<'a>> {
    let counts = rooms.policy.counts();
    if counts.is_queued(id) {
        return None;
    }
    let tallies = |meter: Meter| counts.tally(meter);
    let past = used(rooms, now);
    let present = Present {
        tallies: &tallies,
        past: &past,
        now,
        safe: false,
    };
    let queued = |meter: Meter, tres: Option<&Tres>| {
        let queued = counts.queued(meter);
        let jobs = queued.map_or(0, |queued| queued.jobs.len() as u64);
        let amount = match tres {
            Some(tres) => queued.and_then(|queued| queued.amounts.get(tres).copied()),
            None => Some(jobs),
        };
        (jobs, amount.unwrap_or(0))
    };
    of.rules.is_crowded(wanted, &present, AHEAD, &queued)
}

/// A job has entered a planner's queue.
pub(crate) fn stands_in_line(rooms: &mut Rooms, id: JobId) {
    let Some(of) = rooms.policy.counts().of(id) else {
        return;
    };
    if !of.rules.all.iter().any(Rule::limits_running) {
        return;
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let submitted = job.submitted();
    let wanted = wanted_by(rooms, of, &submitted.queue, &submitted.spec, &submitted.place);
    rooms.policy.counts_mut().queues(id, wanted.amounts);
}

/// A job has started: others that count with it may be beyond a limit now, and leave the planners'
/// queues before they hold back anybody.
fn others_leave(rooms: &mut Rooms, id: JobId) {
    let counts = rooms.policy.counts();
    let (Some(of), Some(held)) = (counts.of(id), counts.held_by(id)) else {
        return;
    };
    let mut all: BTreeSet<JobId> = BTreeSet::new();
    for rule in of.rules.all.iter().filter(|rule| rule.limits_running()) {
        let tally = counts.tally(rule.meter);
        let (used, own) = match &rule.key.tres {
            Some(tres) => (
                tally.map_or(0, |tally| tally.held(tres)),
                held.amounts.get(tres).copied().unwrap_or(0),
            ),
            None => (tally.map_or(0, |tally| tally.running).into(), 1),
        };
        // There is no room for another like it.
        if own > 0 && used.saturating_add(own) > rule.value {
            all.extend(
                counts
                    .queued(rule.meter)
                    .into_iter()
                    .flat_map(|queued| &queued.jobs),
            );
        }
    }
    all.into_iter()
        .for_each(|id| rooms.jobs.review_later(Again::Job(id)));
}

fn waits(
    hit: &Hit<'_>,
    wanted: &Wanted,
    (rooms, now): (&Rooms, Time),
    by_nodes: Option<String>,
) -> Waits {
    let tally = rooms.policy.counts().tally(hit.rule.meter);
    let passes = hit
        .passes(wanted, tally, now)
        .filter(|_| by_nodes.is_none());
    Waits {
        meter: hit.rule.meter,
        hit: hit.reason(),
        until: passes.map_or(now + LOOK_AGAIN, |at| at.max(now + LOOK_SOON)),
        by_nodes,
    }
}

/// The limit that a waiting job waits for, in words with figures.
pub(crate) fn sentence(rooms: &Rooms, now: Time, job: &Job) -> Option<String> {
    let of = rooms.policy.counts().of(job.id())?;
    let parked = rooms.jobs.parked().get(job.id());
    if let Some(told) = parked.and_then(|waits| waits.by_nodes.clone()) {
        return Some(told);
    }
    let submitted = job.submitted();
    let wanted = wanted_by(rooms, of, &submitted.queue, &submitted.spec, &submitted.place);
    let hit = hit_now(rooms, now, of, &wanted, looked_at_in_line);
    let others = || {
        let hit = crowded(rooms, now, (of, job.id()), &wanted)?;
        Some(format!("{}, with others of it that come first", hit.sentence()))
    };
    hit.map(|hit| hit.sentence()).or_else(others)
}

/// A job was looked at: it waits for that limit, or for none.
pub(crate) fn stand_aside(rooms: &mut Rooms, now: Time, id: JobId, reason: Option<&WaitReason>) {
    let waits = match reason {
        Some(WaitReason::Limit(_)) => rooms
            .jobs
            .get(&id)
            .and_then(|job| waits_for(rooms, now, job)),
        Some(_) | None => None,
    };
    match waits {
        Some(waits) => rooms.jobs.parked_mut().park(id, waits),
        None => rooms.jobs.parked_mut().goes(id),
    }
    if reason.is_some() {
        rooms.policy.counts_mut().unqueues(id);
    }
}

// ---- submission and change

/// The time limit that a job gets that names none: the tightest of its limits where its queue allows
/// more.
pub(crate) fn default_limit(
    rooms: &Rooms,
    outcome: &Outcome<'_>,
    queue: QueueId,
    standing: &Standing,
) -> Option<Span> {
    let spec = outcome.spec;
    let enforced = rooms.policy.counts().is_on() && spec.reservation.is_none();
    if !enforced || spec.time_limit.is_some() {
        return None;
    }
    let of = rooms.policy.counted(party(rooms, outcome, queue, standing));
    let most = of.rules.longest()?;
    let queue = rooms.queues.get(queue).spec();
    let default = queue.default_time.or(queue.max_time);
    let longer = default.is_none_or(|default| most < default);
    longer.then_some(most)
}

fn party(rooms: &Rooms, outcome: &Outcome<'_>, queue: QueueId, standing: &Standing) -> Party {
    let queue = rooms.queues.get(queue).spec();
    Party {
        uid: outcome.owner.uid,
        user: outcome.owner.name.clone(),
        account: standing.account.clone(),
        qos: standing.qos.clone(),
        queue: queue.name.clone(),
        queue_qos: queue.admits.qos.clone(),
    }
}

/// Refuses what is beyond a limit on the number of jobs, and what could never start.
///
/// # Errors
/// Level, name, limit, use and request.
pub(crate) fn check_limits(
    rooms: &Rooms,
    outcome: &Outcome<'_>,
    (queue, place): (QueueId, &Place),
    standing: &Standing,
    by_admin: bool,
) -> Result<(), Refusal> {
    if !rooms.policy.counts().is_on() {
        return Ok(());
    }
    let of = rooms.policy.counted(party(rooms, outcome, queue, standing));
    if of.rules.all.is_empty() {
        return Ok(());
    }
    let spec = outcome.spec;
    let mut wanted = wanted_by(rooms, &of, rooms.queues.name(queue), spec, place);
    let before = outcome.before.filter(|_| !outcome.enters);
    let known = before.map(|before| party_of(&rooms.queues, before));
    let moved = known.as_ref().is_none_or(|known| *known != of.party);
    if moved {
        let coming: usize = outcome.coming.values().sum();
        wanted.jobs = u32::try_from(outcome.jobs.saturating_add(coming)).unwrap_or(u32::MAX);
        let counted: Option<Arc<Counted>> = known.map(|known| rooms.policy.counted(known));
        let counted = counted
            .as_ref()
            .map_or(&[][..], |known| &known.rules.meters);
        let tallies = |meter: Meter| -> Option<&Tally> { rooms.policy.counts().tally(meter) };
        if let Some(hit) = of.rules.too_many(&wanted, &tallies, counted) {
            return Err(refused(&hit, "wait until some have ended, or submit fewer"));
        }
    }
    let same = |before: &JobSpec| {
        (&before.request, before.time_limit, &before.licenses, &before.further_components)
            == (&spec.request, spec.time_limit, &spec.licenses, &spec.further_components)
    };
    let as_before = !moved && before.is_some_and(|before| same(&before.spec));
    // What an administrator gives a job is not measured by limits.
    if as_before
        || by_admin && before.is_some()
        || !of.rules.refuses(rooms.config.policy.limits_pend)
    {
        return Ok(());
    }
    match of.rules.never_fits(&wanted) {
        Some(hit) => Err(refused(&hit, "it could never start: ask for what fits")),
        None => Ok(()),
    }
}

fn refused(hit: &Hit<'_>, works: &str) -> Refusal {
    let why = format!("{}; {works}", hit.sentence());
    Refusal::new(RefusalCode::TooMany, why).by_limit(hit.reason())
}

// ---- start

/// The limit that a job is beyond on the nodes that it would start on.
pub(crate) fn beyond_on(
    rooms: &Rooms,
    now: Time,
    id: JobId,
    shares: &[NodeShare],
    limit: Span,
) -> Option<Waits> {
    let counts = rooms.policy.counts();
    let of = counts.of(id).filter(|of| !of.rules.all.is_empty())?;
    let job = rooms.jobs.get(&id)?;
    let limited = |tres: &Tres| counts.is_limited(tres);
    let limit = limit_of(job.spec(), of, limit);
    let wanted = wanted_on(&rooms.config, &rooms.machine, &limited, job, shares, limit);
    let hit = hit_now(rooms, now, of, &wanted, looked_at_in_line)?;
    Some(waits(&hit, &wanted, (rooms, now), Some(hit.sentence())))
}

// ---- while jobs run

/// Running jobs that a limit on minutes ends, each with what is told of it. With `safe` there are none:
/// what has started has fitted.
pub(crate) fn ended_by_limits(rooms: &Rooms, now: Time) -> Vec<(JobId, String)> {
    let counts = rooms.policy.counts();
    let mut ended = Vec::new();
    if !counts.is_on() || rooms.config.enforce.safe {
        return ended;
    }
    let past = used(rooms, now);
    for (of, jobs) in counts.running_by_party() {
        let used_up = of.rules.is_used_up(&past).map(|hit| hit.sentence());
        for (id, held) in jobs {
            let run = rooms.jobs.get(&id).and_then(Job::run);
            let Some(run) = run.filter(|run| !run.is_over() && run.killed().is_none()) else {
                continue;
            };
            let own = || of.rules.has_used_up(&held.amounts, run.elapsed(now));
            let why = used_up.clone().or_else(|| own().map(|hit| hit.sentence()));
            ended.extend(why.map(|why| (id, why)));
        }
    }
    ended
}

/// What is counted for the limits of an association or a quality of service, beside what it has used.
/// False where nobody is counted.
pub(crate) fn counted_now(
    rooms: &Rooms,
    meter: Meter,
    now: Time,
    told: &mut AssociationUsage,
) -> bool {
    let Some(tally) = rooms.policy.counts().tally(meter) else {
        return false;
    };
    (told.submitted, told.running) = (tally.submitted, tally.running);
    told.accruing = tally.accruing;
    told.held = tally.all_held();
    for (tres, ms) in tally.all_remaining_ms(now) {
        let seconds = u64::try_from(ms / 1000).unwrap_or(u64::MAX);
        told.run_seconds.insert(tres, seconds);
    }
    true
}
