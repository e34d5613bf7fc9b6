//! Appraisals under way: requests that need figures from a snapshot before they can be
//! answered.
//!
//! What always holds: only a few snapshots exist at once; what waits for one holds none.
//! Requests for a few starts, such as bookings, never wait behind those for many, such as
//! quotes.

pub(crate) mod procedures;

use super::ask::ReservationRequest;
use super::book::Booking;
use super::extend::Extension;
use crate::event::{Caller, ClientId};
use cosy_model::{ReservationId, Time, Uid};
use cosy_sched::appraise::{Inquiry, Starts};
use std::collections::{BTreeMap, VecDeque};

/// Snapshots at once, of each lane.
const UNDER_WAY: usize = 2;
/// Requests that wait for one.
const WAITING: usize = 1000;
/// Requests of one user that wait or are under way: nobody takes all the room.
const OF_ONE_USER: usize = 16;

/// Who waits for what.
#[derive(Debug)]
pub(crate) enum Pending {
    Quote {
        client: ClientId,
        caller: Box<Caller>,
        wish: Box<ReservationRequest>,
    },
    Book(Box<Booking>),
    Extend(Box<Extension>),
    /// A reservation that could be moved to an earlier start.
    Move(ReservationId),
}

impl Pending {
    /// The key of a changing request.
    fn key(&self) -> Option<(Uid, [u8; 16])> {
        match self {
            Self::Book(booking) => Some((booking.caller.user.uid, booking.key?)),
            Self::Extend(extension) => Some((extension.caller.user.uid, extension.key?)),
            Self::Quote { .. } | Self::Move(_) => None,
        }
    }

    /// Who asked; nobody for what the controller looks at by itself.
    fn uid(&self) -> Option<Uid> {
        match self {
            Self::Quote { caller, .. } => Some(caller.user.uid),
            Self::Book(booking) => Some(booking.caller.user.uid),
            Self::Extend(extension) => Some(extension.caller.user.uid),
            Self::Move(_) => None,
        }
    }

    fn set_client(&mut self, to: ClientId) {
        match self {
            Self::Book(booking) => booking.client = to,
            Self::Extend(extension) => extension.client = to,
            Self::Quote { client, .. } => *client = to,
            Self::Move(_) => {}
        }
    }
}

#[derive(Debug)]
pub(crate) struct Appraisals {
    next: u64,
    under_way: BTreeMap<u64, (Lane, Pending)>,
    waiting: BTreeMap<Lane, VecDeque<(Pending, Box<Inquiry>)>>,
}

/// A kind of work that waits only behind its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Few,
    Many,
}

impl Lane {
    fn of(inquiry: &Inquiry) -> Self {
        if inquiry.starts.are_few() {
            Self::Few
        } else {
            Self::Many
        }
    }
}

impl Appraisals {
    /// Numbers begin at the time, so that an answer to an earlier life of the controller is
    /// never taken for one to this.
    pub fn new(now: Time) -> Self {
        Self {
            next: u64::try_from(now.0).unwrap_or(0).saturating_mul(1000),
            under_way: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Pending> {
        let waiting = self.waiting.values().flatten().map(|(p, _)| p);
        self.under_way.values().map(|(_, p)| p).chain(waiting)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        let waiting = self.waiting.values_mut().flatten().map(|(p, _)| p);
        self.under_way.values_mut().map(|(_, p)| p).chain(waiting)
    }

    fn push(&mut self, pending: Pending, inquiry: Inquiry) {
        let lane = self.waiting.entry(Lane::of(&inquiry)).or_default();
        lane.push_back((pending, Box::new(inquiry)));
    }

    /// The next of a lane that is not full, now under way.
    fn next_of(&mut self, lane: Lane) -> Option<(u64, Box<Inquiry>)> {
        let busy = self.under_way.values().filter(|(l, _)| *l == lane);
        if busy.count() >= UNDER_WAY {
            return None;
        }
        let (pending, inquiry) = self.waiting.get_mut(&lane)?.pop_front()?;
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number, (lane, pending));
        Some((number, inquiry))
    }

    /// Who asked for a quote that is under way.
    fn quotes_for(&self, number: u64) -> Option<Uid> {
        match self.under_way.get(&number) {
            Some((_, Pending::Quote { caller, .. })) => Some(caller.user.uid),
            Some((_, Pending::Book(_) | Pending::Extend(_) | Pending::Move(_))) | None => None,
        }
    }

    /// True when nothing is under way that moves reservations.
    pub fn is_moving(&self) -> bool {
        self.all().any(|p| matches!(p, Pending::Move(_)))
    }

    /// Bookings and extensions that are not decided yet.
    pub fn bookings(&self) -> impl Iterator<Item = &Booking> {
        self.all().filter_map(|pending| match pending {
            Pending::Book(booking) => Some(&**booking),
            Pending::Quote { .. } | Pending::Extend(_) | Pending::Move(_) => None,
        })
    }

    /// For whom that appraisal was made.
    pub fn take(&mut self, number: u64) -> Option<(Lane, Pending)> {
        self.under_way.remove(&number)
    }
}

/// A start that has passed while its request waited for the snapshot becomes the present.
fn start_no_earlier(inquiry: &mut Inquiry, now: Time) {
    if let Starts::At(starts) = &mut inquiry.starts {
        for start in starts
            .iter_mut()
            .filter(|s| **s + super::ask::JUST_NOW >= now)
        {
            *start = (*start).max(now);
        }
    }
}
