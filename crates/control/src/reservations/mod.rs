//! Advance reservations: asked for, appraised, admitted, held, confirmed, begun, ended.
//!
//! A live reservation is a hard block in the cluster's planner from its start to its end,
//! also while it is active: the jobs inside it are planned by a small planner of the
//! reservation's own, on its share of the machine. Whatever has to be planned ahead before
//! a request can be answered is appraised on a snapshot elsewhere and comes back as an
//! event; what is decided then is checked against the present state once more.
//!
//! What always holds: every live reservation has its block; one that is active has its own
//! planner; jobs run inside a reservation only while it is active.
//!
//! Sources: COSY paper, section 3.2; what-if paper, section 3; pricing paper, section 3.

pub(crate) mod account;
pub(crate) mod admission;
pub(crate) mod alter;
pub(crate) mod appraisal;
pub(crate) mod ask;
pub(crate) mod book;
pub(crate) mod booked;
pub(crate) mod books;
pub(crate) mod cancel;
pub(crate) mod chart;
pub(crate) mod confirm;
pub(crate) mod course;
pub(crate) mod extend;
pub(crate) mod facts;
pub(crate) mod inside;
pub(crate) mod invariants;
pub(crate) mod licenses;
pub(crate) mod load;
pub(crate) mod moves;
pub(crate) mod planned;
pub(crate) mod procedures;
pub(crate) mod quote;
pub(crate) mod repair;
pub(crate) mod reservation;
pub(crate) mod share;
pub(crate) mod shorten;
pub(crate) mod show;
pub(crate) mod terms;
pub(crate) mod vacate;

pub(crate) use ask::ReservationRequest;
pub(crate) use inside::asked_core_ms;
pub(crate) use load::LoadedReservations;
pub(crate) use reservation::Reservation;
pub(crate) use show::ReservationList;

use crate::jobs::job::Submitted;
use crate::record::Record;
use crate::reservations::admission::figures::Figures;
use crate::reservations::admission::hours::HourPrices;
use crate::reservations::appraisal::Appraisals;
use crate::reservations::appraisal::{Lane, Pending};
use crate::reservations::books::Books;
use cosy_model::reservation::ReservationState;
use cosy_model::{ClockStep, JobId, Refusal, RefusalCode, ReservationId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Ended reservations are remembered for so long.
const REMEMBER: Span = Span::from_secs(86_400);

/// All that the controller knows of reservations.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// Live ones, and those that ended within the last day.
    all: BTreeMap<ReservationId, Reservation>,
    next: u64,
    /// Those that have a planner of their own.
    active: BTreeSet<ReservationId>,
    /// Those that are over and in whose planner jobs wait that were not looked at since.
    closed: BTreeSet<ReservationId>,
    /// When the course of each live one has to be looked at.
    due: BTreeMap<ReservationId, Time>,
    by_time: BTreeSet<(Time, ReservationId)>,
    dirty: BTreeSet<ReservationId>,
    /// By how much live reservations push back each waiting job.
    pushed: Arc<BTreeMap<JobId, Span>>,
    appraisals: Appraisals,
    figures: Figures,
    hours: HourPrices,
    books: Books,
    /// When movable reservations were looked at.
    moved_at: Time,
    /// The last that was looked at.
    last_moved: Option<ReservationId>,
    /// Jobs inside that have ended; what follows for their reservations follows in this turn.
    inside_ends: VecDeque<InsideEnd>,
}

/// A job of a reservation has ended.
#[derive(Debug)]
pub(crate) struct InsideEnd {
    pub job: JobId,
    pub reservation: ReservationId,
    /// Whose job it was.
    pub user: String,
}

impl Reservations {
    pub fn new(now: Time) -> Self {
        Self {
            all: BTreeMap::new(),
            next: 1,
            active: BTreeSet::new(),
            closed: BTreeSet::new(),
            due: BTreeMap::new(),
            by_time: BTreeSet::new(),
            dirty: BTreeSet::new(),
            pushed: Arc::default(),
            appraisals: Appraisals::new(now),
            figures: Figures::restore(Vec::new()),
            hours: HourPrices::restore(Vec::new()),
            books: Books::restore(Vec::new(), 0),
            moved_at: now,
            last_moved: None,
            inside_ends: VecDeque::new(),
        }
    }

