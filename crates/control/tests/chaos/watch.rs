//! What must hold after every event, seen from outside: from the store and from what nodes
//! do, never from the controller's own memory.

use crate::ledger::Ledger;
use crate::world::{MemoryStore, World};
use cosy_control::{JobRow, ReservationRow};
use cosy_model::reservation::{ReservationState, StartChoice};
use cosy_model::{Amounts, JobId, NodeState, ReservationId, Span, Su, Time, Uid, device, limits};
use std::collections::{BTreeMap, BTreeSet};

/// What was seen of a reservation.
struct Seen {
    uid: Uid,
    state: ReservationState,
    start: Time,
    length: Span,
    degraded: bool,
}

#[derive(Default)]
pub struct Watch {
    ledger: Ledger,
    seen: BTreeMap<ReservationId, Seen>,
    begun: BTreeSet<(JobId, u32)>,
    /// Reservations that administrators made longer: no delay cap bound them.
    pub unbound: BTreeSet<ReservationId>,
    /// Extensions that were asked for.
    pub longer: BTreeSet<ReservationId>,
    /// Earlier ends that were asked for.
    pub shorter: BTreeSet<ReservationId>,
    /// Starts seen at the promised second.
    pub exact: u64,
    /// Moves to an earlier start.
    pub moved: u64,
    /// Reservations made longer.
    pub extended: u64,
    /// Reservations made shorter.
    pub shortened: u64,
    /// Attempts inside.
    pub inside: u64,
    commits: u64,
}

/// In the store a job of several components has nodes for all of them or for none.
fn all_components(store: &MemoryStore, job: &JobRow) -> Result<(), String> {
    let parts = job.run.iter().flat_map(|run| &run.parts);
    let held: BTreeSet<u16> = parts.map(|part| part.component).collect();
    let spec = &store.submissions[&job.base].0.spec;
    let wanted = 0..spec.component_count() as u16;
    match held.is_empty() || held.iter().copied().eq(wanted) {
        true => Ok(()),
        false => Err(format!("job {} has nodes for components {held:?}", job.id)),
    }
}

impl Watch {
    /// To be called when everything that is due has been done.
    pub fn check(&mut self, world: &World) -> Result<(), String> {
        woken_in_time(world)?;
        if self.commits == world.commits {
            return Ok(());
        }
        self.commits = world.commits;
        let store = &world.store;
        self.ledger.check(store)?;
        for row in store.reservations.values() {
            money_fits_state(row)?;
            nothing_is_overdue(world.now, row)?;
            self.course(world, row)?;
        }
        nothing_overlaps(world)?;
        for job in store.jobs.values() {
            self.inside_only(store, job)?;
            all_components(store, job)?;
        }
        booked_once(store)?;
        self.delays_are_capped(world)
    }

    pub fn was_degraded(&self, id: ReservationId) -> bool {
        self.seen.get(&id).is_some_and(|seen| seen.degraded)
    }

    /// Ids are given once, states follow each other, what is promised stays.
    fn course(&mut self, world: &World, row: &ReservationRow) -> Result<(), String> {
        let length = row.end.since(row.start);
        let Some(seen) = self.seen.get(&row.id) else {
            if let Some(last) = self.seen.keys().last().filter(|last| **last > row.id) {
                return Err(format!("id {} was given out after {last}", row.id));
            }
            self.begins_now(world, row, None)?;
            let seen = Seen {
                uid: row.uid,
                state: row.state,
                start: row.start,
                length,
                degraded: row.degraded,
            };
            self.seen.insert(row.id, seen);
            return Ok(());
        };
        if seen.uid != row.uid || !may_follow(seen.state, row.state) {
            return Err(format!("reservation {} was {}: {row:?}", row.id, seen.state));
        }
        self.promise_kept(row, seen, length)?;
        self.begins_now(world, row, Some(seen.state))?;
        if let Some(seen) = self.seen.get_mut(&row.id) {
            self.moved += u64::from(row.start != seen.start);
            self.extended += u64::from(length > seen.length);
            self.shortened += u64::from(row.state.is_live() && length < seen.length);
            (seen.state, seen.start, seen.length) = (row.state, row.start, length);
            seen.degraded |= row.degraded;
        }
        Ok(())
    }

