//! One node with what runs on it and what is booked there, and what of it is free when.

use crate::Component;
use cosy_model::{Amounts, JobId, ReservationId, Time};
use std::borrow::Cow;
use std::sync::Arc;

/// Whose booking it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Job(JobId),
    Reservation(ReservationId),
    /// A place guaranteed to a waiting job, for the length of one pass.
    Place,
}

/// Part of a node, taken for some time.
#[derive(Clone, Debug)]
pub(crate) struct Booking {
    pub owner: Owner,
    pub start: Time,
    pub end: Time,
    pub amounts: Amounts,
    /// Nobody else may use the node meanwhile, whatever is left of it.
    pub whole: bool,
}

/// Which reservations are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReservationHorizon {
    /// Reservations are not looked at.
    Ignored,
    /// All that would be in the way; as neighbours only those that start before then.
    Until(Time),
}

impl ReservationHorizon {
    fn sees(self, start: Time) -> bool {
        match self {
            Self::Ignored => false,
            Self::Until(far) => start < far,
        }
    }
}

impl Booking {
    fn is_reservation(&self) -> bool {
        matches!(self.owner, Owner::Reservation(_))
    }

    /// A place guaranteed to a waiting job.
    pub fn place(start: Time, end: Time, amounts: Amounts, whole: bool) -> Self {
        Self {
            owner: Owner::Place,
            start,
            end,
            amounts,
            whole,
        }
    }

    fn overlaps(&self, start: Time, end: Time) -> bool {
        self.start < end && start < self.end && self.start < self.end
    }
}

/// A node with what runs on it and what is booked there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Held by the jobs booked on it.
    pub(super) used: Amounts,
    /// Its total without `used`.
    pub(super) free: Amounts,
    pub(super) running: Vec<Booking>,
    /// How many of them let nobody else on the node.
    pub(super) wholes: u32,
    /// Bookings, the earliest start first.
    pub(super) ahead: Arc<Vec<Booking>>,
}

/// What of a node is free during a window, and how tightly the window is enclosed.
pub(crate) struct Window<'a> {
    /// Free all the time.
    pub free: Cow<'a, Amounts>,
    /// Last end of a booking before the window, now when there is none.
    pub since: Time,
    /// First start of a booking after it.
    pub until: Time,
}

impl Node {
    /// See [`super::Machine::window`]. `total` is all that the node has; `held_until` the expected end
    /// of the job that holds it as a whole.
    pub(super) fn window<'a>(
        &'a self,
        total: &'a Amounts,
        held_until: Option<Time>,
        demand: &Component,
        (start, end): (Time, Time),
        now: Time,
        sight: ReservationHorizon,
    ) -> Option<Window<'a>> {
        let far = |b: &&Booking| b.is_reservation() && !sight.sees(b.start);
        let clear = |b: &Booking| b.start >= end && b.end > now;
        if start <= now && !demand.exclusive && self.ahead.iter().all(clear) {
            let next = self.ahead.iter().filter(|b| !far(b)).map(|b| b.start);
            let until = next.fold(Time::FAR, Time::min);
            let free = self.wholes == 0 && held_until.is_none();
            return free.then_some(Window {
                free: Cow::Borrowed(&self.free),
                since: now,
                until,
            });
        }
        let held = held_until.map_or(now, |end| expected(end, now));
        if held > start && held_until.is_some() {
            return None;
        }
        let later = self.ahead.partition_point(|b| b.start < end);
        let (earlier, later) = self.ahead.split_at(later);
        let seen = |b: &&Booking| sight != ReservationHorizon::Ignored || !b.is_reservation();
        let ahead = || earlier.iter().filter(seen);
        let runs = |b: &&Booking| expected(b.end, now) > start;
        let running = || self.running.iter().filter(runs);
        let hinders = |b: &Booking| b.whole || demand.exclusive;
        if running().any(hinders) || ahead().any(|b| hinders(b) && b.overlaps(start, end)) {
            return None;
        }
        let free = match demand.exclusive {
            true => Cow::Borrowed(total), // nothing is booked then
            false => {
                let used = most_used(self, running(), ahead(), (start, end), now);
                Cow::Owned(left(total, &used))
            }
        };
        let mut since = held;
        for end in self.running.iter().map(|b| expected(b.end, now)) {
            since = if end <= start { since.max(end) } else { since };
        }
        let past = ahead().map(|b| b.end).filter(|at| *at <= start);
        let mut next = later.iter().filter(|b| seen(b) && !far(b));
        Some(Window {
            free,
            since: past.fold(since, Time::max),
            until: next.next().map_or(Time::FAR, |b| b.start),
        })
    }

    /// Whether `owner` has anything of it.
    pub(super) fn has(&self, owner: Owner) -> bool {
        let mut all = self.running.iter().chain(self.ahead.iter());
        all.any(|booking| booking.owner == owner)
    }

    /// The node as it would be without what `owner` has of it.
    pub(super) fn without(&self, owner: Owner, total: &Amounts) -> Self {
        let others = |booking: &&Booking| booking.owner != owner;
        let running: Vec<Booking> = self.running.iter().filter(others).cloned().collect();
        let used = sum(running.iter());
        Self {
            free: left(total, &used),
            used,
            wholes: running.iter().filter(|booking| booking.whole).count() as u32,
            running,
            ahead: Arc::new(self.ahead.iter().filter(others).cloned().collect()),
        }
    }
}