    pub fn get(&self, id: ReservationId) -> Option<&Reservation> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        self.all.get_mut(&id)
    }

    /// How many are kept: live ones, and those that ended within the last day.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes one into memory.
    pub fn enter(&mut self, reservation: Reservation) {
        self.all.insert(reservation.row.id, reservation);
    }

    /// Takes one out of memory of which nobody has been told.
    pub fn take_back(&mut self, id: ReservationId) {
        self.all.remove(&id);
    }

    /// Those that have a planner of their own.
    pub fn active(&self) -> impl Iterator<Item = ReservationId> {
        self.active.iter().copied()
    }

    /// Whether it has a planner of its own.
    pub fn is_active(&self, id: ReservationId) -> bool {
        self.active.contains(&id)
    }

    /// The number of the next reservation.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Numbers go on there.
    pub fn go_on_at(&mut self, next: u64) {
        self.next = next;
    }

    /// A job has ended that may have been inside one.
    pub fn job_inside_ended(&mut self, job: JobId, submitted: &Submitted) {
        self.inside_ends
            .extend(submitted.spec.reservation.map(|reservation| InsideEnd {
                job,
                reservation,
                user: submitted.user.clone(),
            }));
    }

    /// The next end to be followed, the first one first.
    pub fn next_inside_end(&mut self) -> Option<InsideEnd> {
        self.inside_ends.pop_front()
    }

    /// Every end of a job inside has been followed.
    pub fn ends_are_followed(&self) -> bool {
        self.inside_ends.is_empty()
    }

    /// What accounts have, hold and have spent.
    pub fn books(&self) -> &Books {
        &self.books
    }

    pub fn books_mut(&mut self) -> &mut Books {
        &mut self.books
    }

    /// Holds the price of a reservation that is in memory only, where an account pays for it.
    ///
    /// # Errors
    /// The account cannot pay.
    pub fn hold_price(&mut self, now: Time, id: ReservationId) -> Result<Vec<Record>, Refusal> {
        let Some(reservation) = self.all.get_mut(&id) else {
            return Ok(Vec::new());
        };
        self.books.hold_price(now, &mut reservation.row)
    }

    /// What rules of admission look at.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    pub fn figures_mut(&mut self) -> &mut Figures {
        &mut self.figures
    }

    pub fn live(&self) -> impl Iterator<Item = &Reservation> {
        self.all.values().filter(|r| r.is_live())
    }

    /// When the next thing happens to a reservation.
    pub fn next_due(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub fn set_due(&mut self, id: ReservationId, at: Option<Time>) {
        if let Some(old) = self.due.remove(&id) {
            self.by_time.remove(&(old, id));
        }
        if let Some(at) = at {
            self.due.insert(id, at);
            self.by_time.insert((at, id));
        }
    }

    /// The clock on the wall was set. Holds last as long as they were to last, a reservation's
    /// own dates stay, and planners think everything over. Those whose holds end at another
    /// date.
    pub fn clock_set(&mut self, step: ClockStep) -> Vec<ReservationId> {
        self.moved_at = self.moved_at.set_by(step);
        let mut held = Vec::new();
        for reservation in self.all.values_mut() {
            if let Some(planner) = reservation.planner.as_deref_mut() {
                planner.clock_set();
            }
            let row = &mut reservation.row;
            if row.state == ReservationState::Held {
                let until = row.hold_until;
                row.hold_until = until.map(|at| at.set_by(step).min(row.start.max(at)));
                held.push(row.id);
            }
        }
        held
    }

    /// Adds what a reservation pushes back.
    pub fn add_delays(&mut self, delays: &[(JobId, Span)]) {
        let pushed = Arc::make_mut(&mut self.pushed);
        for (job, span) in delays {
            let sum = pushed.entry(*job).or_default();
            *sum = *sum + *span;
        }
    }

    /// Takes away what a reservation has pushed back.
    pub(crate) fn drop_delays(&mut self, id: ReservationId) {
        let Some(reservation) = self.all.get(&id) else {
            return;
        };
        let pushed = Arc::make_mut(&mut self.pushed);
        for (job, span) in &reservation.row.delays {
            let left = pushed.get(job).map_or(0, |sum| sum.ms() - span.ms());
            if left > 0 {
                pushed.insert(*job, Span(left));
            } else {
                pushed.remove(job);
            }
        }
    }

    /// The number of the next reservation is taken.
    pub fn number_taken(&mut self) {
        self.next += 1;
    }

    /// All that are remembered.
    pub fn all(&self) -> impl Iterator<Item = &Reservation> {
        self.all.values()
    }

    /// It is over; jobs that wait in its planner are to be looked at.
    pub fn closes(&mut self, id: ReservationId) {
        self.active.remove(&id);
        self.closed.insert(id);
    }

    /// For whom that appraisal was made, and the next of which users may go on.
    pub fn take_appraisal(&mut self, number: u64) -> Option<(Lane, Pending)> {
        self.appraisals.take(number)
    }
}

pub(crate) fn no_reservation(id: ReservationId) -> Refusal {
    Refusal::new(
        RefusalCode::NotFound,
        format!("there is no reservation {id}, or it ended more than a day ago"),
    )
}

impl Reservations {
    /// The next reservation whose date has come; its date is taken away.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<ReservationId> {
        let (at, id) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.set_due(id, None);
        Some(id)
    }

    pub(crate) fn forget(&mut self, id: ReservationId) {
        self.all.remove(&id);
    }
}
