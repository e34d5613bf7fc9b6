//! Reservations as commands show them.

pub(crate) mod procedures;

use super::Reservation;
use crate::conversations::choosing::Users;
use crate::event::{Caller, ClientId};
use cosy_model::api::Reply;
use cosy_model::reservation::{ReservationInfo, ReservationState};
use cosy_model::{Refusal, RefusalCode, ReservationId, Span, Time, limits};
use std::collections::BTreeSet;

/// Reservations that one piece of a list looks at.
const PIECE_LOOKS: usize = 5_000;
/// Work for what is told in one piece: so much for each, and 1 for each node, delay and name of
/// those who may use it.
const PIECE_WORK: usize = 10_000;
/// What one reservation takes of [`PIECE_WORK`].
const WORK_FOR_ONE: usize = 20;
/// What an answer has of a reservation beside its texts, in bytes.
const INFO_BYTES: usize = 256;

/// A list of reservations under way: there may be 100,000, each of thousands of nodes.
#[derive(Debug)]
pub(crate) struct ReservationList {
    pub client: ClientId,
    pub caller: Box<Caller>,
    pub ids: BTreeSet<ReservationId>,
    pub users: Users<String>,
    pub states: BTreeSet<ReservationState>,
    pub ended: bool,
    /// All up to this one were looked at; `None` when all were.
    pub after: Option<ReservationId>,
    /// Those that are meant, by start.
    pub found: BTreeSet<(Time, ReservationId)>,
    pub told: Vec<ReservationInfo>,
    /// About as much as the answer has so far.
    pub bytes: usize,
}

impl ReservationList {
    const fn is_full(&self) -> bool {
        self.bytes > limits::REPLY_BYTES
    }

    fn passes(&self, reservation: &Reservation) -> bool {
        let row = &reservation.row;
        let by_id = self.ids.is_empty() || self.ids.contains(&row.id);
        let by_state = match self.states.is_empty() {
            true => reservation.is_live() || self.ended || !self.ids.is_empty(),
            false => self.states.contains(&row.state),
        };
        by_id && by_state && self.users.has(&row.user, row.uid)
    }

    pub fn answer(self) -> Reply {
        if !self.is_full() {
            return Reply::Reservations(self.told);
        }
        let why =
            "an answer has no room for all these reservations: name some, their users or states";
        Reply::Refused(Refusal::new(RefusalCode::TooMany, why))
    }
}

/// `2 h`, `1 h 20 min`, `40 s`.
fn in_words(span: Span) -> String {
    let secs = span.secs();
    match (secs / 3600, secs / 60 % 60) {
        (0, 0) => format!("{secs} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

fn bytes_of(info: &ReservationInfo) -> usize {
    let sharing = [
        &info.sharing.users,
        &info.sharing.groups,
        &info.sharing.accounts,
    ];
    let sharing = sharing.into_iter().flatten();
    let texts = [
        &info.name,
        &info.user,
        &info.queue,
        &info.nodes,
        &info.rule,
        &info.comment,
        &info.note,
    ];
    let flags = info.flags.iter();
    let all = texts.into_iter().chain(sharing).chain(flags);
    INFO_BYTES + all.map(|text| text.len() + 2).sum::<usize>()
}