    fn promise_kept(&self, row: &ReservationRow, seen: &Seen, length: Span) -> Result<(), String> {
        let promised = matches!(seen.state, ReservationState::Confirmed | ReservationState::Active);
        if !promised {
            return Ok(());
        }
        let moved = row.start != seen.start;
        let earliest = row.ask.earliest.unwrap_or(row.made).max(row.made);
        let may_move = row.ask.pick == StartChoice::FinishBy
            && row.start < seen.start
            && row.start >= earliest
            && seen.state == ReservationState::Confirmed;
        if moved && !may_move {
            return Err(format!("{:?} was moved: {row:?}", seen.start));
        }
        let longer = length > seen.length && self.longer.contains(&row.id);
        let shorter = length < seen.length && self.shorter.contains(&row.id);
        if row.state.is_live() && length != seen.length && !longer && !shorter {
            return Err(format!("it was {} long: {row:?}", seen.length));
        }
        if row.state.is_live() && length != row.ask.length {
            return Err(format!("its length is {length}: {row:?}"));
        }
        Ok(())
    }

    /// The script of a reservation that has just begun was started in the same second.
    fn begins_now(
        &mut self,
        world: &World,
        row: &ReservationRow,
        before: Option<ReservationState>,
    ) -> Result<(), String> {
        let active = row.state == ReservationState::Active;
        if !active || before == Some(ReservationState::Active) {
            return Ok(());
        }
        if before == Some(ReservationState::Held) {
            return Err(format!("it began unconfirmed: {row:?}"));
        }
        if world.now != row.start {
            return Err(format!("it began at {:?}: {row:?}", world.now));
        }
        let Some(job) = row.job.filter(|_| !row.degraded && serves(world, row)) else {
            return Ok(());
        };
        let job = &world.store.jobs.get(&job);
        let started = job.and_then(|j| j.run.as_ref()).map(|run| run.allocated);
        let over = job.is_some_and(|j| j.end.is_some());
        if holders(world, row).iter().any(|job| is_suspended(job)) {
            return Ok(()); // it keeps its GPUs for as long as an administrator wants
        }
        let others = holders(world, row);
        if others.iter().any(|job| is_silent(world, job)) {
            return Ok(()); // nobody knows how it is there until the node is lost or back
        }
        if started != Some(row.start) && !over {
            return Err(format!("its script has not started: {row:?} {others:?}"));
        }
        self.exact += 1;
        Ok(())
    }

    /// A job of a reservation runs within its time and its share.
    fn inside_only(&mut self, store: &MemoryStore, job: &JobRow) -> Result<(), String> {
        let Some(run) = &job.run else { return Ok(()) };
        let spec = &store.submissions[&job.base].0.spec;
        let Some(within) = spec.reservation else {
            return Ok(());
        };
        let row = &store.reservations[&within];
        let first_seen = self.begun.insert((job.id, job.attempt.0));
        let end = row.end.max(row.start);
        self.inside += u64::from(first_seen);
        if first_seen && !(row.start <= run.allocated && run.allocated <= end) {
            return Err(format!("job {} ran outside of {row:?}: {run:?}", job.id));
        }
        if row.state != ReservationState::Active {
            return Ok(());
        }
        for part in run.parts.iter().filter(|part| !part.released) {
            let share = row.shares.iter().find(|s| s.node == part.node);
            if !share.is_some_and(|s| part.amounts.fits(&s.amounts)) {
                return Err(format!("job {} is beyond its share: {run:?} {row:?}", job.id));
            }
        }
        Ok(())
    }

