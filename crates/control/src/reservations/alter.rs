//! Several things of a reservation become other in one request: its end, the licences that it keeps, who may
//! use it. All of it is checked before the first change.
//!
//! A later end has to be appraised and may cost something, so it comes with an answer of its own: what else is
//! asked for goes with the extension, is looked at once more when that is decided, and is done with it.

use crate::reservations::book::procedures::reserved;
use crate::reservations::extend::procedures::extend;
use crate::reservations::procedures::own_promised;
use crate::reservations::shorten::{may_shorten, shorten};
use crate::reservations::terms::{check_terms, set_terms};
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use cosy_model::api::Reply;
use cosy_model::reservation::ReservationAlteration;
use cosy_model::{Refusal, ReservationId};

pub(crate) fn alter(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    id: ReservationId,
    mut change: ReservationAlteration,
) -> Result<Option<Reply>, Refusal> {
    let caller = asker.caller;
    let found = own_promised(&rooms.config, &rooms.reservations, caller, id, "change", "changed")?;
    let before = found.row.end;
    change.end = change.end.filter(|end| *end != before);
    if let Some(end) = change.end.filter(|end| *end > before) {
        change.end = None;
        check_terms(rooms, turn.now(), caller, id, &change)?;
        return extend(rooms, turn, asker, (id, end.since(before)), None, change);
    }
    if let Some(end) = change.end {
        may_shorten(rooms, turn.now(), caller, id, end)?;
    }
    let terms = check_terms(rooms, turn.now(), caller, id, &change)?;
    if let Some(end) = change.end {
        shorten(rooms, turn, caller, id, end)?;
    }
    set_terms(rooms, turn, caller, id, terms);
    Ok(Some(reserved(
        &rooms.config,
        &rooms.machine,
        &rooms.reservations,
        caller,
        &[id],
        Vec::new(),
    )))
}