/// The most of each part of a node that is used at any time of a window, by jobs that run at
/// its start and by bookings ahead.
fn most_used<'a>(
    node: &Node,
    running: impl Iterator<Item = &'a Booking> + Clone,
    ahead: impl Iterator<Item = &'a Booking> + Clone,
    (start, end): (Time, Time),
    now: Time,
) -> Amounts {
    let mut most = match start > now {
        true => sum(running.clone()),
        false => node.used.clone(),
    };
    let covers = |b: &&Booking, at: Time| b.start <= at && at < b.end;
    most.give(&sum(ahead.clone().filter(|b| covers(b, start))));
    let starts = ahead.clone().map(|b| b.start);
    for at in starts.filter(|at| start < *at && *at < end) {
        let then = running.clone().filter(|b| expected(b.end, now) > at);
        let then = then.chain(ahead.clone().filter(|b| covers(b, at)));
        raise(&mut most, &sum(then));
    }
    most
}

/// When a running job counts as ended: never in the past.
pub(super) fn expected(end: Time, now: Time) -> Time {
    end.max(Time(now.0.saturating_add(1)))
}

fn sum<'a>(bookings: impl Iterator<Item = &'a Booking>) -> Amounts {
    let mut sum = Amounts::default();
    bookings.for_each(|booking| sum.give(&booking.amounts));
    sum
}

/// Raises each part of `most` to that of `other`.
fn raise(most: &mut Amounts, other: &Amounts) {
    most.cores = most.cores.max(other.cores);
    most.memory = most.memory.max(other.memory);
    most.disk = most.disk.max(other.disk);
    most.gpus = most.gpus.max(other.gpus);
    for (name, amount) in other.other.iter() {
        let both = most.other.get(name).max(amount);
        most.other.set(name, both);
    }
}

/// `total` without `used`, never below zero.
pub(crate) fn left(total: &Amounts, used: &Amounts) -> Amounts {
    let mut free = Amounts {
        cores: total.cores.saturating_sub(used.cores),
        memory: cosy_model::MiB(total.memory.0.saturating_sub(used.memory.0)),
        disk: cosy_model::MiB(total.disk.0.saturating_sub(used.disk.0)),
        gpus: total.gpus.saturating_sub(used.gpus),
        other: total.other.clone(),
    };
    for (name, amount) in used.other.iter() {
        let rest = total.other.get(name).saturating_sub(amount);
        free.other.set(name, rest);
    }
    free
}