    /// No waiting job is pushed back by more than the cap in all.
    fn delays_are_capped(&self, world: &World) -> Result<(), String> {
        let Some(cap) = world.config.reservations.delay_cap else {
            return Ok(());
        };
        let mut sums: BTreeMap<JobId, (Span, bool)> = BTreeMap::new();
        for row in world.store.reservations.values() {
            if !row.state.is_live() {
                continue;
            }
            for (job, span) in &row.delays {
                let sum = sums.entry(*job).or_insert((Span::ZERO, true));
                sum.0 = sum.0 + *span;
                sum.1 &= row.uid != Uid(0) && !self.unbound.contains(&row.id);
            }
        }
        let over = sums.iter().find(|(_, (sum, bound))| *bound && *sum > cap);
        match over {
            None => Ok(()),
            Some((job, (sum, _))) => Err(format!("job {job} is pushed back by {sum}, not {cap}")),
        }
    }
}

/// True when all nodes of a reservation can take its job now.
fn serves(world: &World, row: &ReservationRow) -> bool {
    row.shares.iter().all(|share| {
        let at = world.nodes.iter().position(|n| n.name == share.node);
        let linked = at.is_some_and(|at| world.nodes[at].link.is_some());
        let open = world.store.nodes.get(&share.node);
        linked && open.is_none_or(|row| row.state == NodeState::Open)
    })
}

/// Jobs that hold nodes of a reservation.
fn holders<'a>(world: &'a World, row: &ReservationRow) -> Vec<&'a JobRow> {
    let on = |node: &String| row.shares.iter().any(|share| share.node == *node);
    let jobs = world.store.jobs.values().filter(|job| job.end.is_none());
    let holds = |job: &&JobRow| {
        let run = job.run.as_ref();
        run.is_some_and(|run| {
            run.parts
                .iter()
                .any(|part| !part.released && on(&part.node))
        })
    };
    jobs.filter(holds).collect()
}

/// Whether a job has nodes that no link leads to. How long they have been silent is counted
/// while the controller listens, and in these histories it listens for moments only.
fn is_silent(world: &World, job: &JobRow) -> bool {
    let parts = job.run.iter().flat_map(|run| &run.parts);
    let mut held = parts.filter(|part| !part.released);
    held.any(|part| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.name == part.node && node.link.is_none())
    })
}

fn is_suspended(job: &JobRow) -> bool {
    job.run.as_ref().is_some_and(|run| run.suspended.is_some())
}

fn may_follow(before: ReservationState, after: ReservationState) -> bool {
    use ReservationState::{Active, Confirmed, Held};
    before == after
        || match before {
            Held => after != Active,
            Confirmed | Active => after > before && after != ReservationState::Expired,
            ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed => false,
        }
}

fn money_fits_state(row: &ReservationRow) -> Result<(), String> {
    let price = row.base.plus(row.extra);
    let within = row.charged >= Su::ZERO && row.charged <= price;
    // What is held stands in the ledger; the row of a hold says it only once charged.
    let fits = match row.state {
        ReservationState::Held | ReservationState::Expired => row.charged == Su::ZERO,
        ReservationState::Confirmed | ReservationState::Active | ReservationState::Unused => {
            row.charged == price && row.held == Su::ZERO
        }
        ReservationState::Failed => row.charged == Su::ZERO && row.held == Su::ZERO,
        ReservationState::Ended | ReservationState::Cancelled => row.held == Su::ZERO,
    };
    match within && fits {
        true => Ok(()),
        false => Err(format!("its sums do not fit its state: {row:?}")),
    }
}

fn nothing_is_overdue(now: Time, row: &ReservationRow) -> Result<(), String> {
    let late = match row.state {
        ReservationState::Held => row.hold_until.is_none_or(|until| until <= now),
        ReservationState::Confirmed => row.start <= now,
        ReservationState::Active => row.end <= now,
        ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => false,
    };
    match late {
        true => Err(format!("at {now:?} it is still {}: {row:?}", row.state)),
        false => Ok(()),
    }
}

