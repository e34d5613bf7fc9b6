//! Holding and booking: a start is looked for, appraised, admitted and taken.
//!
//! Source: what-if paper, section 3 (probe, then reserve); COSY paper, section 3.2 (two
//! phases).

pub(crate) mod procedures;

use super::ask::ReservationRequest;
use crate::event::{Caller, ClientId};
use crate::policy::preempt::Way;
use crate::record::{MakerRow, ReservationRow};
use cosy_model::api::Submission;
use cosy_model::reservation::ReservationState;
use cosy_model::{NodeShare, Refusal, RefusalCode, Su, Time};
use cosy_sched::appraise::Estimate;
use cosy_view::words::moment::utc;

/// How often a start is looked for anew when the one found was taken meanwhile.
pub(crate) const TRIES: u32 = 3;

/// A booking whose figures are awaited.
#[derive(Debug)]
pub(crate) struct Booking {
    pub client: ClientId,
    pub caller: Box<Caller>,
    pub key: Option<[u8; 16]>,
    pub wish: ReservationRequest,
    pub hold: bool,
    pub job: Option<Box<Submission>>,
    pub stage: Stage,
    pub tries: u32,
}

/// What was asked of the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Candidates of a window.
    Search,
    /// One start, with all delays.
    Exact,
    /// The starts of a series.
    Series,
}

/// A slot that is going to be taken.
pub(crate) struct Taken<'a> {
    pub estimate: &'a Estimate,
    pub extra: Su,
    pub shares: Vec<NodeShare>,
    /// Running jobs that leave for it, and how.
    pub makers: Vec<(MakerRow, Way)>,
}

/// True for a hold that ended without being confirmed.
fn was_only_held(row: &ReservationRow) -> bool {
    match row.state {
        ReservationState::Expired => true,
        ReservationState::Cancelled => row.free_until.is_none(),
        ReservationState::Held
        | ReservationState::Confirmed
        | ReservationState::Active
        | ReservationState::Ended
        | ReservationState::Unused
        | ReservationState::Failed => false,
    }
}

pub(crate) fn series_refused(conflicts: &[(Time, Refusal)], all: usize) -> Refusal {
    let code = conflicts
        .first()
        .map_or(RefusalCode::NotFree, |(_, refusal)| refusal.code);
    let reasons: Vec<String> = conflicts
        .iter()
        .take(3)
        .map(|(start, refusal)| format!("{}: {}", utc(*start), refusal.message))
        .collect();
    let more = match conflicts.len().saturating_sub(3) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Refusal::new(
        code,
        format!(
            "{} of {all} starts of the series are not possible, so nothing was booked ({}{more}); --as-many-as-fit books the others",
            conflicts.len(),
            reasons.join("; ")
        ),
    )
}

/// A script that starts with its reservation depends on nothing else.
fn check_attached(job: &Submission) -> Result<(), Refusal> {
    let spec = &job.spec;
    let wrong = [
        (job.array.is_some(), "an array"),
        (spec.begin.is_some(), "a begin time of its own"),
        (!spec.dependencies.is_empty(), "dependencies"),
        (spec.hold, "a hold of its own"),
    ];
    match wrong.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(Refusal::invalid(format!(
            "the script of a reservation starts with it and cannot have {what}: submit such jobs with 'csub --reservation ID'"
        ))),
        None => Ok(()),
    }
}