/// The controller asks to be woken when something is due.
fn woken_in_time(world: &World) -> Result<(), String> {
    let wakeup = world.controller.next_wakeup(world.now);
    let live = world.store.reservations.values();
    let live = live.filter(|row| row.state.is_live());
    for row in live {
        let next = match row.state {
            ReservationState::Held => row.hold_until.unwrap_or(row.start),
            ReservationState::Confirmed => row.start,
            _ => row.end,
        };
        if wakeup > next.max(world.now) {
            return Err(format!("woken at {wakeup:?} and not for {row:?}"));
        }
    }
    Ok(())
}

/// A stretch of time that a node is promised for.
type Promise<'a> = (Time, Time, &'a Amounts);

/// At no time more of a node is promised than it has: to live reservations and, until their
/// limit, to running jobs of the queue.
fn nothing_overlaps(world: &World) -> Result<(), String> {
    let mut promises: BTreeMap<&str, Vec<Promise<'_>>> = BTreeMap::new();
    let rows = world.store.reservations.values();
    for row in rows.filter(|row| row.state.is_live()) {
        for share in &row.shares {
            let promise = (row.start, row.end, &share.amounts);
            promises.entry(&share.node).or_default().push(promise);
        }
    }
    for job in world.store.jobs.values().filter(|job| job.end.is_none()) {
        promise_of_job(world, job, &mut promises);
    }
    for (node, all) in promises {
        let spec = world.config.nodes.iter().find(|n| n.name == node);
        let mut amounts = spec.and_then(|n| n.amounts.clone()).unwrap_or_default();
        device::count_types(&mut amounts, &[]);
        for (at, ..) in &all {
            let mut sum = Amounts::default();
            let then = all.iter().filter(|(start, end, _)| start <= at && at < end);
            then.for_each(|(.., held)| sum.give(held));
            if !sum.fits(&amounts) {
                return Err(format!("{node} is promised twice at {at:?}: {all:?}"));
            }
        }
    }
    Ok(())
}

fn promise_of_job<'a>(
    world: &World,
    job: &'a JobRow,
    promises: &mut BTreeMap<&'a str, Vec<Promise<'a>>>,
) {
    let Some(run) = &job.run else { return };
    let store = &world.store;
    let submission = &store.submissions[&job.base].0;
    let within = submission.spec.reservation;
    let inside = within.and_then(|id| store.reservations.get(&id));
    let limit = run.limit.or(submission.spec.time_limit);
    let limit = limit.unwrap_or(Span::ZERO);
    // One that began late and was not cut has its whole limit: nobody was promised its nodes.
    let started = run.started.unwrap_or(run.allocated);
    let from = match started.since(run.allocated) > limits::LATE_START {
        true => started,
        false => run.allocated,
    };
    let end = from + limit + run.suspended_for + world.config.policy.clearance;
    let settled = is_suspended(job) || run.after.is_some();
    if inside.is_some() || end <= world.now || settled {
        return;
    }
    for part in run.parts.iter().filter(|part| !part.released) {
        let promise = (world.now, end, &part.amounts);
        promises.entry(&part.node).or_default().push(promise);
    }
}

/// However often a request came, it was booked once: its comment is its own.
fn booked_once(store: &MemoryStore) -> Result<(), String> {
    let mut by_request: BTreeMap<&str, &ReservationRow> = BTreeMap::new();
    for row in store.reservations.values() {
        let undone = row.note.starts_with("not all of the series");
        if row.ask.comment.is_empty() || undone {
            continue;
        }
        let first = by_request.entry(&row.ask.comment).or_insert(row);
        let same = first.id == row.id || (first.series.is_some() && first.series == row.series);
        if !same || first.made != row.made {
            return Err(format!("one request was booked twice: {first:?} {row:?}"));
        }
    }
    Ok(())
}
